"""The lease: of two operators of one job one acts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.regions import paths
from jobs.regions.lease import Lease
from pipeline.clients.kubernetes import KubernetesClient
from tests.support.kube_api import KubeApi, serving

PATH = paths.leases("default")


class Clock:
    time = 100.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def api() -> Iterator[KubeApi]:
    with serving() as api:
        yield api


def lease(api: KubeApi, directory: Path, identity: str, clock: Clock) -> Lease:
    client = KubernetesClient(kubeconfig=api.kubeconfig(directory))
    return Lease(client, PATH, "j", identity, seconds=15.0, clock=clock)


def spec(api: KubeApi) -> dict[str, Any]:
    found: dict[str, Any] = api.get(f"{PATH}/j")["spec"]
    return found


def test_one_holds_it_until_its_time_is_over(api: KubeApi, tmp_path: Path) -> None:
    clock = Clock()
    first, second = lease(api, tmp_path, "first", clock), lease(api, tmp_path, "second", clock)
    assert first._try() and first.held()
    assert (spec(api)["holderIdentity"], spec(api)["leaseDurationSeconds"]) == ("first", 15)
    clock.time += 10.4
    assert first.held()
    assert not second._try()
    clock.time += 0.2  # 70 % of the duration: it stops acting well before another may
    assert not first.held()
    clock.time += 14.0
    assert not second._try()
    clock.time += 0.9
    assert second._try() and second.held()
    assert (spec(api)["holderIdentity"], spec(api)["leaseTransitions"]) == ("second", 1)
    assert not first._try()
    assert not first.held()


def test_renewing_keeps_it(api: KubeApi, tmp_path: Path) -> None:
    clock = Clock()
    first, second = lease(api, tmp_path, "first", clock), lease(api, tmp_path, "second", clock)
    assert first._try()
    for _ in range(10):
        clock.time += 5.0
        assert first._try()
        assert not second._try()
    assert first.held()
    assert spec(api)["leaseTransitions"] == 0


def test_the_same_identity_takes_it_again_at_once(api: KubeApi, tmp_path: Path) -> None:
    clock = Clock()
    assert lease(api, tmp_path, "pod", clock)._try()
    assert lease(api, tmp_path, "pod", clock)._try()


def test_a_released_lease_is_free_at_once(api: KubeApi, tmp_path: Path) -> None:
    clock = Clock()
    first, second = lease(api, tmp_path, "first", clock), lease(api, tmp_path, "second", clock)
    assert first.acquire(lambda: False)
    first.release()
    assert not first.held()
    assert second._try()


def test_a_server_that_is_down_gives_it_to_nobody(api: KubeApi, tmp_path: Path) -> None:
    clock = Clock()
    first = lease(api, tmp_path, "first", clock)
    assert first._try()
    api.fault = lambda method, path: 500
    clock.time += 5.0
    assert not first._try()
    assert first.held()
    clock.time += 6.0
    assert not first.held()


def test_of_two_that_try_at_once_one_fails(api: KubeApi, tmp_path: Path) -> None:
    clock = Clock()
    first, second = lease(api, tmp_path, "first", clock), lease(api, tmp_path, "second", clock)
    assert first._try()
    found = first._read()
    assert found is not None
    clock.time += 100.0
    assert not second._try()  # it sees it for the first time
    clock.time += 100.0
    assert second._try()
    with pytest.raises(Exception, match="409"):
        first._put(found, "first")


def test_a_part_of_a_second_is_never_given_away_before_its_holder_stops(api: KubeApi, tmp_path: Path) -> None:
    clock = Clock()
    client = KubernetesClient(kubeconfig=api.kubeconfig(tmp_path))
    first, second = (Lease(client, PATH, "j", name, seconds=1.45, clock=clock) for name in ("first", "second"))
    assert first._try()
    assert not second._try()
    clock.time += 1.01  # the holder may act until 1.015
    assert first.held()
    assert not second._try()


@pytest.mark.parametrize("begins", [0.0, 1.0, 2.0, 3.0, 3.7, 3.8])
def test_an_outage_of_six_seconds_does_not_cost_the_lease(
    api: KubeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begins: float
) -> None:
    clock = Clock()
    first = lease(api, tmp_path, "first", clock)
    assert first._try()
    began = clock.time + begins
    api.fault = lambda method, path: 503 if began <= clock.time < began + 6.0 else None
    held = []

    def wait(seconds: float) -> bool:
        """Let the time pass, and end after twice the lease's duration."""
        clock.time += seconds
        held.append(first.held())
        return clock.time > 130.0

    monkeypatch.setattr(first._stop, "wait", wait)
    first._renew()
    assert all(held)
