"""Workflow objects (``wp5.physics-faas.eu/v1alpha1``) to one normal form.

Two forms are met. In the indented one every field lies where the resource definition puts it. In the flat one the
indentation was lost: a heading (``metadata``, ``spec``, an action's ``annotations``, ``resources``,
``extraResources``, ``performanceProfile``) is null and what belonged under it stands beside it. A field is looked
for under its heading first, then beside it; only a heading that is there and null claims neighbours that are no
field of the action: levels (``low``, ``medium``, ``high``) go to the profile, the rest to the extra resources.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from pipeline import quantity
from pipeline.errors import NOT_JSON, BadInput
from pipeline.mangling import spelled
from pipeline.objects import flat
from pipeline.objects.wire import name_of, reason
from pipeline.records import Action, Workflow

Scalar = bool | int | float | str

_LEVELS = ("low", "medium", "high")
#: The whole object once more, its code too, as kubectl notes it for itself.
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_MEGABYTE = 2**20  # OpenWhisk's MB, which it hands to Kubernetes as Mi
_HEADINGS = ("annotations", "resources", "limits", "requests", "extraResources", "preferredResources",
             "performanceProfile")  # fmt: skip
#: Annotations of an action that say where it runs relative to others; flat, they stand beside their heading.
_RELATIONS = ("together", "apart", "affinity", "antiAffinity")
#: Fields that hold words: one that reads like a level is no part of the profile.
_WORDS = frozenset(
    (*_HEADINGS, *_RELATIONS, "name", "description", "id", "version", "runtime", "code", "optimizationGoal",
     "importance", "usesService")
)  # fmt: skip
_FIELDS = _WORDS | {"cpu", "memory"}
#: What is found in any spelling.
_STATED = ("optimizationGoal", "importance", "usesService")
_PLACED = frozenset(map(spelled, _RELATIONS))
_SPELLED = _PLACED.union(map(spelled, _STATED))


def workflow(raw: bytes | msgspec.Raw) -> Workflow:
    """Read one workflow object of a list or a watch event."""
    try:
        given = msgspec.json.decode(raw)
    except NOT_JSON as error:
        raise BadInput(f"workflow {name_of(raw)}: {reason(error)}") from None
    return workflow_of(given)


def workflow_texts(text: str, where: str) -> Iterator[Workflow]:
    """Read every workflow of a YAML text, flat or not; *where* names the file in errors.

    A key that stands twice in one mapping is refused: which of the two was meant is lost.
    """
    for document in flat.documents(text, where):
        kind = document.get("kind")
        for each in _list(document, "items") if kind in ("List", "WorkflowList") else [document]:
            yield workflow_of(each)


def workflow_of(given: Any) -> Workflow:
    """Read one workflow that is decoded already, in either form."""
    if not isinstance(given, Mapping):
        raise BadInput("workflow without a name: is no object")
    meta = _map(given, "metadata", "workflow")
    name = _text({**given, **meta}, "name", "workflow without a name")
    if not name:
        raise BadInput("workflow without a name: metadata.name is missing")
    what = f"workflow {name}"
    annotations = {**_map(given, "annotations", what), **_map(meta, "annotations", what)}
    annotations.pop(_APPLIED, None)
    whole = {**given, **_map(given, "spec", what)}
    return Workflow(
        namespace=_text({**given, **meta}, "namespace", what),
        name=name,
        id=_text(annotations, "id", what),
        cluster=_text(annotations, "cluster", what),
        execution=_text(whole, "execution", what),
        native=_flag(whole.get("native"), f"{what}: native"),
        platform=_text(whole, "platform", what),
        order=tuple(_listed(_list(whole, "listOfActions", what), what)),
        actions=tuple(_action(each, f"{what}: actions[{i}]") for i, each in enumerate(_list(whole, "actions", what))),
        annotations=annotations,
    )


def _listed(items: Iterable[Any], what: str) -> Iterator[str]:
    for item in items:
        yield _text(item, "id", what) if isinstance(item, Mapping) else str(item)


def _action(given: Any, what: str) -> Action:
    if not isinstance(given, Mapping):
        raise BadInput(f"{what} is no object")
    name = _text(given, "name", what)
    if not name:
        raise BadInput(f"{what}.name is missing")
    annotations = _map(given, "annotations", what)
    goal, importance, service = (_said((annotations, given), key) for key in _STATED)
    relations = {key: value for key, value in given.items() if spelled(key) in _PLACED}
    profile = _map(given, "performanceProfile", what)
    extra = _map(given, "extraResources", what)
    preferred = _map(extra, "preferredResources", f"{what}.extraResources")
    preferred |= _map(given, "preferredResources", what)
    extra.pop("preferredResources", None)
    if _lost(given, "performanceProfile"):
        profile = {key: value for key, value in given.items() if not _is_of(key, _WORDS) and _level(value)}
    if _lost(given, "extraResources"):
        extra = {key: value for key, value in given.items() if _stray(key, value)}
    resources = _map(given, "resources", what)
    amounts = {side: _amounts(given, resources, side, what) for side in ("requests", "limits")}
    return Action(
        name=name,
        id=_text(given, "id", what),
        version=_text(given, "version", what),
        runtime=_text(given, "runtime", what),
        optimization_goal=_text({"optimizationGoal": goal}, "optimizationGoal", what).strip().lower(),
        importance=_text({"importance": importance}, "importance", what).strip().lower(),
        cpu_request=amounts["requests"].get("cpu"),
        cpu_limit=amounts["limits"].get("cpu"),
        memory_request=amounts["requests"].get("memory"),
        memory_limit=amounts["limits"].get("memory"),
        extra_resources=_scalars(extra, f"{what}.extraResources"),
        preferred_resources=_scalars(preferred, f"{what}.preferredResources"),
        performance_profile={
            key: _as_level(value, f"{what}.performanceProfile.{key}") for key, value in profile.items()
        },
        uses_service=_names(service, f"{what}.usesService"),
        annotations={**relations, **annotations},
    )


def _said(places: Iterable[Mapping[str, Any]], key: str) -> Any:
    """Return the first value that one of *places* has for *key*, None where all are null: under *key* itself, else in
    any case, with ``-`` or ``_`` in it, or with a prefix."""
    word = spelled(key)
    for given in places:
        for value in (given.get(key), *(value for each, value in given.items() if spelled(each) == word)):
            if value is not None:
                return value
    return None


def _is_of(key: object, fields: frozenset[str]) -> bool:
    """Whether *key* is one of an action's *fields*, as it may be spelled."""
    return key in fields or spelled(key) in _SPELLED


