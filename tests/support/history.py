"""A small simulated history whose slowdowns are known: pods that move between nodes, runs that slow each other."""

import datetime as dt
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from featurestore.store.ingest import ingest
from pipeline.columns import TABLES
from pipeline.records import Batch

TIME = pa.timestamp("us", tz="UTC")
BEGIN = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)
BEGIN_US = int(BEGIN.timestamp()) * 1_000_000
HOUR = 3600.0


@dataclass(frozen=True)
class History:
    activations: pa.Table
    placements: pa.Table
    nodes: pa.Table
    usage: pa.Table
    declared: pa.Table
    workflows: pa.Table
    hours: int


def timestamps(seconds):
    whole = BEGIN_US + np.round(np.asarray(seconds, float) * 1e6)
    return pa.array([None if not np.isfinite(s) else int(w) for s, w in zip(seconds, whole, strict=True)], TIME)


def history(*, slowdown=0.6, functions=5, nodes=3, hours=36, an_hour=90, seed=1):
    """Simulate: f0 takes ``1 + slowdown * n`` times as long beside n runs of f1; nothing else interferes.

    Every hour each function's only pod is on another random node. f1 runs 4 s, the others 1 s alone, lognormal.
    """
    rng = np.random.default_rng(seed)
    where = rng.integers(0, nodes, (hours, functions))
    rows = []
    for hour in range(hours):
        begin = hour * HOUR
        for node in range(nodes):
            here = [f for f in range(functions) if where[hour, f] == node]
            runs = {}
            for f in here:
                start = begin + 1 + np.sort(rng.uniform(0, HOUR - 120, an_hour * (4 if f == 1 else 1)))
                work = (4.0 if f == 1 else 1.0) * rng.lognormal(0, 0.15, len(start))
                runs[f] = (start, work)
            busy = np.stack([runs[1][0], runs[1][0] + runs[1][1]], axis=1) if 1 in runs else np.empty((0, 2))
            for f, (start, work) in runs.items():
                for s, w in zip(start, work, strict=True):
                    rows.append((f, node, s, slowed(s, w, busy, slowdown) if f == 0 else s + w))
    rows.sort(key=lambda row: row[2])
    function, node, start, end = (np.array(column) for column in zip(*rows, strict=True))
    cold = rng.random(len(rows)) < 0.05
    end = end + np.where(cold, 0.5, 0.0)
    names = [f"guest/f{f}" for f in range(functions)]
    return History(
        activations=activations(function, start, end, names, np.where(cold, 500.0, np.nan)),
        placements=placements(where, names),
        nodes=node_specs(nodes),
        usage=usage(function, node, start, end, where, hours),
        declared=pa.table(
            {"function": pa.array([], pa.string()), "node_type": pa.array([], pa.string())} | amounts()
        ),
        workflows=pa.table({"namespace": pa.array([], pa.string()), "document": pa.array([], pa.string())}),
        hours=hours,
    )


def amounts():
    return {
        name: pa.array([], pa.float64())
        for name in ("cpu_cores", "memory_bytes", "network_bytes_per_s", "disk_bytes_per_s")
    }


def slowed(start, work, busy, slowdown):
    """Return when *work* is done that advances at 1 / (1 + slowdown * runs of the aggressor at that moment)."""
    near = busy[(busy[:, 1] > start) & (busy[:, 0] < start + 20 * work)]
    points = np.unique(near[near > start])
    now, left = start, work
    for point in [*points, np.inf]:
        pace = 1 / (1 + slowdown * np.sum((near[:, 0] <= now) & (near[:, 1] > now)))
        if left <= (point - now) * pace:
            return now + left / pace
        left -= (point - now) * pace
        now = point
    raise AssertionError("the last stretch has no end")


def activations(function, start, end, names, init_ms):
    n = len(function)
    return pa.table(
        {
            "activation_id": pa.array([f"{i:032x}" for i in range(n)]),
            "function": pa.array([names[f] for f in function]),
            "version": pa.array(["0.0.1"] * n),
            "kind": pa.array(["python:3"] * n),
            "start": timestamps(start),
            "end": timestamps(end),
            "duration_ms": pa.array((end - start) * 1000),
            "init_ms": pa.array(init_ms, mask=np.isnan(init_ms)),
            "wait_ms": pa.nulls(n, pa.float64()),
            "status_code": pa.array(np.zeros(n, np.int32)),
            "memory_mb": pa.array(np.full(n, 256, np.int32)),
            "timeout_ms": pa.array(np.full(n, 60_000)),
            "concurrency": pa.array(np.ones(n, np.int32)),
            "composite": pa.array(np.zeros(n, bool)),
            "caused_by": pa.array([""] * n),
            "node": pa.nulls(n, pa.string()),
            "pod": pa.nulls(n, pa.string()),
            "node_type": pa.nulls(n, pa.string()),
        }
    )


