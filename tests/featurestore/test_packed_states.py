"""Blocks packed as bytes: a mapping like the one that was packed, whatever part a victim lies in."""

import numpy as np
import pytest

from featurestore.interference.blocks import Block
from featurestore.states import PART, Packed, Step, folded

#: More than fill one part.
VICTIMS = range(3, 3 + PART + 10)


def block(number):
    """Sums of one node type and one aggressor, whose numbers tell the victim."""
    size = np.arange(9.0).reshape(3, 3)
    return Block(
        types=np.array([0]),
        columns=np.array([number]),
        gram=size @ size.T + np.eye(3),
        pull=np.full(3, float(number)),
        rows=float(number),
        met=np.array([number]),
        overlaps=np.array([2.0 * number]),
        activations=np.array([1.0]),
    )


@pytest.fixture(scope="module")
def given():
    return {victim: block(victim) for victim in VICTIMS}


@pytest.fixture(scope="module")
def packed(given):
    return Packed.of(given)


def same(one, other):
    arrays = ("types", "columns", "gram", "pull", "met", "overlaps", "activations")
    return one.rows == other.rows and all(np.array_equal(getattr(one, a), getattr(other, a)) for a in arrays)


def test_all_victims_are_there_in_their_order(packed):
    assert len(packed.parts) == 2
    assert list(packed) == list(VICTIMS)
    assert len(packed) == len(VICTIMS)
    assert not Packed([])


def test_each_victim_has_its_own_block(packed, given):
    assert all(same(found, given[victim]) for victim, found in packed.items())
    for victim in (VICTIMS[0], VICTIMS[PART], VICTIMS[-1]):
        assert same(packed[victim], given[victim])


def test_who_is_not_there_is_not_found(packed):
    assert 2 not in packed
    with pytest.raises(KeyError):
        packed[2]


def test_what_is_packed_is_folded_like_what_is_not(packed, given):
    """A day of one victim, onto the state of all: the other victims stay as they are."""
    day = Step(0, 1, 5.0, {VICTIMS[1]: block(VICTIMS[1])})
    one, other = folded(packed, [day], 40_000.0), folded(given, [day], 40_000.0)
    assert one.keys() == other.keys()
    assert all(same(one[victim], other[victim]) for victim in one)
    assert same(one[VICTIMS[0]], given[VICTIMS[0]])
    assert one[VICTIMS[1]].rows == 2 * VICTIMS[1]
