"""From fits to the table of pairs: what is observed, predicted, unknown and a shared cause."""

from dataclasses import fields, replace

import numpy as np
import pytest

from featurestore.interference import decision, pairs
from featurestore.interference.decision import OBSERVED, PREDICTED, SHARED_CAUSE, UNKNOWN
from featurestore.interference.evidence import Options, Predictions, VictimFit, told
from featurestore.interference.victim import fit_victim
from featurestore.interference.weighing import weigh
from tests.support.silence import silent
from tests.support.victims import beside, design, stretched

NAN = float("nan")


def fit_of(victim, slowdown, se, overlaps, placebo=None, placebo_se=None):
    """A fit whose aggressors' estimates are independent."""
    slowdown, se, overlaps = (np.array(values, float) for values in (slowdown, se, overlaps))
    columns = np.flatnonzero(np.isfinite(slowdown))
    growth = 1 + slowdown[columns]
    nothing = np.full(len(slowdown), NAN)
    return VictimFit(
        victim=victim,
        rows=1000,
        reason="",
        slowdown=slowdown,
        se=se,
        placebo=nothing if placebo is None else np.array(placebo, float),
        placebo_se=nothing if placebo_se is None else np.array(placebo_se, float),
        effective_overlaps=overlaps,
        activations=(overlaps * 2).astype(np.int64),
        columns=columns,
        raw=np.log1p(slowdown[columns]),
        precision=np.diag((growth / se[columns]) ** 2),
        inflation=np.ones(len(slowdown)),
    )


def decide(fits, *given, **named):
    """The decision on all pairs, those of which nothing is stored included."""
    return decision.decide(fits, *given, **named).whole(len(fits[0].slowdown))


def learn(fits, *given):
    return pairs.learn(fits, *given).whole(len(fits[0].slowdown) if fits else 0)


def row(table, victim, aggressor):
    [at] = np.flatnonzero((table.victim == victim) & (table.aggressor == aggressor))
    return at


def test_what_was_seen_often_and_not_told_apart_is_unknown_whatever_is_predicted():
    """Two that always came together: the prediction of each says nothing of how they share what was seen."""
    nothing = [NAN, NAN, NAN]
    fits = [
        fit_of(0, nothing, nothing, [0, 200, 20]),
        fit_of(1, [0.0, 0.02, NAN], [0.03, 0.03, NAN], [150, 150, 0]),
        replace(fit_of(2, nothing, nothing, [200, 0, 0]), reason="constant duration"),
    ]
    table = decide(fits, prior=Predictions.of(np.full((3, 3), 0.95)))
    apart = row(table, 0, 1)
    assert table.status[apart] == UNKNOWN
    assert np.isnan([table.probability[apart], table.slowdown[apart], table.low[apart], table.high[apart]]).all()
    for little in (row(table, 0, 2), row(table, 0, 0), row(table, 1, 2), row(table, 2, 0)):
        assert table.status[little] == PREDICTED
        assert table.probability[little] > 0.5


def test_a_sure_pair_a_harmless_one_and_one_seen_too_little():
    fits = [
        fit_of(0, [0.8, 0.01, 0.8], [0.05, 0.03, 0.05], [200, 200, 20]),
        fit_of(1, [0.0, 0.02, NAN], [0.03, 0.03, NAN], [150, 150, 0]),
        fit_of(2, [NAN, NAN, NAN], [NAN, NAN, NAN], [0, 0, 0]),
    ]
    table = decide(fits)
    sure, harmless, little = (row(table, 0, b) for b in range(3))
    assert table.status[sure] == OBSERVED
    assert table.probability[sure] > 0.99
    assert table.discovered[sure]
    assert table.low[sure] < 0.8 < table.high[sure]
    assert table.status[harmless] == OBSERVED
    assert table.probability[harmless] < 0.05
    assert not table.discovered[harmless]
    assert table.status[little] == UNKNOWN
    assert np.isnan([table.probability[little], table.slowdown[little], table.low[little], table.high[little]]).all()
    assert table.status[row(table, 2, 0)] == UNKNOWN
    assert table.effective_overlaps[little] == 20


def test_a_slowdown_above_zero_but_below_what_counts_is_no_interference():
    """3 % known to a third of a per cent differs from zero beyond doubt, and does not count."""
    table = decide(
        [fit_of(0, [0.03, 0.0], [0.003, 0.003], [5000, 5000]), fit_of(1, [0.0, 0.0], [0.01, 0.01], [500, 500])]
    )
    assert table.probability[row(table, 0, 0)] < 0.05
    assert not table.discovered[row(table, 0, 0)]


def test_a_prediction_speaks_where_the_evidence_is_little_and_yields_where_it_is_much():
    fits = [fit_of(0, [0.0, NAN], [0.02, NAN], [300, 0]), fit_of(1, [NAN, NAN], [NAN, NAN], [0, 0])]
    prior = Predictions.of(np.array([[0.9, 0.9], [0.05, NAN]]))
    table = decide(fits, prior=prior)
    assert table.status[row(table, 0, 1)] == PREDICTED
    assert table.probability[row(table, 0, 1)] > 0.5
    assert table.status[row(table, 1, 0)] == PREDICTED
    assert table.probability[row(table, 1, 0)] < 0.2
    assert table.status[row(table, 1, 1)] == UNKNOWN
    assert table.status[row(table, 0, 0)] == OBSERVED
    assert table.probability[row(table, 0, 0)] < 0.2


