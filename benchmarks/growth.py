"""How the heavy steps grow: each at three sizes, the exponent of what is added, and a miss above n log n.

The sizes are a, 4 a and 16 a, so that a fixed cost drops out: with t = c + b n^p, (t3 - t2) / (t2 - t1) = 4^p. Times
are processor time of this process, since other work on the machine must not look like growth.
"""

import gc
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from benchmarks import histories
from benchmarks.cluster_reading import served
from benchmarks.figures import Figure, timing
from benchmarks.predecessor import beside
from benchmarks.webhook_world import CLUSTER, function, snapshot
from featurestore import runs
from featurestore.attribution.attribute import attribute
from featurestore.columnar import named
from featurestore.designs import designs, expose
from featurestore.exposure.sweep import sweep
from featurestore.interference.decision import decide
from featurestore.interference.evidence import Options, Told
from featurestore.interference.victim import fit_victim
from featurestore.store import published
from pipeline.clients.kubernetes import KubernetesClient
from pipeline.collectors import placements
from pipeline.columns import TABLES
from pipeline.objects import pod_of
from rules.policy import Policy
from rules.publishing import columns
from rules.recommend import recommend
from rules.request import from_pod
from rules.view import prepare

#: How far an exponent may lie above that of n log n: what rounds differ by, and caches that are outgrown.
TOLERANCE = 0.15
RATIO, ROUNDS = 4, 7
_DAY = 86_400_000_000
_END = datetime(2024, 6, 3, tzinfo=UTC)

Work = Callable[[], object]


def exponent(seconds: tuple[float, float, float], ratio: float = RATIO) -> float:
    """Return p of t = c + b n^p from the times at n, *ratio* n and *ratio*^2 n; 0 where the last is no more than the
    one before, infinite where only the last is more."""
    first, then = seconds[1] - seconds[0], seconds[2] - seconds[1]
    if then <= 0:
        return 0.0
    return math.log(then / first) / math.log(ratio) if first > 0 else math.inf


def loglinear(least: int, ratio: float = RATIO) -> float:
    """Return the `exponent` that n log n shows from *least* on."""
    sizes = [least * ratio**power for power in range(3)]
    first, second, third = (size * math.log(size) for size in sizes)
    return exponent((first, second, third), ratio)


def run(scale: float = 1.0) -> list[Figure]:
    """Measure every step, and our times for the predecessor's two inputs."""
    with threadpool_limits(1, "blas"):
        return [*(_step(name, max(1, int(least * scale))) for name, (least, _, _) in STEPS.items()), *beside(scale)]


def _step(name: str, least: int) -> Figure:
    _, unit, made = STEPS[name]
    sizes = [least * RATIO**power for power in range(3)]
    with _ready(made, sizes) as works:
        taken: list[list[float]] = [[], [], []]
        for number in range(ROUNDS + 1):
            for own, work in zip(taken, works, strict=True):
                gc.collect()
                began = time.process_time()
                work()
                if number:
                    own.append(time.process_time() - began)
    found = [timing(own) for own in taken]
    first, second, third = (each.median for each in found)
    grown, most = exponent((first, second, third)), loglinear(least) + TOLERANCE
    told_of = ", ".join(f"{size:,}: {each.median:.3g} s" for size, each in zip(sizes, found, strict=True))
    return Figure(
        f"{name} by {unit}", grown, "exponent", spread=found[2].spread,
        goal=f"<= {most:.2f} (n log n: {most - TOLERANCE:.2f})", met=grown <= most, note=told_of,
    )  # fmt: skip


@contextmanager
def _ready(made: Callable[[int], AbstractContextManager[Work]], sizes: list[int]) -> Iterator[list[Work]]:
    first, second, third = (made(size) for size in sizes)
    with first as one, second as two, third as three:
        yield [one, two, three]


@contextmanager
def _exposure(n: int) -> Iterator[Work]:
    rng = np.random.default_rng(1)
    node, of = rng.integers(0, 100, n).astype(np.int32), rng.integers(0, 40, n).astype(np.int32)
    start = rng.integers(0, int(1e6 * n / 200), n)
    end = start + (1e6 * rng.exponential(1.0, n)).astype(np.int64)
    yield lambda: sweep(node, start, end, of, functions=40)


