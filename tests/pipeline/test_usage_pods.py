"""Usage of pods, asked of a real Prometheus over a history whose every rate is known."""

import math
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipeline.clients.prometheus import PrometheusClient
from pipeline.collectors import usage_pods
from pipeline.columns import METRICS, USAGE
from pipeline.errors import Permanent
from pipeline.records import Batch, Series, Window
from tests.support.openmetrics import History, growing
from tests.support.prometheus import needs_prometheus, start_prometheus
from tests.support.web import Reply, answering

pytestmark = [pytest.mark.prometheus, needs_prometheus]

#: A multiple of 300; the history lasts from here to ten minutes later.
T0 = 1_700_000_100
FIRST, SECOND = (datetime.fromtimestamp(T0 + seconds, UTC) for seconds in (300, 600))
CPU, MEMORY = "container_cpu_usage_seconds_total", "container_memory_working_set_bytes"
PERIODS, THROTTLED = "container_cpu_cfs_periods_total", "container_cpu_cfs_throttled_periods_total"
RECEIVED = "container_network_receive_bytes_total"


def history(path: Path) -> Path:
    """Everything that makes usage come out double, zero, negative or huge, in one cluster."""
    past = History(T0, T0 + 600)
    # web: two containers, the sandbox and the pod's total; each scraped by two replicas of the server
    for replica in ("a", "b"):
        for container, rate, memory in (
            ("app", 0.5, 100),
            ("sidecar", 0.25, 50),
            ("POD", 0.125, 1),
            ("", 0.875, 151),
        ):
            labels = {"namespace": "shop", "pod": "web", "container": container, "id": f"/web/{container}"}
            past.add(CPU, growing(rate), **labels, cpu="total", replica=replica)
            past.add(MEMORY, lambda _, memory=memory: memory, **labels, replica=replica)
    # legacy: only the labels from before Kubernetes 1.16, a counter for each processor
    for container, rate in (("main", 0.25), ("POD", 0.125), ("", 0.5)):
        labels = {"namespace": "shop", "pod_name": "legacy", "container_name": container, "id": f"/old/{container}"}
        for cpu in ("cpu00", "cpu01"):
            past.add(CPU, growing(rate), **labels, cpu=cpu)
        past.add(MEMORY, lambda _: 70, **labels)
    # both: one container under either naming at once; dual: both namings on one series
    past.add(CPU, growing(0.5), namespace="shop", pod="both", container="c", id="/both/c")
    past.add(CPU, growing(0.5), namespace="shop", pod_name="both", container_name="c", id="/both/c")
    past.add(
        CPU, growing(0.25), namespace="shop", pod="dual", container="c", pod_name="dual", container_name="c", id="/d"
    )
    # reset: the container begins again at 0 after 150 s: nothing counts for that one interval of 30 s
    past.add(
        CPU, lambda s: (900 if s < 150 else -75) + 0.5 * s, namespace="shop", pod="reset", container="c", id="/r"
    )
    # replaced: another container of the same name from 150 s on
    for identity, alive in (("/one", lambda s: s < 150), ("/two", lambda s: s >= 150)):
        labels = {"namespace": "shop", "pod": "replaced", "container": "c", "id": identity}
        past.add(MEMORY, lambda s, alive=alive: 40 if alive(s) else None, **labels)
    # no number
    past.add(MEMORY, lambda _: math.nan, namespace="shop", pod="odd", container="nan", id="/odd/nan")
    past.add(MEMORY, lambda _: math.inf, namespace="shop", pod="endless", container="inf", id="/odd/inf")
    # throttling: a quarter of web's periods; idle had none, 0/0
    for pod, periods, throttled in (("web", 10, 2.5), ("idle", 0, 0)):
        for container in ("app", ""):
            labels = {"namespace": "shop", "pod": pod, "container": container, "id": f"/{pod}/{container}"}
            past.add(PERIODS, growing(periods), **labels)
            past.add(THROTTLED, growing(throttled), **labels)
    # network: the sandbox's two interfaces, the first repeated under a container, and interfaces that count double
    for interface, rate in (("eth0", 1000), ("net1", 500), ("lo", 9000), ("tunl0", 9000), ("sit0", 0)):
        labels = {"namespace": "shop", "pod": "web", "interface": interface}
        past.add(RECEIVED, growing(rate), **labels, container="POD", id="/web/POD")
        past.add(RECEIVED, growing(rate), **labels, container="app", id="/web/app")
    past.add(RECEIVED, growing(25), namespace="shop", pod_name="legacy", container_name="POD", interface="eth0")
    # disks: what goes to a mapped device goes to the disk below it too
    for device, rate in (("/dev/sda", 4096), ("/dev/dm-0", 4096), ("/dev/sdb", 1024), ("/dev/loop3", 7)):
        labels = {"namespace": "shop", "pod": "web", "device": device}
        past.add("container_fs_writes_bytes_total", growing(rate), **labels, container="app", id="/web/app")
        past.add("container_fs_writes_bytes_total", growing(rate), **labels, container="", id="/web")
    # pressure: the pod's own row is at least its worst container's
    for container, rate in (("app", 0.125), ("sidecar", 0.0625), ("", 0.15625)):
        labels = {"namespace": "shop", "pod": "web", "container": container, "id": f"/web/{container}"}
        past.add("container_pressure_cpu_waiting_seconds_total", growing(rate), **labels)
    return past.write(path)


