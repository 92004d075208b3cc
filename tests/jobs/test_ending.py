"""`jobs.ending`: what a signal handler sets."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

import pytest

from jobs.ending import Ending, orderly


def test_a_wait_ends_soon_after_it_was_set_and_says_so() -> None:
    ending = Ending()
    assert not ending.wait(0.0)
    threading.Timer(0.05, ending.set).start()
    began = time.monotonic()
    assert ending.wait(60.0)
    assert time.monotonic() - began < 30.0
    assert ending.is_set()
    assert ending.wait(60.0), "once set, it stays set"
    assert ending.wait(60.0)


def test_a_signal_in_the_midst_of_a_wait_ends_it() -> None:
    ending = Ending()
    before = signal.signal(signal.SIGUSR1, lambda *_: ending.set())
    main = threading.get_ident()
    try:
        threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGUSR1)).start()
        assert ending.wait(60.0)
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize(("kind", "blocks"), [(Ending, False), (threading.Event, True)])
def test_a_handler_may_set_it_at_any_point_of_a_wait(kind: Callable[[], Ending], blocks: bool) -> None:
    """A handler runs between any two steps of the thread that waits: here one runs at each of them.

    Python's own event is the counter-example that shows that the check can fail.
    """
    assert _blocks(kind) is blocks


HANGING = """
import signal, sys, threading
from jobs.ending import Ending, on_signals
ending = Ending()
on_signals(ending.set, limit=0.5)
def closing_for_ever():
    for _ in range(100):
        signal.raise_signal(signal.SIGTERM)
        threading.Event().wait(0.1)
{before}
signal.raise_signal(signal.SIGTERM)
assert ending.is_set()
{after}
"""


def ended(before: str = "", after: str = "") -> "subprocess.CompletedProcess[str]":
    script = HANGING.format(before=before, after=after)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)


def test_an_end_that_hangs_is_over_at_its_limit_however_often_it_is_asked_for_and_says_where_it_hung() -> None:
    found = ended(after="closing_for_ever()")
    assert found.returncode == 1
    assert "closing_for_ever" in found.stderr


def test_an_end_without_a_standard_error_is_an_end_all_the_same() -> None:
    found = ended(before="sys.stderr.close(); sys.stderr = None", after="print('over')")
    assert (found.returncode, found.stdout) == (0, "over\n")


def test_threads_that_are_left_within_duckdb_do_not_abort_an_end_in_order() -> None:
    script = """
import threading, time
import duckdb
from jobs.ending import orderly

def work():
    con = duckdb.connect()
    while True:
        con.sql("SELECT * FROM range(1000)").to_arrow_table()

def left():
    for _ in range(6):
        threading.Thread(target=work, daemon=True).start()
    time.sleep(0.3)
    print("done")
    return 3

raise SystemExit(orderly(left))
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (3, "done\n", "")


def test_who_leaves_no_threads_returns() -> None:
    assert orderly(lambda: 3) == 3


def _blocks(kind: Callable[[], Ending]) -> bool:
    event = kind()
    over = threading.Event()
    within = False

    def step(frame: FrameType, what: str, argument: object) -> Callable[..., object]:
        nonlocal within
        frame.f_trace_opcodes = True
        if not within:
            within = True
            event.set()
            within = False
        return step

    def waiting() -> None:
        sys.settrace(step)
        event.wait(0.01)
        sys.settrace(None)
        over.set()

    threading.Thread(target=waiting, daemon=True).start()
    return not over.wait(2.0)
