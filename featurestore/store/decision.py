"""One decision as it is kept, and as a line of a spool."""

from datetime import datetime
from typing import Annotated

import msgspec


class Decision(msgspec.Struct, frozen=True, gc=False):
    """One decision as the store keeps it.

    *document* is the recommendation: anything msgspec makes JSON of, or what many have in common
    (`featurestore.store.abridged`).
    """

    decision: str
    at: Annotated[datetime, msgspec.Meta(tz=True)]
    cluster: str
    namespace: str
    pod: str
    function: str
    mode: str
    snapshot: str
    satisfiable: bool
    outcome: str
    document: object


class Line(Decision, frozen=True, gc=False):
    """A decision as it is read, its document not looked into."""

    document: msgspec.Raw