def _amounts(given: Mapping[str, Any], resources: Mapping[str, Any], side: str, what: str) -> dict[str, float]:
    """Cores and bytes of *side* (requests or limits); a bare memory number is in MB."""
    found = resources.get(side) or given.get(side)
    if not found and _lost(given, side):
        found = {key: given[key] for key in ("cpu", "memory") if not _level(given.get(key, "low"))}
    if not found:
        return {}
    if not isinstance(found, Mapping):
        raise BadInput(f"{what}.{side} is no object")
    amounts = {}
    for key, value in found.items():
        if key in ("cpu", "memory") and value is not None:
            bare = isinstance(value, (int, float)) or (isinstance(value, str) and value.isdecimal())
            unit = _MEGABYTE if key == "memory" and bare else 1
            amounts[key] = quantity.parse(f"{what}.{side}.{key}", value) * unit
    return amounts


def _stray(key: str, value: object) -> bool:
    """Whether a field beside a lost heading is no other field of an action."""
    return not _is_of(key, _FIELDS) and isinstance(value, (str, int, float)) and not _level(value)


def _lost(given: Mapping[str, Any], heading: str) -> bool:
    """Whether *heading* is there with nothing under it."""
    return heading in given and given[heading] is None


def _level(value: object) -> bool:
    return isinstance(value, str) and value.lower() in _LEVELS


def _as_level(value: object, field: str) -> str:
    if not isinstance(value, str) or not _level(value):
        raise BadInput(f"{field}: {value!r} is none of {', '.join(_LEVELS)}")
    return value.lower()


def _map(given: Mapping[str, Any], key: str, what: str) -> dict[str, Any]:
    value = given.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise BadInput(f"{what}: {key} is no object")
    return dict(value)


def _list(given: Mapping[str, Any], key: str, what: str = "workflow list") -> list[Any]:
    value = given.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadInput(f"{what}: {key} is no list")
    return value


def _text(given: Mapping[str, Any], key: str, what: str) -> str:
    value = given.get(key)
    if value is None:
        return ""
    if isinstance(value, (str, int, float)):
        return str(value)
    raise BadInput(f"{what}: {key} is no text")


def _flag(value: object, field: str) -> bool:
    if value is None or isinstance(value, bool):
        return bool(value)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise BadInput(f"{field}: {value!r} is neither true nor false")


def _scalars(given: Mapping[str, Any], field: str) -> dict[str, Scalar]:
    for key, value in given.items():
        if value is not None and not isinstance(value, (str, int, float)):
            raise BadInput(f"{field}.{key} is no single value")
    return {key: value for key, value in given.items() if value is not None}


def _names(value: object, field: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return tuple(part for part in (each.strip() for each in value.split(",")) if part)
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return tuple(value)
    raise BadInput(f"{field} is neither a name nor a list of names")
