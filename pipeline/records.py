"""The records that leave the pipeline: plain frozen values, times in UTC, quantities in base units.

Few-per-cluster things (nodes, pods, workflows) are structs; what comes in millions (usage, activations) travels as
columns, a `Batch`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.errors import SourceError

Labels = Mapping[str, str]


class Taint(msgspec.Struct, frozen=True, gc=False):
    """A node taint; *effect* is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    effect: str
    value: str = ""


class Node(msgspec.Struct, frozen=True):
    """One node's specification and condition at one time.

    Amounts are base units (cores, bytes, bytes/s). *allocatable* and *capacity* hold every resource by its
    Kubernetes name, extended ones too. *node_type* is a stable hash of the hardware-describing facts. *kernel* is the
    release of the operating system's kernel, None where the node does not say.
    """

    name: str
    uid: str
    node_type: str
    labels: Labels
    taints: tuple[Taint, ...]
    addresses: Mapping[str, str]
    conditions: Mapping[str, str]
    capacity: Mapping[str, float]
    allocatable: Mapping[str, float]
    schedulable: bool
    ready: bool
    gpu_count: int = 0
    gpu_model: str = ""
    disk_type: str = ""
    network_bytes_per_s: float | None = None
    kernel: str | None = None


class Requirement(msgspec.Struct, frozen=True, gc=False):
    """One requirement of a label selector; *operator* is In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class PodSelection(msgspec.Struct, frozen=True, gc=False):
    """The pods that one required (anti-)affinity term speaks of, and the domains in which they are looked for.

    *requirements* None select no pod, none at all select every one. The pods are those of *namespaces*, and of the
    namespaces whose labels meet *namespace_requirements* (None: of no others).
    """

    requirements: tuple[Requirement, ...] | None
    topology_key: str
    namespaces: tuple[str, ...]
    namespace_requirements: tuple[Requirement, ...] | None = None


class Spread(msgspec.Struct, frozen=True, gc=False):
    """A topology spread constraint that the scheduler has to keep; the pods are those of the pod's own namespace.

    Domains are those of nodes that the pod's node rules admit (*honors_affinity*) and whose taints it tolerates
    (*honors_taints*).
    """

    requirements: tuple[Requirement, ...] | None
    topology_key: str
    max_skew: int
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False


class Pod(msgspec.Struct, frozen=True):
    """One pod as the placement history, the live view and a request need it.

    *requests* is what the scheduler counts: the sum over containers or an init container's larger need, plus
    overhead. *node* is "" while unbound. *started* is the kubelet's start time, else None; *ended* is when a
    terminal pod's last container finished, else None. *beside* and *apart* are its required affinity and
    anti-affinity to other pods.
    """

    namespace: str
    name: str
    uid: str
    node: str
    phase: str
    labels: Labels
    annotations: Labels
    requests: Mapping[str, float]
    limits: Mapping[str, float]
    created: datetime
    started: datetime | None = None
    ended: datetime | None = None
    owner_kind: str = ""
    owner_name: str = ""
    tolerations: tuple[Mapping[str, object], ...] = ()
    priority: int = 0
    beside: tuple[PodSelection, ...] = ()
    apart: tuple[PodSelection, ...] = ()
    spread: tuple[Spread, ...] = ()

    @property
    def terminal(self) -> bool:
        """Whether the pod has finished and holds no capacity any more."""
        return self.phase in ("Succeeded", "Failed")


class Action(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One function of a workflow as its designer described it.

    Amounts are base units (cores, bytes). *optimization_goal*, *importance* and the levels of *performance_profile*
    (``low``, ``medium``, ``high``) are lower case. *extra_resources* are needed, *preferred_resources* wished for;
    both by node label name or short name (``gpu``, ``diskType``). *annotations* are kept as they came.
    """

    name: str
    id: str = ""
    version: str = ""
    runtime: str = ""
    optimization_goal: str = ""
    importance: str = ""
    cpu_request: float | None = None
    cpu_limit: float | None = None
    memory_request: float | None = None
    memory_limit: float | None = None
    extra_resources: dict[str, bool | int | float | str] = {}
    preferred_resources: dict[str, bool | int | float | str] = {}
    performance_profile: dict[str, str] = {}
    uses_service: tuple[str, ...] = ()
    annotations: dict[str, object] = {}


class Workflow(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A workflow object: its actions, and *order*, the action ids in the order of execution.

    *cluster* is "" where the workflow does not say. *annotations* are the object's own, kept as they came.
    """

    namespace: str
    name: str
    id: str = ""
    cluster: str = ""
    execution: str = ""
    native: bool = False
    platform: str = ""
    order: tuple[str, ...] = ()
    actions: tuple[Action, ...] = ()
    annotations: dict[str, object] = {}


@dataclass(frozen=True, slots=True)
class Series:
    """One Prometheus series: float64 arrays of equal length, times in epoch seconds ascending; NaN kept."""

    labels: Labels
    times: npt.NDArray[np.float64]
    values: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Listing:
    """A whole Kubernetes list: its items as raw JSON, the version to watch from."""

    items: tuple[msgspec.Raw, ...]
    resource_version: str


@dataclass(frozen=True, slots=True)
class Window:
    """The half-open time [since, until) that a collection covers, both aware UTC."""

    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Refusal:
    """One object, series or record that could not be used; the others of its answer were."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Batch:
    """What one collection brought for one table: columns in Arrow, or files of JSON records for DuckDB to read.

    *watermark* is the time up to which the source is now known, if the collection moved it. *whole* says that rows of
    ``nodes``, ``placements`` or ``workflows`` are the whole list, so that what it lacks is gone; watches bring
    batches that are not. *failures* is what the source failed to give although the rest of this batch came: the run
    is partial.
    """

    table: str
    rows: pa.Table | None = None
    files: tuple[Path, ...] = ()
    refused: tuple[Refusal, ...] = ()
    watermark: datetime | None = None
    scope: str = ""
    failures: tuple[SourceError, ...] = ()
    whole: bool = True
