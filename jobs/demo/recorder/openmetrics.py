"""The history that cAdvisor and node_exporter would have shown, as OpenMetrics text. Pure.

Counters are read from what the kernel counted: before and after every invocation for a container, four times a
second for the machine; a scrape between two readings lies on the line through them. Between sessions a node is idle.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from jobs.demo.recorder.layout import ANCHOR, SCRAPE, Placed, end, node_name, phase, pod_name
from jobs.demo.recorder.machine import MODES
from jobs.demo.recorder.objects import NAMESPACE, address
from jobs.demo.recorder.worker import COLUMNS

Array = npt.NDArray[np.float64]
#: Name of the metric, its labels, times in epoch microseconds, values.
Sampled = tuple[str, Mapping[str, str], npt.NDArray[np.int64], Array]

#: Metric family and type of what is shown, in the order of the text.
FAMILIES: Mapping[str, str] = {
    "container_cpu_usage_seconds_total": "counter",
    "container_memory_working_set_bytes": "gauge",
    "container_network_receive_bytes_total": "counter",
    "container_network_transmit_bytes_total": "counter",
    "container_fs_reads_bytes_total": "counter",
    "container_fs_writes_bytes_total": "counter",
    "node_cpu_seconds_total": "counter",
    "node_memory_MemTotal_bytes": "gauge",
    "node_memory_MemAvailable_bytes": "gauge",
    "node_network_receive_bytes_total": "counter",
    "node_network_transmit_bytes_total": "counter",
    "node_disk_read_bytes_total": "counter",
    "node_disk_written_bytes_total": "counter",
    "node_pressure_cpu_waiting_seconds_total": "counter",
    "node_pressure_memory_waiting_seconds_total": "counter",
    "node_pressure_io_waiting_seconds_total": "counter",
}


def text(placed: Sequence[Placed], node_count: int) -> Iterator[str]:
    """Yield the lines of the whole history, families together, series together, times ascending."""
    families: dict[str, list[Sampled]] = {name: [] for name in FAMILIES}
    for each in placed:
        for position in range(len(each.session["containers"])):
            for series in containers(each, position, end(placed)):
                families[series[0]].append(series)
    for number in range(node_count):
        for series in machines([each for each in placed if each.node == number], number, end(placed)):
            families[series[0]].append(series)
    for name, every in families.items():
        yield f"# TYPE {name.removesuffix('_total')} {FAMILIES[name]}\n"
        for _, labels, times, values in every:
            inside = ",".join(f'{key}="{value}"' for key, value in labels.items())
            head = f"{name}{{{inside}}}"
            for at, value in zip(times.tolist(), values.tolist(), strict=True):
                yield f"{head} {number_text(value)} {at / 1e6:.3f}\n"
    yield "# EOF\n"


def number_text(value: float) -> str:
    """Write a sample: whole numbers without a fraction, others to the microsecond."""
    return str(int(value)) if value == int(value) else f"{value:.6f}"


def scrapes(node: int, since: int, until: int) -> npt.NDArray[np.int64]:
    """Return when *node* is scraped in [since, until]."""
    first = ANCHOR + phase(node)
    number = -(-(since - first) // SCRAPE)
    return np.arange(first + number * SCRAPE, until + 1, SCRAPE, dtype=np.int64)


def containers(placed: Placed, position: int, final: int) -> Iterator[Sampled]:
    """Yield the series of one container, and the total of its pod beside CPU and memory as cAdvisor gives it."""
    container = placed.session["containers"][position]
    rows = dict(zip(COLUMNS, np.array(container["invocations"], dtype=np.int64).T, strict=True))
    edges = np.stack([rows["start"], rows["end"]], axis=1).ravel() + placed.shift
    at = scrapes(placed.node, container["spawned"] + placed.shift, placed.until or final)
    pod = pod_name(placed, position)
    of_pod = {"namespace": NAMESPACE, "pod": pod}
    scraped = {"job": "kubelet", "node": node_name(placed.node), "instance": f"{address(placed.node)}:10250"}
    in_pod = f"/kubepods/{pod}"

    def grown(before: npt.NDArray[np.int64], after: npt.NDArray[np.int64]) -> Array:
        return np.interp(at, edges, np.stack([before, after], axis=1).ravel())

    def moved(name: str) -> Array:
        after = np.cumsum(rows[name])
        return grown(after - rows[name], after)

    cpu = grown(rows["cpu_before"], rows["cpu_after"]) / 1e6
    memory = rows["rss"][np.maximum(np.searchsorted(rows["end"] + placed.shift, at, "right") - 1, 0)].astype(float)
    user = {**of_pod, "container": "user-action", "id": f"{in_pod}/user-action", **scraped}
    total = {**of_pod, "container": "", "id": in_pod, **scraped}
    for labels in (user, total):
        yield "container_cpu_usage_seconds_total", {**labels, "cpu": "total"}, at, cpu
        yield "container_memory_working_set_bytes", labels, at, memory
    for metric, column in (("receive", "received"), ("transmit", "sent")):
        yield f"container_network_{metric}_bytes_total", {**total, "interface": "eth0"}, at, moved(column)
    device = {**user, "device": f"/dev/{placed.session['disk'] or 'disk'}"}
    for metric, column in (("reads", "read"), ("writes", "written")):
        values = grown(rows[f"{column}_before"], rows[f"{column}_after"])
        yield f"container_fs_{metric}_bytes_total", device, at, values


def machines(placed: Sequence[Placed], node: int, final: int) -> Iterator[Sampled]:
    """Yield the series of one node over the whole recording; *placed* are its sessions by time."""
    if not placed:
        return
    at = scrapes(node, ANCHOR, final)
    labels = {"job": "node-exporter", "instance": f"{address(node)}:9100", "node": node_name(node)}
    times = np.concatenate([np.array(each.session["machine"]["at"]) + each.shift for each in placed])
    first: Mapping[str, Any] = placed[0].session["machine"]

    def grown(name: str, idle: float = 0.0) -> Array:
        """Add up what *name* grew by in each session, and *idle* a second between sessions."""
        total, known, parts = 0.0, ANCHOR, []
        for each in placed:
            values = np.array(each.session["machine"][name], dtype=float)
            begun = each.session["machine"]["at"][0] + each.shift
            total += idle * (begun - known) / 1e6
            parts.append(total + np.maximum.accumulate(values - values[0]))
            total, known = float(parts[-1][-1]), each.session["machine"]["at"][-1] + each.shift
        ahead = np.array([idle * (final - known) / 1e6 + total])
        edges = np.concatenate([[ANCHOR], times, [final]])
        return np.asarray(np.interp(at, edges, np.concatenate([[0.0], *parts, ahead])))

    cores = sorted({name.split("_")[0] for name in first if name.startswith("cpu")})
    for core in cores:
        for mode in MODES:
            values = grown(f"{core}_{mode}", 1.0 if mode == "idle" else 0.0)
            yield "node_cpu_seconds_total", {**labels, "cpu": core.removeprefix("cpu"), "mode": mode}, at, values
    before = np.maximum(np.searchsorted(times, at, "right") - 1, 0)
    for metric, name in (("MemTotal", "memory_total"), ("MemAvailable", "memory_available")):
        every = np.concatenate([np.array(each.session["machine"][name], dtype=float) for each in placed])
        yield f"node_memory_{metric}_bytes", labels, at, every[before]
    for metric, name in (("receive", "network_received"), ("transmit", "network_sent")):
        yield f"node_network_{metric}_bytes_total", {**labels, "device": "eth0"}, at, grown(name)
    for metric, name in (("read", "disk_read"), ("written", "disk_written")):
        if name in first:
            disk = placed[0].session["disk"]
            yield f"node_disk_{metric}_bytes_total", {**labels, "device": disk}, at, grown(name)
    for kind in ("cpu", "memory", "io"):
        if f"pressure_{kind}" in first:
            yield f"node_pressure_{kind}_waiting_seconds_total", labels, at, grown(f"pressure_{kind}")
