"""Usage of nodes, asked of a real Prometheus over a history whose every rate is known."""

import math
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from pipeline.clients.prometheus import PrometheusClient
from pipeline.collectors import usage_nodes
from pipeline.columns import METRICS
from pipeline.errors import BadInput, Temporary
from pipeline.records import Batch, Series, Window
from tests.support.openmetrics import History, growing
from tests.support.prometheus import needs_prometheus, start_prometheus

pytestmark = [pytest.mark.prometheus, needs_prometheus]

#: A multiple of 300; the history lasts five minutes from here on.
T0 = 1_700_000_100
AT = datetime.fromtimestamp(T0 + 300, UTC)
WINDOW = Window(AT - timedelta(minutes=1), AT + timedelta(seconds=1))
CPU = "node_cpu_seconds_total"
TOTAL, AVAILABLE = "node_memory_MemTotal_bytes", "node_memory_MemAvailable_bytes"

#: Addresses to names, as node objects give them.
ADDRESSES = {"10.0.0.1": "n1", "n1.internal": "n1", "fd00::2": "n2", "10.0.0.3": "n3", "10.0.0.4": "n4"}


def history(path: Path) -> Path:
    past = History(T0, T0 + 300)
    # n1: named by its address; two processors; scraped by two replicas
    for replica in ("a", "b"):
        labels = {"instance": "10.0.0.1:9100", "replica": replica}
        for cpu in ("0", "1"):
            for mode, rate in (
                ("user", 0.25),
                ("system", 0.125),
                ("idle", 0.5),
                ("iowait", 0.0625),
                ("steal", 0.03125),
            ):
                past.add(CPU, growing(rate), **labels, cpu=cpu, mode=mode)
        past.add(TOTAL, lambda _: 8e9, **labels)
        past.add(AVAILABLE, lambda s: 5e9 + (s - 150) * 1000, **labels)
        for device, rate in (("eth0", 1000), ("eth1", 24), ("lo", 9000), ("veth1a2b", 500), ("cni0", 500),
                             ("bond0", 1024), ("eth0.100", 1000), ("docker0", 3), ("eni0a1b2c", 8)):  # fmt: skip
            past.add("node_network_receive_bytes_total", growing(rate), **labels, device=device)
            past.add("node_network_transmit_bytes_total", growing(2 * rate), **labels, device=device)
        for device, rate in (("sda", 4096), ("sda1", 4096), ("dm-0", 4096), ("nvme0n1", 8192), ("nvme0n1p1", 8192),
                             ("md0", 12288), ("loop0", 1), ("sr0", 1), ("mmcblk0", 16)):  # fmt: skip
            past.add("node_disk_read_bytes_total", growing(rate), **labels, device=device)
            past.add("node_disk_written_bytes_total", growing(rate / 2), **labels, device=device)
        for name, rate in (("cpu", 0.25), ("memory", 0.125), ("io", 0.5)):
            past.add(f"node_pressure_{name}_waiting_seconds_total", growing(rate), **labels)
            past.add(f"node_pressure_{name}_stalled_seconds_total", growing(rate / 2), **labels)
        for device, speed in (("eth0", 1.25e9), ("eth1", 1.25e8), ("eth2", -1.25e5), ("bond0", 1.375e9)):
            past.add("node_network_speed_bytes", lambda _, speed=speed: speed, **labels, device=device)
    # n2: an IPv6 address, a kernel without MemAvailable, and a counter that begins again after 150 s
    labels = {"instance": "[fd00::2]:9100"}
    past.add(CPU, lambda s: (5000 if s < 150 else -150) + s, **labels, cpu="0", mode="user")
    past.add(TOTAL, lambda _: 4e9, **labels)
    for name, amount in (("MemFree", 1e9), ("Buffers", 2.5e8), ("Cached", 7.5e8)):
        past.add(f"node_memory_{name}_bytes", lambda _, amount=amount: amount, **labels)
    # n3: named by labels of either kind, by two jobs
    past.add(CPU, growing(0.75), node="n3", instance="exporter-x7:9100", cpu="0", mode="user", job="one")
    past.add(CPU, growing(0.75), kubernetes_node="n3", instance="10.9.9.9:9100", cpu="0", mode="user", job="two")
    # n4: no number
    past.add(TOTAL, lambda _: math.nan, instance="10.0.0.4:9100")
    past.add(AVAILABLE, lambda _: 1.0, instance="10.0.0.4:9100")
    # a machine outside the cluster
    past.add(CPU, growing(0.5), instance="10.7.7.7:9100", cpu="0", mode="user")
    return past.write(path)


