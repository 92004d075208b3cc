"""Who ran beside a run, as one number, and medians by it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from featurestore import answers, company

NAMES = ("guest/a", "guest/b", "other/a", "")
NUMBERS = company.numbers(NAMES)
ROWS = st.lists(st.dictionaries(st.integers(0, 3), st.sampled_from((0.1, 0.49, 0.5, 2.0)), max_size=4), max_size=8)


def sparse(rows):
    counts = [len(row) for row in rows]
    indices = np.array([code for row in rows for code in row], dtype=np.int32)
    values = np.array([value for row in rows for value in row.values()])
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64), indices, values


@given(ROWS)
def test_runs_have_the_same_number_if_the_same_functions_were_there_half_of_the_time(rows):
    found = answers.of_runs(*sparse(rows), NUMBERS, company.SHARE).tolist()
    sets = [frozenset(code for code, value in row.items() if value >= 0.5) for row in rows]
    for one, mine in zip(found, sets, strict=True):
        assert (one == company.ALONE) == (not mine)
        for other, theirs in zip(found, sets, strict=True):
            assert (one == other) == (mine == theirs)


@given(ROWS)
def test_the_company_on_a_node_has_the_number_of_a_run_beside_it(rows):
    node = np.array([at for at, row in enumerate(rows) for _ in row], dtype=np.int32)
    _, indices, values = sparse(rows)
    found = company.of_nodes(node, indices.astype(np.int64), values, NUMBERS, len(rows))
    assert found.tolist() == answers.of_runs(*sparse(rows), NUMBERS, company.SHARE).tolist()


def test_a_functions_number_is_the_same_in_every_process():
    """Learned in one process, looked up in another: the published test vector of BLAKE2b's digest of 8 bytes."""
    import hashlib

    assert company.number("abc") == int.from_bytes(hashlib.blake2b(b"abc", digest_size=8).digest(), "little")
    assert hashlib.blake2b(b"abc").hexdigest().startswith("ba80a53f981c4d0d")
