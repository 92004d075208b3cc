"""A region whose static part is changed while it runs: who came, who left, and what that ends."""

import msgspec

from rules.regions.events import BlockingCheckpointDone, CheckpointDone, Report, ResetDone
from rules.regions.region import Mark, Region, RegionSpec, RegionStatus, State

#: What has to be known of every PE before the state is left.
_AWAITED: dict[State, tuple[Mark, ...]] = {
    State.DRAINING: (Mark.CHECKPOINT_DONE, Mark.BLOCKING_CHECKPOINT_DONE),
    State.CHECKPOINT_PENDING: (Mark.CHECKPOINT_DONE,),
    State.RESETTING: (Mark.RESET_DONE,),
}


def respecified(region: Region, spec: RegionSpec) -> tuple[Region, Report | None]:
    """Return the region with another *spec*, and a report to play, None for none.

    Marks of PEs that left go, those of PEs that came are empty. Where all who are left have reported already, nobody
    would report any more and the drain or reset would run into its limit: the report of one of them counts anew.
    """
    status = region.status
    marks = {pe: status.pe_to_completion.get(pe, Mark.NONE) for pe in spec.pes_in_region}
    again = None
    if marks and all(mark in _AWAITED.get(status.state, ()) for mark in marks.values()):
        pe = next(iter(marks))
        again, marks[pe] = _report(status, pe, marks[pe]), Mark.NONE
    return Region(spec, msgspec.structs.replace(status, pe_to_completion=marks)), again


def _report(status: RegionStatus, pe: int, mark: Mark) -> Report:
    """The report by which *pe* got its *mark*."""
    if mark is Mark.RESET_DONE:
        return ResetDone(pe, status.last_completed_seq_id, status.current_reset_attempt - 1)
    if mark is Mark.BLOCKING_CHECKPOINT_DONE:
        return BlockingCheckpointDone(pe, status.current_seq_id)
    pending = status.state is State.CHECKPOINT_PENDING
    return CheckpointDone(pe, status.pending_seq_id if pending else status.current_seq_id)
