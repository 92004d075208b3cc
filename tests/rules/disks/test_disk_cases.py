"""The worked cases of disk affinity, each by its number."""

import pytest

from pipeline.errors import BadInput
from rules.disks.annotations import Affinities, PodLabel, parse
from rules.disks.plan import scores
from rules.disks.taints import encoded
from tests.support.disks import ANNOTATIONS, capacity, claim, lay_out_of, planned, pod, reservation, using

TWO = [claim("www-1", "hddlvg", 10), claim("www-2", "hddlvg", 10)]
ONE = [claim("www-1", "hddlvg", 10)]
NAMES = ("www-1", "www-2")
BASE = [capacity("ac-d1", "HDDLVG", 12), capacity("ac-d2", "HDD", 100), capacity("ac-d3", "HDD", 200)]


def said(found):
    """Status, plan, denied capacities and violated preferences of the one node."""
    return (
        found.status,
        dict(found.plan.get("n1", {})),
        set(found.denied.get("n1", ())),
        list(found.violated.get("n1", ())),
    )


def test_case_1_without_annotations_volumes_are_split():
    found = planned(pod(claims=NAMES), [*BASE, *TWO])
    assert said(found) == ("RESERVED", {"www-1": "ac-d1", "www-2": "ac-d2"}, set(), [])


def test_case_2_pod_bound_required_puts_them_on_one_drive():
    found = planned(pod(claims=NAMES, TYPES="pod-bound-required"), [*BASE, *TWO])
    assert said(found) == ("RESERVED", {"www-1": "ac-d2", "www-2": "ac-d2"}, set(), [])


def test_case_3a_no_drive_holds_the_sum():
    state = [capacity("ac-d1", "HDDLVG", 12), capacity("ac-d2", "HDD", 15), *TWO]
    found = planned(pod(claims=NAMES, TYPES="pod-bound-required"), state)
    assert said(found)[:2] == ("REJECTED", {})
    assert found.failed == {
        "n1": "No available capacity found on the node n1: pod-bound-required: need 20 GiB on one drive,"
        " largest usable 14.99 GiB"
    }


def test_case_3b_preferred_is_given_up():
    state = [capacity("ac-d1", "HDDLVG", 12), capacity("ac-d2", "HDD", 15), *TWO]
    found = planned(pod(claims=NAMES, TYPES="pod-bound-preferred"), state)
    assert said(found) == ("RESERVED", {"www-1": "ac-d1", "www-2": "ac-d2"}, set(), ["pod-bound"])


NEIGHBOURS = [
    *[capacity("ac-d1", "HDDLVG", 50), capacity("ac-d2", "HDDLVG", 60), capacity("ac-d3", "HDD", 100)],
    *using(pod("ss-0", labels={"app": "ecs-cluster-ss"}), "d1"),
    *using(pod("ssx-0", namespace="other", labels={"app": "ecs-cluster-ss"}), "d2"),
]


@pytest.mark.parametrize(
    ("case", "labels", "denied", "chosen"),
    [
        ("5a", "app=ecs-cluster-ss:default", {"ac-d1"}, "ac-d2"),
        ("5b", "app=ecs-cluster-ss:default, app=ecs-cluster-ss:other", {"ac-d1", "ac-d2"}, "ac-d3"),
    ],
)
def test_case_5_drives_of_pods_with_the_label_are_left(case, labels, denied, chosen):
    given = pod(claims=["www-1"], ATYPES="pod-label-required", ALABELS=labels)
    found = planned(given, [*NEIGHBOURS, *ONE])
    assert said(found) == ("RESERVED", {"www-1": chosen}, denied, [])
    assert found.denied["n1"]["ac-d1"] == "anti-affinity: drive d1 used by default/ss-0"


ECS = {"app": "ecs-cluster-ss"}
REVERSE = [
    capacity("ac-d9", "HDDLVG", 50),
    *using(pod(ATYPES="pod-label-required", ALABELS="app=ecs-cluster-ss:default"), "d9"),
    *ONE,
]


def test_case_5c_a_later_arrival_is_not_kept_off():
    found = planned(pod("ss-1", ["www-1"], labels={"app": "ecs-cluster-ss"}), REVERSE)
    assert said(found) == ("RESERVED", {"www-1": "ac-d9"}, set(), [])


