"""What a full fit takes over from the state before."""

import numpy as np
import pyarrow as pa
import pytest

from featurestore.engines.past import recall
from featurestore.interference.blocks import Block, Linearisation
from featurestore.runs import Runs
from featurestore.states import Head, State, Step

NONE = np.zeros(0)
NO_CODES = np.zeros(0, np.int64)


@pytest.fixture
def nobody():
    """Not a single run."""
    texts, codes = pa.array([], pa.string()), np.zeros(0, np.int32)
    given = (texts, texts, texts, texts, (), codes, codes, codes, codes, NO_CODES, NO_CODES, NONE)
    return Runs(*given, np.zeros(0, bool), NO_CODES, np.zeros(0, bool))


def state(block):
    """A state of two functions whose only step is *block*, a correction."""
    head = Head("m", 9, 0, 5, "1", {}, "", ("f", "g"), ("t",), 0.0, 9.0, {})
    point = Linearisation(0, np.array([0]), np.zeros(1), NO_CODES, NONE, NONE, 0.1)
    return State(head, {0: point}, {0: block}, steps=[Step(5, 5, 0.0, {0: block})])


def test_a_correction_without_a_day_is_not_taken_over(nobody):
    """As states held it that were stored before: a pull of its own, which would say anything at all."""
    alone = Block(np.array([0]), np.array([1]), np.zeros((3, 3)), np.array([9.0, 3.0, 0.0]))
    past, _ = recall(state(alone), nobody, 7, 1e9)
    assert (past.aged, past.points) == ({}, {})


def test_what_days_have_evidence_of_is_taken_over(nobody):
    days = Block(np.array([0]), np.array([1]), np.eye(3), np.array([9.0, 3.0, 0.0]), rows=4.0)
    past, _ = recall(state(days), nobody, 7, 1e9)
    assert list(past.aged) == [0]
