"""From the fits of all victims to the table of pairs: decide, predict what was never seen, decide again."""

from collections.abc import Sequence

from featurestore.interference.decision import PairTable, decide, evidence
from featurestore.interference.evidence import Floats, Options, VictimFit
from featurestore.interference.transfer import predict

#: Evidence and predictions sharpen each other; after so many rounds nothing moves.
ROUNDS = 2


def learn(fits: Sequence[VictimFit], profiles: Floats | None = None, options: Options | None = None) -> PairTable:
    """Return the pair table of all *fits* (one per function, in order of the function's index).

    *profiles* [F, R] are resource profiles (any non-negative units, NaN where not known), the basis of predictions
    for pairs seen little or never; without them such pairs are predicted from the others' estimates alone.
    """
    return decide(fits, options, predictions(fits, profiles, options))


def predictions(
    fits: Sequence[VictimFit], profiles: Floats | None = None, options: Options | None = None
) -> Floats | None:
    """Return the out-of-fold probabilities of all pairs [F, F], the prior of `decision.decide`; most of the work."""
    prior: Floats | None = None
    for _ in range(ROUNDS):
        found, share = evidence(fits, options or Options(), prior)
        prior = predict(found, profiles, share)
    return prior
