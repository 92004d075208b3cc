"""This product's own advice: each pod is asked about as the service asks, and goes to the node that is ranked first.

The answer comes from `rules.recommend.answer` on a view that is kept current by `rules.changes.updated`. Where the
service learns anew of use and of how busy functions are, so does the view, from what the replay measured; what is
known of pairs and profiles stays what was known before the replay. Medians on single nodes are left out, since
they were measured in another company.
"""

from collections import deque
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from featurestore.replay.kernel import Floats
from featurestore.snapshot import TABLES
from jobs.simulation.policies.plain import LeastLoaded
from jobs.simulation.replay import Cluster, Measured
from jobs.simulation.world import Bools
from pipeline.records import Pod
from rules.changes import Changes, updated
from rules.policy import Policy
from rules.recommend import answer
from rules.request import from_pod
from rules.running import Busyness
from rules.view import View, learn, view_of

_NAMESPACE = "default"
#: Seconds over which the service knows how busy functions are.
_HOUR = 3600.0


class Advised(LeastLoaded):
    """Asks the rules; where they leave a pod alone, or allow no node that fits, the least loaded one."""

    def __init__(self, cluster: Cluster, policy: Policy) -> None:
        super().__init__(cluster)
        world = cluster.world
        self._policy = policy
        known = learn(
            world.known, world.cluster, function_labels=policy.function_labels, label_prefix=policy.label_prefix
        )
        latencies = known.tables["latencies"]
        general = latencies.filter(pc.equal(latencies["node"].cast(pa.string()), ""))
        self._learned = replace(known, tables={**known.tables, "latencies": general})
        self._there: dict[int, Pod] = {}
        self._came: dict[int, None] = {}
        self._gone: list[Pod] = []
        self._view = self._anew(0.0, np.full(len(world.pods), np.nan))
        self._hour: deque[Measured] = deque()

    def choose(self, pod: int, fits: Bools, at: float, /) -> int:
        view, record = self._current(at), self._record(pod, "")
        metadata = {"name": record.name, "namespace": _NAMESPACE, "labels": dict(record.labels)}
        request = from_pod(
            {"metadata": metadata, "spec": {"containers": []}},
            record,
            view,
            namespace=_NAMESPACE,
            cluster=view.cluster,
            policy=self._policy,
        )
        told = answer(request, view, self._policy, decision=record.name, at=view.at)
        if told.combined is None or not (fits & told.combined.allowed).any():
            return super().choose(pod, fits, at)
        return self._cluster.best(fits & told.combined.allowed, -told.combined.scores, *self._cluster.crowding(pod))

    def came(self, pod: int, node: int, /) -> None:
        self._there[pod] = self._record(pod, self._cluster.world.nodes.names[node])
        self._came[pod] = None

    def went(self, pod: int, node: int, /) -> None:
        record = self._there.pop(pod)
        if pod in self._came:
            del self._came[pod]
        else:
            self._gone.append(record)

    def measured(self, now: Measured, /) -> None:
        self._came, self._gone = {}, []
        self._view = self._anew(now.at, self._busy(now), now.use)

    def _busy(self, now: Measured) -> Floats:
        """Return how many runs each pod (P,) served at once in the last hour, as the service knows it, NaN of one
        that is too new."""
        self._hour.append(now)
        while self._hour[0].at <= now.at - _HOUR:
            self._hour.popleft()
        served = np.array([each.busy * each.lasted for each in self._hour])
        lasted = np.array([each.lasted for each in self._hour])
        there = np.isfinite(served)
        found: Floats = np.divide(
            np.where(there, served, 0.0).sum(axis=0),
            lasted @ there,
            out=np.full(served.shape[1], np.nan),
            where=there.any(axis=0),
        )
        return found

    def _record(self, pod: int, node: str) -> Pod:
        world = self._cluster.world
        namespace, action = self._policy.function_labels
        function = int(world.pods.function[pod])
        name = world.functions[function] if function >= 0 else ""
        labels = {action: name.rpartition("/")[2]} if name else {}
        if "/" in name:
            labels[namespace] = name.partition("/")[0]
        asked = world.pods.requests[pod]
        return Pod(
            namespace=_NAMESPACE,
            name=world.pods.names[pod],
            uid=world.pods.names[pod],
            node=node,
            phase="Running",
            labels=labels,
            annotations={},
            requests={"cpu": float(asked[0]), "memory": float(asked[1])},
            limits={},
            created=world.since + timedelta(seconds=float(world.pods.came[pod])),
        )

    def _current(self, at: float) -> View:
        """Return the view with all that came and went."""
        if self._came or self._gone:
            for pod in self._came:
                self._expect(pod)
            changes = Changes(came=tuple(self._there[pod] for pod in self._came), gone=tuple(self._gone))
            self._view = updated(self._view, self._view.at, changes)
            self._came, self._gone = {}, []
        return self._view

    def _expect(self, pod: int) -> None:
        """Take the first pod of a function that nothing is measured of to be as busy as its pods usually were."""
        view, world = self._view, self._cluster.world
        function = int(world.pods.function[pod])
        number = view.functions.index.get(world.functions[function], -1) if function >= 0 else -1
        busyness = view.busyness
        if busyness is None or number < 0 or number + 1 >= len(busyness.start) or len(busyness.of(number)[0]):
            return
        spot = int(busyness.start[number])
        start = busyness.start.copy()
        start[number + 1 :] += 1
        node = np.insert(busyness.node, spot, self._cluster.node[pod])
        running = np.insert(busyness.running, spot, world.usual[function])
        self._view = replace(view, busyness=Busyness(start, node, running))

    def _anew(self, at: float, busy: Floats, use: Floats | None = None) -> View:
        """Make the view of all that stands now; *busy* (P,) and *use* (K, 2) are what was measured."""
        world = self._cluster.world
        now = world.since + timedelta(seconds=at)
        listed = self._learned.tables["nodes"]
        if use is not None:
            listed = _with(listed, "cpu_used_cores", use[:, 0])
            listed = _with(listed, "memory_used_bytes", use[:, 1])
        tables = {**self._learned.tables, "nodes": listed, "busyness": self._busyness(busy)}
        learned = replace(self._learned, created=now, tables=tables)
        view = view_of(learned, now, pods=list(self._there.values()))
        if view.busyness is None:
            nothing = Busyness(
                np.zeros(len(view.learned.functions) + 1, np.int64), np.zeros(0, np.int32), np.zeros(0)
            )
            view = replace(view, busyness=nothing)
        return view

    def _busyness(self, busy: Floats) -> pa.Table:
        world = self._cluster.world
        pods = np.array([pod for pod in self._there if world.pods.function[pod] >= 0], np.int64)
        function, node = world.pods.function[pods], self._cluster.node[pods]
        known = np.where(np.isfinite(busy[pods]), busy[pods], world.usual[function])
        cell, row = np.unique(function * len(world.nodes) + node, return_inverse=True)
        columns = {
            "cluster": pa.array([world.cluster] * len(cell)),
            "node": pa.array(world.nodes.names).take(pa.array(cell % len(world.nodes))),
            "function": pa.array(world.functions, pa.string()).take(pa.array(cell // max(len(world.nodes), 1))),
            "running": pa.array(np.bincount(row, known, len(cell))),
        }
        return pa.table(columns).cast(TABLES["busyness"])


def _with(table: pa.Table, column: str, values: Floats) -> pa.Table:
    return table.set_column(table.column_names.index(column), column, pa.array(values))