#: By hand from the rates above; constant from step to step but for reset and replaced.
CONSTANT = {
    ("web", "cpu_cores"): 0.75,
    ("legacy", "cpu_cores"): 0.5,
    ("both", "cpu_cores"): 0.5,
    ("dual", "cpu_cores"): 0.25,
    ("web", "memory_bytes"): 150.0,
    ("legacy", "memory_bytes"): 70.0,
    ("replaced", "memory_bytes"): 40.0,
    ("web", "cpu_throttled"): 0.25,
    ("web", "network_receive_bytes_per_s"): 1500.0,
    ("legacy", "network_receive_bytes_per_s"): 25.0,
    ("web", "disk_write_bytes_per_s"): 5120.0,
    ("web", "cpu_pressure"): 0.15625,
}
RESET = {FIRST: 0.5 * 270 / 300, SECOND: 0.5}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with start_prometheus(history(tmp_path_factory.mktemp("history") / "pods.txt")) as url:
        client = PrometheusClient(url)
        yield client
        client.close()


def window(until: datetime) -> Window:
    return Window(FIRST - timedelta(seconds=1), until)


def rows(batch: Batch) -> dict[tuple[str, str, str, datetime], float]:
    assert batch.rows is not None
    assert batch.rows.schema == USAGE
    found = {
        (row["namespace"], row["name"], row["metric"], row["at"]): row["value"] for row in batch.rows.to_pylist()
    }
    assert len(found) == batch.rows.num_rows, "a key stands twice"
    return found


def test_every_pod_comes_out_once_with_the_rates_that_went_in(server):
    batch = usage_pods.collect(server, window(SECOND + timedelta(seconds=1)))
    expected = {
        ("shop", pod, metric, at): value for (pod, metric), value in CONSTANT.items() for at in (FIRST, SECOND)
    }
    expected |= {("shop", "reset", "cpu_cores", at): value for at, value in RESET.items()}
    assert rows(batch) == pytest.approx(expected, rel=1e-9)
    assert set(batch.rows["scope"].to_pylist()) == {"pod"}
    assert (batch.failures, batch.refused) == ((), ())
    assert batch.watermark == SECOND + timedelta(seconds=1)


def test_a_window_ends_before_its_end_so_that_the_next_one_brings_no_row_again(server):
    first = usage_pods.collect(server, window(SECOND))
    second = usage_pods.collect(server, Window(SECOND, SECOND + timedelta(minutes=4)))
    assert set(first.rows["at"].to_pylist()) == {FIRST}
    assert set(second.rows["at"].to_pylist()) == {SECOND}


