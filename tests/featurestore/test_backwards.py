"""What a victim does to its neighbours is not taken for what they do to it."""

import numpy as np
import pytest

from featurestore import details
from featurestore.designs import expose
from featurestore.interference.backwards import apart
from featurestore.interference.evidence import Options, Told
from featurestore.interference.pairs import learn
from featurestore.interference.victim import fit_victim
from featurestore.interference.weighing import weigh
from tests.support.runs import runs_of
from tests.support.worked_out import NODES, SPAN, evidence, one_by_one, slowed


def test_who_slows_a_short_function_is_not_slowed_by_it():
    """Runs of 3 s at the median, many of a half and many of twenty, beside one of 1 s that makes progress at 1 / 2.5
    while they run: of those, the long ones have more of the short function beside them than the short ones."""
    draw, runs = np.random.default_rng(11), []
    for node in range(NODES):
        begun, ended = one_by_one(draw, lambda n: 3 * np.exp(draw.normal(0, 1.3, n)), (5, 60))
        start = np.sort(draw.uniform(0, SPAN, 6_000))
        took = slowed(start, np.exp(draw.normal(0, 0.25, len(start))), begun, ended, 2.5)
        runs += [(0, node, begun, ended), (1, node, start, start + took)]
    fits = [fit_victim(each) for each in evidence(runs)]
    # by the sums in `backwards`: half the variance of the log times slowdown over one and slowdown
    assert fits[0].slowdown[1] == pytest.approx(1.3**2 / 2 * 1.5 / 2.5, rel=0.3)

    table = learn(fits)

    of = {pair: k for k, pair in enumerate(zip(table.victim.tolist(), table.aggressor.tolist(), strict=True))}
    assert table.probability[of[0, 1]] < 0.5
    assert table.probability[of[1, 0]] > 0.99
    assert table.slowdown[of[1, 0]] == pytest.approx(1.5, rel=0.1)


def fit(victim, noise, base, raw, error):
    """A fit of functions 0 and 1 with independent estimates of log(1 + slowdown), an aggressor of 0 being unknown."""
    raw, error = np.array(raw), np.array(error)
    known = np.isfinite(raw)
    growth = np.exp(np.where(known, raw, np.nan))
    half = raw[known], np.diag(error[known] ** -2) / 2
    return Told(
        victim=victim,
        rows=1000,
        reason="",
        slowdown=growth - 1,
        se=error * growth,
        placebo=np.full(2, np.nan),
        placebo_se=np.full(2, np.nan),
        effective_overlaps=np.full(2, 500.0),
        activations=np.full(2, 900),
        columns=np.flatnonzero(known),
        raw=raw[known],
        precision=np.diag(error[known] ** -2),
        inflation=np.ones(2),
        base={0: base},
        noise=noise,
        halves=(half, half),
        functions=2,
        met=np.arange(2),
    )


NAN = float("nan")


@pytest.mark.parametrize(("base", "share"), [(5.0, 1.0), (0.1, 0.1)], ids=["longer than it", "a tenth of it"])
def test_what_is_its_own_doing_is_taken_off_and_doubted(base, share):
    """The neighbour, of always one second, takes 2.5 times as long beside it, known to .1 of the log: s / (1 + s) is
    .6, less the share of chance in it. A third of it is doubted, where that is half an error and more."""
    some = [fit(0, 1.3, base, [NAN, 0.5], [NAN, 0.05]), fit(1, 0.0, 1.0, [np.log(2.5), NAN], [0.1, NAN])]
    own = np.log1p(1.3**2 / 2 * share * 0.6 * (1 - (0.1 / np.log(2.5)) ** 2))

    found, other = apart(some)

    assert other is some[1]
    assert found.raw == pytest.approx([0.5 - own], rel=1e-9)
    assert found.slowdown[1] == pytest.approx(np.expm1(0.5 - own), rel=1e-9)
    doubt = 0.3 * own if 0.3 * own > 0.05 / 2 else 0.0
    assert found.se[1] == pytest.approx(np.exp(0.5 - own) * np.hypot(0.05, doubt), rel=1e-9)
    assert found.precision == pytest.approx(np.array([[1 / (0.05**2 + doubt**2)]]), rel=1e-9)
    for raw, precision in found.halves:
        assert raw == pytest.approx(found.raw)
        assert 1 / precision[0, 0] == pytest.approx(2 * 0.05**2 + doubt**2, rel=1e-9)


