"""What a watch sees, as batches for the history: changes gathered by object, whole lists, and no more than fits.

A feed is written by its watch's thread and read by the writer's. It knows no network and no database.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import Protocol

import msgspec
import structlog

from pipeline import objects
from pipeline.collectors import nodes, placements
from pipeline.collectors.objects import read, table
from pipeline.columns import NODES, PLACEMENTS
from pipeline.errors import BadInput
from pipeline.mangling import Index
from pipeline.objects.wire import name_of
from pipeline.records import Batch, Node, Refusal

_log = structlog.get_logger(__name__)

#: Objects whose changes wait to be written, at most.
LIMIT = 100_000

Row = tuple[object, ...]
_NODE_AT = NODES.get_field_index("at")
_POD_AT = PLACEMENTS.get_field_index("at")
_NAMED = PLACEMENTS.get_field_index("named")
_FUNCTION = PLACEMENTS.get_field_index("function")
_FUNCTION_FROM = PLACEMENTS.get_field_index("function_from")


class OverflowingError(Exception):
    """More changes wait than are kept: they were dropped, and the objects are to be listed anew."""


@dataclass(frozen=True, slots=True)
class Part:
    """A batch of what was so at *at*; parts are written in their order."""

    batch: Batch
    at: datetime


class Feed(Protocol):
    """What `jobs.supervisor.watching` needs of a feed; *table* is the name of the source too."""

    table: str
    path: str
    field_selector: str

    def replace(self, raws: Sequence[msgspec.Raw], at: datetime) -> None:
        """Take a whole list."""

    def event(self, kind: str, raw: msgspec.Raw, at: datetime) -> None:
        """Take one change; raises `OverflowingError`."""

    def take(self) -> list[Part]:
        """Return what is new since the last call."""

    def waiting(self) -> int:
        """Return the number of objects whose changes were not taken yet."""

    def refused(self) -> int:
        """Return how many objects could not be used since the last call."""


@dataclass(frozen=True, slots=True)
class _Listed:
    rows: list[Row]
    refused: tuple[Refusal, ...]
    at: datetime


class _Pod(msgspec.Struct):
    uid: str = ""


class _PodObject(msgspec.Struct):
    metadata: _Pod


_PODS = msgspec.json.Decoder(_PodObject)


class Pods:
    """Pods that have a node. *known* functions, for the names of pods, may be replaced at any time.

    Of each pod that lives it keeps whether its function is known and what its row was made of, as a hash: a change of
    nothing that is kept makes no row, and a label that comes later is dated by its event.
    """

    table = "placements"
    path = placements.PATH
    field_selector = "spec.nodeName!="

    def __init__(self, function_labels: tuple[str, str], limit: int = LIMIT) -> None:
        self.known = Index()
        self._labels, self._limit = function_labels, limit
        self._lock = Lock()
        self._seen: dict[str, tuple[bool, int]] = {}
        self._before: dict[str, Row] = {}
        self._list: _Listed | None = None
        self._changed: dict[str, Row] = {}
        self._refused = 0

    def replace(self, raws: Sequence[msgspec.Raw], at: datetime) -> None:
        found, refused = read("pods", raws, objects.pod)
        rows = [placements.row(each, at, self._labels, self.known) for each in found if each.node]
        with self._lock:
            # A list that was not taken yet is as good as so many changes: the next says what has gone since.
            for row in (*(self._list.rows if self._list is not None else ()), *self._changed.values()):
                _keep(self._before, row)
            if len(self._before) > self._limit:
                self._before.clear()
            self._list, self._changed = _Listed(rows, refused, at), {}
            self._seen = {str(row[0]): _summary(row) for row in rows}
            self._refused += len(refused)

    def event(self, kind: str, raw: msgspec.Raw, at: datetime) -> None:
        try:
            pod = objects.pod(raw)
        except BadInput as error:
            self._refuse(error)
            if kind == "DELETED":
                self._forget(raw)
            return
        if not pod.node:
            return
        row = placements.row(pod, at, self._labels, self.known, gone=kind == "DELETED")
        with self._lock:
            had_function, facts = self._seen.get(pod.uid, (True, 0))
            if not had_function and row[_FUNCTION] is not None and not row[_NAMED]:
                row = (*row[:_FUNCTION_FROM], at, *row[_FUNCTION_FROM + 1 :])
            summary = _summary(row)
            if kind == "DELETED":
                self._seen.pop(pod.uid, None)
            elif summary[1] == facts:
                return
            else:
                self._seen[pod.uid] = summary
            _keep(self._changed, row)
            if len(self._changed) > self._limit:
                self._before, self._list, self._changed = {}, None, {}
                raise OverflowingError(f"changes of more than {self._limit} pods wait to be written")

    def take(self) -> list[Part]:
        with self._lock:
            before, listed, changed = self._before, self._list, self._changed
            self._before, self._list, self._changed = {}, None, {}
        parts = [_changes(before)] if before else []
        if listed is not None:
            rows = table(PLACEMENTS, listed.rows)
            parts.append(Part(Batch(self.table, rows, refused=listed.refused), listed.at))
        return [*parts, _changes(changed)] if changed else parts

    def waiting(self) -> int:
        return len(self._changed) + len(self._before) + (1 if self._list is not None else 0)

    def refused(self) -> int:
        with self._lock:
            count, self._refused = self._refused, 0
        return count

    def _refuse(self, error: BadInput) -> None:
        with self._lock:
            self._refused += 1
        _log.warning("pod left out of the history", error=str(error))

    def _forget(self, raw: msgspec.Raw) -> None:
        """Nobody can say more of a pod that was unreadable to its end; the next list ends what was known of it."""
        try:
            uid = _PODS.decode(raw).metadata.uid
        except msgspec.MsgspecError:
            return
        with self._lock:
            self._seen.pop(uid, None)


def _summary(row: Row) -> tuple[bool, int]:
    """Whether the function is known, and what tells two rows of one pod apart, their time aside."""
    return row[_FUNCTION] is not None, hash((*row[:_POD_AT], *row[_POD_AT + 1 : _FUNCTION_FROM]))


def _keep(rows: dict[str, Row], row: Row) -> None:
    """Put the newer *row* of a pod over a former one, whose date of the label stays."""
    uid = str(row[0])
    former = rows.get(uid)
    if former is not None and row[_FUNCTION_FROM] is None and former[_FUNCTION_FROM] is not None:
        row = (*row[:_FUNCTION_FROM], former[_FUNCTION_FROM], *row[_FUNCTION_FROM + 1 :])
    rows[uid] = row


def _changes(rows: dict[str, Row]) -> Part:
    given = list(rows.values())
    return Part(Batch("placements", table(PLACEMENTS, given), whole=False), _latest(given, _POD_AT))


def _latest(rows: Iterable[Row], place: int) -> datetime:
    return max(at for row in rows if isinstance(at := row[place], datetime))


class Nodes:
    """All nodes; *reader* makes one of an object. A change of nothing but a heartbeat is none."""

    table = "nodes"
    path = nodes.PATH
    field_selector = ""

    def __init__(self, reader: Callable[[msgspec.Raw], Node]) -> None:
        self._reader = reader
        self._lock = Lock()
        self._rows: dict[str, Row] = {}
        self._odd: dict[str, Refusal] = {}
        self._changed: set[str] = set()
        self._whole: datetime | None = None
        self._refused = 0

    def replace(self, raws: Sequence[msgspec.Raw], at: datetime) -> None:
        found, refused = read(self.table, raws, self._reader)
        with self._lock:
            self._rows = {each.name: nodes.row(each, at) for each in found}
            self._odd = {refusal.what.rpartition("/")[2]: refusal for refusal in refused}
            self._changed, self._whole = set(), at
            self._refused += len(refused)

    def event(self, kind: str, raw: msgspec.Raw, at: datetime) -> None:
        if kind == "DELETED":
            self._gone(name_of(raw), at)
            return
        try:
            node = self._reader(raw)
        except BadInput as error:
            self._refuse(name_of(raw), error)
            return
        row = nodes.row(node, at)
        with self._lock:
            self._odd.pop(node.name, None)
            former = self._rows.get(node.name)
            if former is None or _facts(former) != _facts(row):
                self._rows[node.name] = row
                self._changed.add(node.name)

    def take(self) -> list[Part]:
        """Return the changed nodes; all of them where one is gone, as only a whole list can say so."""
        with self._lock:
            changed, whole = self._changed, self._whole
            self._changed, self._whole = set(), None
            if whole is None:
                rows = [self._rows[name] for name in changed]
            else:
                rows = [row if name in changed else _seen_at(row, whole) for name, row in self._rows.items()]
            odd = tuple(self._odd.values())
        given = Batch(self.table, table(NODES, rows), refused=odd, whole=whole is not None)
        if rows:
            return [Part(given, _latest(rows, _NODE_AT))]
        return [Part(given, whole)] if whole is not None else []

    def waiting(self) -> int:
        return len(self._changed) + (1 if self._whole is not None else 0)

    def refused(self) -> int:
        with self._lock:
            count, self._refused = self._refused, 0
        return count

    def _gone(self, name: str, at: datetime) -> None:
        with self._lock:
            self._odd.pop(name, None)
            self._changed.discard(name)
            self._rows.pop(name, None)
            self._whole = at

    def _refuse(self, name: str, error: BadInput) -> None:
        """An odd node is still there: what was known of it stands."""
        with self._lock:
            self._odd[name] = Refusal(f"{self.table}/{name}", str(error))
            self._refused += 1
        _log.warning("node left out of the history", error=str(error))


def _facts(row: Row) -> Row:
    return (*row[:_NODE_AT], *row[_NODE_AT + 1 :])


def _seen_at(row: Row, at: datetime) -> Row:
    return (*row[:_NODE_AT], at, *row[_NODE_AT + 1 :])
