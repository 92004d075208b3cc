"""The callables that a collector is handed; a client provides them, a test replays them."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from pipeline.records import Listing, Series


class ListObjects(Protocol):
    """List every object under an API path, all pages of one consistent answer.

    Raises `pipeline.errors.SourceError`; never returns half a list.
    """

    def __call__(self, path: str, *, label_selector: str = "", field_selector: str = "") -> Listing: ...


class RangeQuery(Protocol):
    """Evaluate PromQL at every step of [since, until]; long windows are split, no sample lost or doubled."""

    def __call__(self, promql: str, since: datetime, until: datetime, step: timedelta) -> list[Series]: ...


class ActivationPages(Protocol):
    """Spool the full activation records that started in [since, until), one JSON array a file, newest page first.

    A record may stand in two pages; it is never missing. The files belong to the caller.
    """

    def __call__(self, since: datetime, until: datetime, spool: Path) -> Iterator[Path]: ...