def test_collections_of_overlapping_windows_agree_row_by_row(server):
    until = SECOND + timedelta(seconds=1)
    whole = usage_pods.collect(server, window(until))
    assert usage_pods.collect(server, window(until)).rows.equals(whole.rows)
    late = rows(usage_pods.collect(server, Window(FIRST + timedelta(seconds=7), until)))
    assert late == {key: value for key, value in rows(whole).items() if key[3] == SECOND}


def test_a_window_between_two_steps_is_no_failure(server):
    batch = usage_pods.collect(server, Window(FIRST + timedelta(seconds=1), SECOND))
    assert (batch.rows.num_rows, batch.failures, batch.watermark) == (0, (), SECOND)


def test_only_the_cluster_s_own_series_are_asked_for(server):
    batch = usage_pods.collect(server, window(SECOND), match='pod="dual"', queries={"pod.memory_bytes": ""})
    assert rows(batch) == {("shop", "dual", "cpu_cores", FIRST): 0.25}


def test_a_configured_query_replaces_the_built_in_one(server):
    own = {"pod.memory_bytes": f"max by (namespace) ({MEMORY})"}
    batch = usage_pods.collect(server, window(SECOND), queries=own)
    [refusal] = batch.refused
    assert "no label pod" in refusal.why
    assert [failure.reason for failure in batch.failures] == ["empty"]
    own = {"pod.memory_bytes": f'sum by (namespace, pod) (increase({CPU}{{pod="web",container="app"}}[$step])) / 2'}
    found = rows(usage_pods.collect(server, window(SECOND), queries=own))
    assert {key: value for key, value in found.items() if key[2] == "memory_bytes"} == pytest.approx(
        {("shop", "web", "memory_bytes", FIRST): 0.5 * 300}
    )


def test_an_empty_success_for_a_base_metric_is_a_failure_and_the_rest_stays(server):
    batch = usage_pods.collect(server, window(SECOND), queries={"pod.cpu_cores": "no_such_metric"})
    [failure] = batch.failures
    assert (failure.reason, str(failure).split(":")[0]) == ("empty", "pod.cpu_cores")
    assert set(batch.rows["metric"].to_pylist()) == set(METRICS["pod"]) - {
        "cpu_cores", "network_transmit_bytes_per_s", "disk_read_bytes_per_s", "memory_pressure", "io_pressure",
    }  # fmt: skip


def test_a_wrong_query_is_a_failure_that_names_it_and_the_rest_stays(server):
    batch = usage_pods.collect(server, window(SECOND), queries={"pod.io_pressure": "rate("})
    [failure] = batch.failures
    assert isinstance(failure, Permanent)
    assert failure.reason == "bad_query"
    assert "parse error" in str(failure)
    assert ("shop", "web", "cpu_cores", FIRST) in rows(batch)


def test_nothing_at_all_is_two_failures_not_zero_use_and_stops_no_later_window(server):
    before = datetime.fromtimestamp(T0 - 86_400, UTC)
    batch = usage_pods.collect(server, Window(before, before + timedelta(minutes=10)))
    assert batch.rows.num_rows == 0
    assert [(failure.reason, str(failure).split(":")[0]) for failure in batch.failures] == [
        ("empty", "pod.cpu_cores"),
        ("empty", "pod.memory_bytes"),
    ]
    assert batch.watermark == before + timedelta(minutes=10)


