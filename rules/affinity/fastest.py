"""Where the function answered fastest so far: its median on that node, else on nodes of that type."""

import numpy as np

from rules.advice import Advice, Measure, Reason
from rules.policy import Policy
from rules.request import Request
from rules.scoring import graded
from rules.view import View

NAME = "fastest"
#: Fewer runs on one node say less of the node than the runs on all of its type.
_RUNS = 10


def fastest(request: Request, view: View, policy: Policy) -> Advice:
    """Grade a node by the best median over its own; a node of a type never run on gets the function's overall one."""
    if request.function < 0:
        return Advice(NAME)
    lived, nodes = view.latencies, view.nodes
    rows = lived.of(request.function)
    node, kind, runs, p50 = lived.node[rows], lived.type_of[rows], lived.runs[rows], lived.p50[rows]
    by_type = np.full(len(nodes.types), np.nan)
    for each in np.flatnonzero((node < 0) & (kind >= 0) & (p50 > 0)).tolist():
        by_type[kind[each]] = p50[each]
    medians = by_type[nodes.type_of] if len(nodes.types) else np.zeros(0)
    of_type = medians.copy()
    own = np.full(len(nodes), np.nan)
    for each in np.flatnonzero((node >= 0) & (runs >= _RUNS) & (p50 > 0)).tolist():
        own[node[each]] = p50[each]
    medians = np.where(np.isnan(own), medians, own)
    if np.isnan(medians).all():
        return Advice(NAME)
    best = float(np.nanmin(medians))
    overall = view.functions.p50[request.function]
    usual = overall if overall > 0 else float(np.nanmedian(medians))
    said = f"{request.function_name} answered fastest so far with a median of {best:.4g} ms"
    where = nodes.types[nodes.type_of[int(np.nanargmin(medians))]]
    said += f", on {'node ' + nodes.names[int(np.nanargmin(medians))] if best in own else 'nodes of type ' + where}"
    return Advice(
        NAME,
        scores=graded("speed", best / np.maximum(np.where(np.isnan(medians), usual, medians), best)),
        reasons=(Reason(NAME, said),),
        measures=(
            Measure("median {:.4g} ms on this node", own),
            Measure("median {:.4g} ms on this node type", np.where(np.isnan(own), of_type, np.nan)),
        ),
    )
