"""ConsistentRegion objects, as far as their state and their times are collected."""

from typing import Any

import msgspec

from pipeline.errors import NOT_JSON, BadInput


class _Meta(msgspec.Struct):
    name: str
    namespace: str = ""
    labels: dict[str, str] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    region_index: int
    trigger: str = ""
    pes_in_region: list[int] = []


class Span(msgspec.Struct, frozen=True, rename="camel"):
    """One completed drain or reset; epoch milliseconds and milliseconds."""

    seq_id: int
    started_at: int
    milliseconds: int


class RegionState(msgspec.Struct, frozen=True, rename="camel"):
    """The dynamic part; a region that has none yet has just been made."""

    state: str = "STARTED"
    region_healthy: bool = False
    current_seq_id: int = msgspec.field(default=1, name="currentSeqID")
    last_completed_seq_id: int = msgspec.field(default=0, name="lastCompletedSeqID")
    current_reset_attempt: int = 0
    current_max_reset_attempts: int = 0
    avg_drain_time_metric: int = 0
    avg_reset_time_metric: int = 0
    last_consistent_state_time: int = 0
    last_reset_time: int = 0
    last_completed_drain: int = -1
    last_completed_reset: int = -1
    recent_drains: tuple[Span, ...] = ()
    recent_resets: tuple[Span, ...] = ()


class _Object(msgspec.Struct):
    metadata: _Meta
    spec: _Spec
    status: RegionState | None = None


class Region(msgspec.Struct, frozen=True):
    """One region of a stream job as its resource says."""

    namespace: str
    name: str
    stream_job: str
    index: int
    trigger: str
    pes: tuple[int, ...]
    state: RegionState


_DECODER = msgspec.json.Decoder(_Object)
_JOB = "streams.ibm.com/job"


def region(raw: msgspec.Raw | bytes) -> Region:
    """Read one object; raises `BadInput` in one line where it is none."""
    try:
        found: Any = _DECODER.decode(raw)
    except NOT_JSON as error:
        raise BadInput(str(error).split("\n")[0]) from None
    meta, spec = found.metadata, found.spec
    job = (meta.labels or {}).get(_JOB) or meta.name.rpartition("-cr")[0]
    return Region(
        meta.namespace,
        meta.name,
        job,
        spec.region_index,
        spec.trigger,
        tuple(sorted(set(spec.pes_in_region))),
        found.status or RegionState(),
    )
