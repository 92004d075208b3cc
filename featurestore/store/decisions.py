"""Decisions on their way into the store: spooled as JSON lines by whoever decides, flushed in batches by the writer.

A process appends to a file of its own, ``*.part``, which it holds locked, and renames it to ``*.jsonl`` when it is
done with it. A flush inserts what it finds and then removes the file; being killed in between inserts nothing twice,
since the decisions' ids are compared with those stored.
"""

import contextlib
import fcntl
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import IO, Any

import msgspec
import pyarrow as pa
import structlog
from duckdb import DuckDBPyConnection

from featurestore.store.abridged import Abridging, whole
from featurestore.store.decision import Decision, Line
from featurestore.store.duck import Store, staging
from featurestore.store.queries import arrow
from pipeline.errors import BadInput

_log = structlog.get_logger(__name__)


#: What is told of a decision, and what that is read from.
_TOLD = """decision, "at", namespace, pod, function, mode, outcome, satisfiable, node, followed, activations, p50_ms,
    usual_ms, snapshot, cluster"""
_FOLLOWED = """decisions LEFT JOIN (
    SELECT cluster, decision, node, followed, activations, p50_ms, usual_ms FROM decision_outcomes
) USING (cluster, decision)"""


#: The decisions of a file may stand for so many times its size: whoever takes it up holds all of them.
_WHOLE = 8

_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Line)


class Spool:
    """Appends decisions to files in *directory*; one owner a spool, any number of spools a directory.

    A file is handed over after *seconds* or at *size* bytes, whichever is first, or where its decisions come to
    several times as much in full, and at `close`. What was appended
    survives the death of the process. Raises `BadInput` naming the directory where it cannot be written.
    """

    def __init__(self, directory: Path, *, seconds: float = 5.0, size: int = 4 << 20) -> None:
        self._directory = directory
        self._seconds = seconds
        self._size = size
        self._file: IO[bytes] | None = None
        self._path = directory
        self._opened = 0.0
        self._abridge = Abridging()

    def append(self, decisions: Iterable[Decision]) -> None:
        """Append *decisions*, in one write."""
        lines = b"".join(_ENCODER.encode(self._abridge(decision)) + b"\n" for decision in decisions)
        if lines:
            try:
                file = self._file or self._open()
                file.write(lines)
                file.flush()
            except OSError as error:
                self._abridge = Abridging()  # what was not written cannot be named
                raise BadInput(f"{self._directory}: cannot be written: {error.strerror}") from error
        self.rotate(only_due=True)

    def rotate(self, *, only_due: bool = False) -> None:
        """Hand the current file over to the next flush; with *only_due* only where it is old or large enough."""
        if self._file is None:
            return
        large = self._file.tell() >= self._size or self._abridge.size >= _WHOLE * self._size
        due = large or time.monotonic() - self._opened >= self._seconds
        if due or not only_due:
            self._path.replace(self._path.with_suffix(".jsonl"))
            self._file.close()
            self._file = None
            self._abridge = Abridging()

    def close(self) -> None:
        """Hand over what is left."""
        self.rotate()

    def _open(self) -> IO[bytes]:
        self._directory.mkdir(parents=True, exist_ok=True)
        self._path = self._directory / f"decisions-{time.time_ns():020d}-{os.getpid()}-{secrets.token_hex(4)}.part"
        self._file = self._path.open("xb")
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._opened = time.monotonic()
        return self._file


@dataclass(frozen=True, slots=True)
class Flushed:
    """What a flush did: *rows* new, *duplicates* stored before, *refused* lines that are no decision."""

    rows: int = 0
    duplicates: int = 0
    refused: int = 0


def flush(store: Store, directory: Path, *, files: int = 256) -> Flushed:
    """Move what was handed over in *directory* into the store, at most *files* files at once; any number may flush.

    Files left behind by a process that died are taken too. Raises as `Store.write` does, and then leaves all files.
    """
    adopt(directory)
    taken = sorted(directory.glob("decisions-*.jsonl"))[:files]
    decisions: list[Line] = []
    refused = 0
    for path in taken:
        found, bad = _read(path)
        decisions += found
        refused += bad
    if not taken:
        return Flushed()
    if refused:
        _log.warning("lines that are no decision", lines=refused)
    unique = {decision.decision: decision for decision in decisions}
    with staging(store.spill) as con:
        con.register("spooled", _table(list(unique.values())))
        rows = store.write(_insert, prepared=con) if unique else 0
    for path in taken:
        path.unlink(missing_ok=True)
    return Flushed(rows, len(decisions) - rows, refused)


