"""Hardware intents, nodes and manifests out of files: what `colocate hpa` works on without a server or a database."""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from jobs import documents
from pipeline import objects
from pipeline.errors import BadInput
from pipeline.records import Node, Pod
from rules import shape
from rules.hpa import levels, model
from rules.hpa.action import opened
from rules.hpa.levels import LEVELS
from rules.hpa.model import Intents
from rules.templates import TEMPLATES

#: How values that are written look: in quotes, since older readers of YAML take yes and 1e9 for no text.
text = DoubleQuotedScalarString


@dataclass(frozen=True, slots=True)
class Read:
    """The intents of some files; *ignored* counts documents of other things by the last part of their path."""

    intents: Intents
    ignored: Mapping[str, int]


def read(files: Sequence[Path]) -> Read:
    """Read documents of `path` (or ``resourceContext.anchor``), metadata and spec; their order does not matter.

    What lies above an intent need not be there. Raises `BadInput` naming the file and the field.
    """
    items: dict[str, Any] = {}
    from_file: dict[str, str] = {}
    ignored: dict[str, int] = {}
    for where, document in _documents(files):
        path = _path(where, document)
        located = levels.locate(path)
        if located is None:
            last = path.rstrip("/").rpartition("/")[2]
            ignored[last] = ignored.get(last, 0) + 1
            continue
        name, fields = located
        try:
            body = LEVELS[name].read(document)
        except BadInput as error:
            raise BadInput(f"{where}: {error}") from None
        item = f"{levels.template(name).format_map(fields)}/{LEVELS[name].name_of(body)}"
        if item in items:
            raise BadInput(f"{where}: metadata.name: {item} stands in {from_file[item]} already")
        items[item], from_file[item] = body, where
    for item, body in items.items():
        _check(item, body, items, from_file[item])
    return Read(model.intents(sorted(items.items())), ignored)


def _documents(files: Iterable[Path]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for file in files:
        listed = [each for one in documents.read(file) for each in (one if isinstance(one, list) else [one])]
        for number, document in enumerate(listed, start=1):
            where = f"{file}: document {number}" if len(listed) > 1 else str(file)
            if not isinstance(document, Mapping):
                raise BadInput(f"{where}: expected an object with path, metadata and spec")
            yield where, document


def _path(where: str, document: Mapping[str, Any]) -> str:
    context = document.get("resourceContext")
    path = document.get("path")
    if path is None and isinstance(context, Mapping):
        path = context.get("anchor")
    if not isinstance(path, str) or not path.strip("/"):
        raise BadInput(f"{where}: path: missing, and so is resourceContext.anchor")
    return path


def _check(item: str, body: Mapping[str, Any], items: Mapping[str, Any], where: str) -> None:
    """Refuse what the API would: a consumer or requirement without what is above it."""
    above, segment, _ = item.rsplit("/", 2)
    if segment in (LEVELS["consumer"].segment, LEVELS["requirement"].segment) and above not in items:
        raise BadInput(f"{where}: path: {above} does not exist")
    if segment == LEVELS["requirement"].segment and (wrong := levels.check_consumer(body, items[above])):
        raise BadInput(f"{where}: {wrong}")


def nodes(file: Path) -> tuple[list[Node], list[Pod]]:
    """Read Node objects, and the Pod objects that use them; raises `BadInput` naming the file and the object."""
    found: tuple[list[Node], list[Pod]] = ([], [])
    for document in documents.read(file):
        for each in opened(document):
            kind = each.get("kind")
            try:
                if kind == "Pod" or (kind is None and "containers" in (each.get("spec") or {})):
                    found[1].append(objects.pod_of(each))
                elif kind in ("Node", None):
                    found[0].append(objects.node_of(each))
                else:
                    raise BadInput(f"kind {kind!r}: neither a Node nor a Pod")
            except BadInput as error:
                raise BadInput(f"{file}: {error}") from None
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Manifests:
    """The documents of one file, and how they are written again: what is not changed keeps its words and comments."""

    file: Path
    documents: tuple[Any, ...]
    marked: bool
    indent: tuple[int, int, int]

    def written(self, changed: Sequence[Any]) -> str:
        """Return *changed* documents as YAML."""
        stream = io.StringIO()
        _yaml(self.indent, self.marked).dump_all(list(changed), stream)
        return stream.getvalue()


def manifests(file: Path) -> Manifests:
    """Read a file of manifests; raises `BadInput` naming the file, the line and the object."""
    try:
        given = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{file}: not UTF-8 text") from None
    try:
        found = tuple(_yaml((2, 2, 0), False).load_all(given))
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise BadInput(f"{file}{line}: not YAML or JSON: {problem}") from None
    except (RecursionError, ValueError) as error:
        raise BadInput(f"{file}: not YAML or JSON: {str(error).splitlines()[0]}") from None
    for document in found:
        for each in opened(document):
            _checked(file, each)
    return Manifests(file, found, given.lstrip().startswith("---"), _indent(given))


def _checked(file: Path, manifest: Mapping[str, Any]) -> None:
    """Refuse a pod whose shape is not that of the API, before anything is changed in it."""
    kind = str(manifest.get("kind"))
    if kind != "Pod" and kind not in TEMPLATES:
        return
    pod: Any = manifest
    for step in TEMPLATES.get(kind, ()):
        pod = pod.get(step) if isinstance(pod, Mapping) else None
    if not isinstance(pod, Mapping):
        return
    metadata = manifest.get("metadata")
    name = str(metadata.get("name")) if isinstance(metadata, Mapping) else "without a name"
    try:
        objects.pod_of(plain(pod))
        shape.check(plain(pod), name)
    except BadInput as error:
        raise BadInput(f"{file}: {kind} {name}: {error}") from None


def plain(value: Any) -> Any:
    """Return a document in the plain kinds that JSON knows; times as they were written."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    if value is None or type(value) is bool:
        return value
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    return str(value)


def _indent(given: str) -> tuple[int, int, int]:
    """Return how mappings, lists and the dashes of lists are indented, as in the text where it shows."""
    mapping, dash = 0, -1
    opening: int | None = None  # the depth of the line above, where it opens something
    for line in given.splitlines():
        depth, words = len(line) - len(line.lstrip(" ")), line.strip()
        if not words or words.startswith("#"):
            continue
        if opening is not None and depth >= opening:
            if words.startswith("- "):
                dash = depth - opening if dash < 0 else dash
            elif depth > opening:
                mapping = mapping or depth - opening
        opens = words.split(" #")[0].rstrip().endswith(":")
        opening = (depth + 2 if words.startswith("- ") else depth) if opens else None
    dash = max(dash, 0)
    return mapping or 2, 2 + dash, dash


def _yaml(indent: tuple[int, int, int], marked: bool) -> YAML:
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 2**20
    yaml.explicit_start = marked
    yaml.indent(mapping=indent[0], sequence=indent[1], offset=indent[2])
    return yaml