@contextmanager
def _attribution(n: int) -> Iterator[Work]:
    """Runs without a node, of functions with four pods each: one pod for 500 runs."""
    rng = np.random.default_rng(2)
    pods = max(4, n // 500)
    names = pa.array([f"guest/f{number}" for number in range(max(1, pods // 4))])
    nowhere = pa.nulls(n, pa.string())
    start = np.sort(rng.integers(0, _DAY, n))
    moments = pa.timestamp("us", tz="UTC")
    activations = pa.table(
        {
            "function": named(rng.integers(0, len(names), n), names),
            "start": pa.array(start).cast(moments),
            "end": pa.array(start + 1_000_000).cast(moments),
            "composite": pa.array(np.zeros(n, bool)),
            "node": nowhere,
            "pod": nowhere,
        }
    )
    born = pa.array(np.zeros(pods, np.int64)).cast(moments)
    lives = pa.table(
        {
            "namespace": pa.array(["openwhisk"] * pods),
            "pod": pa.array([f"pod-{number}" for number in range(pods)]),
            "node": pa.array([f"n{number % 100}" for number in range(pods)]),
            "function": named(np.arange(pods) % len(names), names),
            "function_from": born,
            "started": born,
            "ended": pa.nulls(pods, moments),
        }
    )
    yield lambda: attribute(activations, lives, skew_us=1_000_000)


@contextmanager
def _fits(n: int) -> Iterator[Work]:
    """All fits of ten functions on two nodes."""
    [rows] = histories.history(n, _END, functions=10, nodes=2)
    none = TABLES["placements"].empty_table()
    where = pa.table({"node": rows["node"], "pod": rows["pod"], "method": named(np.full(len(rows), 5), _GIVEN)})
    read = runs.read(rows, where, _NO_NODES, none, int(_END.timestamp() * 1e6))
    exposure = expose(read)
    yield lambda: [fit_victim(each) for each, _ in designs(read, exposure, Options().column_overlaps)]


@contextmanager
def _decision(n: int) -> Iterator[Work]:
    """Pairs that met, forty for each victim."""
    rng = np.random.default_rng(3)
    fits = [_fit(rng, victim, max(41, n // 40)) for victim in range(max(41, n // 40))]
    yield lambda: decide(fits, Options())


def _fit(rng: np.random.Generator, victim: int, functions: int, met: int = 40) -> Told:
    columns = np.sort(rng.choice(functions, met, replace=False))
    slowdown = np.where(rng.random(met) < 0.15, rng.uniform(0.1, 1.0, met), rng.normal(0, 0.02, met))
    error, nothing = np.full(met, 0.02), np.zeros(met)
    return Told(
        victim=victim, functions=functions, rows=1000, reason="", met=columns, slowdown=slowdown, se=error,
        placebo=nothing, placebo_se=error, effective_overlaps=np.full(met, 100.0),
        activations=np.full(met, 200), inflation=np.ones(met), columns=columns, raw=np.log1p(slowdown),
        precision=np.eye(met) / 0.02**2, noise=0.2,
    )  # fmt: skip


@contextmanager
def _snapshot(n: int) -> Iterator[Work]:
    """Written and mapped: pods, a tenth of nodes, a fifteenth of functions, twice as many pairs."""
    made = snapshot(max(1, n // 10), n, max(1, n // 15), 2 * n)
    with TemporaryDirectory(prefix="growth-") as place:
        path = Path(place) / "snapshot"

        def work() -> None:
            published.write(made, path, columns)
            published.load(path)

        yield work


@contextmanager
def _recommendation(n: int) -> Iterator[Work]:
    """Ten pods, each answered without any cache, by a view of nodes with ten pods each."""
    known = snapshot(n, 10 * n, 1_000, 20_000)
    view, policy = prepare(known, CLUSTER, known.created), Policy(mode="prefer")
    asked = []
    for number in range(10):
        namespace, action = function(number).split("/")
        labels = {"openwhisk/namespace": namespace, "openwhisk/action": action}
        pod = {"metadata": {"name": "new", "labels": labels}, "spec": {"containers": []}}
        asked.append(from_pod(pod, pod_of(pod), view, namespace="openwhisk", cluster=CLUSTER, policy=policy))
    yield lambda: [recommend(each, view, policy, decision="d") for each in asked]


@contextmanager
def _collection(n: int) -> Iterator[Work]:
    """Pods from a server's pages to columns."""
    with served({"nodes": 10, "pods": n}) as kubeconfig:
        client = KubernetesClient(kubeconfig=kubeconfig, page=500)
        yield lambda: placements.collect(client.list, _END + timedelta(days=400))


_GIVEN = pa.array(["exact", "node", "inferred", "ambiguous", "none", "given"])
_NO_NODES = pa.table({name: pa.nulls(0, pa.string()) for name in ("node", "node_type", "kernel")}).append_column(
    "valid_from", pa.nulls(0, pa.timestamp("us", tz="UTC"))
)

#: The least size of each step, what is counted, and what makes it ready to be timed.
STEPS: Mapping[str, tuple[int, str, Callable[[int], AbstractContextManager[Work]]]] = {
    "exposure": (100_000, "activations", _exposure),
    "attribution": (200_000, "activations", _attribution),
    "fits": (10_000, "activations", _fits),
    "decision": (2_000, "pairs that met", _decision),
    "snapshot": (5_000, "pods", _snapshot),
    "recommendation": (2_000, "nodes", _recommendation),
    "collection": (2_000, "pods", _collection),
}
