"""Who disturbs whom, against the truth of simulated clusters: ``python -m benchmarks.interference``.

Every figure is a mean over seeds that nothing was tuned on, with the worst seed, beside what other methods say of the
same runs and what can be reached at all (`benchmarks.methods`).
"""

import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks import demo_slowdowns, dominant, exposure, learning, placed, simulator
from benchmarks.bounds import short_of_aim
from benchmarks.figures import Figure, table
from benchmarks.measures import (
    Bools,
    Pairs,
    all_pairs,
    auroc,
    brier_skill,
    calibration_error,
    f1,
    never_pairs,
    often_pairs,
    precision,
    recall,
    seen_pairs,
    some_pairs,
)
from benchmarks.methods import methods, observed
from benchmarks.worlds import pair_table
from featurestore.interference.evidence import VictimFit

#: Seeds of the reported worlds, fixed before any was looked at. Tuning used seeds below 1,000 and 70,001 to 70,030;
#: 90,001 to 90,010, 640,001 to 640,010, 750,001 to 750,010 and 760,001 to 760,010 were reported once.
SEEDS = tuple(range(770_001, 770_011))

SETTINGS: Mapping[str, simulator.Setting] = {
    "20 k": simulator.Setting(activations=20_000),
    "60 k": simulator.Setting(activations=60_000),
    "60 k multiplicative": simulator.Setting(activations=60_000, multiplicative=True),
    "60 k shared backend": simulator.Setting(activations=60_000, shared=12),
}

#: A large cluster, of which two seeds are run where all ten of the others are.
LARGE = "300 functions, 100 nodes, 2 worlds"
_LARGE = simulator.Setting(functions=300, nodes=100, activations=100_000)


@dataclass(frozen=True, slots=True)
class Measure:
    """A row of the table: what is measured on which pairs of which setting, the floor and the aim."""

    name: str
    setting: str
    of: Callable[[Pairs, Bools], float]
    where: Callable[[Pairs], Bools]
    floor: float
    aim: float
    less_is_better: bool = False


MEASURES = (
    Measure("F1, >= 100 overlaps", "20 k", f1, often_pairs, 0.90, 0.95),
    Measure("F1, >= 100 overlaps", "60 k", f1, often_pairs, 0.90, 0.95),
    Measure("F1, >= 100 overlaps", "60 k multiplicative", f1, often_pairs, 0.90, 0.95),
    Measure("F1, 30-100 overlaps", "20 k", f1, some_pairs, 0.75, 0.88),
    Measure("F1, 30-100 overlaps", "60 k", f1, some_pairs, 0.75, 0.88),
    Measure("F1, all pairs", "20 k", f1, all_pairs, 0.0, 0.75),
    Measure("F1, all pairs", "60 k", f1, all_pairs, 0.0, 0.85),
    Measure("precision at .9", "20 k", precision, seen_pairs, 0.97, 0.97),
    Measure("precision at .9", "60 k", precision, seen_pairs, 0.97, 0.97),
    Measure("precision at .9", "60 k shared backend", precision, seen_pairs, 0.95, 0.97),
    Measure("recall at .9", "60 k shared backend", recall, seen_pairs, 0.0, 0.55),
    Measure("AUROC never seen", "20 k", auroc, never_pairs, 0.87, 0.93),
    Measure("AUROC never seen", "60 k", auroc, never_pairs, 0.87, 0.93),
    Measure("ECE seen", "20 k", calibration_error, seen_pairs, 0.04, 0.02, True),
    Measure("ECE seen", "60 k", calibration_error, seen_pairs, 0.04, 0.02, True),
    Measure("ECE never seen", "20 k", calibration_error, never_pairs, 0.04, 0.03, True),
    Measure("ECE never seen", "60 k", calibration_error, never_pairs, 0.04, 0.03, True),
    Measure("Brier skill seen", "20 k", brier_skill, seen_pairs, 0.0, 0.0),
    Measure("Brier skill seen", "60 k", brier_skill, seen_pairs, 0.0, 0.0),
    Measure("Brier skill never seen", "20 k", brier_skill, never_pairs, 0.0, 0.0),
    Measure("Brier skill never seen", "60 k", brier_skill, never_pairs, 0.0, 0.0),
    Measure("F1, >= 100 overlaps", LARGE, f1, often_pairs, 0.0, 0.95),
    Measure("AUROC never seen", LARGE, auroc, never_pairs, 0.0, 0.93),
)


