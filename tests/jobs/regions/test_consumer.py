"""Write, then act: what the one consumer does where writes fail, conflict, or are not needed."""

from collections.abc import Callable, Iterable

import msgspec
import pytest

from jobs.regions.boards import Boards
from jobs.regions.consumer import MARKS, Consumer
from jobs.regions.inbox import Gone, Inbox, Listed, Recheck, Seen
from jobs.regions.resources import Conflict, Resource
from pipeline.errors import BadInput, Permanent, Temporary
from rules.regions.events import CheckpointDone, Event, OperatorReset, ResetDone
from rules.regions.health import Health
from rules.regions.region import Region, RegionSpec, RegionStatus, State, Trigger
from tests.support.regions import NOON, driven, ids, periodic, with_status


class Server:
    """Resources with versions; *refuse* is used up by writes, `None` lets one through."""

    def __init__(self, *regions: Region) -> None:
        self.version = 10
        self.stored = {each.spec.region_index: each for each in regions}
        self.versions = dict.fromkeys(self.stored, self.version)
        self.written: dict[int, bool] = dict.fromkeys(self.stored, False)
        self.writes: list[RegionStatus] = []
        self.refuse: list[Exception | str | None] = []

    def resource(self, index: int) -> Resource:
        return Resource(f"j-cr{index}", str(self.versions[index]), self.stored[index], self.written[index])

    def region(self, name: str) -> Resource:
        index = int(name.removeprefix("j-cr"))
        if index not in self.stored:
            raise Permanent("kubernetes", "status_404", "gone")
        return self.resource(index)

    def write(self, name: str, version: str, spec: RegionSpec, status: RegionStatus) -> str:
        refusal = self.refuse.pop(0) if self.refuse else None
        if isinstance(refusal, Exception):
            raise refusal
        current = self.region(name)
        if version != current.version:
            raise Conflict("kubernetes", "status_409", "conflict")
        index = spec.region_index
        self.change(index, status)
        self.writes.append(status)
        if refusal == "lost":
            raise Temporary("kubernetes", "connection", "the connection broke")
        return str(self.versions[index])

    def change(self, index: int, status: RegionStatus) -> None:
        self.version += 1
        self.stored[index] = Region(self.stored[index].spec, status)
        self.versions[index], self.written[index] = self.version, True


class World:
    """A consumer on a server, with a clock that is set by hand; PEs are well unless *health* says otherwise."""

    def __init__(self, *regions: Region, restarted: bool = False, expected: int | None = None) -> None:
        self.server = Server(*regions)
        self.inbox, self.boards = Inbox(), Boards()
        self.health: Health | None = None
        self.told: list[tuple[int, ...]] = []
        self.time = 0.0
        self.leads = True
        self.consumer = Consumer(
            self.inbox,
            self.server,
            self.boards,
            self,
            lambda pes: self.health,
            expected=len(regions) if expected is None else expected,
            restarted=restarted,
            leading=lambda: self.leads,
            clock=lambda: self.time,
            now=lambda: NOON + int(self.time * 1000),
        )

    def tell(self, pes: Iterable[int]) -> None:
        self.told.append(tuple(pes))

    def listed(self) -> "World":
        resources = [self.server.resource(index) for index in self.server.stored]
        self.inbox.watched(Listed(resources, frozenset(each.name for each in resources)))
        return self.settle()

    def settle(self, seconds: float = 0.0) -> "World":
        self.time += seconds
        while self.consumer.turn(0.0):
            pass
        return self

    def well(self, clean: bool = True) -> "World":
        self.health = Health(True, clean)
        for index in list(self.server.stored):
            self.inbox.recheck(index)
        return self.settle()

    def play(self, *events: Event, region: int = 0) -> "World":
        for event in events:
            assert self.inbox.report(region, event)
        return self.settle()

    @property
    def state(self) -> State:
        return self.consumer.regions[0].status.state


def draining() -> World:
    world = World(periodic()).listed().well()
    world.settle(5.0)
    assert world.state is State.DRAINING
    return world


def notification(world: World, pe: int = 0) -> tuple[str, str] | None:
    raw = world.boards.entry(pe, 0)
    if raw is None:
        return None
    entry = msgspec.json.decode(raw)
    return entry["type"], entry["message"]


