"""Whether a region is well: every PE fully connected, every pod of its current launch running."""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple


class Connectivity(Enum):
    FULL = "Full"
    PARTIAL = "Partial"
    NONE = "None"


class Element(NamedTuple):
    """One processing element: *regions* are the indices of those that it belongs to."""

    pe: int
    uid: str
    launch: int
    connectivity: Connectivity
    regions: tuple[int, ...]


class Runner(NamedTuple):
    """One pod of a processing element; *owner* is the uid of the element that it was made for."""

    pe: int
    owner: str
    launch: int
    phase: str


class Health(NamedTuple):
    """*clean*: no PE was ever launched again."""

    healthy: bool
    clean: bool


def health(
    pes: Iterable[int], elements: Mapping[int, Element], runners: Mapping[int, Iterable[Runner]]
) -> Health | None:
    """Return the health of the region of *pes*; None where a PE or the pod of its launch is not there.

    A pod that is missing says nothing: it may be about to be replaced, and what replaces it will tell.
    """
    healthy = clean = True
    for pe in pes:
        element = elements.get(pe)
        if element is None:
            return None
        runner = next((each for each in runners.get(pe, ()) if _belongs(each, element)), None)
        if runner is None:
            return None
        healthy = healthy and element.connectivity is Connectivity.FULL and runner.phase == "Running"
        clean = clean and element.launch <= 1
    return Health(healthy, clean)


def _belongs(runner: Runner, element: Element) -> bool:
    return runner.launch == element.launch and runner.owner == element.uid