def test_case_5c_symmetric_mode_keeps_it_off():
    found = planned(pod("ss-1", ["www-1"], labels={"app": "ecs-cluster-ss"}), REVERSE, symmetric=True)
    assert said(found) == ("REJECTED", {}, {"ac-d9"}, [])


def in_flight(status="RESERVED"):
    return [
        capacity("ac-d1", "HDDLVG", 50),
        capacity("ac-d2", "HDDLVG", 60),
        pod("ss-0", labels={"app": "ecs-cluster-ss"}),
        reservation("default-ss-0", "HDDLVG", 10, ["ac-d1"], status=status),
        *ONE,
    ]


AWAY = {"ATYPES": "pod-label-required", "ALABELS": "app=ecs-cluster-ss:default"}


def test_case_7a_a_reservation_counts_as_use():
    assert said(planned(pod(claims=["www-1"], **AWAY), in_flight())) == (
        "RESERVED",
        {"www-1": "ac-d2"},
        {"ac-d1"},
        [],
    )


def test_case_7b_sequential_reservation_waits():
    found = planned(pod(claims=["www-1"], **AWAY), in_flight(), sequential=True)
    assert (found.status, found.waits) == ("REQUEUE", ("reservation default-ss-0 of HDDLVG",))


def test_case_7c_what_is_only_requested_does_not_count():
    found = planned(pod(claims=["www-1"], **AWAY), in_flight("REQUESTED"))
    assert said(found) == ("RESERVED", {"www-1": "ac-d1"}, set(), [])


NGINX = {"app": "nginx"}


def test_case_9a_a_disk_is_dedicated():
    state = [capacity("ac-s1", "SSD", 400), capacity("ac-s2", "SSD", 400), claim("www-1", "ssdlvg", 1)]
    found = planned(pod(claims=["www-1"], labels=NGINX, DED="true"), state)
    assert said(found)[:2] == ("RESERVED", {"www-1": "ac-s1"})
    assert found.taint == {"ac-s1": "app=nginx:default"}


def dedicated(*second):
    return [
        capacity("ac-s1", "SSDLVG", 399, taint="app=nginx:default"),
        *(second or [capacity("ac-s2", "SSD", 400)]),
        *using(pod(labels=NGINX), "s1"),
        claim("www-1", "ssdlvg", 1),
        claim("scratch", "ssdlvg", 5),
        claim("www-1", "ssdlvg", 1, namespace="prod"),
    ]


def test_case_9b_another_application_is_kept_off():
    found = planned(pod("cache-0", ["scratch"], labels={"app": "cache"}), dedicated())
    assert said(found) == ("RESERVED", {"scratch": "ac-s2"}, {"ac-s1"}, [])
    assert found.denied["n1"]["ac-s1"] == "dedicated: ac-s1 reserved for app=nginx:default"


def test_case_9c_and_rejected_where_nothing_else_is_left():
    found = planned(pod("cache-0", ["scratch"], labels={"app": "cache"}), dedicated(capacity("ac-s2", "SSDLVG", 0)))
    assert said(found) == ("REJECTED", {}, {"ac-s1"}, [])


def test_case_9d_the_label_and_namespace_are_enough():
    found = planned(pod("job-0", ["www-1"], labels=NGINX), dedicated())
    assert said(found) == ("RESERVED", {"www-1": "ac-s1"}, set(), [])


def test_case_9e_another_namespace_is_another_application():
    found = planned(pod("web-0", ["www-1"], namespace="prod", labels=NGINX), dedicated())
    assert said(found) == ("RESERVED", {"www-1": "ac-s2"}, {"ac-s1"}, [])


def test_case_9f_its_own_drive_comes_first():
    found = planned(pod("web-1", ["www-1"], labels=NGINX, DED="true"), dedicated())
    assert said(found) == ("RESERVED", {"www-1": "ac-s1"}, set(), [])
    assert found.taint == {}


POOL = [capacity("ac-d1", "HDD", 100, manual="db-pool"), capacity("ac-d2", "HDD", 80)]