def test_a_fresh_region_is_written_and_starts_when_well() -> None:
    world = World(periodic()).listed()
    assert [each.state for each in world.server.writes] == [State.STARTED]
    world.well()
    assert [each.state for each in world.server.writes] == [State.STARTED, State.PROCESSING]
    assert world.told == []


def test_nobody_is_told_before_the_resource_is_written() -> None:
    world = World(periodic()).listed().well()
    world.server.refuse = [Temporary("kubernetes", "status_500", "no")] * 2
    world.settle(5.0)
    assert (world.state, notification(world), world.told) == (State.PROCESSING, None, [])
    world.settle(0.1)
    assert world.told == []
    world.settle(0.2)
    assert world.state is State.DRAINING
    assert (notification(world), world.told) == (("triggerDrain", "seqId=1"), [(0, 1)])


def test_what_comes_while_a_write_fails_waits_in_its_order() -> None:
    world = draining()
    world.play(CheckpointDone(0, 1))
    world.server.refuse = [Temporary("kubernetes", "timeout", "no answer")]
    world.play(CheckpointDone(1, 1), OperatorReset("person", False), ResetDone(0, 1, 0), ResetDone(1, 1, 0))
    assert world.state is State.DRAINING
    world.settle(1.0)
    assert ids(world.consumer.regions[0]) == (3, 1, 2, 0)
    assert [each.state for each in world.server.writes[-3:]] == [
        State.PROCESSING, State.RESETTING, State.PROCESSING,
    ]  # fmt: skip


def test_a_write_whose_answer_was_lost_is_not_done_twice() -> None:
    world = World(periodic()).listed().well()
    world.server.refuse = ["lost"]
    world.settle(5.0)
    writes = len(world.server.writes)
    world.settle(1.0)
    assert (world.state, notification(world)) == (State.DRAINING, ("triggerDrain", "seqId=1"))
    assert len(world.server.writes) == writes


def test_marks_are_written_together_and_not_one_by_one() -> None:
    world = World(periodic(pes=tuple(range(50)), drain_timeout=100.0)).listed().well()
    world.settle(5.0)
    before = len(world.server.writes)
    world.play(*(CheckpointDone(pe, 1) for pe in range(49)))
    assert len(world.server.writes) == before
    world.settle(MARKS)
    assert len(world.server.writes) == before + 1
    done = [mark for mark in world.server.writes[-1].pe_to_completion.values() if mark.value == "CheckpointDone"]
    assert len(done) == 49
    world.play(CheckpointDone(49, 1))
    assert len(world.server.writes) == before + 2
    assert world.state is State.PROCESSING


def test_an_event_that_changes_nothing_is_not_written_and_stalls_nothing() -> None:
    world = draining()
    before = len(world.server.writes)
    world.play(CheckpointDone(0, 7), CheckpointDone(9, 1), ResetDone(0, 0, 0))
    assert len(world.server.writes) == before
    world.play(CheckpointDone(0, 1), CheckpointDone(1, 1))
    assert world.state is State.PROCESSING


def test_a_restart_of_a_region_that_had_only_started_begins_without_a_write() -> None:
    world = World(periodic(), restarted=True)
    world.server.written[0] = True
    world.listed()
    assert world.server.writes == []
    assert world.consumer.started
    world.well()
    assert (world.state, notification(world)) == (State.RESETTING, ("triggerReset", "seqId=0;resetAttempt=0"))


def saved(limit: int = 5) -> World:
    """A controller that starts again with the saved region of case 20."""
    before = with_status(
        periodic(),
        state=State.PROCESSING,
        region_healthy=True,
        current_seq_id=6,
        last_completed_seq_id=4,
        pending_seq_id=5,
        to_retire_seq_id=3,
        current_reset_attempt=1,
        current_max_reset_attempts=limit,
    )
    world = World(before, restarted=True)
    world.server.written[0] = True
    return world.listed()


