"""A stream job as it is placed: operators with their constraints, fused into processing elements (PEs), and pools."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

PeId = int | str

Kind = Literal[
    "colocated-and-exlocated",
    "several-hosts",
    "exlocation-exceeds-nodes",
    "isolation-and-colocation",
    "isolation-and-shared-host",
    "pool-too-small",
    "index-out-of-range",
    "unsized-pool-indexed",
    "unsized-exclusive-pool",
    "no-such-node",
    "node-unusable",
    "illegal-token",
    "duplicate-host",
    "infeasible",
    "undecided",
]


@dataclass(frozen=True, slots=True)
class Host:
    """What ``host()`` names: a node by *name* or address, or a *pool*, or the host *index* of one."""

    name: str = ""
    pool: str = ""
    index: int | None = None

    def __str__(self) -> str:
        if not self.pool:
            return f'host("{self.name}")'
        return f"host({self.pool})" if self.index is None else f"host({self.pool}[{self.index}])"


@dataclass(frozen=True, slots=True)
class Placement:
    """The placement configuration of one operator; tokens in the order in which they stand, each once."""

    hosts: tuple[Host, ...] = ()
    colocations: tuple[str, ...] = ()
    exlocations: tuple[str, ...] = ()
    isolated: bool = False
    partition_colocations: tuple[str, ...] = ()
    partition_exlocations: tuple[str, ...] = ()
    partition_isolated: bool = False


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator; *name* is qualified by everything but the main composite (``Comp.Op``)."""

    name: str
    placement: Placement = field(default_factory=Placement)


@dataclass(frozen=True, slots=True)
class Pool:
    """A host pool: *hosts* of a literal one, else *tags*, *size* (None: unsized) and whether it is *exclusive*."""

    name: str
    hosts: tuple[str, ...] = ()
    size: int | None = None
    tags: tuple[str, ...] = ()
    exclusive: bool = False

    @property
    def literal(self) -> bool:
        return bool(self.hosts)

    @property
    def chosen(self) -> bool:
        """Whether nodes are chosen for it: a sized pool has as many."""
        return self.size is not None and not self.hosts


@dataclass(frozen=True, slots=True)
class Pe:
    """One processing element, which is one pod; its constraints are the union of its operators'.

    *template* is the pod (``metadata``, ``spec``) that they are merged into.
    """

    id: PeId
    operators: tuple[Operator, ...]
    template: Mapping[str, Any] = field(default_factory=dict)

    @property
    def colocations(self) -> tuple[str, ...]:
        return _once(token for each in self.operators for token in each.placement.colocations)

    @property
    def exlocations(self) -> tuple[str, ...]:
        return _once(token for each in self.operators for token in each.placement.exlocations)

    @property
    def isolated(self) -> tuple[str, ...]:
        """The names of its isolated operators."""
        return _once(each.name for each in self.operators if each.placement.isolated)

    @property
    def hosts(self) -> tuple[Host, ...]:
        """What its operators and its template name, each once."""
        named = [host for each in self.operators for host in each.placement.hosts]
        node = (self.template.get("spec") or {}).get("nodeName")
        return tuple(dict.fromkeys([*named, *([Host(name=str(node))] if node else [])]))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.operators)


def _once(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


@dataclass(frozen=True, slots=True)
class Job:
    """A job: *by_token* lets tokens and isolation reach beyond it, *preferred* makes colocation a preference.

    *fused* says that its PEs were made of SPL alone, so that partition constraints count.
    """

    name: str
    namespace: str
    pes: tuple[Pe, ...]
    pools: Mapping[str, Pool] = field(default_factory=dict)
    by_token: bool = False
    preferred: bool = False
    fused: bool = False


@dataclass(frozen=True, slots=True)
class Conflict:
    """One reason why a job cannot be placed, with everything that is part of it."""

    conflict: Kind
    pes: tuple[PeId, ...]
    operators: tuple[str, ...]
    tokens: tuple[str, ...]
    message: str


def conflict(
    kind: Kind, pes: Iterable[Pe], tokens: Iterable[str], message: str, operators: Iterable[str] = ()
) -> Conflict:
    """Return the conflict of *pes*; *operators* default to all of theirs."""
    involved = tuple(pes)
    named = tuple(dict.fromkeys(operators)) or tuple(name for pe in involved for name in pe.names)
    return Conflict(kind, tuple(pe.id for pe in involved), named, tuple(dict.fromkeys(tokens)), message)


def told(pes: Iterable[Pe]) -> str:
    """Name *pes* for a message: ``PE 0 (Source)``; of many only the first."""
    parts = [f"PE {pe.id} ({', '.join(pe.names)})" if pe.names else f"PE {pe.id}" for pe in pes]
    return ", ".join(parts) if len(parts) <= 6 else f"{', '.join(parts[:5])} and {len(parts) - 5} more"
