"""``colocate demo --serve`` as a process, with things beside the recording that it has none of: disks, regions, pods
that were decided about, and requests that are refused."""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec

from featurestore.store import assemble, followed, published, queries
from featurestore.store.decision import Decision
from featurestore.store.decisions import Spool, flush
from featurestore.store.duck import Store
from featurestore.store.ingest import ingest
from jobs.demo.replay import CLUSTER
from pipeline.collectors import disks, regions
from pipeline.records import Listing
from tests.support.disks import capacity, pod, reservation, storage_classes, using
from tests.support.processes import end
from tests.support.service import encoded, review, wait_until

PATIENCE = 240.0
#: Decisions are made up for so many of the recorded pods.
_DECIDED = 40


class Demo(NamedTuple):
    """A demo that serves at *url* from *directory*; *said* is its output so far."""

    url: str
    directory: Path
    process: "subprocess.Popen[bytes]"

    @property
    def said(self) -> str:
        """What it printed."""
        return (self.directory / "said").read_text(encoding="utf-8")

    @property
    def store(self) -> Store:
        """Its history."""
        return Store(self.directory / "colocation.duckdb")


@contextmanager
def serving(directory: Path, **environment: str) -> Iterator[Demo]:
    """Run the command until it serves, and end it as a person would."""
    command = [sys.executable, "-m", "jobs.cli", "demo", "--serve", "--port", "0", "--directory", str(directory)]
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / "log"
    with (directory / "said").open("wb") as said, log.open("wb") as errors:
        process = subprocess.Popen(command, stdout=said, stderr=errors, env={**os.environ, **environment})
    try:
        wait_until(lambda: _port(log) is not None or process.poll() is not None, PATIENCE)
        port = _port(log)
        assert port is not None, log.read_text()
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: _ready(url), PATIENCE)
        yield Demo(url, directory, process)
    finally:
        end(process)


def _port(log: Path) -> int | None:
    for line in log.read_text().splitlines():
        if line.startswith("{") and (entry := json.loads(line)).get("event") == "listening":
            return int(entry["port"])
    return None


def _ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz").status_code == 200
    except httpx.TransportError:
        return False


def enrich(demo: Demo) -> None:
    """Give the history of *demo* disks, regions, decisions with outcomes and a source that fails; publish it."""
    store = demo.store
    [[at]] = store.read(lambda con: con.execute("SELECT max(finished) FROM runs").fetchall())
    at = at.astimezone(UTC) + timedelta(seconds=1)
    for batch, source in ((regions.collect(_listed(_regions()), at), "regions"), (_disks(at), "disks")):
        ingest(store, CLUSTER, batch, collected=at, overlap=timedelta(0), source=source, started=at)
    _decide(demo, at)

    def rest(con: Any) -> None:
        failed = queries.Run(CLUSTER, "workflows", at, at, 0, 3, "failed", "timeout", "")
        queries.record_run(con, failed)
        con.execute("INSERT INTO usage VALUES (?, 'drive', 'worker-1', 'sda', 'busy_ratio', ?, 0.5)", [CLUSTER, at])

    store.write(rest)
    published.write(store.read(lambda con: assemble.snapshot(con, at)), demo.directory / "colocation.snapshot")


def _decide(demo: Demo, at: datetime) -> None:
    """Every second of the oldest pods went where it was advised to go."""
    query = "SELECT namespace, pod, node, function, started FROM placements ORDER BY started, uid LIMIT ?"
    rows = demo.store.read(lambda con: con.execute(query, [_DECIDED]).fetchall())
    spool = Spool(demo.directory / "elsewhere")
    for number, (namespace, name, node, function, started) in enumerate(rows):
        ranked = [{"name": node if number % 2 else "another", "score": 9.0}, {"name": "last", "score": 1.0}]
        document = {"nodes": ranked}
        decided = started.astimezone(UTC) - timedelta(seconds=1)
        spool.append(
            [Decision(f"d{number}", decided, CLUSTER, namespace, name, function or "", "prefer", "v", True,
                      "patched", document)]
        )  # fmt: skip
    spool.close()
    assert flush(demo.store, demo.directory / "elsewhere").rows == len(rows)
    # As a learning run two hours later does: of older decisions it looks only at those with a pod.
    demo.store.write(lambda con: followed.follow(con, rows[0][4].astimezone(UTC) + timedelta(hours=2)))


def _regions() -> list[dict[str, Any]]:
    millisecond = 1767600000000
    status = {
        "state": "PROCESSING", "regionHealthy": True, "currentSeqID": 8, "lastCompletedSeqID": 7,
        "currentResetAttempt": 1, "currentMaxResetAttempts": 5, "avgDrainTimeMetric": 1200,
        "avgResetTimeMetric": 300, "lastConsistentStateTime": millisecond, "lastResetTime": millisecond,
        "lastCompletedDrain": 7, "lastCompletedReset": 6,
        "recentDrains": [{"seqId": 7, "startedAt": millisecond, "milliseconds": 1200}],
    }  # fmt: skip
    return [
        {
            "metadata": {"name": f"j-cr{index}", "namespace": "streams", "labels": {"streams.ibm.com/job": "j"}},
            "spec": {"regionIndex": index, "trigger": "periodic", "period": 5, "pesInRegion": [4, 1]},
            "status": status,
        }
        for index in range(2)
    ]


def _listed(items: list[dict[str, Any]]) -> Any:
    found = tuple(msgspec.Raw(json.dumps(item).encode()) for item in items)
    return lambda path, **_: Listing(found, "1")


def _disks(at: datetime) -> Any:
    drive = {"apiVersion": "csi-baremetal.dell.com/v1", "kind": "Drive", "metadata": {"name": "d1"},
             "spec": {"UUID": "d1", "NodeId": "n1", "Type": "HDD", "Health": "GOOD", "Size": 2**40}}  # fmt: skip
    objects = [
        drive,
        capacity("ac-d1", "HDDLVG", 100),
        reservation("r", "HDDLVG", 5, ["ac-d1"]),
        *storage_classes(),
        *using(pod("user"), "d1"),
    ]
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for each in objects:
        by_kind.setdefault(each["kind"], []).append(each)
    kinds = {path: kind for kind, path in disks.PATHS.items()}

    def listed(path: str, **_: str) -> Listing:
        items = by_kind.get(kinds[path], [])
        return Listing(tuple(msgspec.Raw(json.dumps(item).encode()) for item in items), "1")

    return disks.collect(listed, at)


_UIDS = itertools.count()


def ask(client: httpx.Client) -> None:
    """Ask for what is granted and what is refused, of every part that counts it."""
    created: Mapping[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}}
    for _ in range(3):
        client.post("/mutate", content=encoded(review(created, uid=f"shown-{next(_UIDS)}"))).raise_for_status()
    client.post("/mutate", content=encoded(review(namespace=1)))
    assert client.post("/mutate", content=b"no review").status_code == 400
    client.post("/v2/projects", content=b"[]")
    job = {"job": "ex", "namespace": "default",
           "pes": [{"id": 0, "operators": [{"name": "A", "placement": 'host("nowhere")'}]}]}  # fmt: skip
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": {}, "status": {}}
    client.post("/v1/host-constraints", json={"job": job, "nodes": [node]})
    client.post("/v1/disk-plans", json=pod("waits", claims=["missing"]))