def test_pairs_never_seen_are_somewhat_likelier_than_the_share_of_those_seen_tells():
    """The odds of a predicted pair are those of its prior, moved to the share found, and e^0.2 times that."""
    seen = [fit_of(0, [NAN, 0.8, 0.0, 0.0], [NAN, 0.05, 0.02, 0.02], [0, 300, 300, 300])]
    fits = seen + [fit_of(victim, [NAN] * 4, [NAN] * 4, [0] * 4) for victim in (1, 2, 3)]
    prior = Predictions.of(np.full((4, 4), 0.3))
    known = weigh(fits, Options(), prior)
    table = decide(fits, Options(), prior, weighed=known)
    moved = known.groups.prior(np.array([0.3]))[0]
    stated = table.probability[row(table, 2, 1)]
    assert stated / (1 - stated) == pytest.approx(np.exp(0.2) * moved / (1 - moved), rel=1e-6)


def test_an_effect_that_the_placebo_explains_is_a_shared_cause():
    placebo, error = [0.2, 0.0], [0.02, 0.02]
    fits = [
        fit_of(0, [0.02, 0.6], [0.04, 0.04], [200, 200], placebo, error),
        fit_of(1, [0, 0], [0.04, 0.04], [99, 99]),
    ]
    table = decide(fits)
    assert table.status[row(table, 0, 0)] == SHARED_CAUSE
    assert table.status[row(table, 0, 1)] == OBSERVED


def test_what_slows_all_company_alike_is_nobodys_interference():
    """Every estimate of a victim is too high by the same, as where crowding or a shared backend slows whoever has
    company: most look like interference of 10 %, few are; what is told as sure is right."""
    draw = np.random.default_rng(11)
    truth = np.where(draw.random((25, 25)) < 0.12, draw.uniform(0.25, 0.8, (25, 25)), 0.0)
    fits = []
    for victim in range(25):
        shift, error = draw.uniform(0.02, 0.14), draw.uniform(0.025, 0.05, 25)
        told = np.log1p(truth[victim]) + shift + draw.normal(0, error)
        fits.append(fit_of(victim, np.expm1(told), error * np.exp(told), [300] * 25))
    table = decide(fits)
    interferes, sure = truth[table.victim, table.aggressor] > 0, table.probability >= 0.9
    assert interferes[sure].mean() >= 0.95
    assert sure[interferes].mean() >= 0.8


def test_no_function_at_all_is_an_empty_table():
    with silent():
        table = learn([])
    assert table.status == []
    assert len(table.victim) == len(table.probability) == 0


@pytest.mark.parametrize("profiles", [None, np.full((40, 4), NAN), np.zeros((40, 0))])
def test_most_functions_ran_once_and_profiles_are_unknown(profiles):
    """40 functions of which 36 ran once: no warning, no confident number about those."""
    draw = np.random.default_rng(1)
    fits = []
    for victim in range(40):
        n = 400 if victim < 4 else 1
        exposure = np.zeros((n, 40))
        exposure[:, :4] = beside(draw, n, 4)
        exposure[:, victim] = 0
        truth = np.where(np.arange(40) == 1, 0.7, 0.0) * (victim == 0)
        times = stretched(exposure, truth) * np.exp(draw.normal(0, 0.2, n))
        fits.append((times, exposure, victim))
    with silent():
        found = [fit_victim(design(t, e, victim=v)) for t, e, v in fits]
        table = learn(found, profiles)
    assert table.status[row(table, 0, 1)] == OBSERVED
    assert table.probability[row(table, 0, 1)] > 0.95
    rare = (table.victim >= 4) | (table.aggressor >= 4)
    assert {table.status[at] for at in np.flatnonzero(rare)} == {UNKNOWN}
    assert np.isnan(table.probability[rare]).all()


def test_two_neighbours_that_are_never_apart_are_not_confidently_blamed_one_by_one():
    draw = np.random.default_rng(2)
    pair = (draw.random((800, 1)) < 0.3).astype(float)
    exposure = np.hstack([np.zeros((800, 1)), pair, pair])
    times = stretched(pair, [0.5]) * np.exp(draw.normal(0, 0.2, 800))
    fits = [fit_victim(design(times, exposure)), *(fit_of(v, [NAN] * 3, [NAN] * 3, [0] * 3) for v in (1, 2))]
    table = learn(fits)
    for aggressor in (1, 2):
        at = row(table, 0, aggressor)
        assert table.status[at] == UNKNOWN or table.probability[at] < 0.9


def test_fewer_overlaps_than_asked_for_decide_nothing():
    fits = [fit_of(0, [0.8], [0.05], [200])]
    assert decide(fits, replace(Options(), min_overlaps=500)).status == [UNKNOWN]


