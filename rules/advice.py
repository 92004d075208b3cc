"""What one rule says: a set of nodes, scores, terms for the pod, and reasons with their evidence."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from rules.candidates import Candidates, Mask, Scores, Sparse

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]


@dataclass(frozen=True, slots=True)
class Expression:
    """One requirement on labels, of nodes or of pods; with *field* on a node's ``metadata.name``, its only field."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()
    field: bool = False

    @property
    def json(self) -> "Json":
        """The requirement as Kubernetes reads it."""
        rendered: Json = {"key": self.key, "operator": self.operator}
        if self.values:
            rendered["values"] = list(self.values)
        return rendered


Json = dict[str, Any]


def node_term(expressions: "Iterable[Expression]") -> "Json":
    """Return the node term, as Kubernetes reads it, that asks for all of *expressions*."""
    parts: Json = {}
    for each in expressions:
        parts.setdefault("matchFields" if each.field else "matchExpressions", []).append(each.json)
    return parts


@dataclass(frozen=True, slots=True)
class NodeNeed:
    """A required property of the node: one of *alternatives* has to hold, all expressions of it."""

    alternatives: tuple[tuple[Expression, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class BestOf:
    """A required property of more *nodes* (one bool each) than one pod names, which nothing but names tells.

    One of *alternatives* has to hold, or the node is one of the best of *nodes*, which the whole answer chooses.
    """

    nodes: Mask
    alternatives: tuple[tuple[Expression, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class NodeWish:
    """A preferred property of the node; *weight* 1..100."""

    weight: int
    expressions: tuple[Expression, ...]

    @property
    def rendered(self) -> "Rendered":
        """The term as Kubernetes reads it."""
        return Rendered.of("node_preferred", {"weight": self.weight, "preference": node_term(self.expressions)})


@dataclass(frozen=True, slots=True)
class PodTerm:
    """Affinity, or with *apart* anti-affinity, to pods with these labels; *weight* None where it is required.

    They are pods of the pod's own namespace, with *across* of all, with *namespace* of that one.
    """

    apart: bool
    expressions: tuple[Expression, ...]
    topology_key: str
    weight: int | None
    across: bool = False
    namespace: str = ""

    @property
    def rendered(self) -> "Rendered":
        """The term as Kubernetes reads it."""
        place = ("anti" if self.apart else "pod") + ("_required" if self.weight is None else "_preferred")
        term: Json = {"labelSelector": {"matchExpressions": [each.json for each in self.expressions]}}
        if self.namespace:
            term["namespaces"] = [self.namespace]
        elif self.across:
            term["namespaceSelector"] = {}
        term["topologyKey"] = self.topology_key
        return Rendered.of(place, term if self.weight is None else {"weight": self.weight, "podAffinityTerm": term})


@dataclass(frozen=True, slots=True)
class PodFields:
    """What a pod gets beside its affinity: *labels*, *tolerations* as Kubernetes reads them, and its *node*."""

    labels: Mapping[str, str]
    tolerations: tuple[Json, ...] = ()
    node: str = ""


class Rendered(msgspec.Struct, frozen=True, gc=False):
    """A term in JSON, its `fingerprint`, and the list of `emission.Additions` that it belongs to.

    Terms of learned pairs are kept in this form: bytes, which no garbage collection has to walk over.
    """

    place: str
    raw: msgspec.Raw
    fingerprint: str

    @classmethod
    def of(cls, place: str, json: Json) -> "Rendered":
        """Render *json*."""
        encoded = _canonical(json)
        return cls(place, msgspec.Raw(encoded), _print(encoded))

    @property
    def json(self) -> "Json":
        """The term in plain JSON values."""
        found: Json = msgspec.json.decode(self.raw)
        return found

    @property
    def required(self) -> bool:
        """Whether the scheduler has to follow it."""
        return self.place.endswith("_required")


def fingerprint(term: Json) -> str:
    """Return eight hex digits that stay the same for equal terms, whatever the order of their fields."""
    return _print(_canonical(term))


def _canonical(term: Json) -> bytes:
    return msgspec.json.encode(term, order="deterministic")


def _print(encoded: bytes) -> str:
    return hashlib.sha256(encoded).hexdigest()[:8]


#: What is written into a pod, and what a rule may say: the answer settles the rest.
Settled = NodeNeed | NodeWish | PodTerm | PodFields | Rendered
Term = Settled | BestOf


class Evidence(msgspec.Struct, frozen=True, gc=False):
    """What is known of one ordered pair; slowdown .25 = 25 % longer, *node_type* "" = all types together."""

    victim: str
    aggressor: str
    status: str
    slowdown: float
    low: float
    high: float
    probability: float
    effective_overlaps: float
    node_type: str
    window_start: datetime | None
    window_end: datetime | None


class Reason(msgspec.Struct, frozen=True, gc=False):
    """One sentence for a person, by the rule that says it; *evidence* where it rests on a learned pair."""

    rule: str
    sentence: str
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Measure:
    """A number (NaN: none) for each of the nodes asked about, the sentence that shows it, and where there are *notes*
    what is added to it, one a node."""

    sentence: Callable[[float], str]
    values: npt.NDArray[np.float64]
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Advice:
    """One rule's answer to one request.

    *candidates* None allows every node. A set that is not *firm* gives way where too few nodes would remain; then
    *otherwise* replaces *terms*. What is only shown, *reasons*, *measures* of nodes by number, and *shown* (a part
    of the recommendation that is the rule's own), is worked out when it is asked for: a pod does not wait for it.
    """

    rule: str
    candidates: Candidates | None = None
    scores: Scores | Sparse | None = None
    terms: tuple[Term, ...] = ()
    reasons: Callable[[], Iterable[Reason]] = tuple
    measures: Callable[[npt.NDArray[np.intp]], Iterable[Measure]] = lambda nodes: ()
    firm: bool = True
    otherwise: tuple[Term, ...] = ()
    shown: Callable[[], Mapping[str, Any] | None] = lambda: None


@lru_cache(maxsize=64)
def silent(rule: str) -> Advice:
    """Return the advice of a *rule* that has nothing to say, always the same object."""
    return Advice(rule)
