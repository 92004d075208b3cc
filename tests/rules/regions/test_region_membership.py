"""A region's PEs leave and come while it drains or resets."""

from itertools import product

import pytest
from msgspec.structs import replace

from rules.regions.events import Event
from rules.regions.machine import step
from rules.regions.membership import respecified
from rules.regions.region import Mark, Region, RegionStatus, State
from tests.support.regions import (
    NOON,
    BecameHealthy,
    BlockingCheckpointDone,
    CheckpointDone,
    DrainPeriod,
    ResetDone,
    periodic,
    with_status,
)


def played(region: Region, *events: Event) -> Region:
    """What becomes of a region; all happens in one moment, so that only the events count."""
    for event in events:
        region = step(region, event, NOON).region
    return region


def draining(*pes: int) -> Region:
    region = played(periodic(pes=pes), BecameHealthy(clean=True), DrainPeriod(0))
    assert region.status.state is State.DRAINING
    return region


def left(region: Region, pes: tuple[int, ...]) -> RegionStatus:
    """The region's status after only *pes* are left and what follows from it has happened."""
    found, again = respecified(region, replace(region.spec, pes_in_region=pes))
    return played(found, *([again] if again is not None else [])).status


#: What a PE may have reported in the drain of sequence id 1.
SAID: tuple[tuple[type, ...], ...] = (
    (),
    (CheckpointDone,),
    (BlockingCheckpointDone,),
    (BlockingCheckpointDone, CheckpointDone),
)


@pytest.mark.parametrize("leaver", [0, 1, 2])
def test_a_drain_goes_on_as_if_one_that_left_had_never_been_in_the_region(leaver: int) -> None:
    stays = tuple(pe for pe in (0, 1, 2) if pe != leaver)
    for said in product(SAID, repeat=3):
        reports = {pe: [kind(pe, 1) for kind in kinds] for pe, kinds in enumerate(said)}
        if all(each and isinstance(each[-1], CheckpointDone) for each in reports.values()):
            continue  # the drain is over before anybody leaves
        whole = played(draining(0, 1, 2), *(each for pe in (0, 1, 2) for each in reports[pe]))
        alone = played(draining(*stays), *(each for pe in stays for each in reports[pe]))
        assert left(whole, stays) == alone.status, said


def test_a_reset_does_not_wait_for_one_that_left() -> None:
    region = played(periodic(pes=(0, 1, 2)), BecameHealthy(clean=False), ResetDone(0, 0, 0), ResetDone(2, 0, 0))
    assert region.status.state is State.RESETTING
    found = left(region, (0, 2))
    assert (found.state, found.last_completed_reset, found.current_seq_id) == (State.PROCESSING, 0, 2)
    assert left(region, (0, 1)).state is State.RESETTING  # PE 1 is still to report


def test_one_that_comes_is_waited_for() -> None:
    region = played(draining(0, 1), CheckpointDone(0, 1))
    found, again = respecified(region, replace(region.spec, pes_in_region=(0, 5)))
    assert again is None
    assert found.status.pe_to_completion == {0: Mark.CHECKPOINT_DONE, 5: Mark.NONE}
    assert played(found, CheckpointDone(5, 1)).status.last_completed_seq_id == 1


@pytest.mark.parametrize("state", [State.STARTED, State.PROCESSING, State.UNHEALTHY])
def test_where_nothing_is_awaited_nothing_follows(state: State) -> None:
    region = with_status(periodic(), state=state, pe_to_completion={0: Mark.NONE, 1: Mark.CHECKPOINT_DONE})
    found, again = respecified(region, replace(region.spec, pes_in_region=(1, 2)))
    assert again is None
    assert found.status.pe_to_completion == {1: Mark.CHECKPOINT_DONE, 2: Mark.NONE}
