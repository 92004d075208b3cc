"""List, then watch: what is handed on, and what happens when either fails."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from pipeline.clients.kubernetes import KubernetesClient
from pipeline.clients.watch import Watcher
from pipeline.errors import SourceError, Temporary
from tests.support.kube_objects import node
from tests.support.kube_server import KubeServer, serving, status

NODES = "/api/v1/nodes"


class View:
    """The names that a follower of the watcher holds, and everything that it was told."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.replaced: list[set[str]] = []
        self.told: list[tuple[str, str]] = []
        self.errors: list[str] = []
        self.fail_on = ""

    def replace(self, items: Sequence[msgspec.Raw]) -> None:
        self.names = {self._name(item) for item in items}
        self.replaced.append(set(self.names))

    def event(self, kind: str, item: msgspec.Raw) -> None:
        name = self._name(item)
        if name == self.fail_on:
            self.fail_on = ""
            raise KeyError("s3cret")
        self.told.append((kind, name))
        (self.names.discard if kind == "DELETED" else self.names.add)(name)

    def error(self, error: Exception) -> None:
        self.errors.append(error.reason if isinstance(error, SourceError) else type(error).__name__)

    @staticmethod
    def _name(item: msgspec.Raw) -> str:
        return str(json.loads(bytes(item))["metadata"]["name"])


@pytest.fixture
def server() -> Iterator[KubeServer]:
    with serving({NODES: [node("a"), node("b")]}) as running:
        yield running


@pytest.fixture
def view() -> View:
    return View()


@pytest.fixture
def watcher(server: KubeServer, view: View, tmp_path: Path) -> Iterator[Watcher]:
    client = KubernetesClient(kubeconfig=server.kubeconfig(tmp_path), page=1, timeout=timedelta(seconds=5))
    made = Watcher(
        client,
        NODES,
        on_replace=view.replace,
        on_event=view.event,
        on_error=view.error,
        pauses=(0.01, 0.05),
        seconds=20,
    )
    thread = made.start()
    yield made
    made.stop()
    thread.join(10)
    assert not thread.is_alive(), "stop() must end the loop"