def test_nothing_is_taken_off_where_times_hardly_spread_or_the_neighbour_is_not_slowed():
    narrow = [fit(0, 0.1, 5.0, [NAN, 0.2], [NAN, 0.05]), fit(1, 0.1, 1.0, [np.log(2.5), NAN], [0.1, NAN])]
    harmless = [fit(0, 1.3, 5.0, [NAN, 0.2], [NAN, 0.05]), fit(1, 0.1, 1.0, [0.05, NAN], [0.06, NAN])]
    unknown = [fit(0, 1.3, 5.0, [NAN, 0.2], [NAN, 0.05]), fit(1, 0.1, 1.0, [NAN, 0.0], [NAN, 0.1])]
    for fits in (narrow, harmless, unknown):
        assert all(found is given for found, given in zip(apart(fits), fits, strict=True))
    assert apart([]) == []


def test_a_function_that_slows_itself_by_less_than_it_seems():
    """What is left and what follows from it make up what was told: .8 = log((1 + s) (1 + v / 2 s / (1 + s)))."""
    [found] = apart([fit(0, 1.0, 5.0, [0.8, NAN], [0.001, NAN])])
    slowdown = np.expm1(found.raw[0])
    lasts = np.exp(0.5)  # its mean by its median
    assert np.log1p(slowdown) + np.log1p(0.5 / lasts * slowdown / (1 + slowdown)) == pytest.approx(0.8, abs=2e-3)


def test_a_spread_of_no_bound_says_nothing():
    """The other fits are as they were, and no estimate is lost."""
    back = fit(1, 0.2, 1.0, [np.log(2.5), NAN], [0.1, NAN])
    for noise, base in ((np.inf, 5.0), (NAN, 5.0), (1.3, NAN), (1.3, np.inf)):
        given = fit(0, noise, base, [NAN, 0.2], [NAN, 0.05])
        found, other = apart([given, back])
        assert found.raw == pytest.approx(given.raw)
        assert other.raw == pytest.approx(back.raw, rel=0.02)


def test_what_is_compared_of_a_victim_follows_from_its_own_fit():
    """Another engine's worker compares the runs of some victims, and has the fits of these alone."""
    draw, many = np.random.default_rng(6), 400
    start = np.sort(draw.integers(0, 3_600_000_000, many))
    runs = runs_of(start, start + draw.integers(1, 30_000_000, many), draw.integers(0, 2, many), np.zeros(many))
    exposure = expose(runs)
    some = [fit(0, 1.3, 5.0, [NAN, 0.5], [NAN, 0.05]), fit(1, 0.2, 1.0, [np.log(2.5), NAN], [0.1, NAN])]
    whole = details.compared(runs, exposure, some)["comparisons"].to_pylist()
    for own in some:
        [alone] = [row for row in whole if row["victim"] == f"f{own.victim}" and row["aggressor"] != row["victim"]]
        assert alone in details.compared(runs, exposure, [own])["comparisons"].to_pylist()


def test_what_is_decided_is_decided_without_it():
    some = [fit(0, 1.3, 5.0, [NAN, 0.41], [NAN, 0.05]), fit(1, 0.2, 1.0, [np.log(2.5), NAN], [0.05, NAN])]
    known = weigh(some, Options())
    assert known.pairs.estimate[1] == pytest.approx(0.0, abs=0.01)
    assert known.fits[0] is some[0]
