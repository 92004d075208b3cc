"""The parts of the wire objects that are read, as msgspec structs, and how they are decoded."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from pipeline import quantity
from pipeline.errors import NOT_JSON, BadInput

Amount = str | int | float | None
Amounts = dict[str, Amount] | None


class _Wire(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Fields are camelCase on the wire; every one may be missing or null."""


class Owner(_Wire, frozen=True):
    kind: str | None = None
    name: str | None = None
    controller: bool | None = None


class Meta(_Wire, frozen=True):
    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: datetime | None = None
    owner_references: list[Owner] | None = None


class Resources(_Wire, frozen=True):
    requests: Amounts = None
    limits: Amounts = None


class Container(_Wire, frozen=True):
    name: str | None = None
    resources: Resources | None = None
    restart_policy: str | None = None


class LabelRequirement(_Wire, frozen=True):
    key: str
    operator: str
    values: list[str] | None = None


class Selector(_Wire, frozen=True):
    match_labels: dict[str, str] | None = None
    match_expressions: list[LabelRequirement] | None = None


class PodTerm(_Wire, frozen=True):
    label_selector: Selector | None = None
    namespaces: list[str] | None = None
    namespace_selector: Selector | None = None
    topology_key: str | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class PodTerms(_Wire, frozen=True):
    required_during_scheduling_ignored_during_execution: list[PodTerm] | None = None


class Affinity(_Wire, frozen=True):
    pod_affinity: PodTerms | None = None
    pod_anti_affinity: PodTerms | None = None


class SpreadConstraint(_Wire, frozen=True):
    label_selector: Selector | None = None
    topology_key: str | None = None
    max_skew: int | None = None
    min_domains: int | None = None
    when_unsatisfiable: str | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class PodSpec(_Wire, frozen=True):
    node_name: str | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: Amounts = None
    resources: Resources | None = None
    tolerations: list[dict[str, Any]] | None = None
    priority: int | None = None
    affinity: Affinity | None = None
    topology_spread_constraints: list[SpreadConstraint] | None = None


class Condition(_Wire, frozen=True):
    type: str | None = None
    status: str | None = None
    last_transition_time: datetime | None = None


class Terminated(_Wire, frozen=True):
    finished_at: datetime | None = None


class ContainerState(_Wire, frozen=True):
    terminated: Terminated | None = None


class ContainerStatus(_Wire, frozen=True):
    state: ContainerState | None = None


class PodStatus(_Wire, frozen=True):
    phase: str | None = None
    start_time: datetime | None = None
    container_statuses: list[ContainerStatus] | None = None
    conditions: list[Condition] | None = None


class WirePod(_Wire, frozen=True):
    metadata: Meta | None = None
    spec: PodSpec | None = None
    status: PodStatus | None = None


class WireTaint(_Wire, frozen=True):
    key: str
    effect: str
    value: str | None = None


class NodeSpec(_Wire, frozen=True):
    unschedulable: bool | None = None
    taints: list[WireTaint] | None = None


class Address(_Wire, frozen=True):
    type: str | None = None
    address: str | None = None


class NodeInfo(_Wire, frozen=True):
    architecture: str | None = None
    kernel: str | None = msgspec.field(default=None, name="kernelVersion")


class NodeStatus(_Wire, frozen=True):
    capacity: Amounts = None
    allocatable: Amounts = None
    addresses: list[Address] | None = None
    conditions: list[Condition] | None = None
    node_info: NodeInfo | None = None


class WireNode(_Wire, frozen=True):
    metadata: Meta | None = None
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class _Named(_Wire, frozen=True):
    metadata: msgspec.Raw = msgspec.Raw(b"null")


class _Name(_Wire, frozen=True):
    name: str | None = None
    namespace: str | None = None


T = TypeVar("T")


def decode(decoder: msgspec.json.Decoder[T], kind: str, raw: bytes | msgspec.Raw) -> T:
    """Decode one object; `BadInput` names the object and the field that is not what the API says."""
    try:
        return decoder.decode(raw)
    except NOT_JSON as error:
        raise BadInput(f"{kind} {name_of(raw)}: {reason(error)}") from None


def convert(wanted: type[T], kind: str, mapping: Mapping[str, Any]) -> T:
    """The same for an object that is decoded already, as from YAML."""
    try:
        return msgspec.convert(mapping, wanted)
    except (msgspec.MsgspecError, RecursionError) as error:
        meta = mapping.get("metadata") if isinstance(mapping, Mapping) else None
        name = meta.get("name") if isinstance(meta, Mapping) else None
        raise BadInput(f"{kind} {name or 'without a name'}: {reason(error)}") from None


def name_of(raw: bytes | msgspec.Raw) -> str:
    """Best effort at ``namespace/name`` of an object that could not be read."""
    try:
        meta = msgspec.json.decode(msgspec.json.decode(raw, type=_Named).metadata, type=_Name)
    except NOT_JSON:
        return "without a name"
    return "/".join(part for part in (meta.namespace, meta.name) if part) or "without a name"


def reason(error: Exception) -> str:
    """The decoder's message in one line, with a field path as people write it."""
    return str(error).split("\n")[0].replace("`$.", "`")


def utc(moment: datetime | None) -> datetime | None:
    """The moment in UTC; YAML readers drop the zone of ``Z`` times, the API has no others.

    At the ends of the calendar, where there may be no such moment, the zone is not counted.
    """
    if moment is None:
        return None
    try:
        return moment.astimezone(UTC) if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    except OverflowError:
        return moment.replace(tzinfo=UTC)


def amounts(field: str, given: Amounts) -> dict[str, float]:
    """Quantities by resource in base units; a null amount is an absent one."""
    if not given:
        return {}
    return {name: quantity.parse(f"{field}.{name}", amount) for name, amount in given.items() if amount is not None}
