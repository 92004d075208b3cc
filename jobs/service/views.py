"""Views for the service: learned columns once a snapshot, the live cluster by what changed in it."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from featurestore.snapshot import Snapshot
from jobs.service.live import Live
from jobs.service.reservations import Reservations
from pipeline.records import Pod
from rules.affinity import interference
from rules.changes import Changes, updated
from rules.policy import Policy
from rules.running import Reservation
from rules.view import Learned, View, learn, stating, view_of

#: Where more pods changed at once, laying all of them out anew is quicker.
_MANY: Final = 5000


class Views:
    """Prepares the views of *cluster*, which it remembers to bring the next one up to date; called by one thread."""

    def __init__(
        self, cluster: str, policy: Policy, reservations: Reservations, live: Callable[[], Live | None]
    ) -> None:
        self._cluster = cluster
        self._reservations = reservations
        self._live = live
        self._policy = policy
        self._snapshot: Snapshot | None = None
        self._known: Learned | None = None
        self._learned: Learned | None = None
        self._stated = -1
        self._view: View | None = None
        self._laid: tuple[int, bool] | None = None
        self._pods: dict[str, Pod] = {}
        self._reserved: dict[str, Reservation] = {}

    def __call__(self, snapshot: Snapshot, cluster: str, at: datetime, /) -> View:
        """Return the view of *cluster* at *at*."""
        if cluster != self._cluster:
            return view_of(self._learn(snapshot, cluster), at)
        live = self._live()
        live = live if live is not None and live.synced else None
        former, self._view = self._view, None  # whatever fails below, the next view is made anew
        laid = (live.node_changes if live is not None else -1, live is not None)
        learned = self._stating(snapshot, live)
        if learned is not self._learned:
            self._learned, former = learned, None
        touched = live.touched_pods() if live is not None else ()
        reserved = {each.decision: each for each in self._reservations.current()}
        if former is None or laid != self._laid or touched is None or len(touched) > _MANY:
            view = self._anew(learned, live, reserved, at)
        else:
            view = self._next(former, live, touched, reserved, at)
        interference.carried(view, self._policy)  # each first answer asks for it
        self._view, self._laid, self._reserved = view, laid, reserved
        return view

    def _stating(self, snapshot: Snapshot, live: Live | None) -> Learned:
        """Return what *snapshot* knows, with the workflows as they are now: those that it saw may be long changed."""
        stated = live.workflow_changes if live is not None else -1
        if self._known is None or snapshot is not self._snapshot:
            self._known, self._snapshot = self._learn(snapshot, self._cluster), snapshot
        elif self._learned is not None and stated == self._stated:
            return self._learned
        now = live.workflows() if live is not None else None
        self._stated = stated
        return self._known if now is None else stating(self._known, now)

    def _learn(self, snapshot: Snapshot, cluster: str) -> Learned:
        policy = self._policy
        labels, prefix = policy.function_labels, policy.label_prefix
        return learn(snapshot, cluster, function_labels=labels, label_prefix=prefix, overwritten=policy.overwrites)

    def _anew(self, learned: Learned, live: Live | None, reserved: dict[str, Reservation], at: datetime) -> View:
        self._pods = live.pods_now() if live is not None else {}
        return view_of(
            learned,
            at,
            nodes=live.nodes() if live is not None else None,
            pods=list(self._pods.values()) if live is not None else None,
            services=live.services() if live is not None else {},
            scopes=live.namespaces() if live is not None else {},
            reservations=list(reserved.values()),
        )

    def _next(
        self, former: View, live: Live | None, touched: set[str] | tuple[()], reserved: dict[str, Reservation],
        at: datetime,
    ) -> View:  # fmt: skip
        came, gone = [], []
        for uid in touched:
            before, now = self._pods.get(uid), live.pod(uid) if live is not None else None
            if before is now:
                continue
            if before is not None:
                gone.append(before)
            if now is not None:
                came.append(now)
                self._pods[uid] = now
            else:
                del self._pods[uid]
        changes = Changes(
            came=tuple(came),
            gone=tuple(gone),
            reserved=tuple(each for name, each in reserved.items() if name not in self._reserved),
            released=tuple(each for name, each in self._reserved.items() if name not in reserved),
            services=live.services() if live is not None else None,
            scopes=live.namespaces() if live is not None else None,
        )
        return updated(former, at, changes)
