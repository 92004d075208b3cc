"""Numbers as people read them."""

import numpy as np
import pytest

from rules.digits import digits, percent
from rules.scoring import CRITERIA, graded, shown, told


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.01234, "0.0123"), (1.7, "1.7"), (30.38, "30.4"), (999.4, "999"), (999.6, "1,000"), (12345.6, "12,346")],
)
def test_three_digits_tell_and_whole_numbers_stay_whole(value, said):
    assert digits(value) == said


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0.0, "less than 0.1%"),
        (0.0005, "0.1%"),
        (0.004, "0.4%"),
        (0.0099, "1%"),
        (0.01, "1%"),
        (0.495, "50%"),
        (5.426, "543%"),
        (float("nan"), "nan%"),  # never an exception while a pod waits
        (float("inf"), "inf%"),
    ],
)
def test_below_one_percent_tenths_tell(share, said):
    assert percent(share) == said


@pytest.mark.parametrize(("company", "said"), [(1.0, "100.0"), (0.9937, "99.4"), (0.0, "0.0"), (0.001, "0.1")])
def test_a_score_is_told_by_its_first_criterion_however_much_the_others_are(company, said):
    for others in (0.0, 1.0):
        parts = [graded(each, np.array([others if number else company])) for number, each in enumerate(CRITERIA)]
        assert told(float(shown(sum(parts))[0])) == said
