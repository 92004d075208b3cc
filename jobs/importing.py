"""``colocate import``: history from files into the store, all of the files or none.

Every file is read and checked before anything is written; an error is one line that names the file and the line,
record or column.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from featurestore.store import openwhisk
from featurestore.store.duck import Store, staging
from featurestore.store.ingest import FILES, ingest
from jobs import documents, tabular
from jobs.config import Settings
from jobs.config.sources import CLUSTER_NAME
from pipeline.collectors import nodes
from pipeline.collectors.objects import table
from pipeline.columns import NODES
from pipeline.errors import NOT_JSON, BadInput
from pipeline.objects import node_of
from pipeline.records import Batch, Refusal

_NODE_LISTS = ("List", "NodeList")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an import brought: *rows* new or changed, *duplicates* known before, *refused* records or objects that
    cannot be used (the first of them in *refusals*), columns that were *ignored*, and *notes* of what is taken as it
    is and may not be meant so."""

    kind: str
    cluster: str
    rows: int
    duplicates: int
    refused: int
    refusals: tuple[Refusal, ...]
    ignored: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Parsed:
    batches: tuple[Batch, ...]
    ignored: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


#: A table whose runs all began earlier (microseconds since 1970) may count them in another unit.
_LONG_AGO = round(datetime(2000, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000


def run(
    settings: Settings,
    kind: str,
    files: Sequence[Path],
    *,
    cluster: str,
    now: Callable[[], datetime],
    store: Store | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Outcome:
    """Import *files* of *kind* (a key of `KINDS`) into the history of *cluster*; importing again adds nothing.

    *progress* is told of how many steps how many are done: each file that is read, and that all is written.
    Raises `BadInput` naming the file and what is wrong with it; then nothing was written.
    """
    if kind not in KINDS:
        raise BadInput(f"import {kind!r}: not one of {', '.join(KINDS)}")
    if not cluster:
        raise BadInput("--cluster: missing; imported history belongs to a cluster")
    if not re.fullmatch(CLUSTER_NAME, cluster):
        raise BadInput(f"--cluster {cluster[:60]!r}: a name holds no control characters")
    if not files:
        raise BadInput(f"import {kind}: no file given")
    for file in files:
        if not file.is_file():
            known = "is a directory" if file.is_dir() else "is no regular file" if file.exists() else "no such file"
            raise BadInput(f"{file}: {known}")
    at = now()
    steps, done = len(files) + 1, count(1)
    parsed = KINDS[kind](files, at, lambda _: progress(next(done), steps))
    held = store or Store(settings.store.path, settings.store.deadline)
    written = [
        ingest(held, cluster, batch, collected=at, overlap=settings.schedule.overlap, source=FILES)
        for batch in parsed.batches
    ]
    progress(steps, steps)
    own = tuple(refusal for batch in parsed.batches for refusal in batch.refused)
    told = tuple(
        refusal
        for batch, each in zip(parsed.batches, written, strict=True)
        if each.refused
        for refusal in _refused(batch)
    )
    return Outcome(
        kind,
        cluster,
        sum(each.rows for each in written),
        sum(each.duplicates for each in written),
        sum(each.refused for each in written) + len(own),
        (own + told)[:5],
        parsed.ignored,
        (*parsed.notes, *_contradictions(sum(each.differ for each in written))),
    )


def _contradictions(count: int) -> Iterator[str]:
    if count:
        yield (
            f"{count:,} activations are known with another start, end, function, status or node, and stay as they are"
            " (colocate forget removes a cluster's history)"
        )


def _refused(batch: Batch) -> tuple[Refusal, ...]:
    with staging() as con:
        return openwhisk.refusals(con, batch.files)


def _activations(files: Sequence[Path], at: datetime, done: Callable[[Path], None]) -> _Parsed:
    """OpenWhisk records (an array, or a record a line) and tables with the documented columns; both may be mixed."""
    records, read, notes = list[Path](), list[tuple[pa.Table, tuple[str, ...]]](), list[str]()
    for file in files:
        if _holds_json(file):
            last = _check_records(file)
            records.append(file)
        else:
            read.append(tabular.activations(file))
            rows = read[-1][0]
            last = pc.max(rows["start"].cast(pa.int64())).as_py()
            notes += [f"{file}: {note}" for note in _unbelieved(rows)]
        if last is not None and last < _LONG_AGO:
            when = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=last)
            notes.append(
                f"{file}: its last run began at {when:%Y-%m-%dT%H:%M:%SZ}; numbers count milliseconds since 1970"
            )
        done(file)
    batches = [Batch("activations", files=tuple(records))] if records else []
    if read:
        batches.append(Batch("activations", rows=pa.concat_tables([rows for rows, _ in read])))
    return _Parsed(tuple(batches), _ignored(read), tuple(notes))


def _unbelieved(rows: pa.Table) -> Iterator[str]:
    """Say how many ends the store will not believe (`featurestore.store.openwhisk`)."""
    took = pc.subtract(rows["end"].cast(pa.int64()), rows["start"].cast(pa.int64()))
    late = pc.greater(took, pc.add(pc.multiply(rows["timeout_ms"], 2_000), 60_000_000))
    if count := pc.sum(pc.and_(pc.fill_null(late, False), pc.invert(rows["composite"]))).as_py():
        yield (
            f"{count:,} runs took a minute more than twice their timeout_ms, at which they are ended: they are kept"
            " without an end"
        )


def _profiles(files: Sequence[Path], at: datetime, done: Callable[[Path], None]) -> _Parsed:
    read = []
    for file in files:
        read.append(tabular.profiles(file))
        done(file)
    return _Parsed((Batch("profiles", rows=pa.concat_tables([rows for rows, _ in read])),), _ignored(read))


def _nodes(files: Sequence[Path], at: datetime, done: Callable[[Path], None]) -> _Parsed:
    """Kubernetes nodes in any written form; an odd one costs only itself, a file without any good one is refused.

    The files are not taken for the whole cluster: other nodes that are known stay.
    """
    rows: dict[str, tuple[object, ...]] = {}
    refused: list[Refusal] = []
    for file in files:
        good, bad = dict[str, tuple[object, ...]](), list[Refusal]()
        for number, mapping in enumerate(_objects(file), 1):
            try:
                found = nodes.row(node_of(mapping), at)
            except BadInput as error:
                bad.append(Refusal(f"{file}, object {number}", str(error)))
            else:
                good[str(found[0])] = found
        if not good:
            raise BadInput(f"{bad[0].what}: {bad[0].why}" if bad else f"{file}: holds no node")
        rows |= good
        refused += bad
        done(file)
    return _Parsed((Batch("nodes", rows=table(NODES, list(rows.values())), refused=tuple(refused), whole=False),))


#: One line a kind of history that files may hold.
KINDS: Mapping[str, Callable[[Sequence[Path], datetime, Callable[[Path], None]], _Parsed]] = {
    "activations": _activations,
    "profiles": _profiles,
    "nodes": _nodes,
}


def _ignored(read: Sequence[tuple[pa.Table, tuple[str, ...]]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for _, names in read for name in names))


def _holds_json(file: Path) -> bool:
    with file.open("rb") as content:
        head = content.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
    return head[:1] in (b"[", b"{")


def _check_records(file: Path) -> int | None:
    """Refuse a file that is neither one JSON text nor a JSON text a line, naming the line, or holds no record; return
    the last start that is a number, in microseconds."""
    try:
        with file.open("rb") as lines:
            return _check(file, enumerate(lines, 1))
    except _NotALine as error:
        try:
            whole = file.read_bytes().removeprefix(_BOM)
            msgspec.json.decode(whole, type=msgspec.Raw)
        except NOT_JSON as of_whole:
            line, why = (_line_of(of_whole, whole), of_whole) if error.number == 1 else (error.number, error)
            raise BadInput(f"{file}, line {line}: not JSON: {why}") from None
        return _check(file, [(1, whole)])


def _line_of(error: Exception, text: bytes) -> int:
    """Return the line of *text* at which it was found to be no JSON: where that says no place, it breaks off."""
    at = re.search(r"\(byte (\d+)\)$", str(error))
    return 1 if isinstance(error, RecursionError) else text.rstrip().count(b"\n", 0, int(at[1]) if at else None) + 1


_BOM = b"\xef\xbb\xbf"


class _NotALine(ValueError):
    """Line *number* is no JSON of its own."""

    def __init__(self, number: int, why: Exception) -> None:
        super().__init__(str(why))
        self.number = number


class _Record(msgspec.Struct):
    """What tells an activation record from other JSON, and its times as they are written."""

    activationId: msgspec.Raw  # noqa: N815 - the record's own name
    start: msgspec.Raw = msgspec.Raw()
    end: msgspec.Raw = msgspec.Raw()


def _check(file: Path, texts: Iterable[tuple[int, bytes]]) -> int | None:
    """Look through JSON texts, each a record or an array of them; among those that there are one must be one.

    An array is a file of its own. An ``end`` that is a text would look like that of a trigger, which has none."""
    some = found = False
    last: int | None = None
    for number, text in texts:
        line = text.removeprefix(_BOM) if number == 1 else text
        if not line.strip():
            continue
        try:
            msgspec.json.decode(line, type=msgspec.Raw)
            whole = line.lstrip()[:1] == b"["
            records = msgspec.json.decode(line, type=list[msgspec.Raw]) if whole else [line]
        except NOT_JSON as error:
            raise _NotALine(number, error) from None
        if whole and some:
            raise BadInput(f"{file}, line {number}: an array among records of a line each")
        some = some or bool(records)
        for place, each in enumerate(records, 1):
            record = _record(each)
            found = found or record is not None
            if record is not None and bytes(record.end)[:1] == b'"':
                where = f"record {place}" if whole else f"line {number}"
                said = bytes(record.end).decode(errors="replace")[:60]
                raise BadInput(f"{file}, {where}: end {said}: is no number of milliseconds since 1970")
            if record is not None and (start := _whole(record.start)) is not None:
                last = start if last is None else max(last, start)
    if some and not found:
        raise BadInput(f"{file}: holds no activation record: nothing in it has an activationId")
    return None if last is None else last * 1_000


def _record(text: bytes | msgspec.Raw) -> _Record | None:
    try:
        return msgspec.json.decode(text, type=_Record)
    except NOT_JSON:
        return None


def _whole(text: msgspec.Raw) -> int | None:
    try:
        return int(bytes(text))
    except ValueError:
        return None


def _objects(file: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the node objects of every document of *file*: a list is opened, another kind refused."""
    for document in documents.read(file):
        if not isinstance(document, Mapping):
            raise BadInput(f"{file}: holds no Kubernetes object")
        kind = document.get("kind")
        if kind in _NODE_LISTS or (kind is None and isinstance(document.get("items"), list)):
            items = document.get("items")
            if not isinstance(items, list):
                raise BadInput(f"{file}: items: is no list")
            for item in items:
                if isinstance(item, Mapping) and item.get("kind") in (None, "Node") and not _is_a_pod(item):
                    yield item
        elif kind == "Node" or (kind is None and not _is_a_pod(document)):
            yield document
        elif kind is None:
            raise BadInput(f"{file}: a pod, and no node")
        else:
            raise BadInput(f"{file}: kind {kind}: is no Node")


def _is_a_pod(item: Mapping[str, Any]) -> bool:
    """Whether an object that does not say its kind is a pod, which has a name as a node has."""
    spec = item.get("spec")
    return isinstance(spec, Mapping) and "containers" in spec
