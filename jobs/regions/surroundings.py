"""The processing elements and pods of a job, as the watches see them, and which regions each change concerns."""

import threading
from collections.abc import Callable, Iterable, Sequence

import msgspec
import structlog

from jobs.regions import paths
from pipeline.errors import NOT_JSON
from rules.regions.health import Connectivity, Element, Health, Runner, health
from rules.regions.resource import ELEMENT

_log = structlog.get_logger(__name__)


class _Owner(msgspec.Struct):
    uid: str | None = None
    kind: str = ""


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    uid: str = ""
    labels: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None


class _ElementSpec(msgspec.Struct, rename="camel"):
    pe_id: int
    consistent_region_indices: tuple[int, ...] = ()
    launch_count: int = 0


class _ElementStatus(msgspec.Struct):
    connectivity: str | None = None


class _Element(msgspec.Struct):
    metadata: _Meta
    spec: _ElementSpec
    status: _ElementStatus | None = None


class _PodStatus(msgspec.Struct):
    phase: str | None = None


class _Pod(msgspec.Struct):
    metadata: _Meta
    status: _PodStatus | None = None


_ELEMENTS, _PODS = msgspec.json.Decoder(_Element), msgspec.json.Decoder(_Pod)
_UNREADABLE: tuple[type[Exception], ...] = (*NOT_JSON, ValueError)
_CONNECTIVITIES = {each.value: each for each in Connectivity}


class Surroundings:
    """Both kinds by PE; *changed* gets the index of each region whose health may have changed."""

    def __init__(self, job: str, changed: Callable[[int], None]) -> None:
        self._job, self._changed = job, changed
        self._elements: dict[int, Element] = {}
        self._names: dict[str, int] = {}
        self._runners: dict[int, dict[str, Runner]] = {}
        self._lock = threading.Lock()

    def health(self, pes: Iterable[int]) -> Health | None:
        """The health of the region of *pes*; None where something of it is not there."""
        with self._lock:
            return health(pes, self._elements, {pe: self._runners.get(pe, {}).values() for pe in pes})

    def replace_elements(self, raws: Sequence[msgspec.Raw]) -> None:
        """Take over a whole list."""
        found = [element for raw in raws if (element := _element(raw)) is not None]
        with self._lock:
            before = self._elements
            self._elements = {element.pe: element for _, element in found}
            self._names = {name: element.pe for name, element in found}
            both = {pe: (before.get(pe), self._elements.get(pe)) for pe in before.keys() | self._elements.keys()}
        self._tell(each for pair in both.values() if pair[0] != pair[1] for each in pair)

    def element(self, kind: str, raw: msgspec.Raw) -> None:
        """Take over an event."""
        found = _element(raw)
        if found is None:
            return
        name, element = found
        with self._lock:
            before = self._elements.get(self._names.get(name, element.pe))
            if kind == "DELETED":
                self._elements.pop(element.pe, None)
                self._names.pop(name, None)
            else:
                self._elements[element.pe] = element
                self._names[name] = element.pe
        if kind == "DELETED" or before != element:
            self._tell((before, element))

    def replace_pods(self, raws: Sequence[msgspec.Raw]) -> None:
        """Take over a whole list."""
        found: dict[int, dict[str, Runner]] = {}
        for raw in raws:
            if (pod := _runner(raw, self._job)) is not None:
                found.setdefault(pod[1].pe, {})[pod[0]] = pod[1]
        with self._lock:
            before, self._runners = self._runners, found
            pes = [pe for pe in before.keys() | found.keys() if before.get(pe) != found.get(pe)]
            elements = [self._elements.get(pe) for pe in pes]
        self._tell(elements)

    def pod(self, kind: str, raw: msgspec.Raw) -> None:
        """Take over an event; a change of a pod of another launch than its element's concerns nobody."""
        found = _runner(raw, self._job)
        if found is None:
            return
        name, runner = found
        with self._lock:
            of_pe = self._runners.setdefault(runner.pe, {})
            before = of_pe.get(name)
            if kind == "DELETED":
                of_pe.pop(name, None)
                if not of_pe:
                    del self._runners[runner.pe]
            else:
                of_pe[name] = runner
            element = self._elements.get(runner.pe)
        same = kind != "DELETED" and before == runner
        if element is not None and not same and runner.launch == element.launch:
            self._tell((element,))

    def _tell(self, elements: Iterable[Element | None]) -> None:
        for index in sorted({index for each in elements if each is not None for index in each.regions}):
            self._changed(index)


def _element(raw: msgspec.Raw) -> tuple[str, Element] | None:
    try:
        found = _ELEMENTS.decode(raw)
    except NOT_JSON as error:
        _log.warning("a ProcessingElement cannot be read", error=str(error))
        return None
    spec = found.spec
    connectivity = _CONNECTIVITIES.get((found.status and found.status.connectivity) or "", Connectivity.NONE)
    meta = found.metadata
    return meta.name, Element(spec.pe_id, meta.uid, spec.launch_count, connectivity, spec.consistent_region_indices)


def _runner(raw: msgspec.Raw, job: str) -> tuple[str, Runner] | None:
    """The pod's name and what it runs; None for a pod whose labels do not say."""
    try:
        found = _PODS.decode(raw)
        labels = found.metadata.labels or {}
        prefix, _, pe = labels.get(paths.ELEMENT, "").rpartition("-")
        if prefix != job or labels.get(paths.JOB) != job:
            return None
        number, launch = int(pe), int(labels.get(paths.LAUNCH, ""))
    except _UNREADABLE as error:
        _log.warning("a pod of a processing element cannot be read", error=str(error))
        return None
    by_kind = {each.kind: each.uid for each in reversed(found.metadata.owner_references or ()) if each.uid}
    owner = by_kind.get(ELEMENT) or next(reversed(by_kind.values()), "")  # others may own the pod as well
    phase = (found.status and found.status.phase) or ""
    return found.metadata.name, Runner(number, owner, launch, phase)
