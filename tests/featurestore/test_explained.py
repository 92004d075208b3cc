"""What is missing to know more of a pair, sentence by sentence."""

import datetime as dt

import pytest

from featurestore.explained import Facts, explanation, missing, percent

BEGIN = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)
PAIR = {
    "victim": "a",
    "aggressor": "b",
    "node_type": "",
    "status": "observed",
    "slowdown": 0.4,
    "low": 0.3,
    "high": 0.5,
    "probability": 0.99,
    "effective_overlaps": 40.0,
    "activations": 90,
    "window_start": BEGIN,
    "window_end": BEGIN + dt.timedelta(days=4),
    "cluster": "c",
}
UNKNOWN = PAIR | {"status": "unknown"} | dict.fromkeys(("slowdown", "low", "high", "probability"))


def place(node, kind, days=3.0):
    return {"node": node, "node_type": kind, "from": BEGIN, "to": BEGIN + dt.timedelta(days=days), "runs": 45}


SEEN = (place("n1", "t1"), place("n2", "t2"))


def said(pair=PAIR, **facts):
    given = {"seen": SEEN, "nodes": 2, "node_types": ("t1", "t2"), "base_ms": {"t1": 9.0, "t2": 9.5}} | facts
    return list(missing(Facts(pair, {}, 30.0, 0.05, **given)))


def test_halving_an_interval_takes_four_times_the_evidence():
    # 40 overlaps in 4 days; 120 more take 12 days
    assert said() == ["about 120 more effective overlaps would halve the interval (some 12 days as things go)"]


def test_too_few_overlaps_say_how_many_more_decide():
    few = UNKNOWN | {"effective_overlaps": 24.0}
    assert said(few) == [
        "about 6 more effective overlaps until their own evidence decides (some 24 hours as things go)"
    ]
    soon = UNKNOWN | {"effective_overlaps": 29.0, "window_end": BEGIN + dt.timedelta(hours=29)}
    assert said(soon) == [  # one an hour
        "about 1 more effective overlaps until their own evidence decides (some 60 minutes as things go)"
    ]
    never = UNKNOWN | {"effective_overlaps": 0.0}
    assert said(never, seen=()) == ["about 30 more effective overlaps until their own evidence decides"]


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"fit": {"reason": "too few activations", "runs": 7}}, "a has 7 runs that count; 13 more are needed"),
        ({"fit": {"reason": "constant duration", "runs": 50}}, "nothing can be estimated for a: constant duration"),
        ({"comparison": {"alone": 0}}, "a never ran on a node alone"),
        ({"fit": {"reason": "", "runs": 90}}, "a never ran without b: only how long they ran together tells"),
        ({"nodes": 1}, "the cluster has one node"),
        ({"fit": {"reason": "", "runs": 50}, "base_ms": {"t1": 9.0}}, "no runs of a on node type t2"),
        ({"seen": SEEN[:1]}, "never seen together on node type t2"),
        ({"seen": SEEN[:1]}, "all seen on one node, n1"),
        ({"seen": (place("n1", "t1", 0.5), place("n2", "t2", 0.9))}, "all seen within one day"),
        ({"details": False}, "the store does not hold this model's details"),
    ],
)
def test_each_gap_is_said(facts, sentence):
    assert [each for each in said(**facts) if each.startswith(sentence)]
    assert not [each for each in said() if each.startswith(sentence)]


def test_neither_less_nor_more_is_undecided():
    assert any("undecided" in each for each in said(PAIR | {"probability": 0.5, "low": 0.01}))


def test_an_estimate_that_no_neighbour_brings_about_is_not_told_as_one_that_others_hide():
    [sentence] = said(UNKNOWN, fit={"reason": "", "runs": 200}, evidence={"estimate": -0.34, "error": 0.013})
    assert sentence.startswith("a would run much shorter beside b, which no neighbour brings about: ")


@pytest.mark.parametrize(
    ("pair", "estimate", "judged"),
    [
        (PAIR, 0.4, True),
        (PAIR, -0.02, True),  # a little below nothing is chance
        (PAIR, -0.21, None),
        (UNKNOWN, -0.6, None),
        (PAIR | {"effective_overlaps": 29.0}, 0.4, None),
    ],
)
def test_chance_is_judged_of_slowdowns_that_their_own_evidence_decides(pair, estimate, judged):
    known = {"estimate": estimate, "error": 0.1, "discovered": True}
    assert explanation(Facts(pair, {}, 30.0, 0.05, evidence=known))["estimate"]["beyond_chance"] is judged


@pytest.mark.parametrize(("runs", "alone", "told"), [(90, 0, 90), (120, 30, 120), (89, None, None), (119, 30, None)])
def test_a_number_of_runs_that_the_others_contradict_is_none_and_concludes_nothing(runs, alone, told):
    # 90 met it; of a function with several versions the older runs count less than they are
    facts = {"fit": {"reason": "", "runs": runs}, "comparison": {"alone": alone}}
    assert explanation(Facts(PAIR, {}, 30.0, 0.05, **facts))["evidence"]["runs"] == told
    assert any("never ran without" in each for each in said(**facts)) is (told == 90)


def test_enough_overlaps_that_nothing_tells_apart_ask_for_runs_alone():
    fit = {"reason": "", "runs": 200}
    assert said(UNKNOWN, fit=fit) == ["a met b only together with others: runs beside it alone would tell them apart"]


def test_a_placebo_that_shows_something_and_one_that_does_not():
    def placebo(effect):
        evidence = {"placebo": effect, "placebo_error": 0.01}
        return explanation(Facts(PAIR, {}, 30.0, 0.05, evidence=evidence))["placebo"]["meaning"]

    assert placebo(0.03) == (
        "one more run of b on other nodes goes with +3% ± 1.6% for a: something besides the node drives both"
    )
    assert placebo(0.005).endswith("no sign of a cause that both share")
    assert explanation(Facts(PAIR, {}, 30.0, 0.05))["placebo"] is None


@pytest.mark.parametrize(("share", "text"), [(0.05, "5%"), (0.1234, "12.3%"), (-0.0001, "0%"), (12.5, "1250%")])
def test_shares_are_written_as_people_read_them(share, text):
    assert percent(share) == text
