"""Plans against an independent checker that tries every way of placing the volumes of small clusters."""

from dataclasses import replace
from itertools import permutations, product

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.disk_records import (
    Capacity,
    CapacityRequest,
    Claim,
    DiskPod,
    Reservation,
    Reserved,
    StorageClass,
    Volume,
)
from rules.disks import filters, neighbours
from rules.disks.annotations import ANTI_LABELS, ANTI_TYPES, DEDICATED, TOLERATIONS, TYPES, parse
from rules.disks.offers import Question, offer
from rules.disks.plan import plan
from rules.disks.requests import requests
from rules.disks.state import Objects, lay_out
from rules.disks.taints import NO_SCHEDULE, TAINT

MIB = 2**20
CLASSES = ("HDDLVG", "SSDLVG", "HDD", "SSD")
OTHER = DiskPod("other-0", "default", {"app": "other"}, claims=("held",))
SIBLING = DiskPod("web-9", "default", {"app": "web"}, claims=("kept",))
IN_FLIGHT = DiskPod("fast-0", "default", {"app": "fast"})

#: One family mostly, so that drives are wanted twice.
kinds = st.sampled_from(["HDDLVG", "HDDLVG", "HDDLVG", "HDD", "HDD", "SSDLVG"])
sizes = st.integers(1, 5).map(lambda n: n * 2 * MIB - 17)
capacities = st.lists(
    st.tuples(
        kinds,
        st.integers(0, 10).map(lambda n: n * 2 * MIB),
        st.sampled_from(["", "", "", "", "pool", "app=web:default", "app=other:default", "suspended"]),
        st.sampled_from([None, None, OTHER, SIBLING, "unknown", "in flight"]),
    ),
    min_size=1,
    max_size=3,
)
asked = st.lists(st.tuples(kinds, sizes), min_size=1, max_size=3)
annotations = st.fixed_dictionaries(
    {},
    optional={
        TYPES: st.sampled_from(
            [
                "pod-bound-required",
                "pod-bound-preferred",
                "dedicated-required",
                "pod-bound-preferred,dedicated-preferred",
            ]
        ),
        DEDICATED: st.sampled_from(["true", "preferred", "false"]),
        TOLERATIONS: st.just("pool"),
        ANTI_TYPES: st.sampled_from(["pod-label-required", "pod-label-preferred"]),
    },
)


def world(drives, wanted, notes, where=None):
    """The pod web-0 that wants volumes, and *drives*, each on the node that *where* names for it, else on n1."""
    where = where or ["n1"] * len(drives)
    notes = dict(notes) | ({ANTI_LABELS: "app=other, app=fast"} if ANTI_TYPES in notes else {})
    claims = tuple(Claim(f"c{i}", "default", kind, size) for i, (kind, size) in enumerate(wanted))
    pod = DiskPod("web-0", "default", {"app": "web"}, notes, claims=tuple(each.name for each in claims))
    found, volumes, bound, reservations = [], [], [], []
    for i, (kind, size, taint, user) in enumerate(drives):
        labels = {NO_SCHEDULE: "NoSchedule"} if taint == "suspended" else {TAINT: taint} if taint == "pool" else {}
        notes_of = {TAINT: taint} if "=" in taint else {}
        found.append(Capacity(f"ac-{i}", where[i], f"d{i}", kind, size, labels, notes_of))
        if isinstance(user, DiskPod) or user == "unknown":
            volumes.append(Volume(f"v{i}", "default", where[i], f"d{i}"))
            if user != "unknown":
                bound.append(Claim(f"{user.claims[0]}-{i}", "default", kind, 1, "Bound", f"v{i}"))
        if user == "in flight":
            booked = Reserved(CapacityRequest("x", kind, 4 * MIB), (f"ac-{i}",))
            reservations.append(Reservation(f"default-fast-{i}", "default", "RESERVED", requests=(booked,)))
    others = [
        replace_claims(user, [each.name for each in bound if each.name.startswith(user.claims[0])])
        for user in (OTHER, SIBLING)
    ]
    flying = [DiskPod(f"fast-{i}", "default", IN_FLIGHT.labels) for i in range(len(drives))]
    objects = Objects(
        capacities=tuple(found),
        reservations=tuple(reservations),
        volumes=tuple(volumes),
        claims=(*claims, *bound),
        classes=tuple(StorageClass(each, "csi-baremetal", each) for each in CLASSES),
        pods=(pod, *others, *flying),
    )
    return pod, objects


def replace_claims(pod, claims):
    return DiskPod(pod.name, pod.namespace, pod.labels, claims=tuple(claims))


def lists(offered):
    """What is left for each request, the own ones first."""
    for kind in offered.kinds:
        left = [int(number) for number in kind.capacity[offered.listed(kind)]]
        yield sorted(left, key=lambda number: offered.own is not None and not offered.own[number])


def up(size, unit):
    return (size + unit - 1) // unit * unit


