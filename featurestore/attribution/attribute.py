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
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from featurestore.attribution.kernel import Pods, place
from featurestore.attribution.methods import AMBIGUOUS, GIVEN, METHODS, NONE
from featurestore.attribution.series import Samples, samples
from featurestore.columnar import PART, TIME, codes, distinct, flags, floats, micros, named, texts
from featurestore.exposure.kernels import Codes, Ints
from featurestore.exposure.sweep import OPEN

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
    nodes = distinct(placed["node"], texts(activations["node"]))
    pods = distinct(placed["pod"], texts(activations["pod"]))
    functions = distinct(placed["function"])
    known = _Known(
        codes(placed["function"], functions),
        codes(placed["pod"], pods),
        codes(placed["node"], nodes),
        _lives(placed),
        samples(placed, cpu, step_us),
    )
    n = activations.num_rows
    node, pod, method = (np.full(n, -1, np.int32) for _ in range(3))
    skew = np.zeros(n, np.int64)
    for first in range(0, n, PART):  # what is worked out on the way stays small, whatever is attributed at once
        some = slice(first, first + PART)
        node[some], pod[some], method[some], skew[some] = _attributed(
            activations.slice(first, PART), known, functions, pods, nodes, skew_us
        )
    return pa.table(
        {
            "node": named(node, nodes),
            "pod": named(pod, pods),
            "method": named(method, METHODS),
            "skew_us": pa.array(skew, pa.int64(), mask=skew < 0),
        }
    )


class _Known(NamedTuple):
    """The pods (p,): codes of their *function*, *pod* and *node*, their *lives* (`_lives`), and their *cpu*."""

    function: Codes
    pod: Codes
    node: Codes
    lives: tuple[Ints, Ints, Ints]
    cpu: Samples

    def by(self, key: Codes) -> Pods:
        return Pods(key, *self.lives, self.node)


def _attributed(
    activations: pa.Table, known: _Known, functions: pa.Array, pods: pa.Array, nodes: pa.Array, skew_us: int
) -> tuple[npt.NDArray[np.integer], ...]:
    """Return node, pod and method (-1: none) and the skew (-1: nothing was placed) of each activation (n,)."""
    composite = flags(activations["composite"])
    own_node, own_pod = codes(texts(activations["node"]), nodes), codes(texts(activations["pod"]), pods)
    own_node[composite], own_pod[composite] = -1, -1
    placing = ~composite & (own_node < 0)
    if not placing.any():
        method = np.where(composite, -1, GIVEN)
        return own_node, own_pod, method, np.full(len(method), -1)
    start = micros(activations["start"])
    end = micros(activations["end"])
    end = np.where(end == OPEN, start, np.maximum(start, end))
    ready = _ready(activations, start, end)
    wanted = codes(activations["function"], functions)
    wanted[~placing | (own_pod >= 0)] = -1
    method, pod, node, skew = place(wanted, start, ready, end, known.by(known.function), known.cpu, skew_us)
    only_pod = np.where(placing, own_pod, -1).astype(np.int32)
    by_name = place(only_pod, start, ready, end, known.by(known.pod), known.cpu, skew_us)
    named_only = only_pod >= 0
    node = np.where(named_only & (by_name[0] < AMBIGUOUS), by_name[2], np.where(own_node >= 0, own_node, node))
    pod = np.where(own_pod >= 0, own_pod, np.where(pod >= 0, known.pod[pod] if len(known.pod) else -1, -1))
    skew = np.where(named_only, by_name[3], skew)
    method = np.where((own_node >= 0) | (named_only & (node >= 0)), GIVEN, np.where(named_only, NONE, method))
    method[composite] = -1
    return node, pod, method, np.where((node >= 0) & placing, skew, -1)


def counts(attributed: pa.Table) -> Mapping[str, float]:
    """Return the number of activations by method, and the observed skew: *skew_max_ms*, *skew_median_ms*.

    The median is over the activations that needed any skew; both are 0 where none did.
    """
    method = codes(attributed["method"], pa.array(METHODS))
    number = np.bincount(method + 1, minlength=len(METHODS) + 1)[1:]
    skew = floats(attributed["skew_us"].drop_null())
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
