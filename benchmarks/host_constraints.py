"""Placing stream jobs: an ordinary one, one with pools, and one that needs the exact solver; refusals too."""

from datetime import timedelta

import msgspec

from benchmarks.figures import Figure, interleaved
from jobs.hosts.answering import Answer, answer
from jobs.hosts.reading import Seen
from pipeline.records import Node
from rules.advice import Json
from rules.hosts import keys
from rules.hosts.cluster import HostNode
from rules.hosts.job import read
from rules.hosts.model import Job
from rules.nodes import columns

_PES, _NODES, _GOAL = 500, 1_000, 1.0
_LIMIT = timedelta(seconds=30)
_TEMPLATE: Json = {"spec": {"containers": [{"name": "pe", "image": "example"}]}}


def _seen(count: int) -> Seen:
    amounts = {"cpu": 8.0, "memory": 2.0**35, "pods": 110.0}
    return Seen(
        tuple(
            HostNode(
                Node(
                    name=f"node-{number:04}", uid="", node_type="t", taints=(), addresses={}, conditions={},
                    labels={keys.HOSTNAME: f"node-{number:04}", **({keys.TAG: "fast"} if number % 3 == 0 else {})},
                    capacity=amounts, allocatable=amounts, schedulable=True, ready=True,
                ),
                (f"10.0.{number // 250}.{number % 250 + 1}",),
            )
            for number in range(count)
        )
    )  # fmt: skip


def _document(placements: list[str], **more: object) -> Json:
    pes = [
        {"id": number, "operators": [{"name": f"Op{number}", "placement": placement}]}
        for number, placement in enumerate(placements)
    ]
    return {"job": "bench", "pes": pes, "template": _TEMPLATE, **more}


def _ordinary(pes: int) -> Json:
    """Pairs that run together, tens that run apart, some isolated, some named."""
    placements = []
    for number in range(pes):
        clauses = [f'hostColocation("pair{number // 2}")'] if number % 5 < 4 and number % 10 != 9 else []
        clauses += [f'hostExlocation("ten{number // 20}")'] if number % 2 else []
        if number % 50 == 49:
            clauses = ["hostIsolation"]
        if number % 50 == 24:
            clauses = [f'host("10.0.0.{number % 250 + 1}")']
        placements.append(", ".join(clauses))
    return _document(placements)


def _pooled(pes: int) -> Json:
    pools = {
        "Own": 'createPool({size=20u, tags=["fast"]}, Sys.Exclusive)',
        "Shared": f"createPool({{size={max(2, pes // 5)}u}}, Sys.Shared)",
    }
    placements = [
        'host(Shared), hostExlocation("spread")'
        if number % 10 == 0
        else f"host(Own[{number % 20}])"
        if number % 10 == 1
        else "host(Own)"
        if number % 10 == 2
        else ""
        for number in range(pes)
    ]
    return _document(placements, hostPools=pools)


def _squares(pes: int) -> Json:
    """Latin squares of order 5, each in a pool of 5 nodes: by turns does not do, the exact solver is asked."""
    pools, placements = {}, []
    for square in range(pes // 25):
        pools[f"P{square}"] = [f"node-{square * 5 + each:04}" for each in range(5)]
        for row in range(5):
            for column in range(5):
                tokens = f'hostExlocation("row{square}_{row}"), hostExlocation("column{square}_{column}")'
                placements.append(f"host(P{square}), {tokens}")
    return _document(placements, hostPools=pools)


def _floor(document: Json, seen: Seen) -> bytes:
    """What any answer has to do: lay out the nodes, and write a pod for each PE."""
    columns([each.node for each in seen.nodes], {})
    pods = [
        {"pe": pe["id"], "manifest": {**_TEMPLATE, "metadata": {"name": f"bench-{pe['id']}"}}}
        for pe in document["pes"]
    ]
    return msgspec.json.encode({"pods": pods})


def _answered(document: Json, seen: Seen) -> Answer:
    job: Job = read(document, "job")
    found = answer(job, seen, _LIMIT)
    msgspec.json.encode(found.document)
    return found


def run(scale: float) -> list[Figure]:
    """Measure with 500 PEs on 1,000 nodes at scale 1."""
    pes, count = max(25, int(_PES * scale)), max(50, int(_NODES * scale))
    seen = _seen(count)
    given = {"ordinary": _ordinary(pes), "pools": _pooled(pes), "squares": _squares(pes)}
    given["refused"] = _document(['hostExlocation("all")'] * (count + 1))
    for name, document in given.items():
        assert (_answered(document, seen).plan is None) == (name == "refused"), name
    sides = {name: lambda document=document: _answered(document, seen) for name, document in given.items()}
    times = interleaved({**sides, "floor": lambda: _floor(given["ordinary"], seen)})
    floor = times["floor"].median
    figures = []
    for name, document in given.items():
        taken, ordinary = times[name].median, name != "squares"
        told = f"{len(document['pes'])} PEs on {count:,} nodes, {name}"
        ratio, goal = taken / floor, f"< {_GOAL:g} s" if ordinary else ""
        met = taken < _GOAL if ordinary else None
        figures.append(Figure(told, taken, "s", floor, ratio, times[name].spread, goal, met))
    return figures
