"""The file of a stream job: its regions as they are asked for, and what becomes of them when they are merged."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from jobs import documents
from pipeline.errors import BadInput
from rules.regions.region import RegionSpec
from rules.regions.resource import spec_of

#: Words for the trigger that files use, and that of the resource.
_TRIGGERS = {"operatorDriven": "operator driven"}


@dataclass(frozen=True, slots=True)
class Job:
    """One job: *document* is the file's own, for the cluster; *regions* by index."""

    name: str
    namespace: str | None
    document: Mapping[str, Any]
    regions: Mapping[int, RegionSpec]


def read(file: Path) -> Job:
    """Read the one Job of *file*; raises `BadInput` naming the file and the field."""
    found = [each for each in documents.read(file) if isinstance(each, Mapping) and each.get("kind") == "Job"]
    if len(found) != 1:
        raise BadInput(f"{file}: {len(found)} documents of kind Job; one is needed")
    [document] = found
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not isinstance(name, str) or not name:
        raise BadInput(f"{file}: metadata.name: missing")
    assert isinstance(metadata, Mapping)
    namespace = metadata.get("namespace")
    spec = document.get("spec")
    listed = spec.get("consistentRegions") if isinstance(spec, Mapping) else None
    if not isinstance(listed, list) or not listed:
        raise BadInput(f"{file}: spec.consistentRegions: missing or empty")
    regions: dict[int, RegionSpec] = {}
    for number, each in enumerate(listed):
        where = f"{file}: spec.consistentRegions[{number}]"
        if not isinstance(each, Mapping):
            raise BadInput(f"{where}: not a mapping")
        one = _region(each, where)
        index = one.region_index
        regions[index] = _merged(regions[index], one, where) if index in regions else one
    return Job(name, namespace if isinstance(namespace, str) else None, document, regions)


def _region(given: Mapping[str, Any], where: str) -> RegionSpec:
    """Read one region, with what the compiler assumes where nothing is said."""
    trigger = given.get("trigger")
    starts = given.get("operatorsToStartRegionMap")
    known = {
        "logicalIndex": given.get("regionIndex"),
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
