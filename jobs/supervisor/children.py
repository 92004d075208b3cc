"""Child processes of the supervisor: in a process group of their own, tied to it, ended when they take too long."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event, Lock

#: How long a child has between the request to end and being killed.
GRACE = 5.0

#: How much a job gives way (https://man7.org/linux/man-pages/man2/nice.2.html): some minutes' work waits for no pod.
_NICE = 10

Process = subprocess.Popen[bytes]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended: its exit code (negative: the signal), or that it ran into its limit."""

    code: int
    seconds: float
    timed_out: bool


def start(module: str, arguments: Sequence[str], pass_fds: Sequence[int] = (), *, quiet: bool = False) -> Process:
    """Start ``python -m MODULE ARGUMENT...``; call it from a thread that lives as long as the child may.

    The child reads nothing, and writes where the supervisor does; when *quiet*, on standard error alone, as lines of
    the log, and it gives way to those that answer where they share a core.
    """
    niceness = _NICE if quiet else 0
    logged = {"COLOCATE_LOGGED": "1"} if quiet else {}
    command = [sys.executable, "-m", "jobs.supervisor.leash", str(os.getpid()), str(niceness), module, *arguments]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL if quiet else None,
        start_new_session=True,
        pass_fds=tuple(pass_fds),
        env={**os.environ, **logged},
    )


def end(processes: Sequence[Process], grace: float | None = None) -> None:
    """Ask *processes* to end, wait, and kill with all their children what is left after *grace* (`GRACE`) seconds."""
    for process in processes:
        _signal(process, signal.SIGTERM)
    until = time.monotonic() + (GRACE if grace is None else grace)
    for process in processes:
        try:
            process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            _signal(process, signal.SIGKILL)
            process.wait()


def _signal(process: Process, number: signal.Signals) -> None:
    """Signal the whole group, which exists for as long as the child was not waited for."""
    if process.poll() is None:
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return


class Runner:
    """Runs children one at a time a thread, each at most for its limit; `stop` ends all and refuses more."""

    def __init__(self) -> None:
        self._running: set[Process] = set()
        self._stopped = Event()
        self._lock = Lock()

    def run(self, module: str, arguments: Sequence[str], limit: float) -> Ended | None:
        """Run a child to its end; None where the runner is stopped, before or meanwhile."""
        with self._lock:
            if self._stopped.is_set():
                return None
            began = time.monotonic()
            process = start(module, arguments, quiet=True)
            self._running.add(process)
        timed_out = False
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            timed_out = True
            end([process])
        finally:
            with self._lock:
                self._running.discard(process)
        if self._stopped.is_set():
            return None
        return Ended(process.returncode, time.monotonic() - began, timed_out)

    def stop(self) -> None:
        """End every child that runs."""
        with self._lock:
            self._stopped.set()
            running = list(self._running)
        end(running)
