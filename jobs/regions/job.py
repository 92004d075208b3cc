"""The file of a stream job: its regions as they are asked for, and what becomes of them when they are merged."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from jobs import documents
from jobs.regions import names
from pipeline.errors import BadInput
from rules.regions.region import RegionSpec
from rules.regions.resource import API_VERSION, spec_of

#: Words for the trigger that files use, and that of the resource.
_TRIGGERS = {"operatorDriven": "operator driven"}

#: What a job may say of its operator: the first value where it says nothing, and all values; none: any text.
_OPERATOR: Mapping[str, tuple[str, ...]] = {
    "imagePullPolicy": ("Always", "IfNotPresent", "Never"),
    "logLevel": ("info", "debug", "warn", "error"),
    "imagePullSecret": (),
}


@dataclass(frozen=True, slots=True)
class Job:
    """One job: *document* is the file's own, for the cluster; *regions* by index; *operator* for its resource."""

    name: str
    namespace: str | None
    document: Mapping[str, Any]
    regions: Mapping[int, RegionSpec]
    operator: Mapping[str, str]


def read(file: Path) -> Job:
    """Read the one Job of *file*; raises `BadInput` naming the file and the field."""
    found = [each for each in documents.read(file) if isinstance(each, Mapping) and each.get("kind") == "Job"]
    if len(found) != 1:
        raise BadInput(f"{file}: {len(found)} documents of kind Job; one is needed")
    [document] = found
    if document.get("apiVersion") != API_VERSION:
        raise BadInput(f"{file}: apiVersion: {document.get('apiVersion')!r}; {API_VERSION} is needed")
    metadata = document.get("metadata")
    if not isinstance(metadata, Mapping) or metadata.get("name") is None:
        raise BadInput(f"{file}: metadata.name: missing")
    name = names.job(metadata["name"], f"{file}: metadata.name")
    namespace = metadata.get("namespace")
    if namespace is not None:
        namespace = names.namespace(namespace, f"{file}: metadata.namespace")
    spec = document.get("spec")
    listed = spec.get("consistentRegions") if isinstance(spec, Mapping) else None
    if not isinstance(spec, Mapping) or not isinstance(listed, list) or not listed:
        raise BadInput(f"{file}: spec.consistentRegions: missing or empty")
    regions: dict[int, RegionSpec] = {}
    for number, each in enumerate(listed):
        where = f"{file}: spec.consistentRegions[{number}]"
        if not isinstance(each, Mapping):
            raise BadInput(f"{where}: not a mapping")
        one = _region(each, where)
        index = one.region_index
        regions[index] = _merged(regions[index], one, where) if index in regions else one
    operator = _operator(spec.get("consistentRegionOperator"), f"{file}: spec.consistentRegionOperator")
    return Job(name, namespace, document, regions, operator)


def _operator(given: object, where: str) -> Mapping[str, str]:
    """Read what the job says of its operator, with what holds where it says nothing."""
    found = {key: values[0] for key, values in _OPERATOR.items() if values}
    if given is None:
        return found
    if not isinstance(given, Mapping):
        raise BadInput(f"{where}: not a mapping")
    for key, value in given.items():
        if key not in _OPERATOR:
            raise BadInput(f"{where}.{key}: unknown; there are {', '.join(_OPERATOR)}")
        if not isinstance(value, str) or (_OPERATOR[key] and value not in _OPERATOR[key]):
            raise BadInput(f"{where}.{key}: {value!r}; {' or '.join(_OPERATOR[key]) or 'text'} is needed")
        found[key] = value
    return found


def _region(given: Mapping[str, Any], where: str) -> RegionSpec:
    """Read one region, with what the compiler assumes where nothing is said."""
    trigger = given.get("trigger")
    starts = given.get("operatorsToStartRegionMap")
    for key in given:
        if key not in RegionSpec.__struct_encode_fields__:
            raise BadInput(f"{where}.{key}: unknown; there are {', '.join(RegionSpec.__struct_encode_fields__)}")
    index = given.get("regionIndex")
    known = {
        **({"logicalIndex": index} if type(index) is int else {}),
        "numStartOperators": len(starts) if isinstance(starts, Mapping) and starts else 1,
        **given,
    }
    if isinstance(trigger, str):
        known["trigger"] = _TRIGGERS.get(trigger, trigger)
    spec = spec_of(known, where)
    if not spec.periodic and spec.num_start_operators != 1:
        raise BadInput(f"{where}.numStartOperators: {spec.num_start_operators}; an operator-driven region has one")
    if not spec.periodic and not any(spec.operators_to_trigger_map.values()):
        raise BadInput(f"{where}.operatorsToTriggerMap: no operator that triggers an operator-driven region")
    return spec


def _merged(one: RegionSpec, other: RegionSpec, where: str) -> RegionSpec:
    """Two regions with one index are one: the larger of each number, the PEs and operators of both."""
    if not (one.periodic and other.periodic):
        raise BadInput(f"{where}.regionIndex: {one.region_index} twice; operator-driven regions cannot be merged")
    starts = {**one.operators_to_start_region_map, **other.operators_to_start_region_map}
    return replace(
        one,
        period=max(one.period or 0.0, other.period or 0.0),
        drain_timeout=max(one.drain_timeout, other.drain_timeout),
        reset_timeout=max(one.reset_timeout, other.reset_timeout),
        max_consecutive_reset_attempts=max(one.max_consecutive_reset_attempts, other.max_consecutive_reset_attempts),
        pes_in_region=tuple(sorted({*one.pes_in_region, *other.pes_in_region})),
        num_start_operators=max(len(starts), one.num_start_operators, other.num_start_operators),
        operators_to_start_region_map=starts,
        operators_to_trigger_map={**one.operators_to_trigger_map, **other.operators_to_trigger_map},
    )
