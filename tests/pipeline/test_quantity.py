"""One reader of quantities: the legal forms, the illegal ones, and errors that name the field."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import BadInput
from pipeline.quantity import parse


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("129e6", 129_000_000.0),
        ("1E", 1e18),
        ("1E3", 1000.0),
        ("500k", 500_000.0),
        ("1024Ki", 1_048_576.0),
        ("128974848000m", 128_974_848.0),
        ("15890m", 15.89),
        ("0.5", 0.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("1.5Gi", 1_610_612_736.0),
        ("29222Mi", 30_641_487_872.0),
        ("100n", 1e-7),
        ("250u", 2.5e-4),
        ("+3", 3.0),
        ("0", 0.0),
        ("1Ei", 2.0**60),
        (2, 2.0),
        (0.25, 0.25),
    ],
)
def test_legal_forms_give_base_units(text: object, amount: float) -> None:
    assert parse("cpu", text) == pytest.approx(amount, rel=1e-15, abs=0)


@pytest.mark.parametrize(
    "text",
    ["", " ", "16g", "1 Gi", " 1Gi", "1Gi ", "NaN", "nan", "Infinity", "-Infinity", "inf", "-1", "-1Gi", "1Kii",
     "1ki", "1mi", "1_000", "0x10", "1e999", "e6", "Gi", ".", "1,5", "١", None, True, [], float("nan"), float("inf"),
     -1, 10**400],
)  # fmt: skip
def test_illegal_forms_are_refused_with_the_field(text: object) -> None:
    with pytest.raises(BadInput, match=r"status\.capacity\.memory") as caught:
        parse("status.capacity.memory", text)
    assert "\n" not in str(caught.value)


def test_the_error_stays_short_and_is_not_remembered_for_another_field() -> None:
    for field in ("a", "b"):
        with pytest.raises(BadInput, match=f"^{field}: ") as caught:
            parse(field, "9" * 400 + "x")
        assert len(str(caught.value)) < 160


@given(st.integers(0, 10**12), st.sampled_from([("", 1), ("k", 10**3), ("M", 10**6), ("Ki", 2**10), ("Mi", 2**20)]))
def test_integers_with_suffix_are_the_product(number: int, suffix: tuple[str, int]) -> None:
    assert parse("memory", f"{number}{suffix[0]}") == float(number * suffix[1])