def test_case_20_controller_restart() -> None:
    world = saved()
    [written] = world.server.writes
    assert (written.state, written.region_healthy, written.current_seq_id) == (State.STARTED, False, 6)
    world.well()
    assert notification(world) == ("triggerReset", "seqId=4;resetAttempt=1")
    world.play(ResetDone(0, 4, 1), ResetDone(1, 4, 1))
    assert ids(world.consumer.regions[0]) == (7, 4, 5, 3)
    assert notification(world) == ("resumeSubmission", "seqId=7;retId=3;pendCkpt=0")


def test_case_20_attempts_used_up() -> None:
    world = saved(limit=1).well()
    assert world.state is State.MAXIMUM_RESET_ATTEMPTS_REACHED
    assert notification(world) == ("resetFailed", "seqId=4")


def test_nothing_begins_before_all_regions_are_known() -> None:
    world = World(periodic(), expected=2).listed().well()
    assert not world.consumer.started
    other = Region(msgspec.structs.replace(periodic().spec, region_index=1), periodic().status)
    world.server.stored[1], world.server.versions[1], world.server.written[1] = other, 10, False
    world.inbox.watched(Seen(world.server.resource(1)))
    world.settle()
    assert {index: each.status.state for index, each in world.consumer.regions.items()} == {
        0: State.PROCESSING,
        1: State.PROCESSING,
    }


def test_another_spec_is_taken_over_without_losing_the_version() -> None:
    world = draining()
    spec = msgspec.structs.replace(periodic().spec, pes_in_region=(0,), period=9.0)
    world.server.stored[0] = Region(spec, world.server.stored[0].status)
    world.server.version += 1
    world.server.versions[0] = world.server.version
    world.inbox.watched(Seen(world.server.resource(0)))
    world.settle().play(CheckpointDone(0, 1))
    assert ids(world.consumer.regions[0]) == (2, 1, 2, 0)
    assert world.server.stored[0].status.state is State.PROCESSING


def test_a_region_that_others_changed_is_reset_and_uses_no_id_twice() -> None:
    world = draining()
    theirs = msgspec.structs.replace(world.server.stored[0].status, current_seq_id=9, last_completed_seq_id=8)
    world.server.change(0, theirs)
    world.play(CheckpointDone(0, 1), CheckpointDone(1, 1))
    assert notification(world) == ("triggerReset", "seqId=8;resetAttempt=0")
    world.play(ResetDone(0, 8, 0), ResetDone(1, 8, 0))
    assert ids(world.consumer.regions[0])[:2] == (10, 8)


def test_a_region_that_is_gone_is_forgotten_and_its_board_too() -> None:
    world = draining()
    assert notification(world) is not None
    world.inbox.watched(Gone("j-cr0"))
    world.settle().play(CheckpointDone(0, 1))
    assert (world.consumer.regions, notification(world)) == ({}, None)


def test_a_region_that_is_gone_when_it_is_written_is_forgotten() -> None:
    world = draining()
    del world.server.stored[0]
    world.play(CheckpointDone(0, 1), CheckpointDone(1, 1))
    assert world.consumer.regions == {}


def test_losing_health_clears_the_board_and_the_timers() -> None:
    world = draining()
    world.health = Health(False, False)
    world.inbox.recheck(0)
    world.settle()
    assert (world.state, notification(world)) == (State.UNHEALTHY, None)
    world.settle(1000.0)
    assert world.state is State.UNHEALTHY


def test_an_unknown_health_changes_nothing() -> None:
    world = draining()
    world.health = None
    world.inbox.recheck(0)
    assert world.settle().state is State.DRAINING


def test_a_stranger_and_an_unknown_region_do_no_harm() -> None:
    world = World(driven(Src=True)).listed()
    world.play(CheckpointDone(0, 1), region=77)
    assert set(world.consumer.regions) == {0}


def test_one_that_does_not_lead_does_nothing() -> None:
    world = World(periodic()).listed()
    world.leads = False
    world.well()
    assert world.state is State.STARTED


def test_drains_and_resets_leave_nothing_behind() -> None:
    world = World(periodic(drain_timeout=500.0)).listed().well()
    sizes = []
    for seq in range(1, 601):
        world.settle(5.0)
        world.play(CheckpointDone(0, seq), CheckpointDone(1, seq))
        sizes.append(len(world.consumer._deadlines))
    assert world.consumer.regions[0].status.last_completed_seq_id == 600
    assert max(sizes) <= 70
    assert len(world.inbox) == 0


