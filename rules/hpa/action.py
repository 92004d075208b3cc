"""The action on manifests: what intents ask for is written into the objects that they name, all of it or nothing."""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from rules.hpa import pods
from rules.hpa.errors import Contradiction
from rules.hpa.model import Consumer
from rules.hpa.needs import Stated, Workload, needs, workload
from rules.templates import TEMPLATES

Chosen = Callable[[Workload], Iterable[Stated]]


@dataclass(frozen=True, slots=True, eq=False)
class Applied:
    """The changed copies of the manifests, in their order, and what is to be said of them."""

    manifests: tuple[Any, ...]
    warnings: tuple[str, ...]


def apply(
    manifests: Sequence[Any],
    consumers: Iterable[Consumer],
    cluster: str,
    chosen: Chosen,
    text: Callable[[str], str] = str,
) -> Applied:
    """Return *manifests* for *cluster* with what *consumers* need; *chosen* says which wishes the cluster has.

    Mappings and lists are copied as what they are and changed in place, so that a reader's own kinds keep what they
    remember of the text; *text* makes the values that are written. Raises `Contradiction` where a consumer's object
    is not there or cannot be changed so, and `BadInput` for a quantity of a manifest that is none; the given
    manifests are never changed.
    """
    changed = copy.deepcopy(list(manifests))
    objects = [each for document in changed for each in opened(document)]
    by_object: dict[int, list[Consumer]] = {}
    for consumer in consumers:
        if consumer.requirements:
            by_object.setdefault(_named(objects, consumer, cluster), []).append(consumer)
    warnings: list[str] = []
    for number, found in sorted(by_object.items()):
        warnings += _apply(objects[number], found, chosen, text)
    return Applied(tuple(changed), tuple(warnings))


def opened(document: Any) -> Iterator[MutableMapping[str, Any]]:
    """Yield the objects of a document; lists are opened, what is no object is passed over."""
    if isinstance(document, list):
        for each in document:
            yield from opened(each)
    elif isinstance(document, MutableMapping):
        items = document.get("items")
        if isinstance(items, list) and str(document.get("kind", "List")).endswith("List"):
            yield from opened(items)
        else:
            yield document


def _named(objects: Sequence[Mapping[str, Any]], consumer: Consumer, cluster: str) -> int:
    found = [number for number, each in enumerate(objects) if _is(each, consumer)]
    if len(found) == 1:
        return found[0]
    why = "is not among the manifests" if not found else "stands more than once among the manifests"
    raise Contradiction(
        f"{consumer.kind} {consumer.object} of application {consumer.app} for cluster {cluster} {why} "
        f"(consumer {consumer.name})"
    )


def _is(manifest: Mapping[str, Any], consumer: Consumer) -> bool:
    metadata = manifest.get("metadata")
    if not isinstance(metadata, Mapping):
        return False
    namespace = metadata.get("namespace")
    return (
        manifest.get("kind") == consumer.kind
        and metadata.get("name") == consumer.object
        and (not namespace or not consumer.namespace or namespace == consumer.namespace)
    )


def _apply(
    manifest: MutableMapping[str, Any], consumers: Sequence[Consumer], chosen: Chosen, text: Callable[[str], str]
) -> Iterator[str]:
    first = consumers[0]
    what = f"{first.kind} {first.object}"
    apps = ", ".join(sorted({each.app for each in consumers}))
    load = workload(apps, first.kind, first.namespace, first.object, consumers)
    spec = _spec(manifest, what)
    wanted = needs((*load.mandatory, *chosen(load)))
    pods.check(spec, wanted, what)
    pods.apply(spec, wanted, text)
    yield from pods.warnings(spec, wanted, what)
    replicas = (manifest.get("spec") or {}).get("replicas")
    if isinstance(replicas, int) and replicas > load.replicas:
        yield f"{what}: has {replicas} replicas, while room is looked for {load.replicas} (spec.consumer.replicas)"


def _spec(manifest: MutableMapping[str, Any], what: str) -> MutableMapping[str, Any]:
    kind = str(manifest.get("kind"))
    if kind != "Pod" and kind not in TEMPLATES:
        raise Contradiction(f"{what}: kind {kind} has no pods that are known; there are Pod, {', '.join(TEMPLATES)}")
    path = (*TEMPLATES.get(kind, ()), "spec")
    found = manifest
    for step in path:
        if not isinstance(found.get(step), MutableMapping):
            raise Contradiction(f"{what}: {'.'.join(path)}: missing or no object")
        found = pods.own(found, step)
    return found
