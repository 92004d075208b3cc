"""Plans of disks at size: 1,000 nodes of 24 drives, a pod of 4 volumes that asks for nothing, and one for everything.

The floor is one walk in plain Python over the capacities of all nodes, looking for one that is large enough.
"""

import random
import time
from collections.abc import Callable
from typing import Any

import msgspec

from benchmarks.figures import Figure, interleaved
from jobs.service.disks.extender import ExtenderArgs, filtered
from pipeline.disk_records import Capacity, Claim, CsiNode, DiskPod, StorageClass, Volume
from pipeline.objects import disks as wire
from rules.disks.annotations import ANTI_LABELS, ANTI_TYPES, DEDICATED, TYPES
from rules.disks.plan import Plan, known, plan
from rules.disks.state import Disks, Objects, lay_out

GIB = 2**30
NODES, DRIVES, VOLUMES, ROUNDS = 1000, 24, 4, 9


def cluster(nodes: int, seed: int = 1) -> Objects:
    """Return *nodes* nodes, a third of whose drives hold a volume of one of a thousand pods."""
    draw = random.Random(seed)
    pods = [DiskPod(f"p{i}", "default", {"app": f"a{i % 50}"}, claims=(f"c{i}",)) for i in range(nodes * DRIVES // 3)]
    capacities: list[Capacity] = []
    volumes: list[Volume] = []
    claims: list[Claim] = []
    for n in range(nodes):
        for d in range(DRIVES):
            drive = f"d{n}-{d}"
            storage_class = draw.choice(("HDDLVG", "HDD", "SSD", "SSDLVG"))
            capacities.append(Capacity(f"ac-{drive}", f"n{n}", drive, storage_class, draw.randint(1, 400) * GIB))
            if d % 3 == 0:
                i = len(volumes)
                volumes.append(Volume(f"v{i}", "default", f"n{n}", drive, size=GIB))
                claims.append(Claim(f"c{i}", "default", "hddlvg", GIB, "Bound", f"v{i}"))
    wanted = [Claim(f"w{v}", "default", "hddlvg", 30 * GIB) for v in range(VOLUMES)]
    wanted += [Claim(f"h{v}", "default", "hddlvg", (250 + 10 * v) * GIB) for v in range(8)]
    return Objects(
        capacities=tuple(capacities),
        volumes=tuple(volumes),
        claims=(*claims, *wanted),
        classes=(StorageClass("hddlvg", "csi-baremetal", "HDDLVG"),),
        pods=tuple(pods),
        nodes=tuple(CsiNode(f"worker-{n}", f"n{n}") for n in range(nodes)),
    )


def asking() -> DiskPod:
    """Return a pod with every kind of rule."""
    notes = {
        TYPES: "pod-bound-preferred",
        DEDICATED: "preferred",
        ANTI_TYPES: "pod-label-required",
        ANTI_LABELS: "app=a1,app=a2",
    }
    return DiskPod("web-0", "default", {"app": "web"}, notes, claims=tuple(f"w{v}" for v in range(VOLUMES)))


def hard() -> DiskPod:
    """Return a pod of eight volumes, each of which takes most of a large drive."""
    return DiskPod("web-0", "default", {"app": "web"}, claims=tuple(f"h{v}" for v in range(8)))


def run(scale: float = 1.0) -> list[Figure]:
    """Return the time of one plan over ``1000 * scale`` nodes, and that of laying the cluster out."""
    objects = cluster(max(10, round(NODES * scale)))
    began = time.perf_counter()
    disks = lay_out(objects)
    laid = time.perf_counter() - began
    plain, full = DiskPod("web-0", "default", {"app": "web"}, claims=asking().claims), asking()
    taken = interleaved(
        {
            "plain": lambda: plan(plain, disks),
            "full": lambda: plan(full, disks),
            "filter": _filter(full, disks),
            "hard": lambda: plan(hard(), disks),
            "walk": _walk(disks),
        },
        ROUNDS,
    )
    floor = taken["walk"]
    note = f"{len(objects.capacities)} drives"
    return [
        *(
            Figure(
                f"disk plan, 4 volumes, {name}",
                taken[key].median,
                "s",
                floor.median,
                taken[key].median / floor.median,
                taken[key].spread,
                "<= 0.05 s",
                taken[key].median <= 0.05 if scale >= 1 else None,
                note,
            )
            for key, name in (
                ("plain", "no annotations"),
                ("full", "every kind of rule"),
                ("filter", "every kind of rule, with the scheduler's question and the answer"),
            )
        ),
        Figure(
            "disk plan, 8 volumes, a search on most nodes", taken["hard"].median, "s", note="bounded for all nodes"
        ),
        Figure("laying the drives out", laid, "s", note="once a change, not while a pod waits"),
    ]


def _filter(pod: DiskPod, disks: Disks) -> Callable[[], bytes]:
    """Answer the scheduler as the service does, from the bytes of its question to those of the answer."""
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in pod.claims]
    metadata = {"name": pod.name, "labels": pod.labels, "annotations": pod.annotations}
    question = {"pod": {"kind": "Pod", "metadata": metadata, "spec": {"volumes": volumes}}, "nodenames": known(disks)}
    asked = msgspec.json.encode(question)

    def plans(given: dict[str, Any], nodes: list[str]) -> Plan:
        read = wire.read(given)
        assert isinstance(read, DiskPod)
        return plan(read, disks, nodes)

    return lambda: msgspec.json.encode(filtered(msgspec.json.decode(asked, type=ExtenderArgs), plans))


def _walk(disks: Disks) -> Callable[[], int]:
    def walk() -> int:
        held = disks.objects.capacities
        return sum(capacity.size >= 30 * GIB and capacity.storage_class == "HDDLVG" for capacity in held)

    return walk
