"""From copies of the store to the hold-out: exposures within each block, and what two models say of its functions."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from featurestore.columnar import PART, codes, distinct, flags, floats, integers, micros
from featurestore.exposure.kernels import Codes
from featurestore.exposure.sweep import sweep
from featurestore.interference.evidence import Bools
from featurestore.interference.holdout import Held, Verdict, judge
from featurestore.interference.spared import BLOCK, aside, keys
from featurestore.runs import Runs


def set_aside(runs: Runs) -> Bools:
    """Return which of *runs* [n] ended in a block that is set aside."""
    found = np.zeros(len(runs), bool)
    key = np.append(keys(runs.nodes.to_pylist()), np.uint64(0))
    for first in range(0, len(runs), PART):
        some = slice(first, first + PART)
        found[some] = aside(key[runs.node[some]], runs.end[some]) & (runs.node[some] >= 0)
    return found


def compare(runs: pa.Table, candidate: pa.Table, before: pa.Table) -> Verdict:
    """Judge the pairs of a *candidate* by those of the model *before* on *runs* (`featurestore.store.heldout.runs`).

    Told are the successes that lie in their block as a whole; all runs that touch it count as those beside them.
    """
    functions = distinct(runs["function"])
    held = _held(runs, functions)
    return judge(held, _slowdowns(candidate, functions), _slowdowns(before, functions))


def _held(runs: pa.Table, functions: pa.Array) -> Held:
    nodes = distinct(runs["node"])
    node, hour = codes(runs["node"], nodes).astype(np.int64), integers(runs["hour"], -1)
    start, end = micros(runs["start"]), micros(runs["end"])
    function, seconds = codes(runs["function"], functions), floats(runs["latency_ms"]) / 1000
    _, found_block = np.unique(np.stack([node, hour]), axis=1, return_inverse=True)
    block: Codes = found_block.reshape(-1).astype(np.int32)
    found = sweep(block, start, end, function, functions=len(functions))
    told = flags(runs["success"]) & (start // BLOCK == hour) & (end // BLOCK == hour) & (seconds > 0)
    taken = np.flatnonzero(told[found.rows])
    own = found.rows[taken]
    shape = (len(found.rows), len(functions))
    whole = sparse.csr_matrix((found.values, found.indices, found.indptr), shape=shape)
    return Held(
        victim=function[own].astype(np.int64),
        node=node[own],
        block=block[own].astype(np.int64),
        hour=hour[own],
        cold=flags(runs["cold"])[own],
        execution=seconds[own],
        exposure=whole[taken],
    )


def _slowdowns(pairs: pa.Table, functions: pa.Array) -> sparse.csr_matrix:
    """Return the told slowdowns [F, F] over *functions*, of all node types together, none where nothing is told."""
    pairs = pairs.filter(pc.equal(pairs["node_type"].cast(pa.string()), ""))
    victim, aggressor = codes(pairs["victim"], functions), codes(pairs["aggressor"], functions)
    told = floats(pairs["slowdown"])
    known = (victim >= 0) & (aggressor >= 0) & np.isfinite(told)
    shape = (len(functions), len(functions))
    return sparse.csr_matrix((told[known], (victim[known], aggressor[known])), shape=shape)
