"""Which release of the operating system's kernel each node ran, and when, as its specifications say."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from featurestore.columnar import codes, distinct, micros
from featurestore.compiled import compiled
from featurestore.exposure.kernels import Codes, Ints


def _none() -> Ints:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class NodeKernels:
    """s specifications: *node* [s] a code, valid from *since* [s] to before *until* [s] (microseconds), *kernel* [s]
    a code into *names*, -1 where it was not said; by node, then by time."""

    names: Sequence[str] = ()
    node: Ints = field(default_factory=_none)
    since: Ints = field(default_factory=_none)
    until: Ints = field(default_factory=_none)
    kernel: Ints = field(default_factory=_none)

    def at(self, node: Codes, time: Ints) -> Ints:
        """Return the kernel (n,) that each *node* (n,; -1: not known) ran at a *time* (n,); -1 where nobody said."""
        if not self.names:
            return np.full(len(node), -1, np.int64)
        return _at(node, time, self.node, self.since, self.until, self.kernel)

    def during(self, since: int, until: int) -> tuple[str, ...]:
        """Return all kernels that any node ran at any time from *since* to before *until*, sorted.

        Empty where it is not known of every node: one that does not say may run any.
        """
        running = self.kernel[(self.since < until) & (self.until > since)]
        if not self.names or not len(running) or np.any(running < 0):
            return ()
        return tuple(sorted(self.names[code] for code in np.unique(running)))


def read(specs: pa.Table, nodes: pa.Array) -> NodeKernels:
    """Return the kernels of *specs* (node, valid_from, valid_to, kernel), nodes as codes into *nodes*."""
    if "kernel" not in specs.column_names or not len(names := distinct(specs["kernel"])):
        return NodeKernels()
    node, since = codes(specs["node"], nodes).astype(np.int64), micros(specs["valid_from"])
    order = np.lexsort((since, node))
    kernel = codes(specs["kernel"], names).astype(np.int64)
    return NodeKernels(
        tuple(names.to_pylist()), node[order], since[order], micros(specs["valid_to"])[order], kernel[order]
    )


@compiled
def _at(node: Codes, time: Ints, own: Ints, since: Ints, until: Ints, kernel: Ints) -> Ints:
    """Return the *kernel* [s] of the last specification before each *time* [n] of a *node* [n], if it was valid then;
    those of nodes *own* [s] in order of these, then of *since* [s]."""
    found = np.full(len(node), -1, np.int64)
    for row in range(len(node)):
        low, high = 0, len(own)
        while low < high:
            middle = (low + high) // 2
            if own[middle] < node[row] or (own[middle] == node[row] and since[middle] <= time[row]):
                low = middle + 1
            else:
                high = middle
        if low > 0 and own[low - 1] == node[row] and time[row] < until[low - 1]:
            found[row] = kernel[low - 1]
    return found
