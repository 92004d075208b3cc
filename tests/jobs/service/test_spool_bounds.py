"""Decisions on their way to the history: bounded, in batches, none written twice."""

from collections.abc import Sequence

import pytest

from jobs.service.decide import Decided
from jobs.service.review import AdmissionRequest, GroupVersionKind
from jobs.service.spool import Spool
from tests.support.service import decided, wait_until


def _one(number: int) -> Decided:
    return decided(AdmissionRequest(uid=f"u-{number}", kind=GroupVersionKind("Pod")))


def test_what_waits_is_written_in_batches_in_order() -> None:
    batches: list[Sequence[Decided]] = []
    spool = Spool(batches.append, lambda _: None, room=5000)
    assert all(spool(_one(number)) for number in range(2500))
    spool.flush()
    assert [len(batch) for batch in batches] == [1000, 1000, 500]
    assert [one.kept.decision for batch in batches for one in batch] == [f"u-{number}" for number in range(2500)]
    spool.flush()
    assert batches[3:] == [[]]


def test_beyond_the_room_decisions_are_refused_until_there_is_some() -> None:
    spool = Spool(lambda _: None, lambda _: None, room=2)
    assert [spool(_one(number)) for number in range(3)] == [True, True, False]
    spool.flush()
    assert spool(_one(4))
    assert [one.kept.decision for one in spool.recent] == ["u-0", "u-1", "u-2", "u-4"]


def test_a_batch_that_cannot_be_written_is_told() -> None:
    lost: list[int] = []

    def fail(_batch: Sequence[Decided]) -> None:
        raise OSError("disk full")

    spool = Spool(fail, lost.append)
    spool(_one(1))
    spool(_one(2))
    with pytest.raises(OSError, match="disk full"):
        spool.flush()
    assert lost == [2]


def test_the_thread_writes_by_itself_and_the_rest_at_the_end() -> None:
    written: list[str] = []
    spool = Spool(lambda batch: written.extend(one.kept.decision for one in batch), lambda _: None, seconds=0.01)
    spool.start()
    spool(_one(1))
    wait_until(lambda: written == ["u-1"])
    spool(_one(2))
    spool.close()
    assert written == ["u-1", "u-2"]
