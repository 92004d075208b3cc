"""Small worlds for tests of the advice: nodes, what runs on them, and what was learned, stated in a line each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pyarrow as pa

from featurestore.company import number
from featurestore.snapshot import TABLES, Snapshot
from pipeline.objects import pod_of, workflow_of
from pipeline.records import Node, Pod, Taint
from rules.policy import Mode, Policy
from rules.recommend import Recommendation, recommend
from rules.request import Request, from_pod
from rules.view import Reservation, View, prepare

NOW = datetime(2024, 5, 6, 12, 0, tzinfo=UTC)
GIB = 2.0**30


def node(
    name: str,
    labels: Mapping[str, str] | None = None,
    *,
    kind: str = "t1",
    cpu: float = 8,
    memory: float = 16 * GIB,
    ready: bool = True,
    schedulable: bool = True,
    taints: Sequence[Taint] = (),
    **more: float,
) -> Node:
    """A node that is Ready, empty and like every other, unless said otherwise; *more* are further amounts."""
    amounts = {"cpu": cpu, "memory": memory, "pods": 110.0, **more}
    return Node(
        name=name,
        uid=f"uid-{name}",
        node_type=kind,
        labels={"kubernetes.io/hostname": name, **(labels or {})},
        taints=tuple(taints),
        addresses={},
        conditions={"Ready": str(ready)},
        capacity=amounts,
        allocatable=amounts,
        schedulable=schedulable,
        ready=ready,
    )


def running(
    function: str,
    where: str,
    number: int = 0,
    *,
    cpu: float = 0.0,
    memory: float = 0.0,
    age: timedelta = timedelta(hours=1),
) -> Pod:
    """A pod of *function* that runs on node *where*, labelled as OpenWhisk does it."""
    namespace, _, action = function.rpartition("/")
    labels = {"openwhisk/action": action} | ({"openwhisk/namespace": namespace} if namespace else {})
    requests = {name: amount for name, amount in (("cpu", cpu), ("memory", memory)) if amount}
    return Pod(
        namespace="ow",
        name=f"{action.lower().replace('_', '')}-{where}-{number}",
        uid=f"{function}/{where}/{number}",
        node=where,
        phase="Running",
        labels=labels,
        annotations={},
        requests=requests,
        limits={},
        created=NOW - age,
    )


@dataclass
class World:
    """What a snapshot and the live cluster ``c1`` hold."""

    nodes: list[Node]
    pods: list[Pod] = field(default_factory=list)
    slowdowns: dict[tuple[str, str], float | Mapping[str, Any]] = field(default_factory=dict)
    medians: dict[tuple[str, str], float] = field(default_factory=dict)  # (function, node type or node, or "") -> ms
    alone: dict[tuple[str, str], float] = field(default_factory=dict)  # (function, node type) -> ms, of the fit
    beside: dict[tuple[str, str, tuple[str, ...]], float] = field(default_factory=dict)  # and company -> ms
    profiles: dict[str, str] = field(default_factory=dict)  # function -> dominant resource
    busy: dict[tuple[str, str], float] = field(default_factory=dict)  # (node, function) -> mean running
    lasted: dict[tuple[str, str], float] = field(default_factory=dict)  # (node, function) -> mean pods
    load: dict[str, float] = field(default_factory=dict)  # node -> used fraction of CPU
    workflows: list[Mapping[str, Any]] = field(default_factory=list)
    services: dict[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)
    scopes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # namespace -> its labels
    known: tuple[str, ...] = ()  # functions with a record and nothing else of note
    reservations: tuple[Reservation, ...] = ()
    age: timedelta = timedelta(minutes=5)

    def snapshot(self) -> Snapshot:
        functions = [
            _row("functions", function=name, node_type="", activations=100, source="measured",
                 p50_ms=self.medians.get((name, "")))
            | ({"dominant": self.profiles[name]} | _levels(self.profiles[name]) if name in self.profiles else {})
            for name in {
                *self.known,
                *self.profiles,
                *(name for name, _ in self.medians),
                *(name for name, _, _ in self.beside),
            }
        ]  # fmt: skip
        names = {each.name for each in self.nodes}
        tables: dict[str, list[dict[str, Any]]] = {
            "nodes": [self._node(each) for each in self.nodes],
            "functions": functions,
            "latencies": [
                _row("latencies", function=name, node_type="" if where in names else where,
                     node=where if where in names else "", activations=100, p50_ms=p50, p95_ms=2 * p50)
                for (name, where), p50 in self.medians.items()
            ],
            "base_times": [
                _row("base_times", function=name, node_type=kind, base_ms=alone)
                for (name, kind), alone in self.alone.items()
            ],
            "company": [
                _row("company", function=name, node_type="" if where in names else where,
                     node=where if where in names else "", company=_company(company), activations=100, p50_ms=p50)
                for (name, where, company), p50 in self.beside.items()
            ],
            "pairs": [
                _pair(victim, aggressor, given if isinstance(given, Mapping) else {"slowdown": given})
                for (victim, aggressor), given in self.slowdowns.items()
            ],
            "placements": [_placement(each) for each in self.pods],
            "busyness": [
                _row("busyness", node=where, function=name, running=mean, pods=self.lasted.get((where, name)))
                for (where, name), mean in self.busy.items()
            ],
            "workflows": [
                _row("workflows", namespace=read.namespace, workflow=read.name, document=_json(read))
                for read in map(workflow_of, self.workflows)
            ],
            "health": [],
        }  # fmt: skip
        return Snapshot(
            version="s1",
            created=NOW - self.age,
            clusters=("c1",),
            models={},
            attribution={},
            tables={name: pa.Table.from_pylist(tables.get(name, []), schema) for name, schema in TABLES.items()},
        )

    def _node(self, each: Node) -> dict[str, Any]:
        cores = each.allocatable["cpu"]
        return _row(
            "nodes",
            node=each.name,
            node_type=each.node_type,
            ready=each.ready,
            schedulable=each.schedulable,
            cpu_cores=cores,
            memory_bytes=each.allocatable["memory"],
            gpu_count=0,
            labels=_json(each.labels),
            taints=_json(each.taints),
            allocatable=_json(each.allocatable),
            cpu_used_cores=self.load[each.name] * cores if each.name in self.load else None,
        )

    def view(self) -> View:
        return prepare(
            self.snapshot(), "c1", NOW, nodes=self.nodes, pods=self.pods, reservations=self.reservations,
            services=self.services, scopes=self.scopes,
        )  # fmt: skip

    def request(self, pod: Mapping[str, Any], policy: Policy, view: View | None = None) -> Request:
        namespace = (pod.get("metadata") or {}).get("namespace") or "ow"
        return from_pod(pod, pod_of(pod), view or self.view(), namespace=namespace, cluster="c1", policy=policy)

    def advise(self, pod: Mapping[str, Any], mode: Mode = "prefer", **limits: Any) -> Recommendation:
        policy = replace(Policy(mode=mode), **limits)
        view = self.view()
        return recommend(self.request(pod, policy, view), view, policy, decision="d1")


def _company(functions: tuple[str, ...]) -> int:
    """The sum of the functions' numbers as a signed 64-bit integer."""
    return (sum(map(number, functions)) + 2**63) % 2**64 - 2**63


