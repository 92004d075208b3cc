"""The held-out row of the dominant resource, on fits whose right answer is known by hand."""

import numpy as np
import pytest

from benchmarks.dominant import guessed_apart
from featurestore.interference.evidence import VictimFit
from featurestore.profiles import RESOURCES

OWN = np.repeat(np.array(RESOURCES), 10)


def fit_of(victim: int, slowdown: np.ndarray) -> VictimFit:
    nothing = np.zeros(0)
    everywhere = np.zeros(len(OWN))
    return VictimFit(
        victim=victim,
        rows=100,
        reason="",
        slowdown=slowdown,
        se=np.where(np.isfinite(slowdown), 0.01, np.nan),
        placebo=everywhere,
        placebo_se=everywhere,
        effective_overlaps=everywhere,
        activations=everywhere.astype(np.int64),
        columns=nothing.astype(np.int64),
        raw=nothing,
        precision=np.zeros((0, 0)),
        inflation=nothing,
    )


def test_functions_that_suffer_from_their_own_kind_alone_are_told_and_the_majority_is_what_a_constant_reaches():
    """Four classes of ten: one constant name has precision 1/4 and recall 1 in its class, 0 in the others."""
    slowdowns = np.where(OWN[:, None] == OWN, 1.0, 0.0)
    slowdowns[0, 1:5] = np.nan  # never met
    told, majority = guessed_apart([[fit_of(victim, row) for victim, row in enumerate(slowdowns)]], [OWN])
    assert told == [1.0]
    assert majority == [pytest.approx(2 * 0.25 / 1.25 / 4)]
