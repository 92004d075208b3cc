"""The values that the interference estimator takes and gives (described at `featurestore.interference.victim`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int32]
Counts = NDArray[np.uint16]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Where it is not known who was there when runs ended.
NO_ENDING: Counts = np.zeros(0, np.uint16)

#: An estimate whose error is a larger share of what was believed beforehand tells little but that belief: where two
#: functions always ran together, the error is .8 of it, and nothing is known.
_SURE = 0.5
#: But one that is so many errors away from no effect was not made by a belief, whatever its error.
_SHOWN = 8.0
#: A neighbour hardly makes a run shorter: one that is told to, by more than this share and so many errors, shows that
#: the model does not hold for it, as of children that the victim starts and waits for.
_HELPFUL, _SURELY = 0.1, 5.0


@dataclass(frozen=True, slots=True)
class Options:
    """What the estimator and the decision take as given; the defaults hold for any cluster."""

    min_rows: int = 20  #: a victim with fewer successful activations is not fitted
    max_rows: int = 200_000  #: more rows are thinned evenly: time and memory stay bounded, errors are tiny there
    min_overlaps: float = 30.0  #: effective overlaps below which a pair's own evidence decides nothing
    min_effect: float = 0.05  #: slowdown that counts as interference
    false_discovery: float = 0.10  #: Benjamini-Hochberg level
    placebo_level: float = 0.01  #: false-discovery rate at which an effect from other nodes counts as shown
    interval: float = 0.90  #: mass of the stated interval
    column_overlaps: float = 2.0  #: rarer co-runners share one column
    max_columns: int = 400  #: the most overlapping co-runners have a column of their own
    huber: float = 2.0  #: residuals beyond so many standard deviations are pulled in
    prior_sd: float = 1.0  #: light ridge: standard deviation of a slowdown beforehand
    stretch: bool = True  #: exposures corrected for the time that the slowdown itself adds
    pseudo: float = 4.0  #: coefficients that a control group's variance beforehand is worth
    common_sd: float = 0.015  #: standard deviation of an error that all slowdowns of one victim share
    blocks: int = 24  #: time blocks of the clustered errors over the window
    iterations: int = 25  #: Gauss-Newton steps at most
    tolerance: float = 0.02  #: a step below this share of each standard error ends them


def sure(slowdown: Floats, se: Floats, options: Options) -> Bools:
    """Return which estimates [n] say more than what was believed beforehand, by their standard errors *se* [n]."""
    return np.asarray(se < np.maximum(_SURE * options.prior_sd, slowdown / _SHOWN), np.bool_)


def impossible(estimate: Floats, error: Floats) -> Bools:
    """Return which estimates [n] of log(1 + slowdown) with their *error* [n] no neighbour can have brought about."""
    return np.asarray(estimate < -np.maximum(_HELPFUL, _SURELY * error), np.bool_)


@dataclass(frozen=True, slots=True)
class Around:
    """How many activations ran in the whole cluster while each of n ran, on average (`concurrency.swept`): in all
    *everywhere* [n], of the functions *columns* [c] (ascending) *beside* [n, c], single as a fit's columns are."""

    everywhere: Floats
    columns: Ints
    beside: Singles


@dataclass(frozen=True, slots=True)
class VictimDesign:
    """The evidence of one victim: n activations, F functions.

    *execution* [n] is duration minus initialisation, seconds; *start*, *end* [n] seconds UTC of the whole run;
    *node*, *node_type* [n] codes; *indptr* [n + 1], *indices*, *values* the sparse exposure rows (CSR, columns
    0..F-1; self-pairs count the others). *throttled*, *pressure* [n] in 0..1, NaN where not known. *version* [n]
    codes of the action's version, image and limits, where several are given together. *around*, where it is known
    already: what of the whole cluster's concurrency belongs to the rows. *ending*, as *values* are: how many of each
    function ran right before the end; None: exposures are taken as if how long a run takes did not change them.
    """

    victim: int
    functions: int
    execution: Floats
    start: Floats
    end: Floats
    cold: Bools
    node: Ints
    node_type: Ints
    indptr: Ints
    indices: Ints
    values: Floats
    throttled: Floats | None = None
    pressure: Floats | None = None
    version: Ints | None = None
    around: Around | None = None
    ending: Counts | None = None


@dataclass(frozen=True, slots=True)
class _Fit:
    """What one victim's activations say about aggressors [a]: which ones, the two forms of a fit say. NaN where
    nothing can be said.

    *rows* are the victim's runs of a known time, also where they were thinned (`Options.max_rows`). *slowdown* and
    *se* are the estimate and its standard error before any prior; *placebo* and *placebo_se* the
    effect on the log execution of one more activation of the same function anywhere in the cluster;
    *effective_overlaps* the sums of exposures; *activations* how many of the victim's runs met the aggressor.
    *reason* says why nothing was fitted (empty: fitted). *columns* [m], *raw* [m], *precision* [m, m]: the log(1 +
    slowdown) of those aggressors (codes of functions), also the hardly determined ones, and their inverse
    covariance, all controls integrated out (on this scale the likelihood is nearest to a normal one). *inflation*
    [a] is by how much the clusters of the errors widened the variances. *base* maps a node type to the undisturbed
    execution in seconds; *noise* is the standard deviation of the log; *drift* the mean residual of the newest time
    block over its standard error. *controls* maps what was held constant to by how much it moved the log (standard
    deviation). *crowd* [3] is what the load of the cluster did (`controls.crowd`). *halves* are *raw* and *precision*
    of the even and of the odd time blocks alone, for measuring how well probabilities are kept; empty where they were
    not told apart. *ends* tells whether who was there when runs ended has a part in it (`interference.ends`).
    """

    victim: int
    rows: int
    reason: str
    slowdown: Floats
    se: Floats
    placebo: Floats
    placebo_se: Floats
    effective_overlaps: Floats
    activations: Ints
    columns: Ints
    raw: Floats
    precision: Floats
    inflation: Floats
    base: Mapping[int, float] = field(default_factory=dict)
    noise: float = float("nan")
    drift: float = float("nan")
    controls: Mapping[str, float] = field(default_factory=dict)
    crowd: Floats = field(default_factory=lambda: np.zeros(3))
    halves: tuple[tuple[Floats, Floats], ...] = ()
    ends: bool = False


