"""The hold-out: who is set aside, the score in closed form, and which candidate is held back."""

import numpy as np
import pytest
from scipy import sparse, stats

from featurestore.interference import holdout
from featurestore.interference.holdout import Held, judge, paired
from featurestore.interference.spared import BLOCK, aside, keys

HOUR = BLOCK


def test_one_block_in_sixteen_is_set_aside_whole_and_always_the_same():
    names = [f"node-{k}" for k in range(200)]
    hours = np.arange(475_000, 475_200)
    key, at = (each.ravel() for each in np.meshgrid(keys(names), hours * HOUR, indexing="ij"))
    chosen = aside(key, at)
    n = len(chosen)
    assert stats.binom.ppf(1e-4, n, 1 / 16) <= chosen.sum() <= stats.binom.ppf(1 - 1e-4, n, 1 / 16)
    # Evenly over nodes and over hours (chi-square, each at a level of one in ten thousand).
    for axis in (0, 1):
        counts = chosen.reshape(200, 200).sum(axis=axis)
        assert stats.chisquare(counts).pvalue > 1e-4
    assert np.array_equal(chosen, aside(key, at + HOUR - 1))
    other = aside(key, at + HOUR)
    assert not np.array_equal(chosen, other)


def test_the_choice_is_that_of_splitmix64():
    """The published mixing, step by step in whole numbers."""
    [key] = keys(["n1"])
    mask = 2**64 - 1
    for hour in range(400_000, 400_040):
        z = (int(key) + hour * 0x9E3779B97F4A7C15) & mask
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
        expected = (z ^ z >> 31) % 16 == 0
        assert aside(np.array([key]), np.array([hour * HOUR + 5]))[0] == expected


def held(blocks, each, slowdown, *, seed=1, noise=0.1, functions=3, change=None):
    """Runs of function 0 beside 1 and 2, *each* in every block; *change* maps a block to another truth."""
    draw = np.random.default_rng(seed)
    n = blocks * each
    block = np.repeat(np.arange(blocks), each)
    exposure = np.where(draw.random((n, functions)) < 0.5, draw.uniform(0.2, 1.0, (n, functions)), 0.0)
    truth = np.tile(np.asarray(slowdown, float), (n, 1))
    for which, other in (change or {}).items():
        truth[block == which] = other
    total = 1 + (exposure * truth / (1 + truth * (1 - np.minimum(exposure, 1)))).sum(axis=1)
    return Held(
        victim=np.zeros(n, np.int64),
        node=block % 3,
        block=block,
        hour=block,
        cold=np.zeros(n, bool),
        execution=2.0 * total * np.exp(draw.normal(0, noise, n)),
        exposure=sparse.csr_matrix(exposure),
    )


def model(*slowdowns):
    return sparse.csr_matrix(np.array([slowdowns, (0, 0, 0), (0, 0, 0)], float))


TRUTH = (0.0, 0.6, 0.0)


def test_the_score_is_the_log_density_of_the_times_that_are_left():
    """One victim on one node: centred by the median, scaled by the quartile of |t| with four degrees of freedom."""
    given = held(9, 41, TRUTH)
    given = Held(given.victim, np.zeros(len(given.victim), np.int64), *(getattr(given, f) for f in
                 ("block", "hour", "cold", "execution", "exposure")))  # fmt: skip
    found = judge(given, model(*TRUTH), model(0.0, 0.3, 0.0))
    e = given.exposure.toarray()[:, 1]
    logs = np.log(given.execution)
    scale = np.median(np.abs(logs - np.median(logs))) / stats.t.ppf(0.75, 4)

    def score(s):
        left = logs - np.log1p(e * s / (1 + s * (1 - e)))
        return stats.t.logpdf(left - np.median(left), 4, scale=scale)

    assert found.candidate == pytest.approx(score(0.6).mean())
    assert found.before == pytest.approx(score(0.3).mean())
    assert found.constant == pytest.approx(score(0.0).mean())
    assert found.difference == pytest.approx((score(0.6) - score(0.3)).mean())
    sums = [(score(0.6) - score(0.3) - found.difference)[given.block == b].sum() for b in range(9)]
    assert found.error == pytest.approx(np.sqrt(np.sum(np.square(sums)) * 9 / 8) / len(logs))
    assert (found.blocks, found.runs) == (9, 369)


def test_differences_that_come_block_by_block_have_the_error_of_the_block_means():
    """Blocks of equal size and constant difference: the textbook's error of a mean of b numbers."""
    values = np.array([0.1, 0.4, -0.2, 0.3, 0.0, 0.6])
    mean, error, chance = paired(np.repeat(values, 50), np.repeat(np.arange(6), 50))
    assert mean == pytest.approx(values.mean())
    assert error == pytest.approx(values.std(ddof=1) / np.sqrt(6))
    assert chance == pytest.approx(stats.t.cdf(values.mean() / error, 5))


@pytest.mark.parametrize(
    ("candidate", "before", "word"),
    [
        (TRUTH, (0.0, 0.0, 0.0), "better"),
        ((0.0, 0.0, 0.0), TRUTH, "worse"),
        ((0.0, 0.6, 1.5), TRUTH, "worse"),
        (TRUTH, TRUTH, "level"),
        ((0.0, 0.605, 0.0), TRUTH, "level"),  # within the margin
        ((0.0, float("nan"), 0.0), TRUTH, "worse"),  # what is not known counts as none
    ],
)
def test_which_candidate_is_held_back(candidate, before, word):
    assert judge(held(12, 60, TRUTH), model(*candidate), model(*before)).word == word


def test_a_candidate_that_is_right_of_late_is_a_change():
    newest = dict.fromkeys(range(15, 20), (0.0, 0.0, 0.9))
    given = held(20, 60, TRUTH, change=newest)
    assert judge(given, model(0.0, 0.0, 0.9), model(*TRUTH)).word == "changed"
    assert judge(given, model(0.9, 0.0, 0.0), model(*TRUTH)).word == "worse"


def test_models_that_are_equally_wrong_by_chance_are_seldom_told_apart():
    """Candidate and predecessor err alike, to either side: held back at most about as often as the level says."""
    trials, worse = 200, 0
    for seed in range(trials):
        given = held(10, 40, TRUTH, seed=seed, noise=0.3)
        draw = np.random.default_rng([7, seed])
        one, two = (model(0.0, 0.6 + draw.normal(0, 0.05), draw.normal(0.02, 0.02)) for _ in range(2))
        worse += judge(given, one, two).word == "worse"
    assert worse <= stats.binom.ppf(0.999, trials, 0.05)


@pytest.mark.parametrize(("blocks", "each"), [(5, 100), (12, 10), (0, 0)])
def test_too_little_compares_nothing(blocks, each):
    found = judge(held(blocks, each, TRUTH), model(0.0, 0.0, 0.0), model(*TRUTH))
    assert found.word == holdout.NONE
    assert np.isnan(found.difference)