#: By hand from the rates above.
EXPECTED = {
    ("n1", "cpu_cores"): 2 * (0.25 + 0.125),
    ("n1", "memory_bytes"): 3e9,
    ("n1", "network_receive_bytes_per_s"): 1024.0,
    ("n1", "network_transmit_bytes_per_s"): 2048.0,
    ("n1", "disk_read_bytes_per_s"): 4096.0 + 8192.0 + 16.0,
    ("n1", "disk_write_bytes_per_s"): 2048.0 + 4096.0 + 8.0,
    ("n1", "cpu_pressure"): 0.25,
    ("n1", "memory_pressure"): 0.125,
    ("n1", "io_pressure"): 0.5,
    ("n1", "network_speed_bytes_per_s"): 1.375e9,
    ("n2", "cpu_cores"): 270 / 300,
    ("n2", "memory_bytes"): 2e9,
    ("n3", "cpu_cores"): 0.75,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with start_prometheus(history(tmp_path_factory.mktemp("history") / "nodes.txt")) as url:
        client = PrometheusClient(url)
        yield client
        client.close()


def values(batch: Batch) -> dict[tuple[str, str], float]:
    found = {(row["name"], row["metric"]): row["value"] for row in batch.rows.to_pylist() if row["at"] == AT}
    assert len(found) == batch.rows.num_rows, "a key stands twice"
    return found


def test_every_node_comes_out_once_with_the_rates_that_went_in(server):
    batch = usage_nodes.collect(server, WINDOW, addresses=ADDRESSES)
    assert values(batch) == pytest.approx(EXPECTED, rel=1e-9)
    assert set(batch.rows["scope"].to_pylist()) == {"node"}
    assert set(batch.rows["namespace"].to_pylist()) == {""}
    assert batch.failures == ()
    assert [refusal.what for refusal in batch.refused] == ["node usage series of 10.7.7.7:9100"]
    assert usage_nodes.collect(server, WINDOW, addresses=ADDRESSES).rows.equals(batch.rows)


def test_without_known_nodes_the_address_is_the_name(server):
    found = values(usage_nodes.collect(server, WINDOW))
    cpu = {name: value for (name, metric), value in found.items() if metric == "cpu_cores"}
    assert cpu == pytest.approx({"10.0.0.1": 0.75, "fd00::2": 0.9, "n3": 0.75, "10.7.7.7": 0.5})


def test_the_labels_that_name_a_node_can_be_said(server):
    found = values(usage_nodes.collect(server, WINDOW, node_labels=("instance",)))
    assert found["exporter-x7", "cpu_cores"] == pytest.approx(0.75)
    with pytest.raises(BadInput, match="node_label"):
        usage_nodes.collect(server, WINDOW, node_labels=("a) or (b",))


def test_nodes_that_no_series_names_are_a_failure(server):
    batch = usage_nodes.collect(server, WINDOW, addresses={"192.168.0.1": "elsewhere"})
    assert batch.rows.num_rows == 0
    assert [failure.reason for failure in batch.failures] == ["empty", "empty"]
    assert len(batch.refused) == 5, "one for each name that is no node's"


def test_a_server_out_of_reach_from_the_start_is_an_error():
    def query(*_: object) -> list[Series]:
        raise Temporary("prometheus", "connection", "no connection")

    with pytest.raises(Temporary, match="no connection"):
        usage_nodes.collect(query, WINDOW)


def test_the_published_page_of_node_exporter_gives_its_devices_once(real, tmp_path):
    """Counters grow by a thousandth of their value a second; sums by hand from the page's rows."""
    past = History(T0, T0 + 300, every=60)
    past.add_page(
        (real / "node_exporter_e2e.txt").read_text(),
        lambda name, value: growing(value / 1000 if name.endswith("_total") else 0, value),
    )
    with start_prometheus(past.write(tmp_path / "page.txt")) as url:
        # a page has no instance: that label comes with a scrape
        naming = {f"node.{name}": metric.promql for name, metric in usage_nodes.METRICS.items()}
        labelled = {
            name: f'label_replace({promql}, "instance", "n1:9100", "", "")' for name, promql in naming.items()
        }
        batch = usage_nodes.collect(PrometheusClient(url), WINDOW, queries=labelled, addresses={"10.0.0.1": "n1"})
    found = values(batch)
    # mmcblk0, nvme0n1, sda, sdb, sdc and vda; neither dm-0..5 nor mmcblk0p1..2 nor sr0
    assert found["n1", "disk_read_bytes_per_s"] == pytest.approx(
        (798720 + 2377714176 + 513713216512 + 4944782848 + 848782848 + 16727491584) / 1000
    )
    assert found["n1", "disk_write_bytes_per_s"] == pytest.approx(
        (0 + 20199236096 + 258916880384 + 1010127360 + 88527360 + 109382369280) / 1000
    )
    assert found["n1", "cpu_pressure"] == pytest.approx(14.036781 / 1000)
    assert found["n1", "network_speed_bytes_per_s"] == 1.25e8
    free, buffers, cached = (real_gauge(real, name) for name in ("MemFree", "Buffers", "Cached"))
    assert found["n1", "memory_bytes"] == 3831959552 - (free + buffers + cached)


def real_gauge(real: Path, name: str) -> float:
    for line in (real / "node_exporter_e2e.txt").read_text().splitlines():
        if line.startswith(f"node_memory_{name}_bytes "):
            return float(line.split()[1])
    raise LookupError(name)


def test_a_server_out_of_reach_is_asked_once_and_what_came_before_is_kept():
    asked: list[str] = []

    def query(promql: str, *_: object) -> list[Series]:
        asked.append(promql)
        if len(asked) > 1:
            raise Temporary("prometheus", "timeout", "no answer in time")
        return [Series({"instance": "n1:9100"}, np.array([AT.timestamp()]), np.array([2.0]))]

    batch = usage_nodes.collect(query, WINDOW)
    assert values(batch) == {("n1", "cpu_cores"): 2.0}
    assert [failure.reason for failure in batch.failures] == ["timeout"]
    assert batch.watermark is None, "the same window is to be read again"
    assert len(asked) == 2


def test_the_table_has_a_query_for_each_metric_and_no_other():
    assert tuple(usage_nodes.METRICS) == METRICS["node"]


def test_a_query_for_no_metric_is_named():
    with pytest.raises(BadInput, match=r"prometheus\.queries\.cpu_cores"):
        usage_nodes.collect(lambda *_: [], WINDOW, queries={"cpu_cores": "up"})
