"""This product's own advice: each pod is asked about as the service asks, and goes to the node that is ranked first.

The answer comes from `rules.recommend.answer` on a view that is kept current by `rules.changes.updated`. Where the
service learns anew of use and of how busy functions are, so does the view, from what the replay measured, over the
same hour; what is known of pairs and profiles stays what was known before the replay. Medians on single nodes are
left out, since they were measured in another company.
"""

from collections import deque
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from featurestore.replay.kernel import Floats, Ints
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
        self._now = 0.0
        self._placed = np.full(len(world.pods), np.inf)
        self._hour: deque[_Interval] = deque()
        self._view = self._anew(0.0)

    def choose(self, pod: int, fits: Bools, at: float, /) -> int:
        self._now = at
        view, record = self._current(), self._record(pod, "")
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
        self._placed[pod] = self._now

    def went(self, pod: int, node: int, /) -> None:
        record = self._there.pop(pod)
        if pod in self._came:
            del self._came[pod]
        else:
            self._gone.append(record)

    def measured(self, now: Measured, /) -> None:
        self._came, self._gone = {}, []
        self._hour.append(self._interval(now))
        while self._hour[0].at <= now.at - _HOUR:
            self._hour.popleft()
        self._view = self._anew(now.at, now.use)

    def _interval(self, now: Measured) -> "_Interval":
        """Return what ran since the last measurement, and in which pods."""
        pods, nodes = self._cluster.world.pods, len(self._cluster.world.nodes)
        there = np.minimum(pods.went, now.at) - np.maximum(self._placed, now.at - now.lasted)
        mine = np.flatnonzero((pods.function >= 0) & (there > 0))
        cell, row = np.unique(pods.function[mine] * nodes + self._cluster.node[mine], return_inverse=True)
        sums = (np.bincount(row, each[mine], len(cell)).astype(np.float64) for each in (now.served, there))
        return _Interval(now.at, cell, *sums)

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
            # Behind what was measured at that moment, as the first pods are behind what is known from before.
            created=world.since + timedelta(seconds=float(world.pods.came[pod]), microseconds=1),
        )

    def _current(self) -> View:
        """Return the view with all that came and went."""
        if self._came or self._gone:
            changes = Changes(came=tuple(self._there[pod] for pod in self._came), gone=tuple(self._gone))
            self._view = updated(self._view, self._view.at, changes)
            self._came, self._gone = {}, []
        return self._view

    def _anew(self, at: float, use: Floats | None = None) -> View:
        """Make the view of all that stands now; *use* (K, 2) is what was measured."""
        world = self._cluster.world
        now = world.since + timedelta(seconds=at)
        listed = self._learned.tables["nodes"]
        if use is not None:
            listed = _with(listed, "cpu_used_cores", use[:, 0])
            listed = _with(listed, "memory_used_bytes", use[:, 1])
        tables = {**self._learned.tables, "nodes": listed, "busyness": self._busyness(at)}
        learned = replace(self._learned, created=now, tables=tables)
        view = view_of(learned, now, pods=list(self._there.values()))
        if view.busyness is None:
            nothing = Busyness(
                np.zeros(len(view.learned.functions) + 1, np.int64), np.zeros(0, np.int32), np.zeros(0), np.zeros(0)
            )
            view = replace(view, busyness=nothing)
        return view

    def _busyness(self, at: float) -> pa.Table:
        """Return what ran at once in the last hour and in how many pods, as learning would: of the time before the
        replay as much as still belongs to it."""
        world = self._cluster.world
        known, nodes = self._learned.tables["busyness"], len(world.nodes)
        share = max(0.0, 1.0 - at / _HOUR)
        parts = [(each.cell, each.served / _HOUR, each.lasted / _HOUR) for each in self._hour]
        if share and len(known):
            function, node = (
                pc.index_in(known[name].cast(pa.string()), pa.array(names, pa.string())).to_numpy()
                for name, names in (("function", world.functions), ("node", world.nodes.names))
            )
            parts.append((function * nodes + node, *(share * known[name].to_numpy() for name in ("running", "pods"))))
        if not parts:
            return TABLES["busyness"].empty_table()
        of, running, pods = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        cell, row = np.unique(of, return_inverse=True)
        columns = {
            "cluster": pa.array([world.cluster] * len(cell)),
            "node": pa.array(world.nodes.names).take(pa.array(cell % nodes)),
            "function": pa.array(world.functions, pa.string()).take(pa.array(cell // nodes)),
            "running": pa.array(np.bincount(row, running, len(cell))),
            "pods": pa.array(np.bincount(row, pods, len(cell))),
        }
        return pa.table(columns).cast(TABLES["busyness"])


@dataclass(frozen=True, slots=True, eq=False)
class _Interval:
    """The seconds that runs took and that pods were there, up to *at*, by *cell*: function times nodes, and node."""

    at: float
    cell: Ints
    served: Floats
    lasted: Floats


def _with(table: pa.Table, column: str, values: Floats) -> pa.Table:
    return table.set_column(table.column_names.index(column), column, pa.array(values))
