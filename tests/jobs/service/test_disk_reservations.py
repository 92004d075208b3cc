"""The extender that reserves and the controller that settles, against an API server that is written to."""

import dataclasses
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from msgspec import structs

from jobs.service.disks.controller import CAPACITIES, Controller
from jobs.service.disks.extender import ExtenderArgs, filtered, prioritized
from jobs.service.disks.live import LiveDisks
from jobs.service.disks.reserving import PATH, Reserving
from pipeline.clients.kubernetes import KubernetesClient
from pipeline.collectors.disks import PATHS
from pipeline.errors import SourceError
from pipeline.objects import disks as wire
from rules.disks.dedication import PROVISIONAL
from rules.disks.plan import plan
from rules.disks.state import lay_out
from rules.disks.taints import TAINT, encoded, taint_of
from tests.support.disks import capacity, claim, pod, storage_classes, using
from tests.support.kube_api import KubeApi, serving

NODES = [{"kind": "Node", "metadata": {"name": f"worker-{i}", "uid": f"n{i}"}} for i in (1, 2)]
_NAMESPACED = ("Volume", "PersistentVolumeClaim", "Pod")


def put(api: KubeApi, *objects):
    for each in objects:
        path = PATHS[each["kind"]]
        if each["kind"] in _NAMESPACED:
            group, _, plural = path.rpartition("/")
            path = f"{group}/namespaces/{each['metadata'].get('namespace', 'default')}/{plural}"
        api.put(path, each)


