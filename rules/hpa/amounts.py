"""Amounts of allocatable resources, exact: whole millicores, whole bytes, whole items.

The grammar of a quantity is that of `pipeline.quantity`; binary floats have no part in it, so that .1 + .2 is .3.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from pipeline.errors import BadInput
from rules.hpa.errors import Undecodable

Given = int | float | str

_QUANTITY: Final = re.compile(r"\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3}|[KMGTPE]i|[numkMGTPE])?")
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_SCALES: Final = {suffix: Decimal(10) ** power for suffix, power in _DECIMAL.items()} | {
    suffix: Decimal(2) ** power for suffix, power in _BINARY.items()
}
#: What ``units`` may say, by resource; the first is what an amount without units is in.
_CPU_UNITS: Final[Mapping[str, Decimal]] = {
    "cores": Decimal(1), "core": Decimal(1), "m": Decimal("0.001")
}  # fmt: skip
_MEMORY_UNITS: Final[Mapping[str, Decimal]] = {
    spelled: _SCALES[suffix]
    for suffix in ("M", "k", "G", "T", "Mi", "Ki", "Gi", "Ti")
    for spelled in (f"{suffix}B", suffix)
}
UNITS: Final[Mapping[str, Mapping[str, Decimal]]] = {"cpu": _CPU_UNITS, "memory": _MEMORY_UNITS}
#: Beyond what any node has; whole numbers up to here are exact in every JSON reader.
_MOST: Final = 2**53


def extended(resource: str) -> bool:
    """Whether *resource* comes from a device plugin: such are whole, and requests and limits have to be equal."""
    return "/" in resource


def huge_page(resource: str) -> int:
    """Return the bytes of one page where *resource* is of huge pages, else 0; raises `BadInput` for a bad size."""
    if not resource.startswith("hugepages-"):
        return 0
    size = resource.removeprefix("hugepages-")
    found = _QUANTITY.fullmatch(size)
    if found is None or not (page := int(Decimal(found[1]) * _scale(found[2] or ""))):
        raise BadInput(f"spec.name: {resource}: {size!r} is no size of a page")
    return page


def mirrored(resource: str) -> bool:
    """Whether Kubernetes demands that requests and limits of *resource* are equal."""
    return extended(resource) or resource.startswith("hugepages-")


def amount(resource: str, given: Given, units: str | None, field: str) -> int:
    """Return *given* in whole millicores for ``cpu``, else in whole bytes or items.

    A number, or text without a suffix, is in *units* (default: cores, MB of memory). Raises `Undecodable` for what is
    no quantity, `BadInput` for one that is too small, too large or not whole; both name *field*.
    """
    text = repr(given) if isinstance(given, float) else str(given)
    found = _QUANTITY.fullmatch(text.removeprefix("-") if not isinstance(given, str) else text)
    if found is None:
        raise Undecodable(f"{field}: {_short(given)} is no quantity such as 4, 0.5, 500m or 2Gi")
    suffix = found[2] or ""
    if isinstance(given, float):  # 1e-05 and 1e+16 are how Python writes them
        value, suffix = Decimal(text), ""
    else:
        value = Decimal(found[1]) * _scale(suffix)
        value = -value if text.startswith("-") else value
    scale = unit(resource, units)
    if suffix and units:
        raise BadInput(f"spec.units: {units} beside {field} {given}, which has its own suffix")
    if not suffix:
        value *= scale
    counted = value * 1000 if resource == "cpu" else value
    least = "1 millicore" if resource == "cpu" else "1"
    if counted < 1:
        raise BadInput(f"{field}: {_short(given)} is less than {least}")
    if counted > _MOST:
        raise BadInput(f"{field}: {_short(given)} is more than any node has")
    if counted != int(counted):
        whole = "millicores" if resource == "cpu" else "units"
        raise BadInput(f"{field}: {_short(given)} is no whole number of {whole}")
    return int(counted)


def unit(resource: str, units: str | None) -> Decimal:
    """Return what one of *units* is of *resource*; raises `BadInput` where it has none of that name."""
    known = UNITS.get(resource)
    if known is None:
        if units:
            raise BadInput(f"spec.units: {units}: only cpu and memory have units, {resource} has none")
        return Decimal(1)
    if not units:
        return next(iter(known.values()))
    if units not in known:
        raise BadInput(f"spec.units: {units}: none of {', '.join(known)}")
    return known[units]


def text(resource: str, counted: int) -> str:
    """Return the shortest Kubernetes quantity for *counted* millicores, bytes or items."""
    if resource == "cpu":
        return f"{counted // 1000}" if counted % 1000 == 0 else f"{counted}m"
    if extended(resource):
        return str(counted)
    ways = [str(counted)]
    for suffix in ("k", "M", "G", "T", "P", "Ki", "Mi", "Gi", "Ti", "Pi"):
        scale = int(_SCALES[suffix])
        if counted % scale == 0:
            ways.append(f"{counted // scale}{suffix}")
    return min(ways, key=len)


def stated(resource: str, given: object, field: str) -> int:
    """Return a quantity of a manifest in the same measure, rounded up as the scheduler does.

    Raises `BadInput` naming *field*.
    """
    found = _QUANTITY.fullmatch(str(given)) if isinstance(given, (int, float, str)) else None
    if found is None or isinstance(given, bool):
        raise BadInput(f"{field}: {_short(given)} is no quantity such as 500m, 2 or 1.5Gi")
    value = Decimal(found[1]) * _scale(found[2] or "")
    counted = value * 1000 if resource == "cpu" else value
    return int(counted.to_integral_value(rounding="ROUND_CEILING"))


def _scale(suffix: str) -> Decimal:
    return _SCALES[suffix] if suffix in _SCALES else Decimal(10) ** int(suffix[1:])


def _short(given: object) -> str:
    shown = repr(given) if isinstance(given, str) else str(given)
    return shown if len(shown) <= 60 else shown[:57] + "..."