def test_what_was_weighed_serves_fits_that_say_the_same_and_no_others():
    fits = [fit_of(victim, [NAN, 0.4, 0.02], [NAN, 0.05, 0.03], [0, 200, 200]) for victim in range(3)]
    weighed = weigh(fits, Options())
    drifted = [replace(fit, drift=1.5) for fit in fits]
    assert weigh(drifted, Options(), None, weighed) is weighed
    others = [replace(fits[0], raw=fits[0].raw + 0.2), *fits[1:]]
    found, alone = decide(others, weighed=weighed), decide(others)
    assert found.probability.tolist() == pytest.approx(alone.probability.tolist(), rel=1e-12, nan_ok=True)
    assert found.slowdown.tolist() != pytest.approx(decide(fits).slowdown.tolist(), nan_ok=True)


def _sparse_town(functions, met):
    """Fits of functions that each met *met* others at random, of which a quarter slows them down by 60 %."""
    draw = np.random.default_rng(8)
    fits = []
    for victim in range(functions):
        others = draw.choice(functions, met, replace=False)
        slowdown, se, overlaps = np.full(functions, NAN), np.full(functions, NAN), np.zeros(functions)
        slowdown[others] = np.where(draw.random(met) < 0.25, 0.6, 0.0) + draw.normal(0, 0.03, met)
        se[others], overlaps[others] = 0.03, draw.uniform(1, 200, met)
        fits.append(fit_of(victim, slowdown, se, overlaps))
    return fits


def test_pairs_that_never_met_and_are_not_predicted_have_no_row_and_change_no_other():
    """The same pairs among 30 functions and among 300 of which the others did nothing: rows are those that met, and
    say the same."""
    fits = _sparse_town(30, 8)
    few = decision.decide(fits)
    assert set(zip(few.victim.tolist(), few.aggressor.tolist(), strict=True)) == {
        (fit.victim, int(aggressor)) for fit in fits for aggressor in np.flatnonzero(fit.effective_overlaps)
    }
    wide = [
        replace(
            fit_of(fit.victim, *(np.pad(getattr(fit, name), (0, 270), constant_values=value) for name, value in
                                 (("slowdown", NAN), ("se", NAN), ("effective_overlaps", 0)))),
        )
        for fit in fits
    ]  # fmt: skip
    wide += [fit_of(victim, *np.full((2, 300), NAN), np.zeros(300)) for victim in range(30, 300)]
    many = decision.decide(wide)
    for name in ("victim", "aggressor", "probability", "slowdown", "low", "high", "effective_overlaps"):
        np.testing.assert_array_equal(getattr(few, name), getattr(many, name))
    assert many.status == few.status


def test_predicted_pairs_have_rows_of_their_own_between_those_that_met():
    fits = _sparse_town(12, 3)
    probability = np.full((4, 4), 0.3)
    probability[1, 2] = NAN
    known = np.array([2, 5, 7, 11])
    prior = Predictions(known, probability)
    table = decision.decide(fits, prior=prior)
    dense = np.full((12, 12), NAN)
    dense[np.ix_(known, known)] = probability
    whole = decision.decide(fits, prior=Predictions.of(dense))
    met = {(fit.victim, int(b)) for fit in fits for b in np.flatnonzero(fit.effective_overlaps)}
    predicted = {(int(a), int(b)) for a in known for b in known if (a, b) != (5, 7)}
    assert list(zip(table.victim.tolist(), table.aggressor.tolist(), strict=True)) == sorted(met | predicted)
    np.testing.assert_array_equal(table.probability, whole.probability)
    assert table.status == whole.status
    for at in np.flatnonzero(table.effective_overlaps == 0):
        assert table.status[at] == PREDICTED


def test_predictions_among_some_functions_are_theirs_alone():
    given = Predictions(np.array([1, 4, 6]), np.arange(9.0).reshape(3, 3) / 10)
    kept = given.among(np.array([True, True, True, True, False, True, True]))
    pairs = (np.array([1, 6, 1, 4, 6]), np.array([6, 1, 4, 6, 2]))
    np.testing.assert_array_equal(kept.at(*pairs), [0.2, 0.6, NAN, NAN, NAN])
    assert set(zip(*(codes.tolist() for codes in kept.pairs()), strict=True)) == {(1, 1), (1, 6), (6, 1), (6, 6)}


def test_a_fit_without_the_aggressors_that_it_never_met_is_the_same_fit():
    [fit] = _sparse_town(1, 1)
    wide = replace(fit_of(3, [NAN, 0.2, NAN, 0.1], [NAN, 0.05, NAN, 0.05], [0, 40, 3, 50], [NAN, 0.1, NAN, NAN],
                          [NAN, 0.1, NAN, NAN]), drift=0.7, base={0: 1.5})  # fmt: skip
    for given in (fit, wide):
        kept = told(given)
        again = kept.whole()
        for name in (each.name for each in fields(VictimFit)):
            np.testing.assert_array_equal(getattr(again, name), getattr(given, name))
    assert told(wide).met.tolist() == [1, 2, 3]
