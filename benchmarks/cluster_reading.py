"""Reading a large cluster: 5,000 nodes and 50,000 pods from a local server, from the request to columns.

The floor downloads the same pages and decodes them with msgspec into plain Python values. The official client's
typed models read a stated sample, scaled up. Beside it: what it costs to import the official client at all.
"""

import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec
from kubernetes.client import ApiClient, CoreV1Api

from benchmarks.figures import Figure, interleaved, timing
from pipeline.clients.credentials import configuration
from pipeline.clients.kubernetes import KubernetesClient
from pipeline.collectors import nodes, placements
from pipeline.mangling import Index
from pipeline.records import Batch
from tests.support import kube_objects, kube_server

NAME = "cluster_reading"
PAGE = 500
ROUNDS = 7
TYPED_ROUNDS = 3
TYPED_SHARE = 0.1
_AT = datetime(2026, 1, 1, tzinfo=UTC)


def run(scale: float = 1.0) -> list[Figure]:
    """Measure nodes and pods at *scale* of the full size, and the import."""
    counts = {"nodes": max(20, int(5000 * scale)), "pods": max(200, int(50000 * scale))}
    with served(counts) as kubeconfig:
        client = KubernetesClient(kubeconfig=kubeconfig, page=PAGE)
        known = Index(f"guest/action-{number}" for number in range(300))

        def read_nodes() -> Batch:
            return nodes.collect(client.list, _AT)

        def read_pods() -> Batch:
            return placements.collect(client.list, _AT, known=known)

        api = CoreV1Api(ApiClient(configuration(kubeconfig, None)))
        figures = _reading("nodes", nodes.PATH, counts["nodes"], client, read_nodes, api.list_node)
        figures += _reading(
            "pods", placements.PATH, counts["pods"], client, read_pods, api.list_pod_for_all_namespaces
        )
    return [*figures, _importing()]


def _reading(
    kind: str, path: str, count: int, client: KubernetesClient, ours: Callable[[], Batch], typed: Callable[..., Any]
) -> list[Figure]:
    batch = ours()
    if batch.rows is None or batch.rows.num_rows != count or batch.refused:
        raise AssertionError(f"{kind}: not all {count} were read")
    sides: dict[str, Callable[[], object]] = {
        "download": lambda: _pages(client, path, lambda body: None),
        "decoded": lambda: _pages(client, path, msgspec.json.decode),
        "listed": lambda: client.list(path),
        "columns": ours,
    }
    took = interleaved(sides, ROUNDS)
    floor, columns = took["decoded"].median, took["columns"]
    sample = max(1, int(count * TYPED_SHARE))
    slow = timing([_typed(typed, sample) * count / sample for _ in range(TYPED_ROUNDS)])
    whole = f"{count:,} {kind}"
    return [
        Figure(f"{whole}: download", took["download"].median, "s", spread=took["download"].spread),
        Figure(f"{whole}: download, plain msgspec (the floor)", floor, "s", floor, 1.0, took["decoded"].spread),
        Figure(
            f"{whole}: raw list", took["listed"].median, "s", floor, took["listed"].median / floor,
            took["listed"].spread,
        ),
        Figure(
            f"{whole}: to columns", columns.median, "s", floor, columns.median / floor, columns.spread,
            goal="at most twice the floor", met=columns.median <= 2 * floor,
            note=f"{count / columns.median:,.0f} objects/s",
        ),
        Figure(
            f"{whole}: typed models", slow.median, "s", floor, slow.median / floor, slow.spread,
            note=f"scaled up from {sample:,}; {slow.median / columns.median:.1f} times our time",
        ),
    ]  # fmt: skip


def _pages(client: KubernetesClient, path: str, use: Callable[[bytes], object]) -> None:
    """Get every page and drop what *use* makes of it."""
    start = ""
    while True:
        body = client.get(path, limit=str(PAGE), **({"continue": start} if start else {}))
        use(body)
        start = json.loads(body[: body.index(b',"items":')] + b"}")["metadata"].get("continue", "")
        if not start:
            return


def _typed(call: Callable[..., Any], count: int) -> float:
    """Seconds that the official client takes for the first *count* objects."""
    began = time.perf_counter()
    seen, start = 0, None
    while seen < count:
        answer = call(limit=min(PAGE, count - seen), _continue=start)
        seen += len(answer.items)
        start = answer.metadata._continue
    return time.perf_counter() - began


def _importing() -> Figure:
    """What a process pays once for the official client; the floor is msgspec, without which nothing is read."""

    def load(module: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, "-c", f"import {module}"], check=True)

    took = interleaved(
        {"kubernetes": load("kubernetes.client, kubernetes.config"), "msgspec": load("msgspec")}, ROUNDS
    )
    ours, floor = took["kubernetes"], took["msgspec"].median
    return Figure(
        "start of a process that imports the official client", ours.median, "s", floor, ours.median / floor,
        ours.spread, note="floor: one that imports msgspec",
    )  # fmt: skip


@contextmanager
def served(counts: dict[str, int]) -> Iterator[Path]:
    """Serve from a process of its own, so that it shares no interpreter lock with the reader."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    with tempfile.TemporaryDirectory() as directory:
        process = context.Process(target=_serve, args=(there, counts, directory), daemon=True)
        process.start()
        try:
            yield Path(here.recv())
        finally:
            here.send("stop")
            process.join(30)


def _serve(pipe: Connection, counts: dict[str, int], directory: str) -> None:
    server = kube_server.KubeServer()
    labels = {"openwhisk/namespace": "guest", "openwhisk/action": "action-@"}
    server.put(nodes.PATH, kube_objects.many(kube_objects.node, counts["nodes"], "node-@"))
    name = "wskowdev-invoker-00-@-guest-action@"
    pods = kube_objects.many(lambda: kube_objects.pod(name, "node-@", **labels), counts["pods"])
    server.put(placements.PATH, pods)
    pipe.send(str(server.kubeconfig(Path(directory))))
    pipe.recv()
    server.close()


def main(arguments: list[str]) -> int:
    """Print the figures; the scale is the only argument."""
    for figure in run(float(arguments[0]) if arguments else 1.0):
        print(figure)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
