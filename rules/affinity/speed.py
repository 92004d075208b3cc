"""How many times longer a function takes on each node type, company apart: by the fits, else by its medians."""

import numpy as np

from rules.affinity.fastest import base_of
from rules.nodes import Floats
from rules.view import View


def hardware(function: int, view: View) -> Floats:
    """Return by number of node type how many times longer *function* takes there than on its fastest type.

    Where no fit knows the function its medians tell, a type that it never ran on being taken for its usual one; where
    nothing is known, all are alike.
    """
    return view.latencies.memo.once(("hardware", function), lambda: _hardware(function, view))


def _hardware(function: int, view: View) -> Floats:
    bases, rows = view.bases, view.bases.of(function)
    if rows.start < rows.stop:
        longer = bases.usual.copy()
        longer[bases.type_of[rows]] += bases.longer[rows]
        slower: Floats = np.exp(longer - longer.min())
        return slower
    times = base_of(function, view).by_type
    if not len(found := times[times == times]):
        return np.ones(max(len(view.nodes.types), 1))
    best, overall = float(found.min()), float(view.functions.p50[function])
    usual = overall if overall > 0 else float(np.median(found))
    slower = np.where(np.isnan(times), usual, times)
    np.maximum(slower, best, out=slower)
    slower /= best
    return slower
