"""What the admission handler is handed: one callable that decides about one pod."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from msgspec import structs

from featurestore.store.decisions import Decision
from jobs.service.review import AdmissionRequest, allow


@dataclass(frozen=True, slots=True)
class Decided:
    """One decision about a pod: what is *kept* of it, and what is answered.

    *patch* is a JSON Patch, empty for none. *reason* is a short stable word that it is counted under, beside its mode
    and outcome (patched, unchanged, left_alone). *encode* makes the whole answer to a uid where it is prepared, and
    *document* the kept recommendation where it is not there yet: that is left to whoever writes the history.
    """

    kept: Decision
    reason: str
    patch: bytes = b""
    warnings: tuple[str, ...] = ()
    encode: Callable[[str], bytes] | None = None
    document: Callable[[], object] | None = None

    def answer(self, uid: str) -> bytes:
        """Return the answer to the review *uid*."""
        return self.encode(uid) if self.encode is not None else allow(uid, self.patch, self.warnings)

    def record(self) -> Decision:
        """Return what is kept, with its document."""
        return self.kept if self.document is None else structs.replace(self.kept, document=self.document())


class Decide(Protocol):
    """Decide about the pod of *request* at *at*; pure with respect to disk, locks and other processes.

    Where *dry_run*, nothing may be remembered of it.
    """

    def __call__(self, request: AdmissionRequest, at: datetime, /, *, dry_run: bool) -> Decided: ...


class Keep(Protocol):
    """Hand a decision to the history without waiting; returns whether there was room."""

    def __call__(self, decided: Decided, /) -> bool: ...
