"""``colocate --help`` against the import of typer alone: processor time, of a whole process each."""

import os
import resource
import subprocess
import sys
from collections.abc import Sequence

from benchmarks.figures import Figure, timing

NAME = "help"
ROUNDS = 11
#: What help may cost: so many times a process that only imports typer, or so many seconds, whichever is more.
_TIMES, _SECONDS = 2.0, 0.25
_SAID = {"help": "CPU of help", "help of a command": "CPU of a command's help"}
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
    return [_figure(said, taken[name], floor.median) for name, said in _SAID.items()]


def _figure(said: str, taken: Sequence[float], floor: float) -> Figure:
    cost = timing(taken)
    met = cost.median <= max(_TIMES * floor, _SECONDS)
    return Figure(said, cost.median, "s", floor, cost.median / floor, cost.spread, "at most twice, or .25 s", met)
