"""The extender where reservations are our own to make: it asks for one, and passes the nodes that it names."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import structlog

from jobs.regions.resources import Api
from pipeline.disk_records import DiskPod, Reservation
from pipeline.errors import BadInput, SourceError
from pipeline.objects import disks as wire
from rules.disks import plan as planning
from rules.disks.annotations import parse
from rules.disks.plan import Plan
from rules.disks.requests import requests
from rules.disks.reserving import name_of, requested, step
from rules.disks.state import Disks

_log = structlog.get_logger(__name__)

#: Where reservations lie.
PATH: Final = f"/apis/{wire.GROUP}/v1/availablecapacityreservations"


class Reserving:
    """Answers the scheduler from reservations in a pod's live *layout*; *api* is asked to make and renew them."""

    def __init__(self, api: Api, layout: Callable[[DiskPod], Disks | None], *, symmetric: bool = False) -> None:
        self._api = api
        self._layout = layout
        self._symmetric = symmetric

    def __call__(self, pod: Mapping[str, Any], nodes: list[str]) -> Plan:
        """Return which of *nodes* the reservation of *pod* names; a plan that has to wait names none.

        Raises `BadInput` for annotations that cannot be read, and for a reservation in a state that nobody knows.
        """
        read = wire.read({"kind": "Pod", **pod})
        if not isinstance(read, DiskPod):
            raise BadInput(f"kind {pod.get('kind')!r}: not a Pod")
        disks = self._layout(read)
        if disks is None:
            return Plan("REQUEUE", waits=("the disks are not known yet",))
        asked = requests(read, disks)
        affinities = parse(read.annotations, read.namespace)
        planning.check(affinities, asked)
        if asked.missing:
            return Plan("REQUEUE", waits=asked.missing)
        if not asked.requests:
            return planning.plan(read, disks, nodes)
        name = name_of(read.namespace, read.name)
        held = next((each for each in disks.objects.reservations if each.name == name), None)
        if held is not None and held.namespace not in ("", read.namespace):
            return Plan("REQUEUE", waits=(f"reservation {name}, which a pod of namespace {held.namespace} has",))
        found = step(held, nodes, disks.identities)
        if found.error:
            raise BadInput(found.error)
        if found.write:
            identities = [disks.identities.get(node, node) for node in nodes]
            spec = requested(read.namespace, asked.requests, identities, affinities)
            self._write(held, name, spec)
        if not found.passed:
            return Plan("REQUEUE", waits=(f"reservation {name}",))
        # What is reserved stands; what was given up for it, and why others cannot hold it, is as it would be now.
        now = planning.plan(read, disks, nodes, symmetric=self._symmetric)
        given_up = {node: len(now.violated.get(node, ())) for node in found.passed}
        return Plan(
            "RESERVED",
            plan={node: _on(node, held, disks) for node in found.passed},
            violated={node: now.violated[node] for node in found.passed if node in now.violated},
            scores=planning.scores(given_up, disks, len(affinities.sacrifices()[-1])),
            failed={node: now.failed.get(node, said) for node, said in found.failed.items()},
        )

    def _write(self, held: Reservation | None, name: str, spec: Mapping[str, Any]) -> None:
        """Make the reservation, or ask for the one that is *held* again.

        One that others changed since the live disks showed it is left to the next try.
        """
        thing: dict[str, Any] = {
            "apiVersion": f"{wire.GROUP}/v1",
            "kind": "AvailableCapacityReservation",
            "metadata": {"name": name},
            "spec": spec,
        }
        try:
            if held is None:
                self._api.send("POST", PATH, msgspec.json.encode(thing))
            else:
                now = msgspec.json.decode(self._api.get(f"{PATH}/{name}"))
                if now["spec"].get("Status", "") != held.status:
                    return
                thing["metadata"] = now["metadata"]
                self._api.send("PUT", f"{PATH}/{name}", msgspec.json.encode(thing))
        except SourceError as error:
            if error.reason not in ("status_409", "status_404"):
                _log.warning("reservation not written", reservation=name, error=str(error))


def _on(node: str, held: Reservation | None, disks: Disks) -> Mapping[str, str]:
    """Return the capacity of *node* that is held for each request."""
    here = {capacity.name for capacity in disks.capacities_on.get(node, ())}
    return {
        each.request.name: capacity
        for each in (held.requests if held is not None else ())
        for capacity in each.capacities
        if capacity in here
    }