def overcommitted(chosen, wanted, drives):
    """Whether *chosen*, a place in *drives* for each volume, gives more than a drive has, by the driver's rules."""
    for i, (kind, size, _, user) in enumerate(drives):
        mine = [wanted[v] for v, place in enumerate(chosen) if place == i]
        if not mine:
            continue
        grouped = all(each.endswith("LVG") for each, _ in mine)
        flying = user == "in flight"
        if not grouped or (flying and not kind.endswith("LVG")):
            if len(mine) > 1 or flying or up(max(mine[0][1], 1), MIB) > size // MIB * MIB:
                return True
            continue
        room = size // (4 * MIB) * 4 * MIB
        if not kind.endswith("LVG") and size - room < MIB:
            room -= 4 * MIB
        if sum(up(each, 4 * MIB) for _, each in mine) + (4 * MIB if flying else 0) > room:
            return True
    return False


def allowed(chosen, wanted, drives):
    """Whether class, taints and suspension let the volumes lie there."""
    for v, place in enumerate(chosen):
        kind, _, taint, _ = drives[place]
        if kind not in (wanted[v][0], wanted[v][0].removesuffix("LVG")) or taint == "suspended":
            return False
    return True


def broken(chosen, drives, notes):
    """Which rules of the annotations *chosen* breaks, and whether it uses a drive that is another's."""
    rules = set()
    tolerated = {"pool"} if TOLERATIONS in notes else set()
    free = {None, SIBLING.name}
    types = notes.get(TYPES, "")
    switch = notes.get(DEDICATED, "false") != "false"
    automatic = switch or ("dedicated" in types and not tolerated)
    for place in chosen:
        taint, user = drives[place][2], drives[place][3]
        name = user.name if isinstance(user, DiskPod) else user
        if taint not in ("", "app=web:default", *tolerated):
            rules.add("repelled")
        own = taint in tolerated or (automatic and (taint == "app=web:default" or (not taint and name in free)))
        if not own:
            rules.add("dedicated")
        if name in (OTHER.name, "in flight"):
            rules.add("pod-label")
    if len(set(chosen)) > 1:
        rules.add("pod-bound")
    return rules


def strengths(notes):
    types = notes.get(TYPES, "")
    found = {}
    if "pod-bound" in types:
        found["pod-bound"] = "required" if "pod-bound-required" in types else "preferred"
    switch = notes.get(DEDICATED, "false")
    if "dedicated-required" in types or switch == "true":
        found["dedicated"] = "required"
    elif "dedicated-preferred" in types or switch == "preferred" or TOLERATIONS in notes:
        found["dedicated"] = "preferred"
    if ANTI_TYPES in notes:
        found["pod-label"] = "required" if "required" in notes[ANTI_TYPES] else "preferred"
    return found


@settings(max_examples=300, deadline=None)
@given(st.lists(capacities, min_size=1, max_size=3), asked, annotations)
def test_a_plan_is_found_exactly_where_one_exists_and_gives_up_as_little_as_possible(nodes, wanted, notes):
    asked_for = strengths(notes)
    families = {kind for kind, _ in wanted}
    if asked_for.get("pod-bound") == "required" and len(wanted) > 1 and (len(families) > 1 or "HDD" in families):
        return  # an error of its own, with a test of its own
    if asked_for.get("pod-bound") and len(wanted) > 1 and (len(families) > 1 or "HDD" in families):
        asked_for = {**asked_for, "pod-bound": "impossible"}
    where = [f"n{number}" for number, drives in enumerate(nodes, start=1) for _ in drives]
    pod, objects = world([drive for drives in nodes for drive in drives], wanted, notes, where)
    found = plan(pod, lay_out(objects))
    before = 0
    for number, drives in enumerate(nodes, start=1):
        check_node(found, f"n{number}", before, drives, wanted, notes, asked_for)
        before += len(drives)
    assert (found.status == "RESERVED") == bool(found.plan)


def check_node(found, node, before, drives, wanted, notes, asked_for):
    """Try every way on one node, whose drives are numbered after *before* others."""
    costs = []
    for chosen in product(range(len(drives)), repeat=len(wanted)):
        if not allowed(chosen, wanted, drives) or overcommitted(chosen, wanted, drives):
            continue
        rules = broken(chosen, drives, notes)
        if "repelled" in rules or any(asked_for.get(rule) == "required" for rule in rules):
            continue
        impossible = asked_for.get("pod-bound") == "impossible"
        costs.append(sum(asked_for.get(rule) == "preferred" for rule in rules) + impossible)
    assert (node in found.plan) == bool(costs) == (node not in found.failed)
    if costs:
        chosen = tuple(int(found.plan[node][f"c{v}"].removeprefix("ac-")) - before for v in range(len(wanted)))
        assert allowed(chosen, wanted, drives) and not overcommitted(chosen, wanted, drives)
        rules = broken(chosen, drives, notes)
        assert "repelled" not in rules
        assert {rule for rule in rules if rule in asked_for} <= set(found.violated.get(node, ()))
        assert len(found.violated.get(node, ())) == min(costs)


