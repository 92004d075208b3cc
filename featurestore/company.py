"""The company of a run: which functions ran beside it, as one number, so that runs in the same company are found.

A function belongs to it where on average at least half of one activation of it ran at once. The number of a company
is the sum of its functions' numbers, the first 8 bytes of their names' BLAKE2b, modulo 2**64; 0 is nobody. Two
companies of a few thousand have the same number with a probability of less than 1e-12.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

import numpy as np
import numpy.typing as npt

from featurestore.arrays import Codes, Floats, Ints

Numbers = npt.NDArray[np.uint64]

ALONE: Final = 0
#: How many activations of a function run at once, on average, where it is company.
SHARE: Final = 0.5


def number(function: str) -> int:
    """Return the number of *function*."""
    return int.from_bytes(blake2b(function.encode(), digest_size=8).digest(), "little")


def numbers(functions: Iterable[str]) -> Numbers:
    """Return the number of each of *functions*."""
    return np.array([number(each) for each in functions], dtype=np.uint64)


def of_nodes(node: Codes, function: Codes | Ints, running: Floats, functions: Numbers, nodes: int) -> Ints:
    """Return the company on each of so many *nodes*: *running* are the mean activations of *function* on *node*."""
    there = running >= SHARE
    company = np.zeros(nodes, dtype=np.uint64)
    np.add.at(company, node[there], functions[function[there]])
    return company.view(np.int64)
