"""The REST interface of the operator, and its page of metrics; worked case 21."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from jobs.regions.boards import Boards
from jobs.regions.gauges import GAUGES, Gauges
from jobs.regions.inbox import Inbox
from jobs.regions.rest import BASE, Refused, Rest
from rules.regions.events import (
    BlockingCheckpointDone,
    CheckpointDone,
    Event,
    Notification,
    OperatorDrain,
    OperatorReset,
    ResetDone,
)
from rules.regions.region import Region
from tests.support.regions import BecameHealthy, Played, driven, periodic

DRAIN = Notification("triggerDrain", "seqId=1")


class Asked:
    """A REST interface over a board and a queue, asked without a connection."""

    def __init__(self, *regions: Region, most: int = 100) -> None:
        self.boards, self.inbox = Boards(), Inbox(most)
        held = {each.spec.region_index: each for each in regions}
        self._rest = Rest(self.boards.of, self.boards.entry, held.get, self.inbox.report)

    def __call__(self, method: str, path: str, body: bytes = b"") -> tuple[int, Any]:
        try:
            answer = self._rest.answer(method, f"{BASE}/{path}", body)
        except Refused as error:
            return error.status, str(error)
        return answer.status, json.loads(answer.body) if answer.body else None

    def put(self) -> list[tuple[int, Event]]:
        """What was put into the queue."""
        taken = []
        while (item := self.inbox.take(0.0)) is not None:
            taken.append((item.region, item.what))
        return taken  # type: ignore[return-value]


def test_case_21_rest() -> None:
    asked = Asked(periodic())
    asked.boards.put(0, (0, 1), DRAIN)
    for _ in range(2):  # it is not consumed
        assert asked("GET", "pe/0") == (200, {"0": {"type": "triggerDrain", "message": "seqId=1"}})
    assert asked("GET", "pe/0/region/0") == (200, {"type": "triggerDrain", "message": "seqId=1"})
    for path in (
        "pe/7",
        "pe/7/region/0",
        "pe/0/region/7",
        "region/7/state",
        "pe/x",
        "pe/0/region/x",
        "region/x/state",
        "region/\N{ARABIC-INDIC DIGIT ZERO}/state",
        "pe/\N{ARABIC-INDIC DIGIT ZERO}",
    ):
        assert asked("GET", path)[0] == 404, path
    assert asked("PUT", "region/0/pe/0/checkpoint", b"1") == (204, None)
    assert asked("PUT", "region/0/pe/0/blockingcheckpoint", b" 1\n") == (204, None)
    reset = b'{"progress":{"seqId":"0","resetAttempt":"0"}}'
    assert asked("PUT", "region/0/pe/0/reset", reset) == (204, None)
    assert asked("PUT", "region/0/drain", b'{"request":{"seqId":"2","operator":"Src"}}') == (204, None)
    assert asked("PUT", "region/0/reset", b'{"request":{"operator":"Src","force":"false"}}') == (204, None)
    assert asked("PUT", "region/0/reset", b'{"request":{"operator":"Src"}}') == (204, None)
    assert asked("PUT", "region/0/reset", b'{"request":{"operator":"Src","force":"true"}}') == (204, None)
    assert asked("PUT", "region/77/pe/99/checkpoint", b"1") == (204, None)
    assert asked.put() == [
        (0, CheckpointDone(0, 1)),
        (0, BlockingCheckpointDone(0, 1)),
        (0, ResetDone(0, 0, 0)),
        (0, OperatorDrain("Src", 2)),
        (0, OperatorReset("Src", False)),
        (0, OperatorReset("Src", False)),
        (0, OperatorReset("Src", True)),
        (77, CheckpointDone(99, 1)),
    ]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("region/0/pe/0/checkpoint", b""),
        ("region/0/pe/0/checkpoint", b"one"),
        ("region/0/pe/0/checkpoint", b"-1"),
        ("region/0/pe/0/checkpoint", b"1.5"),
        ("region/0/pe/0/checkpoint", "١".encode()),
        ("region/0/pe/0/checkpoint", b"9" * 40),
        ("region/0/pe/0/blockingcheckpoint", b"{}"),
        ("region/0/pe/0/reset", b'{"progress":{"seqId":"0"}}'),
        ("region/0/pe/0/reset", b'{"progress":{"seqId":"zero","resetAttempt":"0"}}'),
        ("region/0/pe/0/reset", b"{"),
        ("region/0/pe/0/reset", b"\xff"),
        ("region/0/pe/0/reset", b"[" * 4000),
        ("region/0/drain", b'{"request":{"operator":"Src"}}'),
        ("region/0/drain", b'{"request":{"seqId":"x","operator":"Src"}}'),
        ("region/0/drain", b'{"request":{"seqId":true,"operator":"Src"}}'),
        ("region/0/reset", b'{"request":{"force":"true"}}'),
        ("region/0/reset", b'{"request":{"operator":"Src","force":"perhaps"}}'),
        ("region/zero/drain", b'{"request":{"seqId":"2","operator":"Src"}}'),
        ("region/0/pe/x/checkpoint", b"1"),
    ],
)
def test_a_malformed_request_is_400_and_nothing_is_put(path: str, body: bytes) -> None:
    asked = Asked(periodic())
    assert asked("PUT", path, body)[0] == 400
    assert asked.put() == []


def test_what_may_be_read_of_a_region() -> None:
    other = driven(Src=True)
    asked = Asked(periodic(), Region(replace(other.spec, region_index=1), other.status))
    assert asked("GET", "region/0/state") == (200, "STARTED")
    assert asked("GET", "region/0/lastcompletedseqid") == (200, 0)
    assert asked("GET", "region/0/trigger") == (200, "periodic")
    assert asked("GET", "region/1/trigger") == (200, "operator driven")
    assert asked("GET", "region/0/period") == (200, 5.0)
    assert asked("GET", "region/1/period") == (200, None)
    assert asked("GET", "region/0/draintimeout") == (200, 180.0)
    assert asked("GET", "region/0/resettimeout") == (200, 180.0)
    assert asked("GET", "region/0/maxconsecutiveresetattempts") == (200, 5)


def test_a_wrong_method_is_405_and_another_path_404() -> None:
    asked = Asked(periodic())
    assert asked("POST", "pe/0")[0] == 405
    assert asked("GET", "region/0/drain")[0] == 405
    assert asked("DELETE", "region/0/state")[0] == 405
    assert asked("GET", "")[0] == 404
    assert asked("PUT", "region/0/pe/0/kill", b"")[0] == 404


def test_a_full_queue_is_503() -> None:
    asked = Asked(periodic(), most=1)
    assert asked("PUT", "region/0/pe/0/checkpoint", b"1")[0] == 204
    assert asked("PUT", "region/0/pe/1/checkpoint", b"1")[0] == 503


def test_a_board_holds_one_entry_a_region_and_forgets_a_region() -> None:
    asked = Asked(periodic())
    asked.boards.put(0, (0, 1), DRAIN)
    asked.boards.put(3, (1,), Notification("drained", "seqId=4"))
    asked.boards.put(0, (0, 1), Notification("resumeSubmission", "seqId=2;retId=0;pendCkpt=0"))
    assert asked("GET", "pe/1")[1] == {
        "0": {"type": "resumeSubmission", "message": "seqId=2;retId=0;pendCkpt=0"},
        "3": {"type": "drained", "message": "seqId=4"},
    }
    asked.boards.clear(0)
    assert asked("GET", "pe/0")[0] == 404
    assert asked("GET", "pe/1")[1] == {"3": {"type": "drained", "message": "seqId=4"}}


def test_the_nine_gauges_have_their_names_and_label() -> None:
    play = Played(periodic(pes=(0,)))
    play(BecameHealthy(clean=True))
    play.over()
    play(CheckpointDone(0, 1))
    page = Gauges(lambda: {3: play.region.status}, lambda: {"events": 7}).page().decode()
    values = {
        "average_drain_time_milliseconds": 1000.0,
        "average_reset_time_milliseconds": 0.0,
        "last_consistent_state_time_milliseconds": float(play.now),
        "last_reset_time_milliseconds": 0.0,
        "last_completed_drain_seq_id": 1.0,
        "last_completed_reset_seq_id": -1.0,
        "state": 1.0,
        "n_current_reset_attempts": 0.0,
        "last_completed_seq_id": 1.0,
    }
    assert {name for name, _, _ in GAUGES} == set(values)
    lines = [line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#")]
    found = {name: float(value) for name, value in lines}
    for name, value in values.items():
        assert found[f'{name}{{ConsistentRegion="ConsistentRegion_3"}}'] == value, name
    assert found["colocation_region_operator_events_total"] == 7
    assert "process_cpu_seconds_total" in found