@settings(max_examples=100, deadline=None)
@given(capacities, asked, annotations)
def test_preferences_cost_no_pod_its_node(drives, wanted, notes):
    notes = {key: value.replace("required", "preferred").replace("true", "preferred") for key, value in notes.items()}
    pod, objects = world(drives, wanted, notes)
    tolerant = {key: value for key, value in notes.items() if key == TOLERATIONS}
    plain = DiskPod(pod.name, pod.namespace, pod.labels, tolerant, claims=pod.claims)
    disks = lay_out(objects)
    assert plan(pod, disks).status == plan(plain, disks).status


@settings(max_examples=60, deadline=None)
@given(capacities, asked, annotations)
def test_filters_of_single_capacities_commute(drives, wanted, notes):
    pod, objects = world(drives, wanted, notes)
    disks = lay_out(objects)
    affinities = parse(pod.annotations, pod.namespace)
    question = Question(
        pod,
        requests(pod, disks),
        affinities,
        disks,
        own="app=web:default",
        reservation="default-web-0",
        avoided=neighbours.avoided(pod, affinities, disks),
    )
    single = (filters.no_schedule, filters.repulsion, filters.dedicated, filters.anti_affinity)
    results = set()
    for order in permutations(single):
        left = offer(("n1",), question)
        for rule in order:
            left = rule(left, question)
        results.add((bool(left.alive[0]), tuple(map(tuple, lists(left))) if left.alive[0] else ()))
    assert len(results) == 1


def first_fit(drives, wanted):
    """The driver's own way, volume by volume: groups first, then small ones, each on the first drive with room."""
    chosen = {}
    turn = sorted(range(len(wanted)), key=lambda v: (not wanted[v][0].endswith("LVG"), wanted[v][1], v))
    for v in turn:
        family = wanted[v][0]
        rank = {family: 0, family.removesuffix("LVG"): 1} if family.endswith("LVG") else {family: 0}
        places = [i for i, drive in enumerate(drives) if drive[0] in rank]
        for i in sorted(places, key=lambda i: (rank[drives[i][0]], drives[i][1], f"ac-{i}")):
            tried = [(place, wanted[u]) for u, place in chosen.items()] + [(i, wanted[v])]
            if not overcommitted([place for place, _ in tried], [each for _, each in tried], drives):
                chosen[v] = i
                break
        else:
            return None
    return {f"c{v}": f"ac-{i}" for v, i in chosen.items()}


@settings(max_examples=200, deadline=None)
@given(capacities, st.lists(st.tuples(kinds, sizes), min_size=1, max_size=4))
def test_where_first_fit_works_the_plan_is_first_fit(drives, wanted):
    drives = [(kind, size, "", "in flight" if user == "in flight" else None) for kind, size, _, user in drives]
    expected = first_fit(drives, wanted)
    pod, objects = world(drives, wanted, {})
    found = plan(pod, lay_out(objects))
    if expected is not None:
        assert found.plan == {"n1": expected}


def test_nodes_that_are_hard_leave_tries_for_the_others():
    """Three volumes that need a search on each of 300 nodes, all different; then none may be tried at all."""
    wanted = [("SSDLVG", 4 * MIB), ("SSDLVG", 8 * MIB), ("SSDLVG", 8 * MIB)]
    drives, where = [], []
    for number in range(300):
        drives += [("SSDLVG", 8 * MIB, "", None), ("SSDLVG", 12 * MIB, "", None), ("SSD", number * 1000, "", None)]
        where += [f"n{number}"] * 3
    pod, objects = world(drives, wanted, {}, where)
    disks = lay_out(objects)
    assert len(plan(pod, disks).plan) == 300
    given_up = plan(pod, disks, tries=0)
    assert given_up.status == "REJECTED"
    assert all("undecided" in why for why in given_up.failed.values())


def test_where_first_fit_fails_a_search_finds_the_way():
    """Volumes of 4, 8 and 8 MiB in groups of 8 and 12: the smallest first leaves 4 and 4 for the last."""
    drives = [("SSDLVG", 8 * MIB, "", None), ("SSDLVG", 12 * MIB, "", None)]
    pod, objects = world(drives, [("SSDLVG", 4 * MIB), ("SSDLVG", 8 * MIB), ("SSDLVG", 8 * MIB)], {})
    found = plan(pod, lay_out(objects)).plan["n1"]
    assert found["c0"] == "ac-1" and {found["c1"], found["c2"]} == {"ac-0", "ac-1"}


def test_a_search_moves_the_volume_that_has_a_choice():
    """Any drive will do for the first volume, but the only SSD is needed by the second."""
    drives = [("SSD", 10 * MIB, "", None), ("NVME", 20 * MIB, "", None)]
    pod, objects = world(drives, [("HDD", 8 * MIB), ("SSD", 9 * MIB)], {})
    classes = (StorageClass("HDD", "csi-baremetal", "whatever"), StorageClass("SSD", "csi-baremetal", "ssd"))
    assert plan(pod, lay_out(replace(objects, classes=classes))).plan == {"n1": {"c0": "ac-1", "c1": "ac-0"}}
