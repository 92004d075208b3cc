"""What a killed serving process had not written is known to its successor."""

import os
import sys
from collections.abc import Iterator, Sequence

import pytest

from jobs.service.decide import Decided
from jobs.service.review import AdmissionRequest, GroupVersionKind
from jobs.service.spool import Spool
from jobs.service.unwritten import Unwritten, shared
from tests.support.service import decided

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory without a file")


@pytest.fixture
def memory() -> Iterator[int]:
    descriptor = shared(2)
    assert descriptor is not None
    yield descriptor
    os.close(descriptor)


def _one(number: int) -> Decided:
    return decided(AdmissionRequest(uid=f"u-{number}", kind=GroupVersionKind("Pod")))


def test_the_next_in_the_slot_learns_how_many_were_taken_and_not_written(memory: int) -> None:
    lost: list[int] = []
    spool = Spool(lambda batch: None, lost.append, room=5, unwritten=Unwritten(memory, 1))
    for number in range(3):
        spool(_one(number))
    spool.flush()
    for number in range(7):  # two more than there is room for, which whoever asks counts
        spool(_one(number))
    assert Unwritten(memory, 0).inherit() == 0
    assert Unwritten(memory, 1).inherit() == 5
    assert Unwritten(memory, 1).inherit() == 0
    assert lost == []


def test_what_could_not_be_written_is_told_once(memory: int) -> None:
    def fail(batch: Sequence[Decided]) -> None:
        raise OSError("disk full")

    lost: list[int] = []
    spool = Spool(fail, lost.append, unwritten=Unwritten(memory))
    spool(_one(1))
    with pytest.raises(OSError, match="disk full"):
        spool.flush()
    assert (lost, Unwritten(memory).inherit()) == ([1], 0)


def test_a_process_of_its_own_has_numbers_of_its_own() -> None:
    first = Unwritten()
    first.take()
    assert (Unwritten().inherit(), first.inherit()) == (0, 1)


def test_where_no_such_memory_can_be_made_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(name: str) -> int:
        raise PermissionError(name)

    monkeypatch.setattr(os, "memfd_create", refused)
    assert shared(2) is None
    monkeypatch.delattr(os, "memfd_create")  # as of a Python that was built with an old C library
    assert shared(2) is None
