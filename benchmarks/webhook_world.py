"""A large cluster's snapshot and the reviews that are asked against it, both made up and reproducible, and what is
configured of who serves it."""

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa

from featurestore.snapshot import TABLES, Snapshot, empty
from featurestore.store import published
from rules.publishing import columns

CLUSTER = "bench"
#: Stands for the uid in a review that is asked under many.
PLACE = b"00000000-0000-4000-8000-000000000000"


def function(number: int) -> str:
    """The name of function *number*."""
    return f"team{number % 40:02d}/step{number:05d}"


def table(name: str, count: int, **columns: object) -> pa.Table:
    schema = TABLES[name]
    arrays = [
        pa.array(columns[field.name], field.type) if field.name in columns else pa.nulls(count, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def snapshot(nodes: int, pods: int, functions: int, pairs: int, seed: int = 0) -> Snapshot:
    """Return a snapshot of so many nodes, running pods, functions and learned pairs (a fifth of them disturbing)."""
    rng = np.random.default_rng(seed)
    names = [f"node-{number:05d}" for number in range(nodes)]
    known = sorted(function(number) for number in range(functions))
    allocatable = json.dumps({"cpu": 32.0, "memory": 128.0 * 2**30, "pods": 250.0})
    labels = [
        json.dumps(
            {
                "kubernetes.io/hostname": name,
                "disktype": "ssd" if number % 3 else "hdd",
                "zone": f"z{number % 3}",
                **({"gpu": "yes"} if number % 20 == 0 else {}),
            }
        )
        for number, name in enumerate(names)
    ]
    where = rng.integers(0, nodes, pods)
    who = rng.integers(0, functions, pods)
    victim, aggressor = rng.integers(0, functions, pairs), rng.integers(0, functions, pairs)
    order = np.lexsort((aggressor, victim))  # by name, as learning publishes them
    victim, aggressor = victim[order], aggressor[order]
    slowdown = np.where(rng.random(pairs) < 0.2, rng.uniform(0.1, 1.0, pairs), rng.normal(0, 0.02, pairs))
    now = datetime.now(UTC)
    tables = {
        "nodes": table(
            "nodes", nodes, cluster=[CLUSTER] * nodes, node=names, node_type=[f"t{n % 4}" for n in range(nodes)],
            ready=[True] * nodes, schedulable=[True] * nodes, cpu_cores=[32.0] * nodes,
            memory_bytes=[128.0 * 2**30] * nodes, pods=[250.0] * nodes, gpu_count=[0] * nodes, labels=labels,
            taints=["[]"] * nodes, allocatable=[allocatable] * nodes, cpu_used_cores=rng.uniform(0, 24, nodes),
            memory_used_bytes=rng.uniform(0, 96, nodes) * 2**30, used_at=[now] * nodes,
        ),
        "functions": table(
            "functions", functions, cluster=[CLUSTER] * functions, function=known, node_type=[""] * functions,
            dominant=["cpu"] * functions, cpu=["high"] * functions, memory=["low"] * functions,
            network=["low"] * functions, disk=["low"] * functions, source=["measured"] * functions,
            activations=[1000] * functions, p50_ms=rng.uniform(5, 500, functions),
            p95_ms=rng.uniform(500, 900, functions),
        ),
        "latencies": table(
            "latencies", 4 * functions, cluster=[CLUSTER] * 4 * functions,
            function=[name for name in known for _ in range(4)], node_type=[f"t{n}" for n in range(4)] * functions,
            node=[""] * 4 * functions, activations=[500] * 4 * functions, p50_ms=rng.uniform(5, 500, 4 * functions),
            p95_ms=rng.uniform(500, 900, 4 * functions),
        ),
        "placements": table(
            "placements", pods, cluster=[CLUSTER] * pods, uid=[f"uid-{n}" for n in range(pods)],
            namespace=["openwhisk"] * pods, pod=[f"pod-{n}" for n in range(pods)], node=[names[n] for n in where],
            function=[known[n] for n in who], phase=["Running"] * pods, started=[now] * pods,
            cpu_request_cores=[0.25] * pods, memory_request_bytes=[256.0 * 2**20] * pods, labels=["{}"] * pods,
        ),
        "pairs": table(
            "pairs", pairs, cluster=[CLUSTER] * pairs, victim=[known[n] for n in victim],
            aggressor=[known[n] for n in aggressor], node_type=[""] * pairs, status=["observed"] * pairs,
            slowdown=slowdown, low=slowdown - 0.02, high=slowdown + 0.02,
            probability=np.where(slowdown > 0.08, 0.99, 0.1), effective_overlaps=[100.0] * pairs,
            activations=[1000] * pairs, window_start=[now] * pairs, window_end=[now] * pairs,
        ),
        "base_times": table(
            "base_times", 4 * functions, cluster=[CLUSTER] * 4 * functions,
            function=[name for name in known for _ in range(4)], node_type=[f"t{n}" for n in range(4)] * functions,
            base_ms=rng.uniform(5, 500, 4 * functions),
        ),
    }  # fmt: skip
    blank = empty(now, "bench-1")
    return Snapshot(blank.version, now, (CLUSTER,), {}, {}, {**blank.tables, **tables})


def publish(path: str, arguments: tuple[int, int, int, int, int]) -> None:
    """Write the snapshot of these *arguments* to *path*, under a version of its own."""
    made = snapshot(*arguments)
    published.write(replace(made, version=f"bench-{arguments[-1] + 1}"), Path(path), columns)


def configuration(directory: Path, name: str, more: str = "") -> Path:
    """Write a configuration whose files bear *name*; returns its path."""
    path = directory / f"{name}.toml"
    path.write_text(
        f"[store]\npath = {str(directory / f'{name}.db')!r}\nsnapshot = {str(directory / f'{name}.snapshot')!r}\n"
        f"spool = {str(directory / f'{name}.spool')!r}\ncontrol = {str(directory / f'{name}.control')!r}\n"
        f"[advice]\nmode = 'prefer'\nstale_after = '7d'\n[serve]\ncluster = '{CLUSTER}'\n{more}"
    )
    return path


def templates(numbers: Iterable[int], seed: int) -> list[bytes]:
    """Return a review of each function of these *numbers*, as `reviews` makes them, with `PLACE` for the uid."""
    rng = random.Random(seed)
    return [_review(rng, row, function(number), PLACE.decode(), 6000) for row, number in enumerate(numbers)]


def reviews(count: int, functions: int, seed: int = 1, size: int = 6000) -> Iterator[bytes]:
    """Yield *count* reviews of about *size* bytes, each of a random function with random labels and namespace."""
    rng = random.Random(seed)
    for number in range(count):
        name = function(rng.randrange(functions))
        yield _review(rng, number, name, f"{number:08d}-0000-4000-8000-{seed:012d}", size)


def _review(rng: random.Random, number: int, name: str, uid: str, size: int) -> bytes:
    owner, _, action = name.partition("/")
    labels = {f"label-{rng.randrange(10**6)}": f"value-{rng.randrange(10**6)}" for _ in range(6)}
    labels |= {"openwhisk/namespace": owner, "openwhisk/action": action}
    pod_name, namespace, padding = f"inv-{number}-{action}", f"ns-{rng.randrange(200)}", {"padding": ""}
    metadata = {"name": pod_name, "namespace": namespace, "labels": labels, "annotations": padding}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            "containers": [
                {
                    "name": "user-action",
                    "image": "registry.example/runtime:1",
                    "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}},
                    "env": [{"name": f"VARIABLE_{n}", "value": f"{rng.random()}"} for n in range(20)],
                }
            ],
            "tolerations": [{"key": "example", "operator": "Exists", "effect": "NoSchedule"}],
        },
    }
    request = {
        "uid": uid,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": pod_name,
        "namespace": namespace,
        "operation": "CREATE",
        "userInfo": {"username": "system:serviceaccount:openwhisk:invoker", "groups": ["system:authenticated"]},
        "object": pod,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    length = len(json.dumps(review))
    padding["padding"] = "x" * max(0, size - length)
    return json.dumps(review).encode()
