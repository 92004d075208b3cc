"""What placing by the learned slowdowns is worth on simulated clusters, and whether it stays known while it works."""

from collections.abc import Sequence

import numpy as np

from benchmarks import simulator
from benchmarks.figures import Figure
from benchmarks.measures import Floats
from benchmarks.methods import row_and_column
from benchmarks.worlds import designs, naive_ratio, pair_table
from featurestore.interference.decision import PairTable

#: The clusters that follow advice.
ROOMY = simulator.Setting(activations=20_000, busy=1.2)
#: A slowdown that is usual of pairs that interfere: what a pair is feared by that is hardly known, times its chance.
_USUAL = 0.25
#: A world in which the truth takes less than this off the tail is told as one where placement gains nothing.
_LEAST_GAIN = 0.01
_GOAL = 0.85


def believed(table: PairTable, functions: int) -> Floats:
    """Return slowdowns to place by [F, F]: the median where likely, else a usual one by its chance."""
    p = np.nan_to_num(table.probability)
    expected: Floats = np.where(p >= 0.5, np.nan_to_num(table.slowdown), _USUAL * p)
    return expected.reshape(functions, functions)


def tails(seed: int, loads: int = 3) -> dict[str, float]:
    """Return the 95 % quantile of latency by what is placed by, the mean over several new loads of the world *seed*.

    Latency is waiting and running over the run's work. *least loaded* knows nothing; all others place by one policy
    that weighs speed, load and harm, and believe of harm: *nothing*, that every pair does the same (*constant*), what
    the obvious comparison says (*naive*), what victim and aggressor do on average (*row+column*), what we learned
    (*ours*), the *truth*.
    """
    world = simulator.world(seed, ROOMY)
    functions = world.setting.functions
    records = simulator.run(world)
    learned = pair_table(records, world.node_type, functions, world.profile)
    ratio = np.stack([naive_ratio(design) for design in designs(records, world.node_type, functions)])
    beliefs = {
        "nothing": np.zeros((functions, functions)),
        "constant": np.full((functions, functions), _USUAL * world.setting.interfering),
        "naive": np.maximum(np.nan_to_num(ratio, nan=1.0) - 1.0, 0.0),
        "row+column": _USUAL * row_and_column(learned, functions).reshape(functions, functions),
        "ours": believed(learned, functions),
        "truth": world.slowdown,
    }
    follows = simulator.advised(world)
    found = {"least loaded": np.mean([_p95(simulator.run(world, repeat=load + 1)) for load in range(loads)])}
    for name, belief in beliefs.items():
        found[name] = np.mean([_p95(simulator.run(follows, belief, repeat=load + 1)) for load in range(loads)])
    return {name: float(value) for name, value in found.items()}


def advice(seeds: Sequence[int]) -> list[Figure]:
    """Return what placing by the advice gains on new load, as a share of what placing by the truth gains.

    Each world counts by how much of its own tail is spared: the 95 % quantile of a cluster that is full is ten times
    that of others and moves by chance by more than all of these gain, so that a ratio of sums says what that one
    cluster did. It is told beside.
    """
    worlds = [tails(seed) for seed in seeds]
    least, nothing, ours, truth = (
        np.array([world[name] for world in worlds]) for name in ("least loaded", "nothing", "ours", "truth")
    )
    below = {name: 1 - np.array([world[name] for world in worlds]) / least for name in worlds[0]}
    gains = below["truth"] >= _LEAST_GAIN
    shares = below["ours"][gains] / below["truth"][gains]
    share = float(below["ours"].mean() / below["truth"].mean())
    plain = float((least - ours).sum() / (least - truth).sum())
    strict = float((1 - ours / nothing).mean() / (1 - truth / nothing).mean())
    told = (
        f"p95 {below['ours'].mean():.1%} below least loaded, the truth {below['truth'].mean():.1%}; at worst "
        f"{below['ours'].min():.1%}; {np.sum(~gains)} worlds in which the truth spares less than {_LEAST_GAIN:.0%}"
    )
    rows = {name: float(each.mean() / below["truth"].mean()) for name, each in below.items()}
    beside = {"aim": 0.90, "worst seed": float(shares.min())}
    beside |= {name: rows[name] for name in ("naive", "constant", "row+column", "nothing")}
    return [
        Figure(
            "share of the truth's gain over least loaded",
            share,
            "",
            rows["naive"],
            goal=f">= {_GOAL}, aim 0.90",
            met=share >= max(_GOAL, rows["naive"]),
            note=told,
            beside=beside,
        ),
        Figure("the same of the summed seconds, where one full cluster may outweigh all others", plain, ""),
        Figure(
            "share of the truth's gain over the policy without knowledge",
            strict,
            "",
            note=f"the truth takes p95 {float((1 - truth / nothing).mean()):.1%} below that policy",
        ),
    ]


def following(seeds: Sequence[int], rounds: int = 4) -> Figure:
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
    name = f"known pairs kept over {rounds} rounds of advice, {len(seeds)} worlds"
    return Figure(name, value, "", goal=">= 0.95", met=value >= 0.95, note=note)


def _p95(records: simulator.Records) -> float:
    return float(np.quantile((records.end - records.start + records.wait) / records.work, 0.95))
