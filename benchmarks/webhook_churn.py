"""The webhook's slowest answer under ``colocate serve`` while it collects, learns and takes up new snapshots.

An API server of its own process has the cluster, whose nodes and pods are listed over and over for the history and
watched for the answers; activations of another kind of cluster are there to learn from. Beside what learning
publishes, snapshots of the full size are published, each of which is taken up.
"""

import json
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import learning
from benchmarks.figures import Figure
from benchmarks.webhook_client import Asked, Target, differing
from benchmarks.webhook_world import configuration, function, templates
from featurestore.store.duck import Store
from featurestore.store.ingest import ingest
from jobs.supervisor import children
from pipeline.collectors import nodes as nodes_of
from pipeline.collectors import placements, workflows
from pipeline.records import Batch
from tests.support import kube_objects, kube_server

#: Snapshots that are published beside those of learning, first while answers are timed, then while they are compared.
TIMED, COMPARED = 4, 1
#: Functions asked about, and seconds that nothing is published after each snapshot.
_ASKED, _PAUSE = 200, 4.0
#: Activations to learn from, at full size.
_ACTIVATIONS = 20_000
_SCHEDULE = "[schedule]\nnodes = '15s'\nplacements = '10s'\nworkflows = '60s'\nlearn = '15s'\n"
_PATIENCE = 120
Size = tuple[int, int, int]


def run(directory: Path, size: Size) -> list[Figure]:
    """Measure at *size*, the numbers of nodes, pods and functions; *directory* holds the first snapshot."""
    with _cluster(size) as kubeconfig, socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        free.close()
        cluster = f"[[clusters]]\nname = 'bench'\n[clusters.kubernetes]\nkubeconfig = {str(kubeconfig)!r}\n"
        config = configuration(directory, "churn", f"port = {port}\n{_SCHEDULE}{cluster}")
        published = directory / "churn.snapshot"
        published.write_bytes((directory / "full.snapshot").read_bytes())
        _history(Store(directory / "churn.db"), int(_ACTIVATIONS * max(0.1, size[2] / 10_000)))
        with _supervised(config, port) as target:
            asked = Asked(templates(np.random.default_rng(3).permutation(size[2])[:_ASKED], 5), 5)
            timed = _asked(target, asked, published, size, range(1, TIMED + 1))
            asked.forget()
            target.post(b"/keep", b"true")
            _asked(target, asked, published, size, range(TIMED + 1, TIMED + COMPARED + 1))
            compared, wrong = asked.compare(target)
            runs = _runs(port)
    slowest, ordered = max(timed), np.sort(timed)
    return [
        Figure(
            "slowest answer while collecting, learning and swapping", slowest * 1e3, "ms", goal="at most 100 ms",
            met=slowest <= 0.1,
            note=f"{len(timed):,} answers, the 20th slowest {ordered[-20] * 1e3:.1f} ms; {runs}",
        ),
        differing(wrong, compared, "while swapping"),
    ]  # fmt: skip


def _asked(target: Target, asked: Asked, path: Path, size: Size, seeds: Sequence[int]) -> list[float]:
    """Ask on and on while new snapshots are published and taken up; returns the seconds of each answer."""
    done = threading.Event()

    def publish() -> None:
        # Written by a process of its own, as learning is: only taking it up is the server's.
        nodes, pods, functions = size
        for seed in seeds:
            arguments = (nodes, pods, functions, 10 * functions, seed)
            code = f"from benchmarks import webhook_world as w; w.publish({str(path)!r}, {arguments!r})"
            subprocess.run([sys.executable, "-c", code], check=True)
            done.wait(_PAUSE)
        done.set()

    publisher = threading.Thread(target=publish)
    publisher.start()
    taken: list[float] = []
    while not done.is_set():
        taken += target.ask(asked, range(len(asked)))
    publisher.join()
    return taken


def _runs(port: int) -> str:
    """Say how many runs of collecting and learning the supervisor counts so far."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    counted: dict[str, float] = {}
    for line in lines:
        if line.startswith("colocation_job_runs_total{"):
            job = line.partition('task="')[2].partition('"')[0]
            counted[job] = counted.get(job, 0) + float(line.rpartition(" ")[2])
    return "runs: " + ", ".join(f"{count:g} of {job}" for job, count in sorted(counted.items()))


@contextmanager
def _supervised(config: Path, port: int) -> Iterator[Target]:
    """Run all of ``colocate serve``, and wait until it answers from the live cluster."""
    process = children.start("benchmarks.webhook_server", ["serve", str(config)])
    try:
        until = time.monotonic() + _PATIENCE
        while not _live(port):
            if time.monotonic() > until or process.poll() is not None:
                raise RuntimeError("colocate serve does not answer from the live cluster")
            time.sleep(0.5)
        yield Target(port)
    finally:
        children.end([process], 60.0)


def _live(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(json.load(answer).get("live"))
    except OSError:
        return False


def _history(store: Store, count: int) -> None:
    """Put in activations that end now."""
    rows, now = learning.activations(count), datetime.now(UTC)
    for name in ("start", "end"):
        place = rows.schema.get_field_index(name)
        moved = pc.add(rows[name], pa.scalar(now - learning.END, pa.duration("us"))).cast(
            rows.schema.field(name).type
        )
        rows = rows.set_column(place, rows.schema.field(name), moved)
    batch = Batch("activations", rows=rows, watermark=now)
    ingest(store, "bench", batch, collected=now, overlap=timedelta(minutes=10))


@contextmanager
def _cluster(size: Size) -> Iterator[Path]:
    """Serve the cluster from a process of its own; yields the kubeconfig."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    with tempfile.TemporaryDirectory() as directory:
        process = context.Process(target=_serve, args=(there, size, directory), daemon=True)
        process.start()
        there.close()
        try:
            yield Path(here.recv())
        finally:
            here.close()
            process.join(30)


def _serve(pipe: Connection, size: Size, directory: str) -> None:
    nodes, pods, functions = size
    os.nice(5)
    rng = np.random.default_rng(11)
    server = kube_server.KubeServer()
    server.put(workflows.PATH, [])
    server.put("/api/v1/services", [])
    one = json.dumps(kube_objects.node("@")).encode()
    server.put(nodes_of.PATH, [one.replace(b"@", b"node-%05d" % number) for number in range(nodes)])
    labels = {"openwhisk/namespace": "@space", "openwhisk/action": "@action"}
    one = json.dumps(kube_objects.pod("@name", "@node", **labels)).encode()
    where, who = rng.integers(0, nodes, pods), rng.integers(0, functions, pods)
    listed = []
    for number, (node, kind) in enumerate(zip(where.tolist(), who.tolist(), strict=True)):
        space, _, action = function(kind).encode().partition(b"/")
        body = one.replace(b"@name", b"inv-%d" % number).replace(b"@node", b"node-%05d" % node)
        listed.append(body.replace(b"@space", space).replace(b"@action", action))
    server.put(placements.PATH, listed)
    pipe.send(str(server.kubeconfig(Path(directory))))
    with suppress(EOFError):
        pipe.recv()
    server.close()
