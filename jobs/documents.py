"""The documents of a JSON or YAML file, and one line that says what is wrong with one that is neither."""

from pathlib import Path
from typing import Any

import msgspec
import yaml

from pipeline.errors import BadInput


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
            found = list(yaml.load_all(text, yaml.CSafeLoader))
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise BadInput(f"{file}{line}: not YAML or JSON: {error.problem}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise BadInput(f"{file}: not YAML or JSON: {str(error).splitlines()[0]}") from None
    found = [document for document in found if document is not None]
    if not found:
        raise BadInput(f"{file}: empty")
    return found
