"""Texts in a column against a list of them."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.texts import Texts, behind, column

WORDS = st.lists(st.text("aé€/-𝄞", max_size=4))


@given(before=WORDS, words=WORDS, more=WORDS)
def test_texts_are_those_of_a_list(before: list[str], words: list[str], more: list[str]) -> None:
    lying = pa.array([*before, *words, "behind"], pa.string()).slice(len(before), len(words))
    found, model = behind(Texts(lying), more), [*words, *more]
    assert list(found) == model
    assert len(found) == len(model)
    assert [found[place] for place in range(-len(model), len(model))] == model * 2
    assert found[1:] == tuple(model[1:])
    assert found[::-2] == tuple(model[::-2])
    assert column(found).to_pylist() == column(model).to_pylist() == model
    assert list(behind(found, ["x"])) == [*model, "x"]
    for place in (len(model), -len(model) - 1):
        with pytest.raises(IndexError):
            found[place]


def test_texts_without_a_column_are_a_tuple_with_others_behind() -> None:
    assert behind(("a",), ["b"]) == ("a", "b")
    assert list(Texts(pa.array([], pa.string()))) == []
