"""Pods out of manifest files: a Pod as it is, a workload by its pod template; every document of the file."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs import documents
from pipeline.errors import BadInput
from rules.templates import TEMPLATES


@dataclass(frozen=True, slots=True)
class Manifest:
    """One pod to be: *path* leads from the document to it, empty for a Pod itself."""

    kind: str
    name: str
    namespace: str
    path: tuple[str, ...]
    pod: Mapping[str, Any]


def pods(file: Path, text: str | None = None) -> Iterator[Manifest]:
    """Yield every pod that *file* (or *text*, for its name alone) speaks of, lists and workloads opened.

    An AdmissionReview is opened too. A template without metadata gets its workload's name, a DaemonSet's an owner of
    that kind, so that it is treated as its pods will be. Raises `BadInput` naming the file and what is wrong with it.
    """
    for document in documents.read(file) if text is None else documents.parse(file, text):
        yield from _opened(file, document)


def _opened(file: Path, document: object) -> Iterator[Manifest]:
    if not isinstance(document, Mapping):
        raise BadInput(f"{file}: a {type(document).__name__} where a Kubernetes object should be")
    kind = document.get("kind")
    if isinstance(document.get("items"), list) and (kind is None or str(kind).endswith("List")):
        for item in document["items"]:
            yield from _opened(file, item)
        return
    spec, request = document.get("spec"), document.get("request")
    if kind is None and isinstance(spec, Mapping) and isinstance(spec.get("containers"), list):
        kind = "Pod"  # the items of a list, as the API server gives them, do not say their kind
    if kind == "AdmissionReview" and isinstance(request, Mapping):
        yield from _opened(file, request.get("object"))
    elif kind == "Pod":
        yield _manifest(file, document, "Pod", (), document)
    elif kind in TEMPLATES:
        template: object = document
        for step in TEMPLATES[str(kind)]:
            template = template.get(step) if isinstance(template, Mapping) else None
        if not isinstance(template, Mapping):
            raise BadInput(f"{file}: {kind} without {'.'.join(TEMPLATES[str(kind)])}")
        yield _manifest(file, document, str(kind), TEMPLATES[str(kind)], template)
    else:
        said = "no kind" if kind is None else f"kind {str(kind)[:60]!r}"
        raise BadInput(f"{file}: {said}: neither a Pod nor a workload with a pod template")


def _manifest(
    file: Path, document: Mapping[str, Any], kind: str, path: tuple[str, ...], pod: Mapping[str, Any]
) -> Manifest:
    outer, inner = document.get("metadata") or {}, pod.get("metadata") or {}
    for where, metadata in (("metadata", outer), ("template.metadata", inner)):
        if not isinstance(metadata, Mapping):
            raise BadInput(f"{file}: {where}: not a mapping")
    if not isinstance(pod.get("spec"), Mapping):
        raise BadInput(f"{file}: {kind}: {'.'.join((*path, 'spec'))}: missing or not a mapping")
    name = str(inner.get("name") or outer.get("name") or outer.get("generateName") or "")
    namespace = str(inner.get("namespace") or outer.get("namespace") or "default")
    metadata = {**inner, "name": name, "namespace": namespace}
    if path and not inner.get("ownerReferences"):
        owner = {
            "apiVersion": document.get("apiVersion", "v1"),
            "kind": kind,
            "name": name,
            "controller": True,
            "uid": "",
        }
        metadata["ownerReferences"] = [owner]
    return Manifest(kind, name, namespace, path, {**pod, "metadata": metadata})
