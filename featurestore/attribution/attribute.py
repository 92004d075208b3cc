"""Which pod, which node: placing activations, whose records name neither, from the history of placements.

A pod can have served an activation when it was of the activation's function and alive over the whole run. Pods that
were alive by their own clocks come first; only where there is none, the tolerated skew between clocks is granted.

A pod is its function's from its label on, which it gets when it is initialised: a cold run, whose duration includes
the initialisation, needs a pod that is alive over the whole run and its function's from the initialisation's end.

* one pod: ``exact``. Several on one node: ``node``, the node is certain, the pod is not.
* pods on several nodes: ``inferred`` where the pods' CPU leaves one node only, else ``ambiguous``: kept, and evidence
  for nothing. No pod at all: ``none``. An imported record that names its node or pod: ``given``.
* records of composites and triggers have no pod: no method.

CPU leaves a pod out when it cannot have done the work. The busiest candidate's mean use over the samples of the run
is a lower bound of what the function uses while it runs (a pod that serves one at a time is never busier than its
function), so that the run cost at least that times its duration; a pod that used less than half of it over the same
samples did not serve it. The samples must cover the run for every candidate.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from featurestore.attribution.kernel import Pods, place
from featurestore.attribution.series import samples
from featurestore.columnar import TIME, codes, distinct, flags, floats, micros, named, texts
from featurestore.exposure.kernels import Ints
from featurestore.exposure.sweep import OPEN

METHODS = ("exact", "node", "inferred", "ambiguous", "none", "given")
EXACT, NODE, INFERRED, AMBIGUOUS, NONE, GIVEN = range(6)

#: Whose node is certain enough to be evidence.
CERTAIN = (EXACT, NODE, INFERRED, GIVEN)

#: How much time a usage sample speaks of where a pod has no earlier one (microseconds).
DEFAULT_STEP = 300_000_000


def attribute(
    activations: pa.Table,
    placements: pa.Table,
    cpu: pa.Table | None = None,
    *,
    skew_us: int,
    step_us: int = DEFAULT_STEP,
) -> pa.Table:
    """Return one row an activation, in their order: *node*, *pod*, *method* (dictionaries), *skew_us* (int64).

    *activations* has function, start, end, composite, node, pod, and init_ms where it is known; *placements* the
    columns of the store's table; *cpu* namespace, name, at and value (cores, mean over the step before *at*) of pods.
    *skew_us* of the answer is the least difference between clocks that explains the placement, null where nothing
    was placed. A run whose end is not known is placed by its start. O((n + pods) log n + n * pods of a function alive
    at once).
    """
    placed = placements.filter(pc.is_valid(placements["function"]))
    lives = _lives(placed)
    own = samples(placed, cpu, step_us)
    start = micros(activations["start"])
    end = micros(activations["end"])
    end = np.where(end == OPEN, start, np.maximum(start, end))
    ready = _ready(activations, start, end)
    given_node, given_pod = texts(activations["node"]), texts(activations["pod"])
    node_names = distinct(placed["node"], given_node)
    pod_names = distinct(placed["pod"], given_pod)
    node_of_pod = codes(placed["node"], node_names)
    own_node, own_pod = codes(given_node, node_names), codes(given_pod, pod_names)
    composite = flags(activations["composite"])

    functions = distinct(placed["function"])
    wanted = codes(activations["function"], functions)
    wanted[(own_node >= 0) | (own_pod >= 0) | composite] = -1
    method, pod, node, skew = place(
        wanted, start, ready, end, Pods(codes(placed["function"], functions), *lives, node_of_pod), own, skew_us
    )
    only_pod = np.where((own_pod >= 0) & (own_node < 0) & ~composite, own_pod, -1).astype(np.int32)
    by_name = place(
        only_pod, start, ready, end, Pods(codes(placed["pod"], pod_names), *lives, node_of_pod), own, skew_us
    )
    named_only = only_pod >= 0
    node = np.where(named_only & (by_name[0] < AMBIGUOUS), by_name[2], np.where(own_node >= 0, own_node, node))
    served = codes(placed["pod"], pod_names)
    pod = np.where(own_pod >= 0, own_pod, np.where(pod >= 0, served[pod] if len(served) else -1, -1))
    skew = np.where(named_only, by_name[3], skew)
    method = np.where((own_node >= 0) | (named_only & (node >= 0)), GIVEN, np.where(named_only, NONE, method))
    method[composite] = -1
    known = (node >= 0) & ~composite & (own_node < 0)
    return pa.table(
        {
            "node": named(np.where(composite, -1, node), node_names),
            "pod": named(np.where(composite, -1, pod), pod_names),
            "method": named(method, METHODS),
            "skew_us": pa.array(skew, pa.int64(), mask=~known),
        }
    )


def counts(attributed: pa.Table) -> Mapping[str, float]:
    """Return the number of activations by method, and the observed skew: *skew_max_ms*, *skew_median_ms*.

    The median is over the activations that needed any skew; both are 0 where none did.
    """
    method = codes(attributed["method"], pa.array(METHODS))
    number = np.bincount(method[method >= 0], minlength=len(METHODS))
    skew = floats(attributed["skew_us"])
    skew = skew[skew > 0] / 1000
    return {name: float(number[code]) for code, name in enumerate(METHODS)} | {
        "skew_max_ms": float(skew.max(initial=0.0)),
        "skew_median_ms": float(np.median(skew)) if len(skew) else 0.0,
    }


def _ready(activations: pa.Table, start: Ints, end: Ints) -> Ints:
    """Return when each run's pod was initialised: its start where it was warm."""
    if "init_ms" not in activations.column_names:
        return start
    initialisation = np.nan_to_num(floats(activations["init_ms"])) * 1000
    return np.clip(start + initialisation.astype(np.int64), start, end)


def _lives(placed: pa.Table) -> tuple[Ints, Ints, Ints]:
    """Return from when each pod lives, from when it is its function's, and until when it lives; microseconds."""
    since = micros(pc.coalesce(placed["function_from"], placed["started"]).cast(TIME))
    return np.minimum(micros(placed["started"]), since), since, micros(placed["ended"])
