"""A mode that stands on a namespace, where nobody looks for it: it is told, since it changes nothing there."""

from collections.abc import Iterator

import msgspec

from jobs.config import Settings
from jobs.finding import Finding
from pipeline.errors import NOT_JSON, SourceError
from pipeline.ports import ListObjects

PATH = "/api/v1/namespaces"


class _Metadata(msgspec.Struct):
    name: str
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Namespace(msgspec.Struct):
    metadata: _Metadata


_NAMESPACES = msgspec.json.Decoder(_Namespace)


def examine(list_objects: ListObjects, cluster: str, settings: Settings) -> Iterator[Finding]:
    """Yield a warning for the namespaces of *cluster* that carry a mode; nothing where they cannot be listed, which
    only the service needs to."""
    key = f"{settings.advice.label_prefix}/mode"
    try:
        items = list_objects(PATH).items
    except SourceError:
        return
    found = []
    for raw in items:
        try:
            metadata = _NAMESPACES.decode(raw).metadata
        except NOT_JSON:
            continue
        if key in (metadata.labels or {}) or key in (metadata.annotations or {}):
            found.append(metadata.name)
    if found:
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        said = f"{', '.join(sorted(found)[:3])}{more} carry {key}, which counts on pods alone"
        fix = "name the namespace and its mode in advice.namespaces"
        yield Finding(cluster, "kubernetes", "modes of namespaces", "warning", said, fix)
