"""Pods and the state of disks out of files of Kubernetes objects."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from jobs import documents
from jobs.manifests import Manifest, pods
from pipeline.disk_records import DiskPod
from pipeline.errors import BadInput
from pipeline.objects import disks as wire

#: Kinds of a pod's own file that are no pods of their own: they stand in for what the cluster does not have yet.
_BESIDE = ("PersistentVolumeClaim", "StorageClass", "Volume", "Service")
_SUFFIXES = (".json", ".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A *pod* to plan for, as *manifest* has it, and the objects that stand *beside* it in its file, with the claims
    that it will bring."""

    manifest: Manifest
    pod: DiskPod
    beside: tuple[Mapping[str, Any], ...]


def wanted(file: Path, text: str | None = None, *, namespace: str | None = None) -> list[Wanted]:
    """Return the pods of *file*; a StatefulSet stands for its first replica, with the claims of its templates.

    *namespace* (default: what each says) is where they and the claims beside them are created.

    Raises `BadInput` naming the file and what is wrong with it.
    """
    given = documents.read(file) if text is None else documents.parse(file, text)
    objects = list(_opened(file, given))
    beside = [_created(each, namespace) for each in objects if each.get("kind") in _BESIDE]
    for each in beside:
        _read(file, each)
    found: list[Wanted] = []
    for each in objects:
        if each.get("kind") in _BESIDE:
            continue
        for manifest in pods(file, msgspec.json.encode(each).decode()):
            pod = dict(_created({**manifest.pod, "kind": "Pod"}, namespace))
            claims: list[dict[str, Any]] = []
            if manifest.kind == "StatefulSet":
                pod, claims = _first_replica(file, pod, each)
            read = _read(file, pod)
            if isinstance(read, DiskPod):
                found.append(Wanted(manifest, read, (*beside, *claims)))
    if not found:
        raise BadInput(f"{file}: no pod or workload in it")
    return found


def state(directory: Path) -> list[Mapping[str, Any]]:
    """Return the objects of all JSON and YAML files of *directory*, lists opened, in the order of their names.

    Raises `BadInput` naming the directory or file.
    """
    if not directory.is_dir():
        raise BadInput(f"{directory}: no such directory")
    files = sorted(each for each in directory.iterdir() if each.suffix in _SUFFIXES)
    if not files:
        raise BadInput(f"{directory}: no file of {', '.join(_SUFFIXES)} in it")
    return [each for file in files for each in _checked(file)]


def _created(given: Mapping[str, Any], namespace: str | None) -> Mapping[str, Any]:
    """Return *given* as it is when it is created in *namespace*, if it is of a kind that is created with a pod."""
    if namespace is None or given.get("kind") not in ("Pod", "PersistentVolumeClaim"):
        return given
    metadata = given.get("metadata")
    return {**given, "metadata": {**(metadata if isinstance(metadata, Mapping) else {}), "namespace": namespace}}


def _checked(file: Path) -> Iterator[Mapping[str, Any]]:
    for each in _opened(file, documents.read(file)):
        _read(file, each)
        yield each


def _opened(file: Path, given: list[Any]) -> Iterator[Mapping[str, Any]]:
    for each in given:
        if not isinstance(each, Mapping):
            raise BadInput(f"{file}: a {type(each).__name__} where a Kubernetes object should be")
        items = each.get("items")
        if isinstance(items, list) and str(each.get("kind") or "List").endswith("List"):
            kind = str(each.get("kind") or "List").removesuffix("List")
            # The items of a list, as the API server gives them, do not say their kind.
            yield from _opened(file, [{"kind": kind, **i} if kind and isinstance(i, Mapping) else i for i in items])
        else:
            yield each


def _read(file: Path, given: Mapping[str, Any]) -> object:
    try:
        return wire.read(given)
    except BadInput as error:
        raise BadInput(f"{file}: {error}") from None


def _first_replica(
    file: Path, pod: Mapping[str, Any], workload: Mapping[str, Any]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the pod ``NAME-0`` with the volumes of the claim templates, and the claims that it will have."""
    templates = workload["spec"].get("volumeClaimTemplates") or []
    metadata = pod["metadata"]
    name = f"{metadata['name']}-0"
    volumes, claims = list(pod["spec"].get("volumes") or []), []
    for template in templates:
        if not isinstance(template, Mapping) or not isinstance(template.get("metadata"), Mapping):
            raise BadInput(f"{file}: StatefulSet {metadata['name']}: volumeClaimTemplates: metadata.name is missing")
        own = dict(template["metadata"])
        claim = f"{own.get('name')}-{name}"
        own |= {"name": claim, "namespace": metadata["namespace"]}
        claims.append({**template, "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": own})
        volumes.append({"name": template["metadata"].get("name"), "persistentVolumeClaim": {"claimName": claim}})
    spec = {**pod["spec"], "volumes": volumes}
    return {**pod, "metadata": {**metadata, "name": name}, "spec": spec}, claims
