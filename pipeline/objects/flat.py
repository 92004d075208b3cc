"""YAML documents, those included whose indentation was lost on the way through a formatter."""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from pipeline.errors import BadInput

_FIRST_KEY = re.compile(r"(?P<indent> *)- (?P<key>[A-Za-z][\w.-]*:.*)")
_BLOCK = re.compile(r"(?P<indent> *)(?:- +)?[A-Za-z][\w.-]*:\s*[|>][+-]?\s*")
_KEY = re.compile(r"(?P<indent> *)(?:- +)?[A-Za-z][\w.-]*:(?:\s|$)")


class _Loader(yaml.SafeLoader):
    """YAML's safe loader that refuses a key given twice."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    loader.flatten_mapping(node)
    found: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if isinstance(key, (list, dict)):
            raise yaml.constructor.ConstructorError(None, None, "a key is no single value", key_node.start_mark)
        if key in found:
            raise yaml.constructor.ConstructorError(None, None, f"key {key} stands twice", key_node.start_mark)
        found[key] = loader.construct_object(value_node, deep=True)
    return found


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def documents(text: str, where: str) -> Iterator[dict[str, Any]]:
    """Yield the mappings of *text*; if it is no YAML, of the text with `mended` indentation.

    Raises `BadInput` in one line naming *where* and the line.
    """
    try:
        found = list(yaml.load_all(text, _Loader))
    except yaml.YAMLError as first:
        try:
            found = list(yaml.load_all(mended(text), _Loader))
        except yaml.YAMLError:
            raise BadInput(f"{where}: {_line(first)}") from None
    for document in found:
        if isinstance(document, dict):
            yield document
        elif document is not None:
            raise BadInput(f"{where}: a document is no object")


def mended(text: str) -> str:
    """Indent again what only indentation makes unreadable; other lines stay.

    ``- name: x`` above fields that stand deeper becomes the first of these fields. Lines below ``key: |`` that do not
    stand deeper belong to the block as far as the next line of that depth that begins like a field.
    """
    lines = text.splitlines()
    result: list[str] = []
    block: int | None = None
    for number, line in enumerate(lines):
        depth = len(line) - len(line.lstrip(" "))
        if block is not None:
            key = _KEY.match(line)
            if line.strip() and key and depth <= block:
                block = None
            else:
                result.append(line if depth > block or not line.strip() else f"  {line}")
                continue
        item = _FIRST_KEY.fullmatch(line)
        following = next((each for each in lines[number + 1 :] if each.strip()), "")
        deeper = _KEY.match(following)
        if item and deeper and len(deeper["indent"]) > depth + 2:
            line = f"{item['indent']}-{' ' * (len(deeper['indent']) - depth - 1)}{item['key']}"
        start = _BLOCK.fullmatch(line)
        if start:
            block = len(line) - len(line.lstrip(" -"))
        result.append(line)
    return "\n".join(result)


def _line(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = str(getattr(error, "problem", None) or error).split("\n")[0]
    return f"line {mark.line + 1}: {problem}" if mark else problem
