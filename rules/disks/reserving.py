"""Reservations: how the rules of a pod are written into one, what the extender does with it, how a plan settles it.

The states are those of csi-baremetal's AvailableCapacityReservation: REQUESTED, then RESERVED or REJECTED by whoever
plans. The AffinityRules follow the proposal, with its enumerations as strings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pipeline.disk_records import CapacityRequest, Reservation
from rules.disks.annotations import Affinities, Strength
from rules.disks.plan import Plan

Json = dict[str, Any]

#: What the extender does about the reservation of a pod: make it, ask for it again, or nothing.
Write = Literal["", "create", "resend"]

#: The kinds of requests for affinity by the field of `Affinities` that each speaks of.
_AFFINITY: Final[Mapping[str, str]] = {"POD_BOUND": "pod_bound", "DEDICATED": "dedicated"}
_ANTI: Final[Mapping[str, str]] = {"POD_LABEL": "pod_label", "PROFILE_DISK_HIGH": "quiet"}


@dataclass(frozen=True, slots=True)
class Step:
    """What the extender answers and does: the nodes that *pass*, why others *failed*, an *error*, and a *write*.

    Nothing of all that lets the scheduler try again later.
    """

    write: Write = ""
    passed: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    error: str = ""


def name_of(namespace: str, pod: str) -> str:
    """Return the name of the reservation of a pod."""
    return f"{namespace}-{pod}"


def step(reservation: Reservation | None, names: Sequence[str], known_as: Mapping[str, str]) -> Step:
    """Return what the extender does about *reservation* (None: there is none) for the nodes *names*.

    *known_as* gives the driver's identity of each node.
    """
    if reservation is None:
        return Step("create")
    if reservation.status == "REQUESTED":
        return Step()
    if reservation.status == "REJECTED":
        return Step("resend")
    if reservation.status != "RESERVED":
        return Step(error=f"unsupported reservation status: {reservation.status}")
    reserved = set(reservation.reserved)
    passed = tuple(name for name in names if known_as.get(name, name) in reserved)
    others = dict.fromkeys(names)
    for name in passed:
        others.pop(name, None)
    failed = {name: f"No available capacity found on the node {name}" for name in others}
    return Step("" if passed else "resend", passed, failed if passed else {})


def requested(namespace: str, requests: Sequence[CapacityRequest], nodes: Sequence[str], asked: Affinities) -> Json:
    """Return the spec of a reservation that asks for *requests* on *nodes* (identities) under the rules *asked*."""
    spec: Json = {
        "Namespace": namespace,
        "Status": "REQUESTED",
        "NodeRequests": {"Requested": list(nodes)},
        "ReservationRequests": [{"CapacityRequest": _request(each)} for each in requests],
    }
    rules = written(asked)
    if rules:
        spec["AffinityRules"] = rules
    return spec


def _request(request: CapacityRequest) -> Json:
    found: Json = {"Name": request.name, "StorageClass": request.storage_class, "Size": request.size}
    if request.storage_group:
        found["StorageGroup"] = request.storage_group
    return found


def written(asked: Affinities) -> Json:
    """Return *asked* as AffinityRules; empty where nothing is asked for."""
    rules: Json = {}
    affinity = [_typed(kind, getattr(asked, field)) for kind, field in _AFFINITY.items() if getattr(asked, field)]
    for each in affinity:
        if each["Type"].startswith("DEDICATED"):
            body: Json = {"Tolerations": list(asked.tolerations)} if asked.tolerations else {}
            if asked.automatic:
                body["Automatic"] = True
            each["AffinityDedicatedRequest"] = body
    if affinity:
        rules["AffinityRequests"] = [{"AffinityRequest": affinity}]
    anti = [_typed(kind, getattr(asked, field)) for kind, field in _ANTI.items() if getattr(asked, field)]
    for each in anti:
        if each["Type"].startswith("POD_LABEL"):
            each["PodLabelRequest"] = {"Labels": [str(label) for label in asked.labels]}
    if anti:
        rules["AntiaffinityRequests"] = [{"AntiaffinityRequest": anti}]
    return rules


def _typed(kind: str, strength: Strength) -> Json:
    return {"Type": f"{kind}_{strength.upper()}"}


def settled(spec: Mapping[str, Any], plan: Plan, known_as: Mapping[str, str]) -> Json | None:
    """Return the spec of a reservation that *plan* settles, RESERVED or REJECTED; None where it has to wait.

    The nodes stand in the order in which they were asked for, each request's capacities in the same. A request that
    the pod no longer has, its claim being bound, holds nothing.
    """
    if plan.status == "REQUEUE":
        return None
    requested_nodes = list((spec.get("NodeRequests") or {}).get("Requested") or ())
    names = {known_as.get(name, name): name for name in plan.plan}
    order = [identity for identity in requested_nodes if identity in names]
    requests = []
    for each in spec.get("ReservationRequests") or ():
        request = each.get("CapacityRequest") or {}
        chosen = (plan.plan[names[identity]].get(str(request.get("Name"))) for identity in order)
        held = [capacity for capacity in chosen if capacity is not None]
        requests.append({"CapacityRequest": request, **({"Reservations": held} if held else {})})
    nodes: Json = {"Requested": requested_nodes}
    if order:
        nodes["Reserved"] = order
    return {**spec, "Status": plan.status, "NodeRequests": nodes, "ReservationRequests": requests}
