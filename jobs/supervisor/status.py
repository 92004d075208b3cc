"""What the supervisor tells the serving processes: its jobs and the sources' health, as one small file."""

import os
from pathlib import Path

import msgspec

#: The file's name in the directory that the supervisor shares with the serving processes.
FILE = "supervisor.json"


class JobStatus(msgspec.Struct):
    """Runs of one scheduled job since the supervisor started; times in epoch seconds, 0 for never.

    *runs* counts by outcome: ``ok``, ``partial``, ``failed``, ``timeout``. *missed* starts came too late to be made
    up for, *overrun* ones fell into a run that had not ended.
    """

    runs: dict[str, int] = msgspec.field(default_factory=dict)
    missed: int = 0
    overrun: int = 0
    running: bool = False
    last_start: float = 0.0
    last_success: float = 0.0
    last_seconds: float = 0.0


class SourceHealth(msgspec.Struct, frozen=True):
    """How one source of one cluster fares; times in epoch seconds, None for never."""

    cluster: str
    source: str
    last_success: float | None
    last_attempt: float | None
    outcome: str
    reason: str
    refused: int
    watermark: float | None
    rows_total: int
    errors_total: int


class WatchStatus(msgspec.Struct, frozen=True):
    """A watch: *alive* is when its server last gave a proof of life (epoch seconds), None before the first list.

    *lists* counts the lists made, *waiting* the objects whose changes are not written yet; *use* is ``history``, or
    ``answers`` and ``disks`` for a serving process's own views.
    """

    cluster: str
    resource: str
    alive: float | None
    lists: int
    waiting: int = 0
    use: str = "history"


class OutcomeStatus(msgspec.Struct, frozen=True):
    """What became of the stored decisions of a cluster and mode, of those that were *followed*: yes, no or unknown.

    *pods* were seen on a node; *latency_ratio* is the median, over those that ran something, of their median run time
    over what is usual for their function, None where none ran.
    """

    cluster: str
    mode: str
    followed: str
    pods: int
    latency_ratio: float | None


class WriterStatus(msgspec.Struct):
    """How a replica fares with its writer; *confirmed* is when this last said what to answer from (epoch seconds).

    *exchanges* counts by kind (snapshot, control, decisions) and outcome (changed, unchanged, none, failed);
    *handed_back* and *lost* count decisions, *waiting* their bytes on disk.
    """

    confirmed: float | None = None
    exchanges: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    handed_back: int = 0
    lost: int = 0
    waiting: int = 0


class Status(msgspec.Struct):
    """The supervisor's state at *written* (epoch seconds)."""

    written: float = 0.0
    jobs: dict[str, JobStatus] = msgspec.field(default_factory=dict)
    health: list[SourceHealth] = msgspec.field(default_factory=list)
    watches: list[WatchStatus] = msgspec.field(default_factory=list)
    restarts: int = 0
    decisions_flushed: int = 0
    flush_errors: int = 0
    outcomes: list[OutcomeStatus] = msgspec.field(default_factory=list)
    writer: WriterStatus | None = None


_decoder = msgspec.json.Decoder(Status)


def write(status: Status, path: Path) -> None:
    """Write *status* aside and rename it to *path*."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_bytes(msgspec.json.encode(status))
    aside.replace(path)


def read(path: Path | None) -> Status | None:
    """Read the status; None where there is no supervisor or its file is of another version."""
    if path is None:
        return None
    try:
        return _decoder.decode(path.read_bytes())
    except (OSError, msgspec.MsgspecError):
        return None
