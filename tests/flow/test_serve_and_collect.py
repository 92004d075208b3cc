"""`colocate serve` beside `colocate collect`: both work, answers come, and what fails shows in the metrics."""

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.flow.test_collect import counted
from tests.support import ports
from tests.support.town import Town, town
from tests.support.web import Reply


@contextmanager
def served(place: Town, port: int) -> Iterator["subprocess.Popen[str]"]:
    """Serve *place* until the block is left; then everything must end by itself, in order."""
    child = place.serve()
    try:
        yield child
    finally:
        child.terminate()
        assert child.wait(timeout=60) == 0


def until(condition: Callable[[], bool], what: str, seconds: float = 90.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"never came: {what}"
        time.sleep(0.3)


def fetch(port: int, path: str, body: bytes | None = None) -> str:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        text: str = answer.read().decode()
        return text


def up(port: int) -> bool:
    try:
        return fetch(port, "/healthz") == "ok\n"
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def metric(port: int, name: str, **labels: str) -> float | None:
    """Return the value of the one sample of *name* with *labels*; None where there is none."""
    for family in text_string_to_metric_families(fetch(port, "/metrics")):
        for sample in family.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                return sample.value
    return None


@pytest.fixture
def place(tmp_path: Path) -> Iterator[tuple[Town, int]]:
    port = ports.free()
    with town(tmp_path, extra=f"[serve]\nport = {port}\n") as made:
        yield made, port


def test_collecting_by_hand_while_serving_and_answering(place: tuple[Town, int]) -> None:
    made, port = place
    with served(made, port):
        until(lambda: up(port), "the server")
        by_hand = made.colocate("collect", "-o", "json")
        assert by_hand.returncode == 0, by_hand.stderr
        until(lambda: bool(json.loads(fetch(port, "/v1/nodes"))["items"]), "a snapshot that knows the nodes")
        held = counted(made)
        assert held["activations"] == held["distinct"] == 500
        assert (held["node_specs"], held["placements"]) == (2, 6)
        pod = {
            "metadata": {"name": "wskx-invoker-00-7-guest-alpha", "namespace": "openwhisk"},
            "spec": {"containers": []},
        }
        answer = json.loads(fetch(port, "/v1/recommendations", json.dumps(pod).encode()))
        assert answer["satisfiable"] is True
        assert {node["name"] for node in answer["nodes"]} == {"n0", "n1"}
        nodes = json.loads(fetch(port, "/v1/nodes"))
        assert [row["node"] for row in nodes["items"]] == ["n0", "n1"]


def test_a_source_that_breaks_shows_in_the_metrics_and_the_doctor(place: tuple[Town, int]) -> None:
    made, port = place
    assert made.colocate("collect").returncode == 0
    made.usage.append(Reply("out of order", status=500))
    assert made.colocate("collect", "usage").returncode == 3
    with served(made, port):
        until(lambda: up(port), "the server")
        labels = {"cluster": "edge", "source": "usage"}
        until(lambda: (metric(port, "colocation_source_errors_total", **labels) or 0) >= 1, "the error's count")
        assert metric(port, "colocation_source_errors_total", cluster="edge", source="nodes") == 0
    examined = made.colocate("doctor", "-o", "json")
    assert examined.returncode == 3
    failed = [each for each in json.loads(examined.stdout) if each["verdict"] == "failed"]
    assert failed
    assert {each["source"] for each in failed} == {"prometheus"}
    assert all("500" in each["said"] and each["fix"] for each in failed)
