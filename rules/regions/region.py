"""What a consistent region is: its static part (`spec` of the resource) and its dynamic part (`status`).

The names on the wire are those of the custom resource. Identifiers are whole numbers that only grow, durations are
seconds in the spec and milliseconds in the status, moments are epoch milliseconds.
"""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

import msgspec

#: How many drains and resets a mean looks back on.
SAMPLES = 10


class State(Enum):
    """What a region does; the order of the members is the value of the metric."""

    STARTED = "STARTED"
    PROCESSING = "PROCESSING"
    UNHEALTHY = "UNHEALTHY"
    DRAINING = "DRAINING"
    RESETTING = "RESETTING"
    MAXIMUM_RESET_ATTEMPTS_REACHED = "MAXIMUM_RESET_ATTEMPTS_REACHED"
    CHECKPOINT_PENDING = "CHECKPOINT_PENDING"

    __hash__ = object.__hash__  # the enumeration's own takes longer than a transition's look-up

    @property
    def ordinal(self) -> int:
        return _ORDINALS[self]


_ORDINALS = {state: number for number, state in enumerate(State)}


class Mark(Enum):
    """How far one PE is in the drain or reset under way."""

    NONE = "None"
    CHECKPOINT_DONE = "CheckpointDone"
    BLOCKING_CHECKPOINT_DONE = "BlockingCheckpointDone"
    RESET_DONE = "ResetDone"


class Trigger(Enum):
    """What begins a drain: a timer, or an operator of the region."""

    PERIODIC = "periodic"
    OPERATOR = "operator driven"


_ODD = {
    "current_seq_id": "currentSeqID",
    "last_completed_seq_id": "lastCompletedSeqID",
    "pending_seq_id": "pendingSeqID",
    "to_retire_seq_id": "toRetireSeqID",
    "pes_in_region": "pesInRegion",
}


def _wire_name(name: str) -> str:
    first, *rest = name.split("_")
    return _ODD.get(name) or first + "".join(word.capitalize() for word in rest)


class RegionSpec(msgspec.Struct, frozen=True, kw_only=True, rename=_wire_name):
    """The static part; *period* is needed where drains are periodic."""

    region_index: int
    pes_in_region: tuple[int, ...]
    trigger: Trigger
    logical_index: int = 0
    num_start_operators: int = 1
    period: float | None = None
    drain_timeout: float = 180.0
    reset_timeout: float = 180.0
    max_consecutive_reset_attempts: int = 5
    operators_to_start_region_map: dict[str, bool] = {}
    operators_to_trigger_map: dict[str, bool] = {}

    @property
    def periodic(self) -> bool:
        return self.trigger is Trigger.PERIODIC


class Span(msgspec.Struct, frozen=True, rename=_wire_name):
    """One completed drain or reset: the sequence id, when it began, how long it took (both milliseconds)."""

    seq_id: int
    started_at: int
    milliseconds: int


class Average(msgspec.Struct, frozen=True, rename=_wire_name):
    """The last durations in milliseconds and their sum."""

    samples: tuple[int, ...] = ()
    max_size: int = SAMPLES
    total: int = 0

    @property
    def mean(self) -> int:
        """The mean, cut to whole milliseconds; 0 without samples."""
        return self.total // len(self.samples) if self.samples else 0


class RegionStatus(msgspec.Struct, frozen=True, kw_only=True, rename=_wire_name):
    """The dynamic part."""

    state: State = State.STARTED
    pe_to_completion: dict[int, Mark]
    region_healthy: bool = False
    clean_start: bool = False
    healthy_first_time: bool = False
    must_reset: bool = False
    current_reset_attempt: int = 0
    current_max_reset_attempts: int
    current_seq_id: int = 1
    last_completed_seq_id: int = 0
    pending_seq_id: int = 0
    to_retire_seq_id: int = 0
    current_timer_seq_id: int = 0
    drain_start_timestamp: int = 0
    reset_start_timestamp: int = 0
    avg_drain_time: Average = Average()
    avg_reset_time: Average = Average()
    avg_drain_time_metric: int = 0
    avg_reset_time_metric: int = 0
    last_consistent_state_time: int = 0
    last_reset_time: int = 0
    last_completed_drain: int = -1
    last_completed_reset: int = -1
    recent_drains: tuple[Span, ...] = ()
    recent_resets: tuple[Span, ...] = ()


class Region(NamedTuple):
    """One region as it is now."""

    spec: RegionSpec
    status: RegionStatus


def unmarked(pes: Iterable[int]) -> dict[int, Mark]:
    """No PE has reported anything."""
    return dict.fromkeys(pes, Mark.NONE)


def initial(spec: RegionSpec) -> Region:
    """The region before anything happened."""
    return Region(
        spec,
        RegionStatus(
            pe_to_completion=unmarked(spec.pes_in_region),
            current_max_reset_attempts=spec.max_consecutive_reset_attempts,
        ),
    )


def restarted(region: Region) -> Region:
    """The region as a controller that starts again takes it up: nothing but state and health is forgotten."""
    status = msgspec.structs.replace(region.status, state=State.STARTED, region_healthy=False)
    return region if status == region.status else Region(region.spec, status)
