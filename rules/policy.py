"""How bold the advice may be: limits and names that an installation chooses; plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import Literal, get_args

Mode = Literal["observe", "prefer", "require"]
MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True, slots=True)
class Policy:
    """Limits of the rules.

    *probability*, *min_overlaps* (effective overlaps) and *min_slowdown* (fraction) are what a pair must reach to be
    acted upon; *remaining* is how many nodes a rule that is not a stated need must leave. *across* lists the
    namespaces that opted in to pod terms reaching other namespaces. *ranked* bounds the nodes listed in an answer,
    *pairs* the pairs that one pod's terms name, *named* the node names in one preferred term.
    """

    mode: Mode = "observe"
    namespaces: Mapping[str, Mode] = field(default_factory=lambda: MappingProxyType({}))
    probability: float = 0.9
    min_overlaps: float = 30.0
    min_slowdown: float = 0.05
    topology_key: str = "kubernetes.io/hostname"
    label_prefix: str = "colocation.internal"
    function_labels: tuple[str, str] = ("openwhisk/namespace", "openwhisk/action")
    stale_after: timedelta = timedelta(hours=1)
    excluded_namespaces: tuple[str, ...] = ("kube-system", "colocation-system")
    across: frozenset[str] = frozenset()
    remaining: int = 1
    ranked: int = 20
    pairs: int = 20
    named: int = 50

    @property
    def terms(self) -> tuple[object, ...]:
        """Return what terms about learned pairs depend on."""
        limits = (self.probability, self.min_overlaps, self.min_slowdown, self.pairs)
        return (*limits, self.topology_key, self.label_prefix, *self.function_labels)

    def mode_of(self, namespace: str, annotation: str | None) -> Mode:
        """Return the mode of a pod: its annotation's if that is a mode, else its namespace's, else the global one."""
        for mode in MODES:
            if annotation == mode:
                return mode
        return self.namespaces.get(namespace, self.mode)

    def overwrites(self, namespace: str, annotation: str | None) -> bool:
        """Whether own labels of new pods are overwritten there: not where pods are only observed, or left alone."""
        return namespace not in self.excluded_namespaces and self.mode_of(namespace, annotation) != "observe"

    def own(self, name: str) -> str:
        """Return the product's own label or annotation key for *name*."""
        return f"{self.label_prefix}/{name}"