def until(said: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait until *said*; the time limit only ends a test that fails."""
    end = time.monotonic() + seconds
    while not said():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


class World:
    """A cluster, its live disks, the extender and the controller."""

    def __init__(self, api: KubeApi, live: LiveDisks, **options: bool) -> None:
        self.api, self.live = api, live
        self.reserving = Reserving(live.client, live.layout_for)
        self.controller = Controller(live.client, lambda: live.layout, grace=0.2, **options)

    def filter(self, given, *names: str):
        asked = ExtenderArgs(given, nodenames=list(names or ("worker-1", "worker-2")))
        return filtered(asked, self.reserving)

    def spec(self, name: str):
        return self.api.get(f"{PATH}/{name}")["spec"]

    def status(self, name: str) -> str:
        status: str = self.spec(name)["Status"]
        return status

    def shows(self, said) -> None:
        until(lambda: self.live.layout is not None and said(self.live.layout))

    def settle(self, name: str, status: str = "RESERVED") -> None:
        self.shows(lambda disks: any(each.name == name for each in disks.objects.reservations))

        def done() -> bool:
            self.controller.work()
            return self.status(name) == status

        until(done)
        self.shows(lambda disks: any(e.name == name and e.status == status for e in disks.objects.reservations))


@contextmanager
def world(tmp_path, *objects, **options: bool) -> Iterator[World]:
    with serving() as api:
        put(api, *NODES, *storage_classes(), *objects)
        live = LiveDisks(KubernetesClient(kubeconfig=api.kubeconfig(tmp_path)), "c1")
        live.start()
        try:
            until(lambda: live.layout is not None)
            yield World(api, live, **options)
        finally:
            live.close()


BASE = [capacity("ac-d1", "HDDLVG", 50), capacity("ac-d2", "HDDLVG", 60, node="n2")]


def test_a_reservation_is_asked_for_settled_and_passed_on(tmp_path):
    given = pod(claims=["www-1"])
    with world(tmp_path, *BASE, given, claim("www-1", "hddlvg", 10)) as here:
        found = here.filter(given)
        assert (found.nodenames, found.failed_nodes, found.error) == ([], {}, ""), "the scheduler tries again"
        assert here.spec("default-web-0") == {
            "Namespace": "default",
            "Status": "REQUESTED",
            "NodeRequests": {"Requested": ["n1", "n2"]},
            "ReservationRequests": [
                {"CapacityRequest": {"Name": "www-1", "StorageClass": "HDDLVG", "Size": 10 * 2**30}}
            ],
        }
        here.settle("default-web-0")
        assert here.spec("default-web-0")["NodeRequests"]["Reserved"] == ["n1", "n2"]
        assert here.filter(given).nodenames == ["worker-1", "worker-2"]
        one = here.filter(given, "worker-2", "worker-9")
        assert one.nodenames == ["worker-2"]
        assert one.failed_nodes == {
            "worker-9": "No available capacity found on the node worker-9: capacity: no drive of class HDDLVG"
        }


def test_what_cannot_be_held_is_rejected_and_asked_for_again_when_there_is_more(tmp_path):
    given = pod(claims=["www-1"])
    with world(tmp_path, *BASE, given, claim("www-1", "hddlvg", 100)) as here:
        here.filter(given)
        here.settle("default-web-0", "REJECTED")
        put(here.api, capacity("ac-d3", "HDD", 200, node="n2"))
        here.shows(lambda disks: "n2" in disks.node_names and len(disks.objects.capacities) == 3)
        here.filter(pod(claims=["www-1"], TYPES="pod-bound-preferred"))
        assert here.status("default-web-0") == "REQUESTED", "asked for again, with the rules that it has now"
        rules = [{"AffinityRequest": [{"Type": "POD_BOUND_PREFERRED"}]}]
        assert here.spec("default-web-0")["AffinityRules"] == {"AffinityRequests": rules}
        here.settle("default-web-0")
        assert here.filter(given).nodenames == ["worker-2"]


def test_what_is_reserved_at_the_price_of_a_wish_scores_lower(tmp_path):
    """On the first node the volume lies beside a pod that it would rather be apart from."""
    given = pod(claims=["www-1"], ATYPES="pod-label-preferred", ALABELS="app=else")
    user = using(pod("else-0", labels={"app": "else"}), "d1", gib=1)
    with world(tmp_path, *BASE, *user, given, claim("www-1", "hddlvg", 10)) as here:
        here.filter(given)
        here.settle("default-web-0")
        asked = ExtenderArgs(given, nodenames=["worker-1", "worker-2"])
        until(lambda: here.filter(given).nodenames == ["worker-1", "worker-2"])
        scores = {each.host: each.score for each in prioritized(asked, here.reserving)}
        assert scores["worker-1"] < scores["worker-2"] == 10


def test_a_reservation_that_cannot_be_settled_keeps_no_other_waiting(tmp_path):
    """The API server refuses every taint, so that the second, which dedicates its disk, is never settled."""
    first, second, third = pod("a-0", ["a"]), pod("b-0", ["b"], DED="true"), pod("c-0", ["c"])
    claims = [claim("a", "hddlvg", 1), claim("b", "hddlvg", 1), claim("c", "hddlvg", 1)]
    with world(tmp_path, *BASE, first, second, third, *claims) as here:
        for each in (first, second, third):
            here.filter(each)
        here.shows(lambda disks: len(disks.objects.reservations) == 3)
        api = here.live.client

        class Refusing:
            def get(self, path):
                return api.get(path)

            def send(self, method, path, body, *more):
                if path.startswith(CAPACITIES):
                    raise SourceError("kubernetes", "status_422", "refused")
                return api.send(method, path, body, *more)

        controller = Controller(Refusing(), lambda: here.live.layout)
        until(lambda: controller.work() or here.status("default-c-0") == "RESERVED")
        assert here.status("default-b-0") == "REQUESTED"


def test_no_capacity_is_given_twice(tmp_path):
    """Two pods of one drive each, on a node with one drive: the second is rejected."""
    first, second = pod("a-0", ["a"]), pod("b-0", ["b"])
    claims = [claim("a", "ssd", 1), claim("b", "ssd", 1)]
    with world(tmp_path, capacity("ac-s1", "SSD", 10), first, second, *claims) as here:
        here.filter(first)
        here.filter(second)
        here.settle("default-a-0")
        here.settle("default-b-0", "REJECTED")


def test_a_pod_waits_while_another_holds_the_same_class(tmp_path):
    first, second = pod("a-0", ["a"]), pod("b-0", ["b"])
    with world(
        tmp_path, *BASE, first, second, claim("a", "hddlvg", 1), claim("b", "hddlvg", 1), sequential=True
    ) as here:
        here.filter(first)
        here.settle("default-a-0")
        here.filter(second)
        here.shows(lambda disks: len(disks.objects.reservations) == 2)
        now, asked = [0.0], []
        here.controller = Controller(
            here.live.client, lambda: here.live.layout, sequential=True, clock=lambda: now[0]
        )
        for tick in range(300):  # a quarter of a second each
            now[0] = tick / 4
            before = len(here.api.log)
            here.controller.work()
            asked += [now[0]] * (("GET", f"{PATH}/default-b-0") in here.api.log[before:])
        assert asked[:32] == [1.5 * n for n in range(31)] + [45.0 + 12.0]
        assert here.status("default-b-0") == "REQUESTED"


def test_a_dedicated_disk_is_tainted_before_it_is_reserved_and_released_afterwards(tmp_path):
    given = pod(claims=["www-1"], labels={"app": "nginx"}, DED="true")
    state = [capacity("ac-s1", "SSD", 400), capacity("ac-s2", "SSD", 400, node="n2")]
    with world(tmp_path, *state, given, claim("www-1", "ssdlvg", 1)) as here:
        here.filter(given)
        here.settle("default-web-0")
        writes = [path for method, path in here.api.log if method in ("PATCH", "PUT")]
        assert writes == [f"{CAPACITIES}/ac-s1", f"{CAPACITIES}/ac-s2", f"{PATH}/default-web-0"]
        for name in ("ac-s1", "ac-s2"):
            meta = here.api.get(f"{CAPACITIES}/{name}")["metadata"]
            assert meta["labels"][TAINT] == encoded("app=nginx:default")
            assert meta["annotations"] == {TAINT: "app=nginx:default", PROVISIONAL: "default-web-0"}
        # The pod got its volume on s1, and the driver deleted the reservation.
        put(here.api, *using(given, "s1", name="made"))
        here.api.delete(f"{PATH}/default-web-0")
        here.shows(lambda disks: not disks.objects.reservations and "s1" in disks.users)

        def tended() -> bool:
            here.controller.work()
            one, two = (here.api.get(f"{CAPACITIES}/{name}")["metadata"] for name in ("ac-s1", "ac-s2"))
            return PROVISIONAL not in one["annotations"] and TAINT not in two["labels"]

        until(tended)
        assert here.api.get(f"{CAPACITIES}/ac-s1")["metadata"]["annotations"] == {TAINT: "app=nginx:default"}
        assert here.api.get(f"{CAPACITIES}/ac-s2")["metadata"]["annotations"] == {}


def test_a_claim_that_was_made_this_moment_is_waited_for(tmp_path):
    """The layout is taken up every half second: the question sees the claim as soon as the watch does."""
    given = pod(claims=["www-1"])
    with world(tmp_path, *BASE, given) as here:
        put(here.api, claim("www-1", "hddlvg", 1))
        here.filter(given)
        assert here.status("default-web-0") == "REQUESTED"
        gone = here.filter(pod("x-0", ["nobody-makes-it"]))
        assert (gone.nodenames, gone.error) == ([], "")


def test_who_does_not_act_writes_nothing(tmp_path):
    given = pod(claims=["www-1"])
    with world(tmp_path, *BASE, given, claim("www-1", "hddlvg", 1)) as here:
        here.filter(given)
        here.shows(lambda disks: disks.objects.reservations)
        Controller(here.live.client, lambda: here.live.layout, acts=lambda: False).work()
        assert here.status("default-web-0") == "REQUESTED"


def test_annotation_errors_make_no_reservation(tmp_path):
    given = pod(claims=["www-1"], TYPES="pod-bond")
    with world(tmp_path, *BASE, given, claim("www-1", "hddlvg", 1)) as here:
        assert "pod-bond" in here.filter(given).error
        assert here.api.all(PATH) == {}


def test_a_write_that_was_overtaken_is_no_error(tmp_path):
    """Another process asked first: this one finds that out from the answer, and waits like it."""
    given = pod(claims=["www-1"])
    with world(tmp_path, *BASE, given, claim("www-1", "hddlvg", 1)) as here:
        here.api.fault = lambda method, path: 409 if method == "POST" else None
        found = here.filter(given)
        assert (found.nodenames, found.error) == ([], "")


@pytest.mark.parametrize("status", ["CANCELLED", "SOMETHING"])
def test_a_state_that_nobody_knows_is_an_error(tmp_path, status):
    given = pod(claims=["www-1"])
    odd = {"kind": "AvailableCapacityReservation", "metadata": {"name": "default-web-0"}, "spec": {"Status": status}}
    with world(tmp_path, *BASE, given, claim("www-1", "hddlvg", 1), odd) as here:
        assert here.filter(given).error == f"unsupported reservation status: {status}"


DEDICATED = pod(claims=["www-1"], labels={"app": "nginx"}, DED="true")


def test_a_controller_that_died_between_the_taint_and_the_reservation_is_followed_by_another(tmp_path):
    """The taint is there, the reservation still REQUESTED: the next one takes both up, and never twice."""
    state = [capacity("ac-s1", "SSD", 400), capacity("ac-s2", "SSD", 400)]
    with world(tmp_path, *state, DEDICATED, claim("www-1", "ssdlvg", 1)) as here:
        here.filter(DEDICATED)
        here.shows(lambda disks: disks.objects.reservations)
        here.api.fault = lambda method, path: 500 if method == "PUT" else None

        def tainted() -> bool:
            here.controller.work()
            return any(method == "PATCH" for method, _ in here.api.log)

        until(tainted)
        here.api.fault = lambda method, path: None
        here.shows(lambda disks: any(taint_of(each) for each in disks.objects.capacities))
        here.controller = Controller(here.live.client, lambda: here.live.layout, grace=0.2)
        here.settle("default-web-0")
        patched = [path for method, path in here.api.log if method == "PATCH"]
        assert patched == [f"{CAPACITIES}/ac-s1"], "what is tainted already is not tainted again, nor another drive"
        meta = here.api.get(f"{CAPACITIES}/ac-s1")["metadata"]
        assert meta["annotations"] == {TAINT: "app=nginx:default", PROVISIONAL: "default-web-0"}
        assert here.spec("default-web-0")["ReservationRequests"][0]["Reservations"] == ["ac-s1"]


class Lagging:
    """Live disks that show everything but the taints of capacities, as where one watch is behind another."""

    def __init__(self, live: LiveDisks) -> None:
        self.live, self.shows_taints = live, False

    def __call__(self):
        found = self.live.layout
        if found is None or self.shows_taints:
            return found
        bare = [structs.replace(each, labels={}, annotations={}) for each in found.objects.capacities]
        return lay_out(dataclasses.replace(found.objects, capacities=tuple(bare)))


def test_the_next_reservation_waits_until_the_taints_of_the_last_are_seen(tmp_path):
    other = pod("cache-0", ["scratch"], labels={"app": "cache"})
    claims = [claim("www-1", "ssdlvg", 1), claim("scratch", "ssdlvg", 1)]
    with world(tmp_path, capacity("ac-s1", "SSD", 400), DEDICATED, other, *claims) as here:
        seen = Lagging(here.live)
        here.controller = Controller(here.live.client, seen, grace=0.2)
        here.filter(DEDICATED)
        here.settle("default-web-0")
        here.filter(other)
        here.shows(lambda disks: len(disks.objects.reservations) == 2)
        for _ in range(5):
            here.controller.work()
        assert here.status("default-cache-0") == "REQUESTED"
        seen.shows_taints = True
        here.settle("default-cache-0", "REJECTED")


def test_a_volume_that_is_seen_after_the_end_of_its_reservation_keeps_its_taint(tmp_path):
    with world(tmp_path, capacity("ac-s1", "SSD", 400), DEDICATED, claim("www-1", "ssdlvg", 1)) as here:
        here.controller = Controller(here.live.client, lambda: here.live.layout, grace=60.0)
        here.filter(DEDICATED)
        here.settle("default-web-0")
        here.api.delete(f"{PATH}/default-web-0")
        here.shows(lambda disks: not disks.objects.reservations)
        here.controller.work()
        put(here.api, *using(pod("web-0", labels={"app": "nginx"}), "s1", name="made"))
        here.shows(lambda disks: "s1" in disks.users)

        def kept() -> bool:
            here.controller.work()
            return PROVISIONAL not in here.api.get(f"{CAPACITIES}/ac-s1")["metadata"]["annotations"]

        until(kept)
        assert here.api.get(f"{CAPACITIES}/ac-s1")["metadata"]["annotations"] == {TAINT: "app=nginx:default"}


def test_taints_set_by_hand_outlive_everything(tmp_path):
    manual = capacity("ac-m", "SSD", 400, manual="db-pool")
    with world(tmp_path, manual, capacity("ac-s1", "SSD", 400), DEDICATED, claim("www-1", "ssdlvg", 1)) as here:
        here.filter(DEDICATED)
        here.settle("default-web-0")
        here.api.delete(f"{PATH}/default-web-0")

        def released() -> bool:
            here.controller.work()
            return TAINT not in here.api.get(f"{CAPACITIES}/ac-s1")["metadata"]["labels"]

        until(released)
        assert here.api.get(f"{CAPACITIES}/ac-m")["metadata"]["labels"] == {TAINT: "db-pool"}
        assert f"{CAPACITIES}/ac-m" not in [path for method, path in here.api.log if method != "GET"]


def test_questions_at_the_same_time_make_one_reservation(tmp_path):
    given = pod(claims=["www-1"])
    with world(tmp_path, *BASE, given, claim("www-1", "hddlvg", 10)) as here, ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: here.filter(given), range(16)))
        assert all((each.nodenames, each.error) == ([], "") for each in found)
        assert len(here.api.all(PATH)) == 1
        here.settle("default-web-0")
        found = list(pool.map(lambda _: here.filter(given), range(16)))
        assert all(each.nodenames == ["worker-1", "worker-2"] for each in found)


def test_what_was_settled_meanwhile_is_not_asked_for_again(tmp_path):
    """The extender still sees REJECTED while the server has RESERVED: it looks before it writes."""
    given = pod(claims=["www-1"])
    with world(tmp_path, *BASE, given, claim("www-1", "hddlvg", 100)) as here:
        here.filter(given)
        here.settle("default-web-0", "REJECTED")
        before = here.live.layout
        behind = Reserving(here.live.client, lambda pod: before)
        thing = here.api.get(f"{PATH}/default-web-0")
        put(
            here.api,
            {**thing, "kind": "AvailableCapacityReservation", "spec": {**thing["spec"], "Status": "RESERVED"}},
        )
        found = filtered(ExtenderArgs(given, nodenames=["worker-1"]), behind)
        assert (found.nodenames, found.error, here.status("default-web-0")) == ([], "", "RESERVED")


def test_pods_whose_reservations_have_one_name_do_not_share_it(tmp_path):
    """Namespace default, pod a-0 and namespace default-a, pod 0: what the first holds, the second does not have."""
    first, second = pod("a-0", ["www-1"]), pod("0", ["www-1"], namespace="default-a")
    claims = [claim("www-1", "ssd", 1), claim("www-1", "ssd", 1, namespace="default-a")]
    with world(tmp_path, capacity("ac-s1", "SSD", 10), first, second, *claims) as here:
        here.filter(first)
        here.settle("default-a-0")
        assert here.filter(second).nodenames == []
        assert here.spec("default-a-0")["Namespace"] == "default"
        assert plan(wire.read(second), here.live.layout).status == "REJECTED"