def until(condition: Callable[[], bool]) -> None:
    """Wait for *condition*, at most a generous while."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "did not happen"
        time.sleep(0.005)


def test_a_list_then_events(server: KubeServer, view: View, watcher: Watcher) -> None:
    assert watcher.synced.wait(20)
    assert view.replaced == [{"a", "b"}]
    server.event(NODES, "ADDED", node("c"))
    server.event(NODES, "BOOKMARK", {"kind": "Node", "metadata": {"name": "no object"}})
    server.event(NODES, "MODIFIED", node("a"))
    server.event(NODES, "DELETED", node("b"))
    until(lambda: len(view.told) == 3)
    assert view.told == [("ADDED", "c"), ("MODIFIED", "a"), ("DELETED", "b")]
    assert view.names == {"a", "c"}
    assert (view.errors, watcher.failures) == ([], 0)


def test_a_quiet_end_goes_on_from_the_last_version(server: KubeServer, view: View, watcher: Watcher) -> None:
    def watched() -> list[str]:
        return [query["resourceVersion"] for _, query in server.requests if "watch" in query]

    until(lambda: len(watched()) == 1)
    server.event(NODES, "ADDED", node("c"))
    last = server.event(NODES, "BOOKMARK", {"kind": "Node"})
    until(lambda: watcher._version == str(last))
    server.end_watches()
    until(lambda: len(watched()) > 1)
    assert set(watched()) == {"1000", str(last)}, "a bookmark moves the version on"
    server.event(NODES, "ADDED", node("d"))
    until(lambda: len(view.told) == 2)
    assert len(view.replaced) == 1, "nothing was missed, so nothing is listed anew"
    assert view.told == [("ADDED", "c"), ("ADDED", "d")]


def test_a_forgotten_version_lists_anew_and_replaces(server: KubeServer, view: View, watcher: Watcher) -> None:
    until(lambda: any("watch" in query for _, query in server.requests))
    server.event(NODES, "ADDED", node("c"))
    until(lambda: "c" in view.names)
    server.put(NODES, [node("b"), node("z")])
    server.version, server.oldest = 5000, 5000
    server.end_watches()
    until(lambda: len(view.replaced) == 2)
    assert view.names == {"b", "z"}
    assert view.errors == ["gone"]
    server.event(NODES, "ADDED", node("y"))
    until(lambda: "y" in view.names)
    assert [query["resourceVersion"] for _, query in server.requests if "watch" in query][-1] == "5000"


def test_a_failing_list_is_tried_again_and_half_a_list_never_replaces(
    server: KubeServer, view: View, tmp_path: Path
) -> None:
    server.script = [status(500), None, "half", (200, b"<html>", "text/html"), None, status(403)]
    client = KubernetesClient(kubeconfig=server.kubeconfig(tmp_path), page=1, timeout=timedelta(seconds=5))
    watcher = Watcher(
        client, NODES, on_replace=view.replace, on_event=view.event, on_error=view.error, pauses=(0.01, 0.02)
    )
    assert watcher.staleness() == float("inf")
    thread = watcher.start()
    until(watcher.synced.is_set)
    watcher.stop()
    thread.join(10)
    assert view.errors == ["status_500", "half_page", "not_json", "status_403"]
    assert view.replaced == [{"a", "b"}]


def test_a_handler_that_raises_gets_a_new_list(server: KubeServer, view: View, watcher: Watcher) -> None:
    until(lambda: any("watch" in query for _, query in server.requests))
    view.fail_on = "c"
    server.event(NODES, "ADDED", node("c"))
    until(lambda: len(view.replaced) == 2)
    assert view.errors == ["KeyError"]
    assert watcher.last_error == "KeyError", "a foreign message may hold anything"


def test_staleness_counts_from_the_last_proof_of_life(server: KubeServer, view: View, tmp_path: Path) -> None:
    now = [100.0]
    client = KubernetesClient(kubeconfig=server.kubeconfig(tmp_path), timeout=timedelta(seconds=5))
    watcher = Watcher(client, NODES, on_replace=view.replace, on_event=view.event, clock=lambda: now[0])
    thread = watcher.start()
    assert watcher.synced.wait(20)
    now[0] = 130.0
    assert watcher.staleness() == 30.0
    server.event(NODES, "BOOKMARK", {"kind": "Node"})
    until(lambda: watcher.staleness() == 0.0)
    watcher.stop()
    thread.join(10)


class Waits(threading.Event):
    """A stop event that notes how long it was waited for, and sets itself after some waits."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.waits: list[float] = []
        self._after = after

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0.0)
        if len(self.waits) == self._after:
            self.set()
        return self.is_set()


@pytest.mark.parametrize(
    ("jitter", "expected"), [(1.0, [1, 2, 4, 8, 10, 10]), (0.0, [0.5, 1, 2, 4, 5, 5])], ids=["longest", "shortest"]
)
def test_pauses_grow_to_their_limit(
    server: KubeServer, view: View, tmp_path: Path, jitter: float, expected: list[float]
) -> None:
    server.script = [(403, b"", "text/plain")] * 6
    stop = Waits(6)
    Watcher(
        KubernetesClient(kubeconfig=server.kubeconfig(tmp_path), timeout=timedelta(seconds=5)),
        NODES,
        on_replace=view.replace,
        on_event=view.event,
        pauses=(1.0, 10.0),
        stop=stop,
        jitter=lambda: jitter,
    ).run()
    assert stop.waits == expected


def test_a_server_that_asks_for_patience_gets_it(server: KubeServer, view: View, tmp_path: Path) -> None:
    class Patient:
        def list(self, path: str, **_: str) -> object:
            raise Temporary("kubernetes", "status_429", "busy", delay=7.0)

    stop = Waits(1)
    Watcher(
        Patient(),  # type: ignore[arg-type]
        NODES,
        on_replace=view.replace,
        on_event=view.event,
        pauses=(0.1, 60.0),
        stop=stop,
    ).run()
    assert stop.waits == [7.0]


def test_watches_that_end_at_once_do_not_spin(server: KubeServer, view: View, tmp_path: Path) -> None:
    empty = (200, b"", "application/json")
    server.script = [None, *[empty] * 3]
    stop = Waits(3)
    Watcher(
        KubernetesClient(kubeconfig=server.kubeconfig(tmp_path), timeout=timedelta(seconds=5)),
        NODES,
        on_replace=view.replace,
        on_event=view.event,
        on_error=view.error,
        pauses=(1.0, 10.0),
        stop=stop,
        jitter=lambda: 1.0,
    ).run()
    assert view.errors == ["watch_ended"] * 3
    assert stop.waits == [1, 2, 4]
    assert len(view.replaced) == 1