def placements(where, names):
    hours, functions = where.shape
    hour, f = (each.ravel() for each in np.meshgrid(np.arange(hours), np.arange(functions), indexing="ij"))
    n = len(hour)
    started, ended = timestamps(hour * HOUR), timestamps((hour + 1) * HOUR)
    return pa.table(
        {
            "uid": pa.array([f"uid-{h}-{k}" for h, k in zip(hour, f, strict=True)]),
            "namespace": pa.array(["openwhisk"] * n),
            "pod": pa.array([f"pod-{h}-{k}" for h, k in zip(hour, f, strict=True)]),
            "node": pa.array([f"n{k}" for k in where.ravel()]),
            "function": pa.array([names[k] for k in f]),
            "function_from": started,
            "started": started,
            "ended": ended,
            "last_seen": ended,
            "phase": pa.array(["Succeeded"] * n),
            "cpu_limit_cores": pa.nulls(n, pa.float64()),
            "memory_limit_bytes": pa.nulls(n, pa.float64()),
            "cpu_request_cores": pa.nulls(n, pa.float64()),
            "memory_request_bytes": pa.nulls(n, pa.float64()),
            "other_requests": pa.nulls(n, pa.string()),
            "labels": pa.array(["{}"] * n),
        }
    )


def node_specs(nodes):
    return pa.table(
        {
            "node": pa.array([f"n{k}" for k in range(nodes)]),
            "uid": pa.array([f"node-{k}" for k in range(nodes)]),
            "valid_from": timestamps(np.zeros(nodes)),
            "valid_to": pa.nulls(nodes, TIME),
            "node_type": pa.array(["t1"] * nodes),
            "ready": pa.array([True] * nodes),
            "schedulable": pa.array([True] * nodes),
            "cpu_cores": pa.array(np.full(nodes, 4.0)),
            "memory_bytes": pa.array(np.full(nodes, 8e9)),
            "pods": pa.array(np.full(nodes, 110.0)),
            "gpu_count": pa.array(np.zeros(nodes, np.int32)),
            "gpu_model": pa.array([""] * nodes),
            "disk_type": pa.array([""] * nodes),
            "network_bytes_per_s": pa.array(np.full(nodes, 125e6)),
            **{name: pa.array(["{}"] * nodes) for name in ("labels", "addresses", "conditions", "capacity")},
            "taints": pa.array(["[]"] * nodes),
            "allocatable": pa.array(["{}"] * nodes),
            "kernel": pa.nulls(nodes, pa.string()),
        }
    )


def usage(function, node, start, end, where, hours, step=300):
    """A pod uses 0.8 cores while f0 or f1 runs in it, 0.1 for others; 100 MB at all times; f2 sends 50 MB/s."""
    rows = []
    for hour in range(hours):
        for f in range(where.shape[1]):
            mine = function == f
            for at in hour * HOUR + np.arange(step, HOUR + 1, step):
                busy = np.clip(np.minimum(end[mine], at) - np.maximum(start[mine], at - step), 0, None).sum()
                pod = f"pod-{hour}-{f}"
                rows.append((pod, "cpu_cores", at, (0.8 if f < 2 else 0.1) * busy / step))
                rows.append((pod, "memory_bytes", at, 1e8))
                rows.append((pod, "network_transmit_bytes_per_s", at, (50e6 if f == 2 else 0.0) * busy / step))
    name, metric, at, value = zip(*rows, strict=True)
    return pa.table(
        {
            "namespace": pa.array(["openwhisk"] * len(rows)),
            "name": pa.array(name),
            "metric": pa.array(metric),
            "at": timestamps(at),
            "value": pa.array(value),
        }
    )


def fill(store, given, cluster="c1"):
    """Put a simulated history into the store through the door that collections use."""
    n = given.placements.num_rows
    placements = (
        given.placements.drop_columns(["last_seen"])
        .append_column("at", given.placements["ended"])
        .append_column("named", pa.array([True] * n))
    )
    nodes = given.nodes.drop_columns(["valid_to"]).rename_columns({"valid_from": "at"})
    usage = given.usage.append_column("scope", pa.array(["pod"] * given.usage.num_rows))
    known = BEGIN + dt.timedelta(hours=36)
    for name, rows in (
        ("nodes", nodes),
        ("placements", placements),
        ("usage", usage),
        ("activations", given.activations),
    ):
        schema = TABLES[name]
        batch = Batch(name, rows=rows.select(schema.names).cast(schema), whole=False)
        ingest(store, cluster, batch, collected=known, overlap=dt.timedelta(minutes=10))


def put(store, name, rows, at):
    """Put rows of one kind into the store as a collection at a time does."""
    schema = TABLES[name]
    batch = Batch(name, rows=rows.select(schema.names).cast(schema), whole=False)
    ingest(store, "c1", batch, collected=at, overlap=dt.timedelta(minutes=10))


def placed(store, given, at=BEGIN):
    """Put in where the pods of a history run."""
    placements = given.placements.drop_columns(["last_seen"]).append_column("at", given.placements["ended"])
    put(store, "nodes", given.nodes.drop_columns(["valid_to"]).rename_columns({"valid_from": "at"}), at)
    put(store, "placements", placements.append_column("named", pa.array([True] * placements.num_rows)), at)


def ended(given, since, until):
    """The activations of a history that ended in a span of hours, as a collection at its end brings them."""
    low, high = (pa.scalar(BEGIN + hours * dt.timedelta(hours=1), TIME) for hours in (since, until))
    end = given.activations["end"]
    return given.activations.filter(pc.and_(pc.greater_equal(end, low), pc.less(end, high)))
