"""The documents of a JSON or YAML file, and one line that says what is wrong with one that is neither."""

from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from pipeline.errors import BadInput

#: What a file may hold once its aliases are written out: a few lines of them can stand for more than a memory.
_MOST: Final = 20_000_000


class Loader(yaml.CSafeLoader):
    """YAML whose keys are texts, none of which stands twice in a mapping, since one of the two would be lost."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._merged: dict[
            int, yaml.MappingNode
        ] = {}  # those in which merged keys may stand beside the same of theirs

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        if id(node) not in self._merged:
            self._check(node)
        super().flatten_mapping(node)

    def _check(self, node: yaml.MappingNode) -> None:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                self._merged[id(node)] = node
            elif isinstance(key, yaml.ScalarNode):
                if key.tag != "tag:yaml.org,2002:str":  # such as on, yes and 1
                    said = f"the key {key.value} is no text; put it in quotes"
                    raise yaml.constructor.ConstructorError(None, None, said, key.start_mark)
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} stands twice", key.start_mark)
                seen.add(key.value)


def read(file: Path) -> list[Any]:
    """Return the documents of *file*; raises `BadInput` naming the file, and the line where one is at fault."""
    try:
        return parse(file, file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{file}: not UTF-8 text") from None


def parse(file: Path, text: str) -> list[Any]:
    """Return the documents of *text*, which *file* names in errors; JSON is tried first, which is much faster."""
    try:
        try:
            found = [msgspec.json.decode(text)]
        except (msgspec.MsgspecError, RecursionError):  # YAML, or neither
            found = list(yaml.load_all(text, Loader))
            if "*" in text:  # aliases
                _written_out(found, {})
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise BadInput(f"{file}{line}: not YAML or JSON: {error.problem}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise BadInput(f"{file}: not YAML or JSON: {str(error).splitlines()[0]}") from None
    found = [document for document in found if document is not None]
    if not found:
        raise BadInput(f"{file}: empty")
    return found


def _written_out(part: object, sizes: dict[int, int]) -> int:
    """Return how many values *part* holds with its aliases written out; *sizes* are those known, by identity.

    Raises `ValueError` where it is too many, or where an alias stands within what it names.
    """
    if not isinstance(part, dict | list):
        return 1
    size = sizes.get(id(part))
    if size is None:
        sizes[id(part)] = _MOST  # until it is known: what holds itself is too large
        size = 1 + sum(_written_out(each, sizes) for each in (part.values() if isinstance(part, dict) else part))
        sizes[id(part)] = size
    if size >= _MOST:
        raise ValueError("aliases that stand within themselves, or for too much")
    return size