def _placement(each: Pod) -> dict[str, Any]:
    namespace, action = each.labels.get("openwhisk/namespace"), each.labels.get("openwhisk/action")
    return _row(
        "placements",
        uid=each.uid,
        namespace=each.namespace,
        pod=each.name,
        node=each.node,
        function=f"{namespace}/{action}" if namespace else action,
        phase=each.phase,
        started=NOW,
        cpu_request_cores=each.requests.get("cpu"),
        memory_request_bytes=each.requests.get("memory"),
        other_requests=_json({k: v for k, v in each.requests.items() if k not in ("cpu", "memory")}),
        labels=_json(each.labels),
    )


def _row(table: str, **given: Any) -> dict[str, Any]:
    return {**dict.fromkeys(TABLES[table].names), "cluster": "c1", **given}


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _levels(dominant: str) -> dict[str, str]:
    return {name: "high" if name == dominant else "low" for name in ("cpu", "memory", "network", "disk")}


def _pair(victim: str, aggressor: str, given: Mapping[str, Any]) -> dict[str, Any]:
    slowdown = given["slowdown"]
    return _row("pairs", **{
        "victim": victim, "aggressor": aggressor, "node_type": "", "status": "observed", "low": slowdown - 0.1,
        "high": slowdown + 0.1, "probability": 0.99, "effective_overlaps": 250.0, "activations": 4000,
        "window_start": NOW - timedelta(days=14), "window_end": NOW - timedelta(hours=1), **given,
    })  # fmt: skip


def pod(function: str = "", **given: Any) -> dict[str, Any]:
    """A pod manifest of *function*, by its labels; *given* adds metadata (``annotations``...) and ``spec`` fields."""
    namespace, _, action = function.rpartition("/")
    labels = {"openwhisk/action": action} if action else {}
    if namespace:
        labels["openwhisk/namespace"] = namespace
    spec = {
        "containers": [{"name": "user-action", "image": "x", "resources": {"requests": given.pop("requests", {})}}]
    }
    spec |= given.pop("spec", {})
    metadata = {"name": "new", "namespace": "ow", "labels": {**labels, **given.pop("labels", {})}, **given}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def of_workflow(action: str, workflow: str = "w", **given: Any) -> dict[str, Any]:
    """A pod manifest of *action* of *workflow*, as annotations say it."""
    annotations = {"workflow": workflow, "colocation.internal/action": action, **given.pop("annotations", {})}
    return pod(annotations=annotations, **given)


def flow(*actions: Mapping[str, Any], name: str = "w", **annotations: str) -> dict[str, Any]:
    """A Workflow object of *actions*."""
    return {
        "apiVersion": "wp5.physics-faas.eu/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": name, "namespace": "ow", "annotations": annotations},
        "spec": {"actions": [dict(each) for each in actions]},
    }


def critical(name: str, **given: Any) -> dict[str, Any]:
    """An action with goal Performance and importance High."""
    return {"name": name, "annotations": {"optimizationGoal": "Performance", "importance": "High"}, **given}


def names(recommendation: Recommendation) -> list[str]:
    """The ranked nodes' names, best first."""
    return [each.name for each in recommendation.nodes]