@pytest.mark.parametrize(
    ("case", "annotations", "capacities", "gib", "expected"),
    [
        (
            "11a",
            {"TYPES": "dedicated-required", "TOL": "db-pool"},
            POOL,
            10,
            ("RESERVED", {"www-1": "ac-d1"}, {"ac-d2"}, []),
        ),
        ("11b", {"TOL": "db-pool"}, POOL, 10, ("RESERVED", {"www-1": "ac-d1"}, set(), [])),
        ("11c", {}, POOL, 10, ("RESERVED", {"www-1": "ac-d2"}, {"ac-d1"}, [])),
        ("11d", {"TYPES": "dedicated-required", "TOL": "db-pool"}, POOL, 150, ("REJECTED", {}, {"ac-d2"}, [])),
        (
            "11e",
            {"TOL": "db-pool"},
            [POOL[0], capacity("ac-d2", "HDD", 200)],
            150,
            ("RESERVED", {"www-1": "ac-d2"}, set(), ["dedicated"]),
        ),
        (
            "11f",
            {"TYPES": "dedicated-required", "TOL": "db-pool"},
            [capacity("ac-d1", "HDD", 100, manual="db-pool", no_schedule=True)],
            10,
            ("REJECTED", {}, {"ac-d1"}, []),
        ),
    ],
)
def test_case_11_taints_set_by_hand(case, annotations, capacities, gib, expected):
    found = planned(pod("pg-0", ["www-1"], **annotations), [*capacities, claim("www-1", "hddlvg", gib)])
    assert said(found) == expected
    assert found.taint == {}


@pytest.mark.parametrize(
    ("case", "annotations"),
    [("13a", {"TYPES": " pod-bound-required , dedicated-required,"}), ("13i", {"DED": "false"})],
)
def test_case_13_accepted(case, annotations):
    assert planned(pod(claims=["www-1"], **annotations), [*BASE, *ONE]).status == "RESERVED"


@pytest.mark.parametrize(
    ("case", "annotations", "key", "token", "why"),
    [
        ("13b", {"TYPES": "pod-bound-requird"}, "TYPES", "pod-bound-requird", "unsupported affinity type"),
        ("13c", {"TYPES": "pod-label-required"}, "TYPES", "pod-label-required", "unsupported affinity type"),
        ("13d", {"ATYPES": "pod-label-required"}, "ATYPES", "pod-label-required", "needs"),
        ("13e", {"ALABELS": "app=x"}, "ALABELS", "", "needs pod-label"),
        ("13f", {"ATYPES": "pod-label-required", "ALABELS": "a:b:c"}, "ALABELS", "a:b:c", "bad label entry"),
        ("13g", {"ATYPES": "pod-label-required", "ALABELS": "app=x:Default"}, "ALABELS", "Default", "bad namespace"),
        ("13h", {"DED": "yes"}, "DED", "yes", "is none of"),
    ],
)
def test_case_13_errors_name_the_annotation_and_the_token(case, annotations, key, token, why):
    with pytest.raises(BadInput) as raised:
        planned(pod(claims=["www-1"], **annotations), [*BASE, *ONE])
    message = str(raised.value)
    assert ANNOTATIONS[key] in message and token in message and why in message and "\n" not in message


@pytest.mark.parametrize(
    ("entry", "meant"),
    [
        ("app=x", PodLabel("app", "x", "default")),
        ("app:prod", PodLabel("app", None, "prod")),
        ("app=:default", PodLabel("app", "", "default")),
        ("example.com/role=db.v1:ns-1", PodLabel("example.com/role", "db.v1", "ns-1")),
    ],
)
def test_case_13_label_entries(entry, meant):
    given = {ANNOTATIONS["ATYPES"]: "pod-label-required", ANNOTATIONS["ALABELS"]: entry}
    assert parse(given, "default").labels == (meant,)


def test_case_13_the_label_value_that_stands_for_a_taint():
    assert encoded("app=nginx:default") == "t-b535d9176d4b726c029341666c607abb557f62c9"


def test_a_sum_that_just_fits_stays_on_one_drive():
    """A group of 20 GiB takes two volumes of 10, and not two of 10 and a byte: sizes go up to whole extents."""
    state = [capacity("ac-d1", "HDDLVG", 20), capacity("ac-d2", "HDD", 100)]
    bound = pod(claims=NAMES, TYPES="pod-bound-required")
    assert said(planned(bound, [*state, *TWO]))[1] == {"www-1": "ac-d1", "www-2": "ac-d1"}
    larger = [claim("www-1", "hddlvg", 10), claim("www-2", "hddlvg", 10 + 1 / 1024)]
    assert said(planned(bound, [*state, *larger]))[1] == {"www-1": "ac-d2", "www-2": "ac-d2"}


