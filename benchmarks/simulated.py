"""A simulated history as a file to import: ``python -m benchmarks.simulated [N] [--seed S] > history.csv``.

N activations (default 60,000) of 40 functions on 8 nodes of two types, as `benchmarks.simulator` runs them.
"""

import argparse
import csv
import sys
from collections.abc import Sequence
from typing import TextIO

from benchmarks import simulator

#: The columns that `colocate import activations` reads.
COLUMNS = (
    *("activation_id", "function", "start", "end", "duration_ms", "init_ms", "wait_ms", "status_code"),
    *("version", "node", "node_type"),
)
#: When the simulated days begin, epoch milliseconds (2026-01-05 00:00 UTC, a Monday).
_BEGIN_MS = 1_767_571_200_000


def name(function: int) -> str:
    """Return the name of a simulated function."""
    return f"guest/f{function:03d}"


def write(world: simulator.World, out: TextIO) -> int:
    """Write what *world* would have recorded; returns the number of activations.

    Where nobody knows the node, none is named.
    """
    records = simulator.run(world)
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    shift = _BEGIN_MS - int(records.start.min() * 1000)
    for i in range(len(records.start)):
        start, end = (round(float(at[i]) * 1000) + shift for at in (records.start, records.end))
        node = int(records.node[i])
        init = f"{1000 * records.initialisation[i]:.0f}" if records.cold[i] else ""
        writer.writerow(
            (
                f"{i:032x}",
                name(int(records.function[i])),
                start,
                end,
                end - start,
                init,
                f"{1000 * max(0.0, float(records.wait[i])):.0f}",
                0,
                f"0.0.{int(records.version[i]) + 1}",
                f"node{node}" if node >= 0 else "",
                f"type{int(world.node_type[node])}" if node >= 0 else "",
            )
        )
    return len(records.start)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write a history to standard output."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulated", description=__doc__)
    parser.add_argument("activations", nargs="?", type=int, default=60_000, help="how many, about (default 60,000)")
    parser.add_argument("--seed", type=int, default=1, help="another seed, another cluster (default 1)")
    given = parser.parse_args(arguments)
    write(simulator.world(given.seed, simulator.Setting(activations=given.activations)), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