def run(scale: float = 1.0) -> list[Figure]:
    """Return the figures over ``10 * scale`` seeds (at least two)."""
    seeds = SEEDS[: max(2, min(len(SEEDS), round(10 * scale)))]
    said: dict[str, list[dict[str, Pairs]]] = {}
    worlds: list[simulator.World] = []
    fitted: list[list[VictimFit]] = []
    for name, setting in SETTINGS.items():
        said[name] = []
        for seed in seeds:
            world = simulator.world(seed, setting)
            seen = observed(world)
            said[name].append(methods(world, seen))
            print(f"{time.strftime('%H:%M:%S')} {name}: world {seed}", file=sys.stderr, flush=True)
            if name == "20 k":
                worlds.append(world)
                fitted.append(seen.fits)
    if scale >= 1:
        said[LARGE] = [methods(simulator.world(seed, _LARGE)) for seed in seeds[:2]]
    figures = [figure(measure, said[measure.setting]) for measure in MEASURES if measure.setting in said]
    return [*figures, *placed.advice(seeds), placed.following(seeds[:3]), *dominant.told(worlds, fitted), _speed()]


def figure(measure: Measure, worlds: Sequence[Mapping[str, Pairs]]) -> Figure:
    """Return the means of *measure* over *worlds*; met where ours reaches the floor and the naive row does not do
    better (Brier skill and others without a floor: naive alone)."""
    rows = {name: [measure.of(world[name], measure.where(world[name])) for world in worlds] for name in worlds[0]}
    means = {name: float(np.nanmean(values)) if np.isfinite(values).any() else 0.0 for name, values in rows.items()}
    less = measure.less_is_better
    worst = float(np.nanmax(rows["ours"]) if less else np.nanmin(rows["ours"]))
    value, naive = means["ours"], means["naive"]
    met = value <= min(measure.floor, naive) if less else value >= max(measure.floor, naive)
    low, high = np.nanpercentile(rows["ours"], [25, 75])
    return Figure(
        f"{measure.name}, {measure.setting}",
        value,
        "",
        naive,
        value / naive if naive else None,
        float((high - low) / value) if value else None,
        f"{'<=' if less else '>='} {measure.floor:.2f}, aim {measure.aim:.2f}",
        met,
        beside={
            "aim": measure.aim,
            "worst seed": worst,
            **{name: mean for name, mean in means.items() if name != "ours"},
        },
    )


def _speed() -> Figure:
    """Return the seconds of a full fit of 60,000 activations of 40 functions, from records to the pair table."""
    world = simulator.world(SEEDS[0], SETTINGS["60 k"])
    records = simulator.run(world)
    taken = []
    for _ in range(3):
        began = time.perf_counter()
        pair_table(records, world.node_type, world.setting.functions, world.profile)
        taken.append(time.perf_counter() - began)
    seconds = float(np.median(taken))
    note = f"{len(records.start)} activations"
    return Figure("full fit, two threads", seconds, "s", goal="<= 8, aim 5", met=seconds <= 8, note=note)


def main(arguments: Sequence[str]) -> int:
    """Print the whole table, part by part as it comes; exit 1 where a figure missed its floor.

    Beside the simulated clusters: exposures and learning as a user runs it (time, memory, the fold), and what was
    learned of the demo's recorded contention against what the recorder measured.
    """
    scale = float(arguments[0]) if arguments else 1.0
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    print(f"{machine}; seeds {SEEDS[0]} to {SEEDS[-1]}, scale {scale:g}")
    figures: list[Figure] = []
    for name, part in PARTS.items():
        found = part(scale)
        print("\n".join(["", f"## {name}", table(found), *short_of_aim(found)]), flush=True)
        figures += found
    missed = [each.name for each in figures if each.met is False]
    print(f"\n{len(figures)} figures, {len(missed)} missed their floor{': ' if missed else ''}{'; '.join(missed)}")
    return 1 if missed else 0


#: What the command prints, in order.
PARTS: Mapping[str, Callable[[float], list[Figure]]] = {
    "simulated clusters": run,
    "learning through the store": learning.run,
    "exposures": exposure.usual,
    "the demo's recorded contention": demo_slowdowns.run,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
