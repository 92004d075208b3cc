"""Placing applications on many clusters from the snapshot, and combining their placement with other rules."""

import json
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from benchmarks.figures import Figure, interleaved
from benchmarks.webhook_world import table
from featurestore.snapshot import Snapshot, empty
from rules.advice import Advice
from rules.candidates import Candidates, combine
from rules.hpa import bodies, model
from rules.hpa.fleet import Fleet, of_snapshot
from rules.hpa.model import Consumer, Group, Intents
from rules.hpa.placement import RULE, Placed, place

_CLUSTERS, _NODES, _PODS, _APPS = 1000, 100, 3, 50
_GOAL, _COMBINED, _NAMES = 2.0, 0.010, 100_000
_GROUP = "projects/p/composite-apps/a/v/deployment-intent-groups/g"
_GIB = 2.0**30
_GPU = "nvidia.com/gpu"


def snapshot(clusters: int, nodes: int, seed: int = 0) -> Snapshot:
    """Return a snapshot of clusters with nodes of four sizes, a tenth with GPUs, each node with three pods."""
    rng = np.random.default_rng(seed)
    count = clusters * nodes
    cluster = [f"cluster-{number:04d}" for number in range(clusters) for _ in range(nodes)]
    names = [f"node-{number:03d}" for _ in range(clusters) for number in range(nodes)]
    sizes = rng.choice([8, 16, 32, 64], count)
    gpus = rng.random(count) < 0.1
    amounts = {
        (cores, gpu): json.dumps(
            {
                "cpu": float(cores),
                "memory": 4 * cores * _GIB,
                "pods": 110.0,
                **({_GPU: 4.0} if gpu else {}),
            }
        )
        for cores in (8, 16, 32, 64)
        for gpu in (False, True)
    }
    labels = [
        json.dumps({"kubernetes.io/hostname": name, "zone": f"z{number % 3}", "fast": "yes" if number % 4 else "no"})
        for number, name in enumerate(names)
    ]
    where = rng.integers(0, count, count * _PODS)
    now = datetime.now(UTC)
    pods = len(where)
    tables = {
        "nodes": table(
            "nodes", count, cluster=cluster, node=names, ready=[True] * count, schedulable=[True] * count,
            labels=labels, taints=["[]"] * count,
            allocatable=[amounts[int(size), bool(gpu)] for size, gpu in zip(sizes, gpus, strict=True)],
        ),
        "placements": table(
            "placements", pods, cluster=pa.array(cluster).take(pa.array(where)),
            node=pa.array(names).take(pa.array(where)), phase=["Running"] * pods,
            cpu_request_cores=rng.uniform(0.1, 4, pods),
            memory_request_bytes=rng.uniform(0.1, 8, pods) * _GIB,
        ),
    }  # fmt: skip
    blank = empty(now, "bench-hpa")
    return Snapshot(blank.version, now, (), {}, {}, {**blank.tables, **tables})


def intents(apps: int, seed: int = 1) -> Intents:
    """Return the intents of applications of two consumers each, some with replicas, labels, GPUs and wishes."""
    rng = np.random.default_rng(seed)
    consumers: list[Consumer] = []
    for number in range(apps):
        for part in range(2):
            specs = [
                {"allocatable": True, "mandatory": True, "name": "cpu", "requests": int(rng.integers(1, 8))},
                {
                    "allocatable": True,
                    "mandatory": True,
                    "name": "memory",
                    "requests": int(rng.integers(500, 9000)),
                },
            ]
            if part == 0 and number % 3 == 0:
                specs.append({"allocatable": False, "mandatory": True, "name": "fast", "value": "yes"})
            if part == 1:
                gpu = {"allocatable": True, "name": _GPU, "limits": 1}
                specs.append({**gpu, "mandatory": number % 4 == 0, "weight": 5})
            read = [
                model.requirement(bodies.requirement({"metadata": {"name": f"r{n}"}, "spec": spec}))
                for n, spec in enumerate(specs)
            ]
            target = {"name": f"app{number}-{part}", "container-name": "c", "replicas": int(rng.integers(1, 4))}
            body = bodies.consumer({"metadata": {"name": f"c{part}"}, "spec": {"consumer": target}})
            consumers.append(model.consumer(body, f"app{number:02d}", read, f"{_GROUP}/hpa-intents/i{number:02d}"))
    names = tuple(sorted({(_GROUP, each.app) for each in consumers}))
    return Intents({_GROUP: Group(_GROUP)}, names, tuple(consumers))


def _floor(fleet: Fleet, wanted: Intents) -> int:
    """The least that any answer takes: every consumer's amounts compared with every node, and counted by cluster."""
    left = 0
    for consumer in wanted.consumers:
        fits = np.ones(fleet.nodes, dtype=np.bool_)
        for requirement in consumer.requirements:
            if isinstance(requirement.need, model.Allocatable) and requirement.mandatory:
                fits &= fleet.amount(requirement.need.resource) >= requirement.need.least
        left += int(np.count_nonzero(fleet.sums(fits)))
    return left


def run(scale: float) -> list[Figure]:
    """Measure 50 applications on 1,000 clusters of 100 nodes, and combining over 100,000 clusters, at scale 1."""
    clusters = max(10, int(_CLUSTERS * scale))
    known, wanted = snapshot(clusters, _NODES), intents(_APPS)
    fleet = of_snapshot(known)
    names = max(100, int(_NAMES * scale))
    rng = np.random.default_rng(2)
    fits, scores = rng.random(names) < 0.5, rng.integers(0, 20, names).astype(np.float64)
    opinions = [
        Advice(RULE, Candidates.of(fits), scores),
        Advice("affinity", Candidates.of(rng.random(names) < 0.7), rng.random(names)),
        Advice("hosts", Candidates.of(rng.random(names) < 0.9)),
    ]
    masks = [each.candidates.mask() for each in opinions if each.candidates is not None]

    def placed() -> Placed:
        return place(wanted, of_snapshot(known))

    times = interleaved(
        {
            "placed": placed,
            "floor": lambda: _floor(fleet, wanted),
            "combined": lambda: combine(opinions, names),
            "sorted": lambda: np.argsort(-scores[np.logical_and.reduce(masks)], kind="stable"),
        }
    )
    value, floor, combined, least = (times[name] for name in ("placed", "floor", "combined", "sorted"))
    found = placed()
    note = f"{len(found.partitions)} placed, {len({each.app for each in found.unsatisfied})} refused"
    return [
        Figure(
            f"{_APPS} applications on {clusters:,} clusters of {_NODES} nodes, from the snapshot", value.median, "s",
            floor.median, value.median / floor.median, value.spread, f"<= {_GOAL:.0f} s", value.median <= _GOAL, note,
        ),
        Figure(
            f"hpa and two other rules over {names:,} clusters", 1e3 * combined.median, "ms", 1e3 * least.median,
            combined.median / least.median, combined.spread, f"< {1e3 * _COMBINED:.0f} ms",
            combined.median < _COMBINED,
        ),
    ]  # fmt: skip