def test_a_pod_is_bound_to_the_drive_of_its_bound_volume():
    given = pod(claims=["www-1"], TYPES="pod-bound-required")
    state = [*using(given, "d3", name="old"), *BASE, *ONE]
    assert said(planned(given, state))[1] == {"www-1": "ac-d3"}


def test_a_bound_drive_that_anti_affinity_excludes_is_refused_with_both_reasons():
    given = pod(claims=["www-1"], TYPES="pod-bound-required", **AWAY)
    state = [
        *using(given, "d2", name="old"),
        *using(pod("ss-0", labels={"app": "ecs-cluster-ss"}), "d2"),
        *BASE,
        *ONE,
    ]
    found = planned(given, state)
    assert found.status == "REJECTED"
    assert "its volumes lie on drive d2" in found.failed["n1"]
    assert "anti-affinity: drive d2 used by default/ss-0" in found.failed["n1"]


def test_whole_drives_cannot_be_bound_together():
    state = [*BASE, claim("www-1", "hdd", 10), claim("www-2", "hdd", 10)]
    with pytest.raises(BadInput, match="pod-bound-required: volumes of HDD cannot share one drive"):
        planned(pod(claims=NAMES, TYPES="pod-bound-required"), state)
    assert planned(pod(claims=NAMES, TYPES="pod-bound-preferred"), state).violated == {"n1": ("pod-bound",)}


def test_a_disk_is_dedicated_only_to_pods_that_a_label_names():
    state = [capacity("ac-s1", "SSD", 400), claim("www-1", "ssdlvg", 1)]
    with pytest.raises(BadInput, match=r"one of the labels app, app\.kubernetes\.io/name"):
        planned(pod(claims=["www-1"], labels={"pod-template-hash": "x"}, DED="true"), state)


def test_the_label_of_an_automatic_taint_is_enough_to_keep_others_off():
    """The annotation with the full text may be lost; the label still stands for it."""
    mark = encoded("app=nginx:default")
    state = [capacity("ac-s1", "SSD", 400, manual=mark), claim("www-1", "ssdlvg", 1)]
    assert planned(pod(claims=["www-1"], labels=NGINX), state).status == "RESERVED"
    assert planned(pod(claims=["www-1"]), state).status == "REJECTED"


def test_storage_groups_are_equal_or_both_absent():
    state = [capacity("ac-d1", "HDD", 100, group="fast"), capacity("ac-d2", "HDD", 200)]
    assert said(planned(pod(claims=["a"]), [*state, claim("a", "hdd", 1, group="fast")]))[1] == {"a": "ac-d1"}
    assert said(planned(pod(claims=["a"]), [*state, claim("a", "hdd", 1)]))[1] == {"a": "ac-d2"}


def test_nodes_that_give_up_less_score_higher_and_then_those_with_less_consumed():
    """n1 gives up a preference; n2 holds a volume of 30 GiB; n3 is empty."""
    state = [
        *[capacity("ac-d1", "HDDLVG", 12), capacity("ac-d4", "HDD", 15)],
        capacity("ac-d2", "HDDLVG", 70, node="n2"),
        *using(pod("old-0", labels={"app": "old"}), "d2", gib=30, node="n2"),
        capacity("ac-d3", "HDDLVG", 100, node="n3"),
        *TWO,
    ]
    found = planned(pod(claims=NAMES, TYPES="pod-bound-preferred"), state)
    assert found.violated == {"n1": ("pod-bound",)}
    assert 10 == found.scores["n3"] > found.scores["n2"] > found.scores["n1"] >= 0


@pytest.mark.parametrize("wish", [{}, {"TYPES": "pod-bound-preferred"}])
def test_whoever_has_less_consumed_scores_higher_and_whoever_gives_up_less_higher_still(wish):
    """Five nodes that hold 0 to 40 GiB, and one that is empty but gives up the wish, where there is one."""
    state = [*TWO, capacity("ac-a", "HDDLVG", 12, node="n9"), capacity("ac-b", "HDD", 15, node="n9")]
    for i in range(5):
        state += [capacity(f"ac-{i}", "HDDLVG", 100, node=f"n{i}")]
        state += using(pod(f"old-{i}"), str(i), gib=10 * i, node=f"n{i}") if i else []
    told = planned(pod(claims=NAMES, **wish), state).scores
    ranked = [told[f"n{i}"] for i in range(5)]
    assert ranked == sorted(set(ranked), reverse=True) and ranked[0] == 10 and min(told.values()) >= 0
    assert (told["n9"] < ranked[-1]) if wish else (told["n9"] == 10)