def recent(
    con: DuckDBPyConnection,
    *,
    limit: int,
    cluster: str | None = None,
    namespace: str | None = None,
    pod: str | None = None,
    function: str | None = None,
    mode: str | None = None,
    outcome: str | None = None,
) -> pa.Table:
    """Return stored decisions, the newest first, of which each given column has just that value.

    Columns: those of the table ``decisions``, the document left out, and of the pod that came of it, where one was
    seen: its *node*, whether that is one ranked first (*followed*), *activations*, *p50_ms*, the function's
    *usual_ms*.
    """
    given = {
        "cluster": cluster,
        "namespace": namespace,
        "pod": pod,
        "function": function,
        "mode": mode,
        "outcome": outcome,
    }
    return arrow(
        con,
        f"""
        SELECT {_TOLD} FROM {_FOLLOWED}
        WHERE ($cluster IS NULL OR cluster = $cluster) AND ($namespace IS NULL OR namespace = $namespace)
            AND ($pod IS NULL OR pod = $pod) AND ($function IS NULL OR function = $function)
            AND ($mode IS NULL OR mode = $mode) AND ($outcome IS NULL OR outcome = $outcome)
        ORDER BY "at" DESC, decision LIMIT $limit
        """,
        {**given, "limit": limit},
    )


def one(con: DuckDBPyConnection, decision: str) -> dict[str, Any] | None:
    """Return a stored decision with the columns of `recent` and its *document*, a text of JSON; None for none."""
    found = arrow(
        con, f"SELECT {_TOLD}, document FROM {_FOLLOWED} WHERE decision = $decision", {"decision": decision}
    )
    rows: list[dict[str, Any]] = found.slice(0, 1).to_pylist()
    return rows[0] if rows else None


def _insert(con: DuckDBPyConnection) -> int:
    [[rows]] = con.execute(
        """
        INSERT INTO decisions SELECT spooled.* FROM spooled ANTI JOIN (
            SELECT decision FROM decisions
            WHERE "at" BETWEEN (SELECT min("at") FROM spooled) AND (SELECT max("at") FROM spooled)
        ) AS known USING (decision)
        """
    ).fetchall()
    return int(rows)


def adopt(directory: Path) -> None:
    """Hand over the files of processes that died: nobody holds their locks any more."""
    for path in directory.glob("decisions-*.part"):
        with contextlib.suppress(OSError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if file.read(1) or time.time() - path.stat().st_mtime > 60:  # a new one is empty before it is locked
                path.replace(path.with_suffix(".jsonl"))


def _read(path: Path) -> tuple[list[Line], int]:
    found: list[Line] = []
    refused = 0
    try:
        content = path.read_bytes()
    except FileNotFoundError:  # another flush was faster
        return [], 0
    for decision in whole(map(_decoded, content.splitlines())):
        if decision is None:
            refused += 1
        else:
            found.append(decision)
    return found, refused


def in_full(content: bytes) -> Iterator[bytes]:
    """Yield the lines of a spool's file with the document in each; what is no decision stays as it is."""
    given = content.splitlines(keepends=True)
    for line, decision in zip(given, whole(map(_decoded, given)), strict=True):
        yield line if decision is None else _ENCODER.encode(decision) + b"\n"


def is_decision(line: bytes) -> bool:
    """Whether a flush would take *line*."""
    return _decoded(line) is not None


def _decoded(line: bytes) -> Line | None:
    try:
        decision = _DECODER.decode(line)
        _ = bytes(decision.document).decode()
    except (msgspec.MsgspecError, UnicodeError):
        return None
    return decision


def _table(decisions: list[Line]) -> pa.Table:
    text = ("decision", "cluster", "namespace", "pod", "function", "mode", "snapshot", "outcome")
    columns: dict[str, pa.Array] = {
        name: pa.array([getattr(decision, name) for decision in decisions], pa.string()) for name in text
    }
    columns["at"] = pa.array([each.at.astimezone(UTC) for each in decisions], pa.timestamp("us", tz="UTC"))
    columns["satisfiable"] = pa.array([each.satisfiable for each in decisions], pa.bool_())
    columns["document"] = pa.array([bytes(each.document).decode() for each in decisions], pa.string())
    order = ("decision", "at", "cluster", "namespace", "pod", "function", "mode", "snapshot", "satisfiable")
    return pa.table({name: columns[name] for name in (*order, "outcome", "document")})
