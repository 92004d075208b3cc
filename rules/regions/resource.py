"""A region as a custom resource: read with one line about what is wrong, written with the names of the wire."""

import math
import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from pipeline.errors import BadInput
from rules.regions.region import Region, RegionSpec, RegionStatus, initial

_T = TypeVar("_T")

#: The largest whole number of a resource, so that counts still fit 64 bits when they have grown.
_MOST = 2**53

#: The least of each number of the dynamic part that is not 0.
_LEAST = {"last_completed_drain": -1, "last_completed_reset": -1}

GROUP, VERSION = "streams.ibm.com", "v1"
API_VERSION = f"{GROUP}/{VERSION}"
REGION, REGIONS = "ConsistentRegion", "streamscrs"
OPERATOR, OPERATORS = "ConsistentRegionOperator", "streamscros"
ELEMENT, ELEMENTS = "ProcessingElement", "streamspes"


def spec_of(value: Mapping[str, Any], where: str) -> RegionSpec:
    """Read the static part; raises `BadInput` naming *where* and the field."""
    spec = _converted(value, RegionSpec, where)
    for name, number, least in (
        ("regionIndex", spec.region_index, 0),
        *(("pesInRegion", pe, 0) for pe in spec.pes_in_region),
        ("logicalIndex", spec.logical_index, 0),
        ("numStartOperators", spec.num_start_operators, 0),
        ("maxConsecutiveResetAttempts", spec.max_consecutive_reset_attempts, 1),
    ):
        _bounded(number, least, f"{where}.{name}")
    if not spec.pes_in_region:
        raise BadInput(f"{where}.pesInRegion: empty")
    if spec.periodic and spec.period is None:
        raise BadInput(f"{where}.period: missing; a periodic region needs one")
    for name, seconds in (
        ("period", spec.period),
        ("drainTimeout", spec.drain_timeout),
        ("resetTimeout", spec.reset_timeout),
    ):
        if seconds is not None and not (math.isfinite(seconds) and seconds > 0):
            raise BadInput(f"{where}.{name}: {seconds:g} is no time above 0")
    return msgspec.structs.replace(spec, pes_in_region=tuple(sorted(set(spec.pes_in_region))))


def region_of(resource: Mapping[str, Any], where: str) -> tuple[Region, bool]:
    """Read a resource, and whether it has been run before: without a status it is new.

    Raises `BadInput` naming *where* and the field.
    """
    spec = spec_of(_part(resource, "spec", where), f"{where}: spec")
    if not resource.get("status"):
        return initial(spec), False
    return Region(spec, _status_of(_part(resource, "status", where), f"{where}: status")), True


def _status_of(value: Mapping[str, Any], where: str) -> RegionStatus:
    """Read the dynamic part: with numbers that can grow on, and no checkpoint completed that was not begun."""
    status = _converted(value, RegionStatus, where)
    for field in msgspec.structs.fields(status):
        number = getattr(status, field.name)
        if isinstance(number, int):
            _bounded(number, _LEAST.get(field.name, 0), f"{where}.{field.encode_name}")
    if status.last_completed_seq_id >= status.current_seq_id:
        completed, current = status.last_completed_seq_id, status.current_seq_id
        raise BadInput(f"{where}.lastCompletedSeqID: {completed} is not below currentSeqID, which is {current}")
    return status


def _bounded(number: int, least: int, where: str) -> None:
    if not least <= number <= _MOST:
        raise BadInput(f"{where}: {number} is {f'below {least}' if number < least else f'above {_MOST}'}")


def wire(part: RegionSpec | RegionStatus) -> dict[str, Any]:
    """Write a part as the resource holds it: JSON's own types, keys as text, nothing that is null."""
    written: dict[str, Any] = msgspec.to_builtins(part, str_keys=True)
    return {key: value for key, value in written.items() if value is not None}


def _part(resource: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
    part = resource.get(name)
    if not isinstance(part, Mapping):
        raise BadInput(f"{where}: {name}: missing or not a mapping")
    return part


def _converted(value: Mapping[str, Any], kind: type[_T], where: str) -> _T:
    try:
        return msgspec.convert(value, kind, str_keys=True)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at ")
        of_key = path.startswith("`key`")  # ``key` in `$.field`: the key itself, not what it holds
        field = path.removeprefix("`key` in ").strip("`").removeprefix("$") + (": a key" if of_key else "")
        missing = re.search(r"missing required field `(\w+)`", message)
        field = f"{field}.{missing[1]}" if missing else field
        raise BadInput(f"{where}{field}: {message[0].lower()}{message[1:]}") from None
