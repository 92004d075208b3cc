"""The history of decisions: spooled here, flushed by the supervisor, read where the store can be reached."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import msgspec
import structlog

from featurestore.store import decisions
from featurestore.store.duck import Store
from jobs.config import Settings
from jobs.service.decide import Decided
from pipeline.errors import ColocationError

_log = structlog.get_logger(__name__)

#: A person waits for the answer: give up on a busy file early, what this process remembers is there anyway.
PATIENCE = timedelta(seconds=3)

#: So many questions have their last answer kept, for while the store is busy, where it has no more rows than this.
_QUESTIONS, _ROWS = 16, 1000


class History:
    """Decisions of one process on their way to the store, and those of all processes out of it."""

    def __init__(self, settings: Settings) -> None:
        self._spool = decisions.Spool(settings.store.spool)
        self._store = Store(settings.store.path, PATIENCE)
        self._last: dict[tuple[object, ...], Sequence[Mapping[str, object]]] = {}

    def keep(self, batch: Sequence[Decided]) -> None:
        """Append a batch, or none, to the spool, and hand over what has waited long enough.

        Raises `BadInput` where the directory cannot be written.
        """
        self._spool.append(one.kept for one in batch)

    def close(self) -> None:
        """Hand over what is left."""
        self._spool.close()

    def read(self, filters: Mapping[str, str], limit: int, /) -> Sequence[Mapping[str, object]]:
        """Return stored decisions, the newest first; none where this replica has no store.

        Where it is busy, those that the same question was last answered with.
        """
        if not self._store.path.exists():
            return ()
        asked = (*sorted(filters.items()), limit)
        try:
            rows = self._store.read(lambda con: decisions.recent(con, limit=limit, **filters).to_pylist())
        except ColocationError as error:
            _log.warning("stored decisions not read", error=str(error))
            return self._last.get(asked, ())
        found = [{**row, "at": _utc(row["at"])} for row in rows]
        if len(found) <= _ROWS:
            if len(self._last) >= _QUESTIONS:
                self._last.clear()
            self._last[asked] = found
        return found

    def one(self, decision: str, /) -> Mapping[str, object] | None:
        """Return a stored decision with its document, None where it is not stored, or there is no store.

        Raises `SourceError` where the store cannot be read in time.
        """
        if not self._store.path.exists():
            return None
        row = self._store.read(lambda con: decisions.one(con, decision))
        return None if row is None else {**row, "at": _utc(row["at"]), "document": msgspec.Raw(row["document"])}


def _utc(at: datetime) -> datetime:
    return at.astimezone(UTC)
