"""Our times for two inputs of which the predecessor's are known: 111 processor seconds, and about 1,300."""

import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks import histories
from benchmarks.cluster_reading import served
from benchmarks.figures import Figure
from featurestore.store.duck import Store
from featurestore.store.ingest import ingest
from jobs import learn, saving
from jobs.config import Settings, StoreSettings
from pipeline.clients.kubernetes import KubernetesClient
from pipeline.collectors import nodes, placements
from pipeline.records import Batch

_END = datetime(2024, 6, 3, tzinfo=UTC)
#: What the predecessor took (the second estimated from its loops), processor seconds.
LEARNED, CYCLE = 111.0, 1_300.0


def beside(scale: float = 1.0) -> list[Figure]:
    """Return our processor seconds for 5,000 activations on one node, and for a cycle of 1,000 nodes and 10,000 pods
    (times *scale*)."""
    count, large = max(200, int(5_000 * scale)), max(10, int(1_000 * scale))
    learned, cycle = _learned(count), _cycle(large)
    note = "floor: the predecessor"
    return [
        Figure(
            f"learning from {count:,} activations on one node, store to snapshot", learned, "CPU s", LEARNED,
            learned / LEARNED, note=note,
        ),
        Figure(
            f"a cycle of {large:,} nodes and {10 * large:,} pods: listed, stored, published", cycle, "CPU s", CYCLE,
            cycle / CYCLE, note=f"{note}, estimated",
        ),
    ]  # fmt: skip


def _learned(count: int) -> float:
    with tempfile.TemporaryDirectory(prefix="predecessor-") as place:
        settings, store = _store(Path(place))
        for rows in histories.history(count, _END, functions=40, nodes=1):
            batch = Batch("activations", rows=rows, watermark=_END)
            ingest(store, "bench", batch, collected=_END, overlap=timedelta(minutes=10))
        learn.run(settings, "bench", now=lambda: _END, store=store)  # kernels are compiled once
        began = time.process_time()
        learn.run(settings, "bench", now=lambda: _END + timedelta(seconds=1), store=store, full=True)
        return time.process_time() - began


def _cycle(count: int) -> float:
    with (
        tempfile.TemporaryDirectory(prefix="predecessor-") as place,
        served({"nodes": count, "pods": 10 * count}) as kubeconfig,
    ):
        settings, store = _store(Path(place))
        client = KubernetesClient(kubeconfig=kubeconfig, page=500)
        began = time.process_time()
        for collector in (nodes, placements):
            batch = collector.collect(client.list, _END)
            ingest(store, "bench", batch, collected=_END, overlap=timedelta(minutes=10))
        saving.publish(settings, store, _END)
        return time.process_time() - began


def _store(place: Path) -> tuple[Settings, Store]:
    settings = Settings(store=StoreSettings(path=place / "history.duckdb", snapshot=place / "snapshot"))
    return settings, Store(settings.store.path)
