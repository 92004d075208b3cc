"""The reservation controller: settles what the extender asked for, and looks after the taints of dedicated disks.

It runs only where the settings say that reservations are ours, never beside csi-baremetal's own controller, and one
process acts at a time (a Lease). A decision is written only against the version that was read, and the next one waits
until the live disks show it, so that no capacity is given twice.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import structlog

from jobs.regions.lease import Lease
from jobs.regions.resources import Api
from jobs.service.disks.reserving import PATH
from jobs.service.periodic import Periodic
from pipeline.disk_records import Reservation
from pipeline.errors import BadInput, SourceError
from pipeline.objects import disks as wire
from rules.disks import dedication
from rules.disks.plan import Plan, plan
from rules.disks.reserving import name_of, settled
from rules.disks.state import Disks
from rules.disks.taints import taint_of

_log = structlog.get_logger(__name__)

CAPACITIES: Final = f"/apis/{wire.GROUP}/v1/availablecapacities"
_MERGE: Final = "application/merge-patch+json"

#: A pod that has to wait is looked at again after the first pause so many times, then after the second (seconds).
_PAUSES: Final = ((30, 1.5), (0, 12.0))
#: How long the live disks may take to show what was written, in seconds.
_SHOWN: Final = 5.0
#: A taint goes when nothing has spoken for it for so long: a volume may be seen after the end of its reservation.
_GRACE: Final = 5.0
#: How often the controller looks, in seconds.
_EVERY: Final = 0.25


class Controller:
    """Works on the live *layout* through *api*; `work` is called again and again by one thread."""

    def __init__(
        self,
        api: Api,
        layout: Callable[[], Disks | None],
        *,
        sequential: bool = False,
        symmetric: bool = False,
        acts: Callable[[], bool] = lambda: True,
        grace: float = _GRACE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._layout = layout
        self._sequential, self._symmetric = sequential, symmetric
        self._acts = acts
        self._grace = grace
        self._clock = clock
        self._seen: Disks | None = None
        self._written: dict[str, tuple[str, float]] = {}
        self._tainted: dict[str, tuple[str, float]] = {}
        self._doomed: dict[str, float] = {}
        self._waiting: dict[str, tuple[int, float]] = {}

    def work(self) -> None:
        """Settle one reservation, and mend taints; nothing where another process acts or nothing is known yet."""
        disks = self._layout()
        if disks is None or not self._acts() or not self._shown(disks):
            return
        try:
            for reservation in disks.objects.reservations:
                if reservation.status == "REQUESTED" and self._due(reservation.name):
                    try:
                        written = self._settle(reservation, disks)
                    except SourceError as error:
                        if not error.reason.startswith("status_4"):
                            raise
                        # What the API server refuses of one is no reason to keep the others waiting.
                        self._put_off(reservation.name)
                        _log.warning("reservation not settled", reservation=reservation.name, error=str(error))
                        written = True
                    if written:
                        return  # the next one needs to see it
            if disks is not self._seen or self._doomed:
                self._tend(disks)
                self._seen = disks
        except SourceError as error:
            _log.warning("reservations not settled", error=str(error))

    def _shown(self, disks: Disks) -> bool:
        """Whether the disks show what was written last; what others changed at once is not waited for long."""
        status = {each.name: each.status for each in disks.objects.reservations}
        taints = {each.name: taint_of(each) for each in disks.objects.capacities} if self._tainted else {}
        self._written = self._unseen(self._written, status)
        self._tainted = self._unseen(self._tainted, taints)
        return not self._written and not self._tainted

    def _unseen(
        self, written: Mapping[str, tuple[str, float]], shown: Mapping[str, str]
    ) -> dict[str, tuple[str, float]]:
        return {
            name: (wanted, until)
            for name, (wanted, until) in written.items()
            if name in shown and shown[name] != wanted and self._clock() < until
        }

    def _due(self, name: str) -> bool:
        return self._clock() >= self._waiting.get(name, (0, 0.0))[1]

    def _put_off(self, name: str) -> None:
        tries = self._waiting.get(name, (0, 0.0))[0] + 1
        pause = next(seconds for most, seconds in _PAUSES if not most or tries <= most)
        self._waiting[name] = (tries, self._clock() + pause)

    def _settle(self, reservation: Reservation, disks: Disks) -> bool:
        """Decide about one reservation; returns whether it was written."""
        path = f"{PATH}/{reservation.name}"
        now: dict[str, Any] = msgspec.json.decode(self._api.get(path))
        spec = now.get("spec") or {}
        if spec.get("Status") != "REQUESTED":
            return False
        found = self._planned(reservation, disks)
        decided = None if found is None else settled(spec, found, disks.identities)
        if found is None or decided is None:
            self._put_off(reservation.name)
            return False
        self._waiting.pop(reservation.name, None)
        chosen = {each for node in found.plan.values() for each in node.values()}
        for capacity, text in found.taint.items():
            if capacity in chosen:
                patch = msgspec.json.encode(dedication.patch(text, reservation.name))
                self._api.send("PATCH", f"{CAPACITIES}/{capacity}", patch, _MERGE)
                self._tainted[capacity] = (text, self._clock() + _SHOWN)
        try:
            self._api.send("PUT", path, msgspec.json.encode({**now, "spec": decided}))
        except SourceError as error:
            if error.reason != "status_409":
                raise
            return False
        self._written[reservation.name] = (decided["Status"], self._clock() + _SHOWN)
        _log.info("reservation settled", reservation=reservation.name, status=decided["Status"])
        return True

    def _planned(self, reservation: Reservation, disks: Disks) -> Plan | None:
        """Plan for the pod of *reservation* on the nodes that it asks for; None where the pod is not known (yet)."""
        pod = next(
            (
                each
                for each in disks.objects.pods
                if each.namespace == reservation.namespace and name_of(each.namespace, each.name) == reservation.name
            ),
            None,
        )
        if pod is None:
            return None
        nodes = [disks.node_names.get(identity, identity) for identity in reservation.requested]
        try:
            return plan(pod, disks, nodes, sequential=self._sequential, symmetric=self._symmetric)
        except BadInput as error:
            _log.warning("reservation rejected", reservation=reservation.name, error=str(error))
            return Plan("REJECTED")

    def _tend(self, disks: Disks) -> None:
        now, doomed = self._clock(), {}
        for change in dedication.changes(disks):
            if change.what == "drop":
                since = doomed[change.capacity] = self._doomed.get(change.capacity, now)
                if now - since < self._grace:
                    continue
            patch = msgspec.json.encode(dedication.undoing(change))
            try:
                self._api.send("PATCH", f"{CAPACITIES}/{change.capacity}", patch, _MERGE)
            except SourceError as error:
                if error.reason != "status_404":
                    raise
            doomed.pop(change.capacity, None)
        self._doomed = doomed


class Running:
    """The controller in threads of its own: one waits for the lease and keeps it, one works while it is held."""

    def __init__(self, controller: Controller, lease: Lease) -> None:
        self._lease = lease
        self._stopped = threading.Event()
        self._waiting = threading.Thread(target=self._wait, name="reservation lease", daemon=True)
        self._thread = Periodic("reservations", _EVERY, controller.work)

    def start(self) -> None:
        """Begin."""
        self._waiting.start()
        self._thread.start()

    def close(self) -> None:
        """End, and let another process act at once."""
        self._stopped.set()
        self._thread.close()
        self._lease.release()

    def _wait(self) -> None:
        self._lease.acquire(self._stopped.is_set)
