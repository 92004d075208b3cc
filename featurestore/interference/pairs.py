"""From the fits of all victims to the table of pairs: decide, predict what was never seen, decide again."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from featurestore.interference.calibration import calibrate
from featurestore.interference.decision import OBSERVED, PREDICTED, PairTable, decide
from featurestore.interference.evidence import Floats, Options, Predictions, Told, VictimFit
from featurestore.interference.transfer import predict
from featurestore.interference.weighing import Weighed, evidence, kept, weigh

#: Evidence and predictions sharpen each other; after so many rounds nothing moves.
ROUNDS = 2

__all__ = ["kept", "learn", "predictions", "reliability", "weigh"]


def learn(
    fits: Sequence[VictimFit | Told], profiles: Floats | None = None, options: Options | None = None
) -> PairTable:
    """Return the pair table of all *fits* (one per function, in order of the function's index).

    *profiles* [F, R] are resource profiles (any non-negative units, NaN where not known), the basis of predictions
    for pairs seen little or never; without them such pairs are predicted from the others' estimates alone.
    Predictions are held against the own evidence of pairs that it did not see, and moved by what that shows.
    """
    options = options or Options()
    prior = predictions(fits, profiles, options)
    known = weigh(fits, options, prior)
    return decide(fits, options, prior, kept(fits, options, prior, known), known)


def predictions(
    fits: Sequence[VictimFit | Told], profiles: Floats | None = None, options: Options | None = None
) -> Predictions | None:
    """Return the out-of-fold probabilities of pairs, the prior of `decision.decide`; most of the work."""
    prior: Predictions | None = None
    for turn in range(ROUNDS):
        found, share = evidence(fits, options or Options(), prior)
        prior = predict(found, profiles, share, trees=turn == ROUNDS - 1)
        if prior is not None:
            kept_as = calibrate(prior.at(found.victim, found.aggressor), found.odds)
            prior = replace(prior, probability=kept_as.applied(prior.probability))
    return prior


def reliability(
    fits: Sequence[VictimFit | Told], options: Options, prior: Predictions | None, weighed: Weighed | None = None
) -> Mapping[str, Any]:
    """Return for the model's record how well probabilities are kept, by kind of pair, where it can be measured.

    Predictions as they stand, against the evidence of pairs that they did not see; of pairs observed what `kept`
    says. *weighed* may hold what `weigh` made of the same prior.
    """
    known = weigh(fits, options, prior, weighed)
    observed = kept(fits, options, prior, known)
    found = {} if observed is None else {OBSERVED: observed.document()}
    if prior is not None:
        own = evidence(fits, options, prior, known)[0]
        found[PREDICTED] = calibrate(prior.at(own.victim, own.aggressor), own.odds).document()
    return found