def test_the_inbox_refuses_what_is_too_much_and_keeps_rechecks_single() -> None:
    inbox = Inbox(most=2)
    assert inbox.report(0, CheckpointDone(0, 1))
    assert inbox.report(0, CheckpointDone(1, 1))
    assert not inbox.report(0, CheckpointDone(2, 1))
    for _ in range(5):
        inbox.recheck(3)
    taken = [item for item in (inbox.take(0.0) for _ in range(4)) if item is not None]
    assert [type(item.what) for item in taken] == [CheckpointDone, CheckpointDone, Recheck]


@pytest.mark.parametrize("reason", ["status_403", "status_422"])
def test_one_region_that_cannot_be_written_does_not_hold_up_another(reason: str) -> None:
    other = Region(msgspec.structs.replace(periodic().spec, region_index=1), periodic().status)
    world = World(periodic(), other).listed().well()
    world.server.refuse = [Permanent("kubernetes", reason, "refused")]
    world.play(OperatorReset("person", False), region=0)
    world.play(OperatorReset("person", False), region=1)
    assert world.consumer.regions[0].status.state is State.PROCESSING
    assert world.consumer.regions[1].status.state is State.RESETTING
    world.settle(0.2)
    assert world.consumer.regions[0].status.state is State.RESETTING


def test_a_failure_that_nobody_foresaw_is_tried_again_and_not_waited_for_for_ever() -> None:
    world = World(periodic())
    world.server.refuse = [KeyError("resourceVersion")]
    world.listed().well()
    assert world.server.writes == []
    world.settle(10.0).well()
    assert world.state is State.PROCESSING


def test_a_resource_that_gets_another_index_is_one_region_still() -> None:
    world = World(periodic()).listed().well()
    resource = world.server.resource(0)
    spec = msgspec.structs.replace(resource.region.spec, region_index=7)
    world.inbox.watched(Seen(resource._replace(region=Region(spec, resource.region.status))))
    world.settle()
    assert set(world.consumer.regions) == set(world.consumer.shown) == {7}


def seen(world: World, version: int | None = None) -> RegionStatus:
    """An event of the region's resource as it is now, or as if of an earlier *version*; what the gauges show then."""
    resource = world.server.resource(0)
    world.inbox.watched(Seen(resource if version is None else resource._replace(version=str(version))))
    world.settle()
    return world.consumer.shown[0]


def test_the_gauges_show_a_resource_that_others_changed_and_the_region_is_not_written_for_it() -> None:
    world = World(periodic()).listed().well()
    theirs = msgspec.structs.replace(world.server.stored[0].status, last_completed_drain=7, avg_drain_time_metric=90)
    world.server.change(0, theirs)
    assert world.consumer.shown[0].last_completed_drain == -1  # nobody has said so yet
    writes = len(world.server.writes)
    assert seen(world) == theirs
    assert len(world.server.writes) == writes
    world.settle(5.0)  # the next write finds the change, and the region is taken up as after a restart
    assert world.consumer.shown[0].state is State.RESETTING
    assert world.consumer.shown[0] == world.server.stored[0].status


def test_an_event_that_is_older_than_the_last_write_does_not_turn_the_gauges_back() -> None:
    world = draining()
    before = world.server.stored[0]
    world.play(CheckpointDone(0, 1), CheckpointDone(1, 1))
    written, current = world.server.version, world.server.stored[0]
    world.server.stored[0] = before
    assert seen(world, written - 1) == current.status
    world.server.stored[0] = current
    assert seen(world, written) == current.status
    assert world.consumer.shown[0].last_completed_drain == 1


def test_the_gauges_show_a_region_from_its_first_event_to_its_last() -> None:
    world = World(periodic())
    world.server.refuse = [Temporary("kubernetes", "status_500", "no")]
    world.listed()
    assert world.consumer.shown == {0: periodic().status}  # added, though no write was accepted yet
    world.settle(1.0)
    world.inbox.watched(Gone("j-cr0"))
    world.settle()
    assert world.consumer.shown == {}


