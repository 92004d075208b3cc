import math
from datetime import UTC, datetime, timedelta

import pyarrow.compute as pc
import pytest

from benchmarks import histories
from benchmarks.growth import TOLERANCE, exponent, loglinear
from benchmarks.results import keep

END = datetime(2024, 6, 3, tzinfo=UTC)


@pytest.mark.parametrize("power", [0.5, 1.0, 1.5, 2.0])
def test_the_exponent_is_that_of_what_is_added_to_a_fixed_cost(power):
    first, second, third = (7.0 + 3.0 * n**power for n in (100, 400, 1600))

    assert exponent((first, second, third)) == pytest.approx(power)


def test_n_log_n_is_within_the_tolerance_and_a_square_is_not():
    assert loglinear(1000) == pytest.approx(
        math.log((16 * math.log(16_000) - 4 * math.log(4_000)) / (4 * math.log(4_000) - math.log(1_000)), 4)
    )
    assert 1.0 < loglinear(1000) < 2.0 - TOLERANCE


def test_growth_that_only_the_last_size_shows_is_no_growth_that_is_known():
    assert exponent((1.0, 1.0, 2.0)) == math.inf
    assert exponent((1.0, 2.0, 2.0)) == 0.0


def test_a_history_comes_in_parts_that_follow_each_other_with_ids_of_their_own():
    first, second = histories.history(4_000, END, days=2, functions=10, nodes=3)

    assert pc.min(first["start"]).as_py() == END - timedelta(days=2)
    assert pc.min(second["start"]).as_py() == END - timedelta(days=1)
    assert pc.max(second["end"]).as_py() == END
    ids = [*first["activation_id"].to_pylist(), *second["activation_id"].to_pylist()]
    assert len(set(ids)) == len(ids)
    assert {len(each) for each in ids} == {32}


def test_kept_results_replace_their_own_section_alone(tmp_path):
    path = tmp_path / "RESULTS.md"
    for name, table in (("two", "| old |"), ("one", "| other |"), ("two", "| new |")):
        keep(path, name, "a machine", table)

    text = path.read_text()
    assert "old" not in text
    assert text.index("## one") < text.index("| other |") < text.index("## two") < text.index("| new |")
