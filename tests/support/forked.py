"""A command in a process of its own that is forked from one which has everything loaded.

Loading takes a process two seconds and its work often less; where a test is about processes (killed, at once, in
another time zone) and not about how one begins, the forked one is the same.
"""

import multiprocessing
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

CONTEXT = multiprocessing.get_context("forkserver")
#: What the process that forks has loaded; it is started by whoever asks first, and serves all tests of a worker.
LOADED = ("jobs.cli.main", "jobs.collect", "benchmarks.killing", "tests.support.region_operators")


def ready() -> None:
    """Say what is loaded, where nothing is yet."""
    CONTEXT.set_forkserver_preload(list(LOADED))


class Started:
    """A command with *arguments* that began in *home* with just *environment*."""

    def __init__(self, home: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        ready()
        self._files = tuple(home / f".{time.monotonic_ns()}.{name}" for name in ("out", "err"))
        self._process = CONTEXT.Process(target=_run, args=(home, arguments, dict(environment), *self._files))
        self._process.start()

    @property
    def returncode(self) -> int | None:
        """How it ended, negative by a signal; None while it runs."""
        return self._process.exitcode

    def communicate(self, timeout: float = 120.0) -> tuple[str, str]:
        """Wait for the end; return what was written to standard output and standard error."""
        self._process.join(timeout)
        assert not self._process.is_alive(), f"still running after {timeout} s"
        out, err = (file.read_text() if file.exists() else "" for file in self._files)
        return out, err

    def kill(self) -> None:
        """End it as ``kill -9`` does."""
        self._process.kill()


def _run(home: Path, arguments: Sequence[str], environment: Mapping[str, str], out: Path, err: Path) -> None:
    from jobs.cli.main import main

    os.chdir(home)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    for file, descriptor in ((out, 1), (err, 2)):
        with file.open("w") as opened:
            os.dup2(opened.fileno(), descriptor)
    sys.exit(main(arguments))
