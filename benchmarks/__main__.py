"""``python -m benchmarks [NAME...] [--scale X] [--soak] [--results]``: run benchmarks and print their figures."""

import argparse
import importlib
import os
import platform
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from benchmarks import results
from benchmarks.figures import Figure, table

#: Every benchmark, a module of this package with ``run(scale) -> list[Figure]``; soaks have ``soak(scale)``.
BENCHMARKS = (
    "ingestion",
    "exposure",
    "cluster_reading",
    "advice",
    "hpa",
    "webhook",
    "workers",
    "interference",
    "learning",
    "learning_at_once",
    "spark",
    "demo_slowdowns",
    "disk_plans",
    "simulated_placement",
    "regions",
    "host_constraints",
    "binding",
    "growth",
    "retention",
    "cycle",
    "long_history",
    "help",
)
#: Where tables are kept that are worth keeping.
RESULTS = Path(__file__).with_name("RESULTS.md")
#: Where what is drawn of them is kept, for those that have ``picture(figures) -> str``.
PICTURES = RESULTS.parents[1] / "docs" / "pictures"
DEFAULT = ("ingestion", "exposure", "cluster_reading")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked; exit 1 where a figure missed its goal, or a benchmark broke."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; default {', '.join(DEFAULT)}"
    )
    parser.add_argument("--all", action="store_true", help="run every benchmark")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full size (default 1)")
    parser.add_argument(
        "--results", action="store_true", help="keep the tables in benchmarks/RESULTS.md, pictures in docs"
    )
    parser.add_argument("--soak", action="store_true", help="run the soaks instead")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.names if name not in BENCHMARKS]:
        parser.error(f"no benchmark named {unknown[0]}")
    names = BENCHMARKS if given.all or (given.soak and not given.names) else (given.names or DEFAULT)
    machine = (
        f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}, scale {given.scale:g}"
    )
    print(machine)
    figures: list[Figure] = []
    broken = []
    for name in names:
        module = importlib.import_module(f"benchmarks.{name}")
        job = getattr(module, "soak", None) if given.soak else module.run
        if job is None:
            continue
        try:
            found = job(given.scale)
        except Exception:  # the others are measured all the same; how it broke is for developers
            print(f"\n## {name}\n{traceback.format_exc()}", flush=True)
            broken.append(name)
            continue
        print(f"\n## {name}\n{table(found)}", flush=True)
        if given.results and found:  # one that was left out takes no place of what it found before
            parts = (
                name,
                *(["soak"] if given.soak else ()),
                *([f"scale {given.scale:g}"] if given.scale != 1 else ()),
            )
            results.keep(RESULTS, ", ".join(parts), machine, table(found))
            if (draw := getattr(module, "picture", None)) is not None and ", ".join(parts) == module.PICTURED:
                (PICTURES / f"{name}.svg").write_text(draw(found), encoding="utf-8")
        figures += found
    missed = [figure.name for figure in figures if figure.met is False]
    for what, which in (("missed", missed), ("broken", broken)):
        if which:
            print(f"\n{what}: {'; '.join(which)}")
    return 1 if missed or broken else 0


if __name__ == "__main__":
    sys.exit(main())