def test_a_query_of_11000_points_and_more_loses_nothing_at_the_seam(tmp_path):
    past = History(T0, T0 + 11_040, every=10)
    past.add("seconds_total", lambda seconds: seconds)
    with start_prometheus(past.write(tmp_path / "long.txt")) as url:
        since, until = (datetime.fromtimestamp(T0 + seconds, UTC) for seconds in (0, 11_040))
        [series] = PrometheusClient(url)("seconds_total", since, until, timedelta(seconds=1))
        assert PrometheusClient(url).instant("seconds_total") == []  # the history ended years ago
    assert series.times.tolist() == [T0 + seconds for seconds in range(11_041)]
    assert series.values.tolist() == [seconds // 10 * 10 for seconds in range(11_041)]


OLD, NEW = "cadvisor_k8s_1_15_old_labels.txt", "cadvisor_k8s_1_16_new_labels.txt"


def as_history(page: str, path: Path) -> Path:
    """The page's series over ten minutes: counters grow by a thousandth of their value a second, gauges stand."""
    past = History(T0, T0 + 600, every=60)
    past.add_page(page, lambda name, value: growing(value / 1000 if name.endswith("_total") else 0, value))
    return past.write(path)


def received(page: str) -> dict[str, float]:
    """A thousandth of the bytes of each pod's eth interfaces, read from the page by itself."""
    rates: dict[str, float] = {}
    for line in page.splitlines():
        found = re.fullmatch(RECEIVED + r'\{.*interface="eth\d".*,pod="(.+?)"\} (\S+)', line)
        if found:
            rates[found[1]] = rates.get(found[1], 0.0) + float(found[2]) / 1000
    return rates


def test_old_and_new_labels_of_the_same_samples_give_the_same_rows(real, tmp_path):
    """Two published scrapes of one kubelet that differ in their labels' names only; they lack the pods' CPU."""
    batches = []
    for name in (OLD, NEW):
        with start_prometheus(as_history((real / name).read_text(), tmp_path / name)) as url:
            batches.append(usage_pods.collect(PrometheusClient(url), window(SECOND)))
    old, new = batches
    assert old.rows.equals(new.rows)
    found = {(key[1], key[2]): value for key, value in rows(new).items()}
    expected = received((real / NEW).read_text())
    assert len(expected) == 8
    network = {pod: value for (pod, metric), value in found.items() if metric == "network_receive_bytes_per_s"}
    assert network == pytest.approx(expected)
    # addon-resizer and kube-state-metrics: 2507 and 3964 of 8495 and 13781 periods
    throttled = found["kube-state-metrics-57f4659995-6n2qq", "cpu_throttled"]
    assert throttled == pytest.approx((2507 + 3964) / (8495 + 13781))
    assert [str(failure).split(":")[0] for failure in old.failures] == ["pod.cpu_cores", "pod.memory_bytes"]
    assert [str(failure).split(":")[0] for failure in new.failures] == ["pod.cpu_cores", "pod.memory_bytes"]


PAGES = {"/old": OLD, "/new": NEW, "/failed": "cadvisor_scrape_error.txt"}


@pytest.fixture(scope="module")
def scraping(real):
    """A real Prometheus that has scraped each page for the last two seconds, and those two seconds."""
    with (
        answering(lambda asked: Reply((real / PAGES[asked.path]).read_text())) as target,
        start_prometheus(scrape=[target + path for path in PAGES], interval="200ms") as url,
    ):
        client = PrometheusClient(url)
        scraped: list[Series] = []
        for _ in range(300):
            scraped = client.instant("count_over_time(up[1m]) >= 15 and min_over_time(up[1m]) == 1")
            if len(scraped) == len(PAGES):
                break
            time.sleep(0.1)
        assert len(scraped) == len(PAGES), "the pages were not scraped"
        now = datetime.fromtimestamp(client.instant("time()")[0].values[0], UTC)
        yield client, Window(now - timedelta(seconds=2), now)


def test_pages_of_either_naming_can_be_scraped(real, scraping):
    client, seconds = scraping
    found = [
        usage_pods.collect(client, seconds, step=timedelta(seconds=1), match=f'job="{job}"').rows["name"].to_pylist()
        for job in ("0/old", "1/new")
    ]
    assert set(found[0]) == set(found[1]) == set(received((real / NEW).read_text()))


def test_a_failed_scrape_of_the_containers_is_an_error_not_zero_use(scraping):
    client, seconds = scraping
    assert client.instant("container_scrape_error")
    batch = usage_pods.collect(client, seconds, step=timedelta(seconds=1), match='job="2/failed"')
    assert batch.rows.num_rows == 0
    assert [failure.reason for failure in batch.failures] == ["empty", "empty"]


def test_the_table_has_a_query_for_each_metric_and_no_other():
    assert tuple(usage_pods.METRICS) == METRICS["pod"]