def test_however_many_wishes_are_given_up_each_lowers_the_score():
    held = lay_out_of([capacity(f"ac-{i}", "HDD", 10, node=f"n{i}") for i in range(5)])
    found = scores({f"n{i}": i for i in range(5)}, held, 4)
    assert list(found.values()) == sorted(set(found.values()), reverse=True) and min(found.values()) >= 0


def test_what_others_require_is_required_whatever_the_pod_itself_would_like():
    """In symmetric mode: d9's user requires to be apart from ss-1, which itself has a mere wish about others."""
    ss = pod("ss-1", ["www-1"], labels=ECS, ATYPES="pod-label-preferred", ALABELS="app=else")
    found = planned(ss, [*REVERSE, *using(pod("else-0", labels={"app": "else"}), "d9")], symmetric=True)
    assert said(found) == ("REJECTED", {}, {"ac-d9"}, [])


def test_more_volumes_than_are_searched_for_are_placed_by_first_fit_and_a_refusal_says_so():
    """Nine volumes of 1 GiB fit one after the other; a ninth of 4 does not, and nothing else is tried."""
    names = [f"c{number}" for number in range(9)]
    state = [capacity("ac-a", "HDDLVG", 9), *(claim(name, "hddlvg", 1) for name in names)]
    assert planned(pod(claims=names), state).plan == {"n1": dict.fromkeys(names, "ac-a")}
    failed = planned(pod(claims=names), [*state, claim("c8", "hddlvg", 4)]).failed
    assert failed["n1"].endswith(
        "c8 needs 4 GiB of HDDLVG, largest usable 1 GiB (first fit alone: more than 8 volumes)"
    )


def test_whatever_a_search_may_cost_a_preference_turns_no_feasible_pod_away():
    """Volumes of 3, 4, 5 and 6 in groups of 9 and 9: only 3 + 6 and 4 + 5 fit, and only on both together."""
    names = [f"c{size}" for size in (3, 4, 5, 6)]
    user = pod("ss-0", labels={"app": "ss"})
    state = [capacity("ac-a", "HDDLVG", 9), capacity("ac-b", "HDDLVG", 9), *using(user, "b", gib=1)]
    state += [claim(name, "hddlvg", int(name[1:])) for name in names]
    feasible = [tries for tries in range(20) if planned(pod(claims=names), state, tries=tries).plan]
    assert feasible and 0 not in feasible
    wishes = pod(claims=names, ATYPES="pod-label-preferred", ALABELS="app=ss")
    for tries in feasible:
        assert planned(wishes, state, tries=tries).violated == {"n1": ("pod-label",)}


def test_a_quiet_disk_is_taken_before_a_busy_one_and_a_heavy_user_can_be_kept_off():
    state = [capacity("ac-d1", "HDDLVG", 50), capacity("ac-d2", "HDDLVG", 60), *ONE]
    state += using(pod("io-0", labels={"app": "io"}), "d1")
    plain = pod(claims=["www-1"])
    assert said(planned(plain, state))[1] == {"www-1": "ac-d1"}
    assert said(planned(plain, state, busy={"d1": 0.8}))[1] == {"www-1": "ac-d2"}
    heavy = frozenset({("default", "io-0")})
    required = pod(claims=["www-1"], ATYPES="profile-disk-high-required")
    found = planned(required, [*state[:1], *state[2:]], heavy=heavy)
    assert (found.status, found.denied["n1"]["ac-d1"]) == (
        "REJECTED",
        "disk profile high: drive d1 used by default/io-0",
    )
    preferred = pod(claims=["www-1"], ATYPES="profile-disk-high-preferred")
    assert planned(preferred, [*state[:1], *state[2:]], heavy=heavy).violated == {"n1": ("profile-disk-high",)}


