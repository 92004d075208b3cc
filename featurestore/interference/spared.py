"""Blocks of a history, a node in an hour each: about one in sixteen is set aside for judging models, always the same.

Source: Steele, Lea and Flood, OOPSLA (2014) 453, for the mixing of the hash.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from featurestore.interference.evidence import Bools, Ints

#: One block in so many is set aside.
SHARE = 16
#: Microseconds of a block.
BLOCK = 3_600_000_000


def keys(names: Sequence[str]) -> NDArray[np.uint64]:
    """Return a number [n] for each node's name, the same in every process."""
    digests = (hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names)
    return np.array([int.from_bytes(digest, "little") for digest in digests], np.uint64)


def aside(key: NDArray[np.uint64], at: Ints) -> Bools:
    """Return which moments *at* [n] (microseconds) on the nodes of *key* [n] lie in blocks that are set aside."""
    mixed = key + (at // BLOCK).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: Bools = (mixed ^ (mixed >> np.uint64(31))) % np.uint64(SHARE) == 0
    return found
