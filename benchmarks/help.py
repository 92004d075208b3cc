"""``colocate --help`` against the import of typer alone: processor time, of a whole process each."""

import os
import resource
import subprocess
import sys
from collections.abc import Sequence

from benchmarks.figures import Figure, timing

NAME = "help"
ROUNDS = 11
#: What help may cost, as a multiple of a process that only imports typer.
_GOAL = 2.0
_SIDES = {
    "typer": ("-c", "import typer"),
    "help": ("-m", "jobs.cli", "--help"),
    "help of a command": ("-m", "jobs.cli", "recommend", "--help"),
}


def _cpu(arguments: Sequence[str]) -> float:
    """Seconds of processor time, user and system, of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "COLUMNS": "80"}
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, env=environment, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run(scale: float) -> list[Figure]:
    """Measure; *scale* changes nothing."""
    taken: dict[str, list[float]] = {name: [] for name in _SIDES}
    for number in range(ROUNDS + 1):
        for name, arguments in _SIDES.items():
            cpu = _cpu(arguments)
            if number:
                taken[name].append(cpu)
    floor = timing(taken["typer"])
    root, of_command = timing(taken["help"]), timing(taken["help of a command"])
    ratio = root.median / floor.median
    return [
        Figure("CPU of help", root.median, "s", floor.median, ratio, root.spread, "at most twice", ratio <= _GOAL),
        Figure(
            "CPU of a command's help", of_command.median, "s", floor.median, of_command.median / floor.median,
            of_command.spread, note="typer imports pydantic for any command with options",
        ),
    ]  # fmt: skip