@pytest.mark.parametrize("size", [10**30, 2**63, 2**63 - 1, -5])
def test_sizes_that_no_drive_has_are_sizes_all_the_same(size):
    """Fields are 64-bit numbers where the API server looks at them; files may hold anything."""
    odd, flying = capacity("ac-d9", "HDD", 1), reservation("default-x-0", "HDDLVG", 1, ["ac-d1"])
    odd["spec"]["Size"] = size
    flying["spec"]["ReservationRequests"][0]["CapacityRequest"]["Size"] = abs(size)
    found = planned(pod(claims=["www-1"]), [capacity("ac-d1", "HDDLVG", 50), odd, flying, *ONE])
    assert said(found)[1] == ({"www-1": "ac-d9"} if size > 0 else {"www-1": "ac-d1"})
    wanted = claim("www-1", "hddlvg", 1)
    wanted["spec"]["resources"]["requests"]["storage"] = str(abs(size) * 10**9)
    assert (planned(pod(claims=["www-1"]), [*BASE, wanted]).status == "REJECTED") == (abs(size) > 5)


@pytest.mark.parametrize("key", ["TYPES", "ATYPES", "TOL", "ALABELS"])
def test_annotations_have_bounds_and_so_have_errors(key):
    endless = {
        key: ",".join(f"entry-{i}" for i in range(1001)),
        **({"ATYPES": "pod-label-required"} if key == "ALABELS" else {}),
    }
    with pytest.raises(BadInput, match=f"annotation {ANNOTATIONS[key]}: 1001 entries; at most 1000 are read"):
        planned(pod(claims=["www-1"], **endless), [*BASE, *ONE])
    with pytest.raises(BadInput) as raised:
        planned(pod(claims=["www-1"], TYPES="x" * 100_000), [*BASE, *ONE])
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"TYPES": "pod-bound-preferred,pod-bound-required"}, Affinities(pod_bound="required")),
        ({"TYPES": "dedicated-preferred", "DED": "true"}, Affinities(dedicated="required", automatic=True)),
        ({"TYPES": "dedicated"}, Affinities(dedicated="required", automatic=True)),
        ({"TYPES": "dedicated-preferred"}, Affinities(dedicated="preferred", automatic=True)),
        ({"TYPES": "dedicated-required", "TOL": "a, b"}, Affinities(dedicated="required", tolerations=("a", "b"))),
        ({"TOL": "a"}, Affinities(dedicated="preferred", tolerations=("a",))),
        ({"DED": "true", "TOL": "a"}, Affinities(dedicated="required", automatic=True, tolerations=("a",))),
        ({"DED": "preferred"}, Affinities(dedicated="preferred", automatic=True)),
        ({"ATYPES": "profile-disk-high-preferred"}, Affinities(quiet="preferred")),
    ],
)
def test_what_annotations_ask_for_together(annotations, expected):
    assert parse({ANNOTATIONS[key]: value for key, value in annotations.items()}, "default") == expected


def test_both_ways_of_dedication_at_once_use_either_kind_of_drive():
    state = [capacity("ac-d1", "HDD", 100, manual="db-pool"), capacity("ac-d2", "HDD", 80), *ONE]
    both = pod(claims=["www-1"], DED="true", TOL="db-pool")
    assert said(planned(both, state))[1] == {"www-1": "ac-d1"}
    assert said(planned(both, [state[1], *ONE]))[1] == {"www-1": "ac-d2"}


def test_an_application_is_named_by_its_second_label_where_the_first_is_missing():
    state = [capacity("ac-s1", "SSD", 400), claim("www-1", "ssdlvg", 1)]
    found = planned(pod(claims=["www-1"], labels={"app.kubernetes.io/name": "db"}, DED="true"), state)
    assert found.taint == {"ac-s1": "app.kubernetes.io/name=db:default"}


def test_what_a_node_states_goes_before_what_the_driver_registered():
    key = "nodes.csi-baremetal.dell.com/uuid"
    stated = {"kind": "Node", "metadata": {"name": "w", "uid": "u", "labels": {key: "stated"}}}
    registered = {
        "kind": "CSINode", "metadata": {"name": "w"}, "spec": {"drivers": [{"name": "csi-baremetal", "nodeID": "z"}]},
    }  # fmt: skip
    plain = {"kind": "Node", "metadata": {"name": "v", "uid": "v-uid"}}
    for nodes in ([stated, registered, plain], [plain, registered, stated]):
        assert lay_out_of(nodes).identities == {"w": "stated", "v": "v-uid"}
    assert lay_out_of([registered]).identities == {"w": "z"}
    held = [capacity("ac-d1", "HDD", 100, node="stated"), capacity("ac-d2", "HDD", 100, node="v-uid")]
    assert set(planned(pod(claims=["www-1"]), [stated, plain, *held, *ONE]).plan) == {"w", "v"}
