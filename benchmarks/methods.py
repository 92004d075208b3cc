"""What each method says of the pairs of one simulated cluster: ours, the obvious ones, and those that know more.

*naive*: mean time beside a function over mean time without it, flagged above 10 %. Of pairs that never met it says
nothing, and whoever goes by it takes them for harmless: probability 0. *constant*: every pair has the true share.
*row+column*: what victim and aggressor do on average, leaving the pair out. *oracle*: our method given each run's
true input size; for pairs never seen, every other pair's truth.

What can be reached at all: *latent* knows every demand and sensitivity, but no run. *informed* knows these and how
slowdowns are distributed, and weighs the very evidence that we have by Bayes' rule: no decision about these runs by
this estimator can be better. *kept* is what our own probabilities score where truth is drawn from them: the
calibration error that chance alone leaves among so few pairs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats
from threadpoolctl import threadpool_limits

from benchmarks import simulator
from benchmarks.measures import Bools, Floats, Pairs
from benchmarks.worlds import designs, fits, naive_ratio
from featurestore.interference.decision import PairTable
from featurestore.interference.evidence import Evidence, Options, Predictions, VictimFit
from featurestore.interference.groups import FLOOR
from featurestore.interference.pairs import learn
from featurestore.interference.transfer import predict
from featurestore.interference.weighing import weigh

Ints = NDArray[np.int64]

#: Draws of what demand and sensitivity leave open, for each pair the same; and pairs that are weighed at once.
_DRAWS, _AT_ONCE = 2000, 5000


@dataclass(frozen=True, slots=True)
class Observed:
    """What was seen of a world, and the fits of all its victims."""

    records: simulator.Records
    fits: list[VictimFit]


def observed(world: simulator.World) -> Observed:
    """Run *world* and fit its victims."""
    records = simulator.run(world)
    return Observed(records, fits(records, world.node_type, world.setting.functions))


def methods(world: simulator.World, seen: Observed | None = None) -> dict[str, Pairs]:
    """Return what each method says of the pairs of *world*, of which *seen* was observed."""
    seen = seen or observed(world)
    records, fitted = seen.records, seen.fits
    functions = world.setting.functions
    ours = learned(fitted, world.profile)
    sized = (records.end - records.start - records.initialisation) / records.work
    known = learned(fits(records, world.node_type, functions, execution=sized), world.profile)
    truth = world.interferes[ours.victim, ours.aggressor]
    never = ours.effective_overlaps == 0
    answers = {
        "ours": ours.probability,
        "naive": naive(records, world.node_type, functions),
        "constant": np.full(len(truth), world.setting.interfering),
        "row+column": row_and_column(ours, functions),
        "oracle": np.where(never, _told(world, ours), known.probability),
        "latent": _latent(world)[ours.victim, ours.aggressor],
        "informed": _informed(world, fitted),
        "kept": ours.probability,
    }
    found = {name: Pairs(p, truth, ours.effective_overlaps) for name, p in answers.items()}
    return found | {"kept": Pairs(ours.probability, _drawn(ours.probability, world.seed), ours.effective_overlaps)}


def learned(fitted: Sequence[VictimFit], profile: Floats) -> PairTable:
    """Return the pair table that the product would learn from the fits of all victims."""
    with threadpool_limits(1):
        return learn(fitted, profile).whole(len(fitted))


def naive(records: simulator.Records, node_type: Ints, functions: int) -> Floats:
    """Return the obvious statistic as a probability [F * F]: .5 at a ratio of 1.1, 0 where it says nothing."""
    ratio = np.concatenate([naive_ratio(design) for design in designs(records, node_type, functions)])
    return np.where(np.isfinite(ratio), np.clip(0.5 + (ratio - 1.1), 0.0, 1.0), 0.0)


def _drawn(probability: Floats, seed: int) -> Bools:
    """Return truths drawn from *probability* [k], as if it were kept."""
    p = np.nan_to_num(probability, nan=0.12)
    found: Bools = np.random.default_rng([seed, 17]).random(len(p)) < p
    return found


def _score(world: simulator.World) -> tuple[Floats, float, float]:
    """Return what demand and sensitivity alone say of each pair's score [F, F], how much they leave open (standard
    deviation), and above which score a pair interferes."""
    clash = world.sensitivity @ world.demand.T
    score: Floats = np.sqrt(1 - world.setting.unexplained) * (clash - clash.mean()) / clash.std()
    noise = float(np.sqrt(world.setting.unexplained))
    edge = optimize.brentq(lambda at: stats.norm.sf((at - score) / noise).mean() - world.setting.interfering, -9, 9)
    return score, noise, float(edge)


def _latent(world: simulator.World) -> Floats:
    """Return the chance of interfering [F, F] for one who knows every demand and sensitivity, and no run at all."""
    score, noise, edge = _score(world)
    found: Floats = stats.norm.sf((edge - score) / noise)
    return found


def _informed(world: simulator.World, fitted: Sequence[VictimFit]) -> Floats:
    """Return the probability [F * F] of interfering given our evidence, every demand and sensitivity, and the law by
    which slowdowns come of them (`simulator.world`), by draws of what is left open.

    The likelihood is the one that our decision sees: normal in log(1 + slowdown), the victim's other aggressors
    integrated out, here under what demand and sensitivity say of them.
    """
    prior = _latent(world)
    with threadpool_limits(1):
        weighed = weigh(fitted, Options(), Predictions.of(prior))
    known = np.isfinite(weighed.middle) & np.isfinite(weighed.spread)
    found = prior.ravel().copy()
    score, noise, edge = _score(world)
    draw = np.random.default_rng([world.seed, 19])
    level = stats.norm.ppf((np.arange(_DRAWS) + 0.5) / _DRAWS)
    share, harmless = draw.permutation(np.linspace(0.6, 1.05, _DRAWS)), np.abs(draw.normal(0, 0.012, _DRAWS))
    most = float(np.mean([(score + noise * draw.normal(size=score.shape)).max() for _ in range(20)]))
    rows, place = np.flatnonzero(known), weighed.pairs.victim * len(prior) + weighed.pairs.aggressor
    for first in range(0, len(rows), _AT_ONCE):
        part = rows[first : first + _AT_ONCE]
        drawn = score.ravel()[place[part], None] + noise * level
        above = np.clip((drawn - edge) / (most - edge), 0.0, 1.0)
        slowdown = np.where(drawn >= edge, 0.11 + 0.9 * above * share, harmless)
        variance = (weighed.spread[part] * weighed.groups.widening) ** 2 + FLOOR**2
        gap = np.square(np.log1p(slowdown) - weighed.middle[part, None]) / variance[:, None]
        likely = np.exp(-0.5 * (gap - gap.min(axis=1, keepdims=True)))
        found[place[part]] = (likely * (drawn >= edge)).sum(axis=1) / likely.sum(axis=1)
    return found


def row_and_column(ours: PairTable, functions: int) -> Floats:
    """Return, for each pair, the mean probability of the victim's and the aggressor's other seen pairs."""
    seen = (ours.effective_overlaps >= 30).reshape(functions, functions)
    p = np.where(seen, np.nan_to_num(ours.probability).reshape(functions, functions), 0.0)
    row = (p.sum(axis=1, keepdims=True) - p + 0.12) / (seen.sum(axis=1, keepdims=True) - seen + 1)
    column = (p.sum(axis=0, keepdims=True) - p + 0.12) / (seen.sum(axis=0, keepdims=True) - seen + 1)
    found: Floats = np.clip(row + column - p.sum() / max(seen.sum(), 1), 0.0, 1.0).ravel()
    return found


def _told(world: simulator.World, ours: PairTable) -> Floats:
    """Return predictions for pairs never seen from the true labels of all pairs seen."""
    functions = world.setting.functions
    seen = (ours.effective_overlaps > 0).reshape(functions, functions)
    odds = np.where(seen, np.where(world.interferes, 6.0, -6.0), np.nan)
    found = predict(Evidence.of(odds, seen.astype(np.float64)), world.profile, world.setting.interfering)
    return np.full(len(ours.victim), np.nan) if found is None else found.at(ours.victim, ours.aggressor)
