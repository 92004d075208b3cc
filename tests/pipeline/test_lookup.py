"""Numbers by text against a dictionary."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import lookup
from pipeline.lookup import Lookup, Numbered

WORDS = st.text("ab/-", max_size=4)


def of(texts: Sequence[str]) -> Lookup:
    return Lookup(((text, number) for number, text in enumerate(texts)), lambda number, text: texts[number] == text)


@given(texts=st.lists(WORDS), asked=st.lists(WORDS))
def test_every_number_of_a_text_is_found_in_order(texts: list[str], asked: list[str]) -> None:
    found = of(texts)
    assert len(found) == len(texts)
    for text in [*texts, *asked]:
        assert found.of(text) == tuple(number for number, each in enumerate(texts) if each == text)


def test_texts_of_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "crc32", len)
    found = of(["ab", "cd", "ab", "e"])
    assert (found.of("ab"), found.of("cd"), found.of("e"), found.of("xy"), found.of("abc")) == (
        (0, 2),
        (1,),
        (3,),
        (),
        (),
    )


@given(names=st.lists(WORDS, unique=True), asked=st.lists(WORDS))
def test_numbered_names_are_a_dictionary(names: list[str], asked: list[str]) -> None:
    numbered, model = Numbered(names), {name: number for number, name in enumerate(names)}
    assert dict(numbered) == model
    assert len(numbered) == len(model)
    for name in asked:
        assert (numbered.get(name), numbered.get(name, -1), name in numbered) == (
            model.get(name),
            model.get(name, -1),
            name in model,
        )
        if name not in model:
            with pytest.raises(KeyError):
                numbered[name]
    assert 3 not in numbered
    assert numbered.keys() == model.keys()


def test_names_of_one_hash_are_numbered_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "crc32", lambda text: 2**32 - 1)
    names = [f"n{number}" for number in range(40)]
    assert dict(Numbered(names)) == {name: number for number, name in enumerate(names)}
    assert Numbered(names).get("n40") is None
