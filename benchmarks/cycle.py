"""Cycles of a large cluster through the product's own collection: where the time of five minutes goes.

The cluster has 5,000 nodes, 150,000 pods and 2,000 activations a second. Each cycle collects what five minutes
brought, and reads ten minutes before them again, as the product does by default; then the snapshot is published.
Cycles follow each other without waiting; the soak waits for each one's time. The sources are local servers, processes
of their own that share the machine; processor time is the collecting process's, all threads.
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import SecretStr

from benchmarks import pictures
from benchmarks.cluster_reading import served as cluster
from benchmarks.cycle_sources import served
from benchmarks.figures import Figure
from benchmarks.ingestion import alone, peak
from featurestore.store.duck import HOLD, Store
from jobs import collect, saving
from jobs.config import (
    ClusterSettings,
    KubernetesSettings,
    OpenWhiskNamespace,
    OpenWhiskSettings,
    PrometheusSettings,
    ScheduleSettings,
    Settings,
    StoreSettings,
)

NAME = "cycle"
#: The section of results that the picture in the docs is drawn of.
PICTURED = "cycle, soak"
#: Nodes, pods and activations a second at full size.
NODES, PODS, RATE = 5_000, 150_000, 2_000
EVERY = timedelta(minutes=5)
#: Cycles that are measured, after one that begins the history.
CYCLES, SOAK = 3, 12
STEPS = ("nodes", "placements", "usage", "activations", "publish")
_BEGIN = datetime(2026, 3, 2, tzinfo=UTC)
_WEEK = int(timedelta(days=7) / EVERY)
#: How the figure of whole cycles, and the picture of their steps, begin.
_SLOWEST, _MEDIANS = "the slowest of", "medians of"
Taken = dict[str, tuple[float, float]]


class _Watched(Store):
    """The product's store, which notes how long its file was held by each transaction, in seconds."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.held: list[float] = []

    def _attached(self, *given: Any, **named: Any) -> Any:
        began = time.perf_counter()
        try:
            return super()._attached(*given, **named)
        finally:
            self.held.append(time.perf_counter() - began)


def run(scale: float = 1.0) -> list[Figure]:
    """Measure at *scale* of the full size, cycle after cycle."""
    return alone(_cycles, scale, CYCLES, False)


def soak(scale: float = 1.0) -> list[Figure]:
    """Measure an hour of real cycles; a smaller soak has fewer, which do not wait for their time."""
    return alone(_cycles, scale, max(2, round(SOAK * scale)), scale >= 1.0)


def _cycles(scale: float, count: int, wait: bool) -> list[Figure]:
    nodes, pods, rate = max(2, int(NODES * scale)), max(20, int(PODS * scale)), max(10, int(RATE * scale))
    with _cluster(nodes, pods, rate) as settings:
        store = _Watched(settings.store.path)
        began = time.monotonic()
        taken, sizes = [], []
        for number in range(count + 1):
            if wait:
                time.sleep(max(0.0, began + number * EVERY.total_seconds() - time.monotonic()))
            taken.append(_one(settings, store, _BEGIN + number * EVERY))
            sizes.append(settings.store.path.stat().st_size)
        rows = int(store.read(lambda con: con.execute("SELECT count(*) FROM activations").fetchall())[0][0])
        used = int(store.read(lambda con: con.execute("SELECT count(*) FROM usage").fetchall())[0][0])
    overlap, every = settings.schedule.overlap, EVERY.total_seconds()
    if rows != rate * (overlap + (count + 1) * EVERY).total_seconds():
        raise AssertionError(f"{rows:,} activations in the store: not each once")
    size = f"{nodes:,} nodes, {pods:,} pods, {rate:,} activations a second"
    return [*_told(taken, size), _longest(store.held), *_week(taken[1:], sizes, rows, used, every)]


def _longest(held: list[float]) -> Figure:
    limit, over = HOLD.total_seconds(), sum(each > HOLD.total_seconds() for each in held)
    note = f"{len(held):,} transactions, {over} of them longer; median {np.median(held):.2f} s"
    return Figure(
        "longest that the store's file was held at once", max(held), "s", goal=f"at most {limit:.0f} s",
        met=max(held) <= limit, note=note,
    )  # fmt: skip


