"""Merging of replicas, against a reading of the rule by brute force."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.clients.series import merge
from pipeline.records import Series

VALUES = st.sampled_from([0.0, 1.0, 2.5, math.nan, math.inf, -math.inf])
SAMPLES = st.dictionaries(st.integers(0, 5), VALUES, max_size=5)
PIECES = st.lists(st.tuples(st.sampled_from("pq"), st.sampled_from("abc"), SAMPLES), max_size=8)


def series(pod: str, replica: str, samples: dict[int, float]) -> Series:
    times = sorted(samples)
    return Series(
        {"pod": pod, "replica": replica},
        np.array(times, dtype=np.float64),
        np.array([samples[time] for time in times], dtype=np.float64),
    )


@given(PIECES)
def test_each_time_stands_once_with_a_finite_value_of_the_first_replica_that_has_one(pieces):
    merged = merge([series(*piece) for piece in pieces], ["replica"])
    assert [one.labels["pod"] for one in merged] == sorted({pod for pod, _, _ in pieces})
    for one in merged:
        offered = [(replica, samples) for pod, replica, samples in pieces if pod == one.labels["pod"]]
        assert one.times.tolist() == sorted({time for _, samples in offered for time in samples})
        for time, value in zip(one.times.tolist(), one.values.tolist(), strict=True):
            here = [(replica, samples[time]) for replica, samples in offered if time in samples]
            finite = sorted(pair for pair in here if math.isfinite(pair[1]))
            if not finite:
                assert not math.isfinite(value)
            else:
                assert value in [candidate for replica, candidate in finite if replica == finite[0][0]]


ONE_EACH = st.lists(
    st.tuples(st.sampled_from("pq"), st.sampled_from("abc"), SAMPLES), unique_by=lambda piece: piece[:2], max_size=6
)


@given(ONE_EACH.flatmap(lambda pieces: st.tuples(st.just(pieces), st.permutations(pieces))))
def test_the_order_of_an_answer_does_not_matter(orders):
    first, second = ([series(*piece) for piece in pieces] for pieces in orders)
    for one, other in zip(merge(first, ["replica"]), merge(second, ["replica"]), strict=True):
        assert one.labels == other.labels
        assert np.array_equal(one.times, other.times)
        assert np.array_equal(one.values, other.values, equal_nan=True)
