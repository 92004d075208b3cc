"""Usage of pods from cAdvisor: each container once, whatever its labels are called and however often it is scraped.

cAdvisor names pod and container ``pod`` and ``container``, before Kubernetes 1.16 ``pod_name`` and
``container_name``; both may be live, so the old ones count only for pods that the new ones do not give. Rows without
a container, or of the container POD, are totals and the sandbox: left out, except for the network, which belongs to
the sandbox and is the same for all its containers. `max` over the labels of the scrape takes a container once where
several jobs or replicas scrape it. A pod on the host's network shows the host's traffic.
"""

from collections.abc import Mapping
from datetime import timedelta

from pipeline.collectors.usage import STACKED, VIRTUAL, Metric, gather
from pipeline.ports import RangeQuery
from pipeline.records import Batch, Labels, Refusal, Window

_CONTAINER = '{$match$pod!="",$container!~"|POD"}'


def _either(promql: str) -> str:
    """The query with the labels of today, and, for pods without an answer, with those before Kubernetes 1.16."""
    today = promql.replace("$pod", "pod").replace("$container", "container")
    before = promql.replace("$pod", "pod_name").replace("$container", "container_name")
    return f'{today} or on (namespace, pod) label_replace({before}, "pod", "$1", "pod_name", "(.+)")'


def _rate(counter: str, labels: str, selector: str = _CONTAINER) -> str:
    """The per-second growth of *counter* by pod, each combination of *labels* once; resets are the server's work."""
    return f"sum by (namespace, $pod) (max by (namespace, $pod, {labels}) (rate({counter}{selector}[$step])))"


def _network(counter: str) -> Metric:
    return Metric(_either(_rate(counter, "interface", f'{{$match$pod!="",interface!~"{VIRTUAL}"}}')))


def _disk(counter: str) -> Metric:
    selector = f'{{$match$pod!="",$container!~"|POD",device!~"{STACKED}"}}'
    return Metric(_either(_rate(counter, "$container, id, device", selector)))


def _pressure(counter: str) -> Metric:
    # The pod's own row covers its containers; without it, the worst container is the least that the pod stood still.
    return Metric(f'max by (namespace, pod) (rate({counter}{{$matchpod!=""}}[$step]))')


_THROTTLED, _PERIODS = (
    _rate(f"container_cpu_cfs_{name}_total", "$container, id") for name in ("throttled_periods", "periods")
)

METRICS: Mapping[str, Metric] = {
    "cpu_cores": Metric(_either(_rate("container_cpu_usage_seconds_total", "$container, id, cpu")), base=True),
    # A container that was replaced within the step had its memory after the other, not beside it: no id here.
    "memory_bytes": Metric(
        _either(
            "sum by (namespace, $pod) (max by (namespace, $pod, $container) "
            f"(avg_over_time(container_memory_working_set_bytes{_CONTAINER}[$step])))"
        ),
        base=True,
    ),
    "network_receive_bytes_per_s": _network("container_network_receive_bytes_total"),
    "network_transmit_bytes_per_s": _network("container_network_transmit_bytes_total"),
    "disk_read_bytes_per_s": _disk("container_fs_reads_bytes_total"),
    "disk_write_bytes_per_s": _disk("container_fs_writes_bytes_total"),
    "cpu_throttled": Metric(_either(f"{_THROTTLED} / {_PERIODS}")),
    "cpu_pressure": _pressure("container_pressure_cpu_waiting_seconds_total"),
    "memory_pressure": _pressure("container_pressure_memory_waiting_seconds_total"),
    "io_pressure": _pressure("container_pressure_io_waiting_seconds_total"),
}


def collect(
    query: RangeQuery,
    window: Window,
    *,
    step: timedelta = timedelta(minutes=5),
    queries: Mapping[str, str] | None = None,
    match: str = "",
) -> Batch:
    """Bring the usage of every pod in *window*, for the table ``usage`` with scope ``pod``.

    *match* is what all series of this cluster have, such as ``cluster="c1"``. See `gather` for errors; pressure,
    throttling, network and disk may be absent, CPU and memory may not.
    """
    return gather(query, window, step, "pod", METRICS, _pod, queries=queries or {}, match=match)


def _pod(labels: Labels) -> tuple[str, str] | Refusal:
    namespace, pod = labels.get("namespace", ""), labels.get("pod", "")
    if not namespace or not pod:
        return Refusal("pod usage series", "no label namespace or no label pod")
    return namespace, pod
