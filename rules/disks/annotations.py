"""What a pod's annotations ask of the disks of its volumes; every error names the annotation and the token."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final, Literal

from pipeline.errors import BadInput
from rules.labels import short

_AFFINITY: Final = "affinity.volumes.csi-baremetal.dell.com/"
_ANTI: Final = "antiaffinity.volumes.csi-baremetal.dell.com/"
TYPES: Final = _AFFINITY + "types"
DEDICATED: Final = _AFFINITY + "dedicated"
TOLERATIONS: Final = _AFFINITY + "tolerations"
ANTI_TYPES: Final = _ANTI + "types"
ANTI_LABELS: Final = _ANTI + "labels"

#: One annotation says no more than so many things.
_TOKENS: Final = 1000

#: How strongly something is asked for; "" not at all.
Strength = Literal["", "required", "preferred"]

_SWITCH: Final[Mapping[str, Strength]] = {
    "true": "required",
    "false": "",
    "required": "required",
    "preferred": "preferred",
}

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class PodLabel:
    """Pods of *namespace* that carry *key*, with *value* unless that is None."""

    key: str
    value: str | None
    namespace: str

    def matches(self, labels: Mapping[str, str], namespace: str) -> bool:
        """Say whether a pod with *labels* in *namespace* is meant."""
        held = labels.get(self.key)
        return namespace == self.namespace and held is not None and self.value in (None, held)

    def __str__(self) -> str:
        value = "" if self.value is None else f"={self.value}"
        return f"{self.key}{value}:{self.namespace}"


@dataclass(frozen=True, slots=True)
class Affinities:
    """What a pod asks of its disks.

    *automatic* says that free disks may be dedicated to it, *tolerations* are the taints that it may use besides its
    own. *quiet* keeps it off disks whose users are known to use them much.
    """

    pod_bound: Strength = ""
    dedicated: Strength = ""
    automatic: bool = False
    tolerations: tuple[str, ...] = ()
    pod_label: Strength = ""
    labels: tuple[PodLabel, ...] = ()
    quiet: Strength = ""

    def without(self, given_up: frozenset[str]) -> "Affinities":
        """Return what is left when the preferences named in *given_up* (`sacrifices`) are not asked for."""
        return replace(self, **{PREFERENCES[name]: "" for name in given_up})  # type: ignore[arg-type]

    def sacrifices(self) -> tuple[tuple[str, ...], ...]:
        """Return the sets of preferences that may be given up: none, then as few as possible, in order on ties."""
        preferred = [name for name, field in PREFERENCES.items() if getattr(self, field) == "preferred"]
        return tuple(some for count in range(len(preferred) + 1) for some in combinations(preferred, count))


#: Each rule by its name in the annotations, in the order in which preferences are given up on ties.
PREFERENCES: Final[Mapping[str, str]] = {
    "profile-disk-high": "quiet",
    "pod-bound": "pod_bound",
    "pod-label": "pod_label",
    "dedicated": "dedicated",
}

_KINDS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    TYPES: ("affinity", ("pod-bound", "dedicated")),
    ANTI_TYPES: ("anti-affinity", ("pod-label", "profile-disk-high")),
}


def parse(annotations: Mapping[str, str], namespace: str) -> Affinities:
    """Read the annotations of a pod in *namespace*; raises `BadInput` naming the annotation and the token.

    An unknown type is an error: a rule that nobody reads isolates nobody.
    """
    asked = _types(annotations, TYPES) | _types(annotations, ANTI_TYPES)
    switch = _switch(annotations)
    tolerations = _tokens(annotations, TOLERATIONS)
    dedicated = _stronger(asked["dedicated"], switch)
    automatic = bool(switch) or (bool(asked["dedicated"]) and not tolerations)
    if tolerations and not dedicated:
        dedicated = "preferred"
    labels = tuple(_label(token, namespace) for token in _tokens(annotations, ANTI_LABELS))
    if asked["pod-label"] and not labels:
        raise BadInput(f"annotation {ANTI_TYPES}: pod-label-{asked['pod-label']} needs {ANTI_LABELS}")
    if labels and not asked["pod-label"]:
        raise BadInput(f"annotation {ANTI_LABELS}: needs pod-label-required or pod-label-preferred in {ANTI_TYPES}")
    return Affinities(
        pod_bound=asked["pod-bound"],
        dedicated=dedicated,
        automatic=automatic,
        tolerations=tolerations,
        pod_label=asked["pod-label"],
        labels=labels,
        quiet=asked["profile-disk-high"],
    )


def _types(annotations: Mapping[str, str], key: str) -> dict[str, Strength]:
    """Return how strongly each type of one annotation is asked for; of both suffixes required wins."""
    said, known = _KINDS[key]
    found: dict[str, Strength] = dict.fromkeys(known, "")
    for token in _tokens(annotations, key):
        name, _, suffix = token.rpartition("-")
        if token == "dedicated" and "dedicated" in known:
            name, suffix = "dedicated", "required"
        if name not in known or suffix not in ("required", "preferred"):
            accepted = ", ".join(f"{each}-required|preferred" for each in known)
            raise BadInput(f"annotation {key}: unsupported {said} type {short(token)}; there are {accepted}")
        found[name] = _stronger(found[name], "required" if suffix == "required" else "preferred")
    return found


def _switch(annotations: Mapping[str, str]) -> Strength:
    given = annotations.get(DEDICATED, "false").strip()
    if given not in _SWITCH:
        raise BadInput(f"annotation {DEDICATED}: {short(given)} is none of true, false, required, preferred")
    return _SWITCH[given]


def _stronger(one: Strength, other: Strength) -> Strength:
    return "required" if "required" in (one, other) else one or other


def _tokens(annotations: Mapping[str, str], key: str) -> tuple[str, ...]:
    """Return the tokens between the commas of one annotation, each once."""
    found = tuple(dict.fromkeys(token for part in annotations.get(key, "").split(",") if (token := part.strip())))
    if len(found) > _TOKENS:
        raise BadInput(f"annotation {key}: {len(found)} entries; at most {_TOKENS} are read")
    return found


def _label(token: str, own: str) -> PodLabel:
    """Read ``key[=value][:namespace]``: the last colon stands before the namespace, the first = before the value."""
    label, colon, namespace = token.rpartition(":")
    if not colon:
        label, namespace = token, own
    key, equals, value = label.partition("=")
    prefix, slash, name = key.rpartition("/")
    legal = (
        _NAME.fullmatch(name)
        and (not slash or (len(prefix) <= 253 and _DOMAIN.fullmatch(prefix)))
        and (not value or _NAME.fullmatch(value))
    )
    if not legal:
        raise BadInput(f"annotation {ANTI_LABELS}: bad label entry {short(token)}; wanted key[=value][:namespace]")
    if not _NAMESPACE.fullmatch(namespace):
        raise BadInput(f"annotation {ANTI_LABELS}: bad namespace {short(namespace)} in {short(token)}")
    return PodLabel(key, value if equals else None, namespace)
