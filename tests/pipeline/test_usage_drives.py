"""Usage of single drives, asked of a real Prometheus over a history whose every rate is known."""

from datetime import UTC, datetime, timedelta

import pytest

from pipeline.clients.prometheus import PrometheusClient
from pipeline.collectors import usage_drives
from pipeline.columns import METRICS
from pipeline.records import Window
from tests.support.openmetrics import History, growing
from tests.support.prometheus import needs_prometheus, start_prometheus

pytestmark = [pytest.mark.prometheus, needs_prometheus]

T0 = 1_700_000_100
AT = datetime.fromtimestamp(T0 + 300, UTC)
WINDOW = Window(AT - timedelta(minutes=1), AT + timedelta(seconds=1))

#: Growth a second of each counter of the drive sdc.
RATES = {
    "node_disk_io_time_seconds_total": 0.75,
    "node_disk_reads_completed_total": 40,
    "node_disk_writes_completed_total": 10,
    "node_disk_read_bytes_total": 4096,
    "node_disk_written_bytes_total": 8192,
    "node_disk_read_time_seconds_total": 0.5,
    "node_disk_write_time_seconds_total": 2.0,
}


def test_every_drive_comes_out_once_by_node_and_device(tmp_path):
    past = History(T0, T0 + 300)
    for replica in ("a", "b"):
        labels = {"instance": "10.0.0.1:9100", "replica": replica}
        for counter, rate in RATES.items():
            past.add(counter, growing(rate), **labels, device="sdc")
            past.add(counter, growing(rate), **labels, device="sdc1")
            past.add(counter, growing(0), **labels, device="sdd")
    with start_prometheus(past.write(tmp_path / "drives.txt")) as url:
        client = PrometheusClient(url)
        batch = usage_drives.collect(client, WINDOW, addresses={"10.0.0.1": "n1"})
        client.close()
    found = {
        (row["namespace"], row["name"], row["metric"]): row["value"]
        for row in batch.rows.to_pylist()
        if row["at"] == AT
    }
    expected = {
        ("n1", "sdc", "busy_ratio"): 0.75,
        ("n1", "sdc", "read_operations_per_s"): 40,
        ("n1", "sdc", "write_operations_per_s"): 10,
        ("n1", "sdc", "read_bytes_per_s"): 4096,
        ("n1", "sdc", "write_bytes_per_s"): 8192,
        ("n1", "sdc", "latency_s"): 2.5 / 50,
    }
    idle = {("n1", "sdd", metric): 0.0 for metric in METRICS["drive"] if metric != "latency_s"}
    assert found == pytest.approx(expected | idle, rel=1e-9)
    assert set(batch.rows["scope"].to_pylist()) == {"drive"} and batch.failures == ()


def test_the_metrics_are_those_of_the_agreement():
    assert tuple(usage_drives.METRICS) == METRICS["drive"]
