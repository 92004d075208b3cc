"""Which functions of a workflow are to run together or apart, as its annotations say.

Spelling: ``together`` or ``apart`` on the workflow (for all its actions) or on one action (for it and those named).
The value says how firmly, whom, or both: ``must``, ``should``, ``hello, world``, ``must: hello, world``, a list of
names, or a mapping of ``must`` and ``should`` to any of these. Accepted variants: ``affinity`` and ``antiAffinity``,
a firmness in the key (``mustRunTogether``, ``preferredAffinity``), ``required`` and ``preferred`` for must and
should, any case, ``-`` and ``_``, a prefix before ``/``. What does not say how firmly is a *should*.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pipeline.records import Action, Workflow

_FIRM = {"must": True, "required": True, "require": True, "should": False, "preferred": False, "prefer": False}
_KEY = re.compile(
    r"(must|required|require|should|preferred|prefer)?(?:run|be)?(together|affinity|apart|antiaffinity)"
)
_VALUE = re.compile(
    r"\s*(?:(must|required|require|should|preferred|prefer)\b\s*:?)?\s*(.*)", re.IGNORECASE | re.DOTALL
)
_EVERYONE = ("", "all", "true", "yes")


@dataclass(frozen=True, slots=True)
class Group:
    """Actions of one workflow that run together, or with *apart* each for itself; *must* where that is required."""

    apart: bool
    must: bool
    actions: tuple[str, ...]
    because: str


def groups(workflow: Workflow, action: Action) -> tuple[Group, ...]:
    """Return the groups that *action* is in, firm ones first; a native sequence prefers all its actions together."""
    everyone = tuple(each.name for each in workflow.actions)
    found: dict[tuple[bool, bool, tuple[str, ...]], Group] = {}

    def add(apart: bool, must: bool, actions: tuple[str, ...], because: str) -> None:
        members = tuple(sorted(set(actions)))
        if action.name in members and len(members) > 1:
            found.setdefault((apart, must, members), Group(apart, must, members, because))

    for apart, must, names in _stated(workflow.annotations):
        add(apart, must, names or everyone, f"workflow {workflow.name} says so")
    for each in workflow.actions:
        for apart, must, names in _stated(each.annotations):
            others = (each.name, *names) if names else everyone
            if apart and names and each.name != action.name:
                others = (each.name, action.name) if action.name in names else ()
            add(apart, must, others, f"action {each.name} of workflow {workflow.name} says so")
    if not found and workflow.native and "sequence" in (workflow.execution or "sequence").lower():
        add(False, False, everyone, f"workflow {workflow.name} is a native sequence")
    return tuple(sorted(found.values(), key=lambda group: not group.must))


def _stated(annotations: Mapping[str, object]) -> Iterator[tuple[bool, bool, tuple[str, ...]]]:
    """Yield (apart, must, names); no names speak of all actions."""
    for key, value in annotations.items():
        word = re.sub(r"[^a-z]", "", key.rpartition("/")[2].lower())
        matched = _KEY.fullmatch(word)
        if matched:
            for must, names in _values(value, _FIRM.get(matched[1] or "", False)):
                yield matched[2] in ("apart", "antiaffinity"), must, names


def _values(value: object, must: bool) -> Iterator[tuple[bool, tuple[str, ...]]]:
    if isinstance(value, Mapping):
        for firmness, whom in value.items():
            if str(firmness).lower() in _FIRM:
                yield from _values(whom, _FIRM[str(firmness).lower()])
    elif isinstance(value, (list, tuple)):
        if any(isinstance(each, (list, tuple)) for each in value):
            for each in value:
                yield from _values(each, must)
        else:
            yield must, tuple(str(each) for each in value)
    elif value is True:
        yield must, ()
    elif isinstance(value, str) and value.strip().lower() not in ("false", "no"):
        for part in value.split(";"):
            matched = _VALUE.fullmatch(part)
            firmness, names = (matched[1], matched[2]) if matched else (None, part)
            stated = _FIRM[firmness.lower()] if firmness else must
            whom = () if names.strip().lower() in _EVERYONE else tuple(filter(None, map(str.strip, names.split(","))))
            yield stated, whom