def asks(world: World, **changes: object) -> World:
    """Somebody changes the static part of region 0."""
    before = world.server.stored[0]
    world.server.stored[0] = Region(msgspec.structs.replace(before.spec, **changes), before.status)
    world.server.version += 1
    world.server.versions[0] = world.server.version
    world.inbox.watched(Seen(world.server.resource(0)))
    return world.settle()


def test_a_pe_that_leaves_in_a_drain_is_not_waited_for() -> None:
    world = draining().play(CheckpointDone(0, 1))
    asks(world, pes_in_region=(0,))
    assert (world.state, ids(world.consumer.regions[0])) == (State.PROCESSING, (2, 1, 2, 0))
    assert notification(world) == ("resumeSubmission", "seqId=2;retId=0;pendCkpt=0")
    assert world.server.stored[0].status.last_completed_seq_id == 1


def test_a_pe_that_comes_in_a_drain_was_not_told_of_it_and_the_reset_takes_it_in() -> None:
    world = draining().play(CheckpointDone(0, 1))
    asks(world, pes_in_region=(0, 1, 2))
    world.play(CheckpointDone(1, 1))
    assert (world.state, notification(world, 2)) == (State.DRAINING, None)
    world.settle(180.0)
    assert world.state is State.RESETTING
    assert notification(world, 2) == ("triggerReset", "seqId=0;resetAttempt=0")
    world.play(*(ResetDone(pe, 0, 0) for pe in (0, 1, 2)))
    assert world.state is State.PROCESSING


def test_an_element_that_is_deleted_in_a_drain_is_waited_for_until_the_drain_times_out() -> None:
    world = draining().play(CheckpointDone(0, 1))
    world.health = None  # its ProcessingElement is not there; the region still names it
    world.inbox.recheck(0)
    assert world.settle(179.0).state is State.DRAINING
    assert world.settle(1.0).state is State.RESETTING


def test_a_region_whose_trigger_changes_drains_as_the_new_one_says() -> None:
    world = World(periodic()).listed().well()
    asks(world, trigger=Trigger.OPERATOR, period=None, operators_to_trigger_map={"Src": True})
    assert world.settle(1000.0).state is State.PROCESSING
    asks(world, trigger=Trigger.PERIODIC, period=7.0)
    assert world.settle(6.0).state is State.PROCESSING
    assert world.settle(1.0).state is State.DRAINING
    assert notification(world) == ("triggerDrain", "seqId=1")


def test_a_list_forgets_what_is_not_in_it_and_keeps_what_it_cannot_read() -> None:
    """After a watch that broke off too long ago (410), a list tells what became of the regions meanwhile."""
    world = draining()
    world.inbox.watched(Listed([], frozenset({"j-cr0"})))
    world.settle()
    assert set(world.consumer.shown) == {0}
    world.inbox.watched(Listed([], frozenset()))
    world.settle()
    assert world.consumer.regions == {}


def test_a_status_that_cannot_be_read_stops_its_region_until_somebody_mends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = draining()
    good = world.server.stored[0].status
    world.server.change(0, msgspec.structs.replace(good, current_seq_id=9))  # another version, by somebody else
    read = world.server.region

    def unreadable(name: str) -> Resource:
        raise BadInput(f"ConsistentRegion {name}: status.currentSeqID: 9 is odd")

    monkeypatch.setattr(world.server, "region", lambda name: unreadable(name) if world.time < 60.0 else read(name))
    monkeypatch.setattr(world.server, "write", refuses_then(world.server.write, lambda: world.time < 60.0))
    world.play(CheckpointDone(0, 1), CheckpointDone(1, 1))
    writes = len(world.server.writes)
    for _ in range(5):
        assert world.settle(10.0).state is State.DRAINING
    assert len(world.server.writes) == writes
    world.settle(20.0)
    assert (world.state, notification(world)) == (State.RESETTING, ("triggerReset", "seqId=0;resetAttempt=0"))


def refuses_then(write: Callable[..., str], while_: Callable[[], bool]) -> Callable[..., str]:
    """A write that conflicts for as long as *while_* holds."""

    def refused(*arguments: object) -> str:
        if while_():
            raise Conflict("kubernetes", "status_409", "conflict")
        return write(*arguments)

    return refused
