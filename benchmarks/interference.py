"""Who disturbs whom, against the truth of simulated clusters: ``python -m benchmarks.interference``.

Every figure is a mean over seeds that nothing was tuned on, with the worst seed, beside what other methods say of the
same runs and what can be reached at all (`benchmarks.methods`).
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.metrics import f1_score

from benchmarks import simulator
from benchmarks.figures import Figure, table
from benchmarks.measures import (
    Bools,
    Floats,
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
from benchmarks.methods import methods
from benchmarks.worlds import fits, pair_table
from featurestore import classes, profiles
from featurestore.interference.decision import PairTable

#: Seeds of the reported worlds, fixed before any was looked at. Tuning used seeds below 1,000 and 70,001 to 70,030;
#: 90,001 to 90,010, 640,001 to 640,010 and 750,001 to 750,010 were reported once; the first are for tuning since.
SEEDS = tuple(range(760_001, 760_011))

SETTINGS: Mapping[str, simulator.Setting] = {
    "20 k": simulator.Setting(activations=20_000),
    "60 k": simulator.Setting(activations=60_000),
    "60 k multiplicative": simulator.Setting(activations=60_000, multiplicative=True),
    "60 k shared backend": simulator.Setting(activations=60_000, shared=12),
}

#: A large cluster, of which two seeds are run where all ten of the others are.
LARGE = "300 functions, 100 nodes"
_LARGE = simulator.Setting(functions=300, nodes=100, activations=100_000)


#: The clusters that follow advice.
ROOMY = simulator.Setting(activations=20_000, busy=1.2)


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
    for name, setting in SETTINGS.items():
        said[name] = [methods(simulator.world(seed, setting)) for seed in seeds]
    if scale >= 1:
        said[LARGE] = [methods(simulator.world(seed, _LARGE)) for seed in seeds[:2]]
    figures = [figure(measure, said[measure.setting]) for measure in MEASURES if measure.setting in said]
    return [*figures, *_advice(seeds), _following(seeds[:3]), *_classes(seeds), _speed()]


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
        beside={"worst seed": worst, **{name: mean for name, mean in means.items() if name != "ours"}},
    )


def believed(table: PairTable, functions: int) -> Floats:
    """Return slowdowns to place by [F, F]: the median where likely, else a usual one by its chance."""
    p = np.nan_to_num(table.probability)
    expected: Floats = np.where(p >= 0.5, np.nan_to_num(table.slowdown), 0.25 * p)
    return expected.reshape(functions, functions)


def _advice(seeds: Sequence[int], loads: int = 3) -> list[Figure]:
    """Return what placing by the advice gains on new load, as a share of what placing by the truth gains.

    Latency is waiting and running over the run's work; the gain is in its 95 % quantile over several new loads: over
    least loaded, and over the same policy that knows of no interference, which is most of what chance moves. Nodes
    have room to choose from: where they are full, waiting drowns everything else.
    """
    gained: list[tuple[float, float, float, float]] = []
    for seed in seeds:
        world = simulator.world(seed, ROOMY)
        functions = world.setting.functions
        learned = pair_table(simulator.run(world), world.node_type, functions, world.profile)
        follows = simulator.advised(world)
        believes = (np.zeros((functions, functions)), believed(learned, functions), world.slowdown)
        p95 = [np.mean([_p95(simulator.run(world, repeat=load + 1)) for load in range(loads)])]
        p95 += [
            np.mean([_p95(simulator.run(follows, each, repeat=n + 1)) for n in range(loads)]) for each in believes
        ]
        gained.append(tuple(map(float, p95)))  # type: ignore[arg-type]
    least, nothing, advised, truth = np.array(gained).T
    shares = (least - advised) / (least - truth)
    below = 1 - advised / least
    note = f"worst seed {shares.min():.2f}; p95 {below.mean():.0%} below least loaded, at worst {below.min():.0%}"
    share = float((least - advised).sum() / (least - truth).sum())
    strict = float((nothing - advised).sum() / (nothing - truth).sum())
    more = f"the truth takes p95 {float((1 - truth / nothing).mean()):.1%} below that policy"
    return [
        Figure(
            "share of the truth's gain over least loaded",
            share,
            "",
            goal=">= 0.85, aim 0.90",
            met=share >= 0.85,
            note=note,
        ),
        Figure("share of the truth's gain over the policy without knowledge", strict, "", note=more),
    ]


def _following(seeds: Sequence[int], rounds: int = 4) -> Figure:
    """Return the share of surely learned pairs that stay known while the cluster follows the advice for some rounds.

    Each round is new load placed by what is believed, and is learned from together with all before it.
    """
    stayed, starved = [], []
    for seed in seeds:
        world = simulator.world(seed, ROOMY)
        functions, follows = world.setting.functions, simulator.advised(world)
        history = simulator.run(world)
        table = pair_table(history, world.node_type, functions, world.profile)
        sure = world.interferes[table.victim, table.aggressor] & (np.nan_to_num(table.probability) >= 0.9)
        first = table.effective_overlaps
        for turn in range(1, rounds + 1):
            before = table.effective_overlaps
            history = simulator.followed(history, simulator.run(follows, believed(table, functions), repeat=turn))
            table = pair_table(history, world.node_type, functions, world.profile)
        stayed.append(float((np.nan_to_num(table.probability)[sure] >= 0.5).mean()))
        starved.append(float((table.effective_overlaps - before)[sure].sum() / max(first[sure].sum(), 1e-9)))
    value = float(np.mean(stayed))
    note = f"worst {min(stayed):.2f}; their overlaps in the last round {np.mean(starved):.0%} of the first"
    name = f"known pairs kept over {rounds} rounds of advice"
    return Figure(name, value, "", goal=">= 0.95", met=value >= 0.95, note=note)


def _classes(seeds: Sequence[int]) -> list[Figure]:
    """Return macro-F1 of the dominant class where measured, and where a third of the functions is not measured."""
    measured, guessed, majority = [], [], []
    for seed in seeds:
        world = simulator.world(seed, SETTINGS["20 k"])
        functions = world.setting.functions
        truth = [profiles.dominant(row) for row in world.demand]
        named = [profiles.dominant(row) for row in world.profile]
        measured.append(f1_score(truth, named, average="macro", zero_division=0))
        told = fits(simulator.run(world), world.node_type, functions)
        hurt = np.stack([np.log1p(np.where(fit.se < 0.25, fit.slowdown, np.nan)) for fit in told])
        score = classes.predict(classes.effects(hurt, named), {"dominant": named}).scores.get("dominant", {})
        guessed.append(score.get("macro_f1", np.nan))
        majority.append(score.get("majority", np.nan))
    value = float(np.mean(measured))
    note = f"worst {min(measured):.2f}"
    other = f"worst {np.nanmin(guessed):.2f}; majority class {np.nanmean(majority):.2f}"
    return [
        Figure("macro-F1 of the dominant class, measured", value, "", goal=">= 0.95", met=value >= 0.95, note=note),
        Figure("macro-F1 of the dominant class, held out", float(np.nanmean(guessed)), "", note=other),
    ]


def _p95(records: simulator.Records) -> float:
    return float(np.quantile((records.end - records.start + records.wait) / records.work, 0.95))


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


if __name__ == "__main__":
    found = run(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0)
    print(table(found))
    sys.exit(any(figure.met is False for figure in found))