def _told(taken: list[Taken], size: str) -> list[Figure]:
    first, later = taken[0], taken[1:]
    figures = []
    for step in STEPS:
        wall, cpu = (np.array([each[step][place] for each in later]) for place in (0, 1))
        note = f"processor {np.median(cpu):.1f} s; the first cycle: {first[step][0]:.1f}, {first[step][1]:.1f} s"
        median = float(np.median(wall)), float(np.median(cpu))
        figures.append(Figure(f"{step} of a cycle", median[0], "s", spread=_spread(wall), note=note, series=median))
    whole = np.array([sum(wall for wall, _ in each.values()) for each in later])
    busy = np.array([sum(cpu for _, cpu in each.values()) for each in later])
    limit = EVERY.total_seconds()
    figures.append(
        Figure(
            f"{_SLOWEST} {len(later)} cycles of {size}", float(whole.max()), "s", spread=_spread(whole),
            goal=f"at most {limit:.0f} s", met=bool(whole.max() <= limit), note=f"processor {np.median(busy):.1f} s",
        )
    )  # fmt: skip
    return figures


def picture(figures: Sequence[Figure]) -> str:
    """Draw where the time of a cycle goes."""
    steps = {step: (each.series[0], each.series[1]) for step, each in zip(STEPS, figures, strict=False)}
    title = figures[len(STEPS)].name.replace(_SLOWEST, _MEDIANS)
    return pictures.bars(title, "s", steps, ("seconds", "of a processor"))


def _week(later: list[Taken], sizes: list[int], rows: int, used: int, every: float) -> list[Figure]:
    busy = float(np.median([sum(cpu for _, cpu in each.values()) for each in later]))
    grown = (sizes[-1] - sizes[0]) / (len(sizes) - 1)
    return [
        Figure("the store after the last cycle", sizes[-1] / 2**20, "MiB",
               note=f"{rows:,} activations, {used:,} samples; {grown / 2**20:.0f} MiB a cycle"),
        Figure("peak memory of the collecting process", peak(), "MiB"),
        Figure("processor time of a week of cycles", busy * _WEEK / 3600, "h", note="extrapolated"),
        Figure("share of two cores that this is", busy / (2 * every), "", goal="below 1", met=busy < 2 * every,
               note="extrapolated"),
        Figure("store of a week of cycles, nothing deleted", grown * _WEEK / 2**30, "GiB", note="extrapolated"),
    ]  # fmt: skip


def _spread(values: np.ndarray) -> float | None:
    return float((values.max() - values.min()) / np.median(values)) if len(values) > 1 else None


def _one(settings: Settings, store: Store, at: datetime) -> Taken:
    """Run one cycle that ends *at*; returns wall and processor seconds by step."""
    taken: Taken = {}
    for step in STEPS:
        began, busy = time.perf_counter(), time.process_time()
        if step == "publish":
            saving.publish(settings, store, at)
        else:
            for outcome in collect.run(settings, now=lambda: at, only=[step], store=store):
                if outcome.outcome != "ok":
                    raise AssertionError(f"{outcome.source} {outcome.scope}: {outcome.message}")
        taken[step] = time.perf_counter() - began, time.process_time() - busy
        print(f"{at:%H:%M} {step}: {taken[step][0]:.1f} s, processor {taken[step][1]:.1f} s", flush=True)
    return taken


@contextmanager
def _cluster(nodes: int, pods: int, rate: int) -> Iterator[Settings]:
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cycle-")))
        kubeconfig = stack.enter_context(cluster({"nodes": nodes, "pods": pods}))
        prometheus = stack.enter_context(served("usage", pods, nodes))
        openwhisk = stack.enter_context(served("activations", rate))
        overlap = ScheduleSettings().overlap
        yield Settings(
            store=StoreSettings(
                path=place / "history.duckdb",
                snapshot=place / "snapshot",
                spool=place / "spool",
                control=place / "control",
            ),
            schedule=ScheduleSettings(first_window=overlap + EVERY),
            clusters=[
                ClusterSettings(
                    name="bench",
                    kubernetes=KubernetesSettings(kubeconfig=kubeconfig),
                    prometheus=PrometheusSettings(url=prometheus, node_label=("node",)),
                    openwhisk=OpenWhiskSettings(
                        url=openwhisk, namespaces=[OpenWhiskNamespace(name="guest", key=SecretStr("user:password"))]
                    ),
                )
            ],
        )
