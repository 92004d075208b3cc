"""Background work goes on beside the answers, and behind them."""

import os
import sys
import threading

import pytest

from jobs.service.periodic import Periodic


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread has no nice value of its own")
def test_background_threads_give_way_to_those_that_answer():
    seen: list[int] = []
    worked = threading.Event()

    def work() -> None:
        seen.append(os.getpriority(os.PRIO_PROCESS, 0))
        worked.set()

    before = os.getpriority(os.PRIO_PROCESS, 0)
    thread = Periodic("test", 60.0, work)
    thread.start()
    assert worked.wait(30)
    thread.close()
    assert seen[0] == min(before + 5, 19)
    assert os.getpriority(os.PRIO_PROCESS, 0) == before