@dataclass(frozen=True, slots=True)
class VictimFit(_Fit):
    """A fit about all functions [F] of the cluster, by their codes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told(_Fit):
    """A fit without the aggressors of which it says nothing: of many fits, memory follows the pairs that met.

    *functions* is F, *met* [a] are the codes of the aggressors that are kept, ascending.
    """

    functions: int
    met: Ints

    def whole(self) -> VictimFit:
        """Return the fit with all its aggressors."""

        def spread(name: str, missing: float) -> Floats:
            values = getattr(self, name)
            found = np.full(self.functions, missing, values.dtype)
            found[self.met] = values
            return found

        told: dict[str, Any] = {name: spread(name, missing) for name, missing in OF_AGGRESSORS.items()}
        return VictimFit(**told, **{name: getattr(self, name) for name in _OF_VICTIMS})


#: The arrays of a fit that have a value for each aggressor, and what they say of those that it never met.
OF_AGGRESSORS: Mapping[str, float] = {
    **dict.fromkeys(("slowdown", "se", "placebo", "placebo_se"), float("nan")),
    "effective_overlaps": 0.0,
    "activations": 0,
    "inflation": 1.0,
}
_OF_VICTIMS = tuple(each.name for each in fields(VictimFit) if each.name not in OF_AGGRESSORS)


def told(fit: VictimFit | Told) -> Told:
    """Return *fit* without the aggressors of which it says nothing."""
    if isinstance(fit, Told):
        return fit
    something = (fit.effective_overlaps > 0) | (fit.activations > 0)
    for values in (fit.slowdown, fit.se, fit.placebo, fit.placebo_se):
        something |= np.isfinite(values)
    something[fit.columns] = True
    met = np.flatnonzero(something)
    own: dict[str, Any] = {name: getattr(fit, name)[met] for name in OF_AGGRESSORS}
    kept = {name: getattr(fit, name) for name in _OF_VICTIMS}
    return Told(functions=len(fit.slowdown), met=met, **own, **kept)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the evidence says of the k pairs of *functions* functions that have any, ordered by *victim* [k], then
    *aggressor* [k].

    *odds* [k] are log likelihood ratios of interfering, *weight* [k] is how much is known, 0..1. *likely*
    [k, 1 + classes], where given, are the likelihoods of being harmless and of each class of slowdowns.
    """

    functions: int
    victim: Ints
    aggressor: Ints
    odds: Floats
    weight: Floats
    likely: Floats | None = None

    @classmethod
    def of(cls, odds: Floats, weight: Floats) -> "Evidence":
        """Return what squares [F, F], victim by aggressor, say; NaN odds: nothing is known."""
        victim, aggressor = np.nonzero(np.isfinite(odds))
        return cls(len(odds), victim, aggressor, odds[victim, aggressor], weight[victim, aggressor])


@dataclass(frozen=True, slots=True)
class Predictions:
    """Probabilities of interfering [c, c], victim by aggressor, of the pairs among *functions* [c] (ascending codes).

    Of others nothing is predicted, nor where it is NaN.
    """

    functions: Ints
    probability: Floats

    @classmethod
    def of(cls, probability: Floats) -> "Predictions":
        """Return what a square [F, F] over all functions predicts."""
        return cls(np.arange(len(probability)), probability)

    def at(self, victim: Ints, aggressor: Ints) -> Floats:
        """Return the probabilities of pairs [k]; NaN where nothing is predicted."""
        found = np.full(len(victim), np.nan)
        if len(self.functions):
            row, known = self._places(victim)
            column, other = self._places(aggressor)
            there = known & other
            found[there] = self.probability[row[there], column[there]]
        return found

    def among(self, known: Bools) -> "Predictions":
        """Return what is predicted of pairs of those functions alone that are *known* [F]."""
        kept = np.flatnonzero(known[self.functions])
        return Predictions(self.functions[kept], self.probability[np.ix_(kept, kept)])

    def pairs(self) -> tuple[Ints, Ints]:
        """Return victims and aggressors of all pairs that are predicted, in order."""
        row, column = np.nonzero(np.isfinite(self.probability))
        return self.functions[row], self.functions[column]

    def _places(self, codes: Ints) -> tuple[Ints, Bools]:
        place = np.minimum(np.searchsorted(self.functions, codes), len(self.functions) - 1)
        return place, self.functions[place] == codes
