"""The committed manifests: ``python -m deploy.generate`` writes ``deploy/kustomize`` and ``deploy/chart``."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from deploy import chart, kustomize

DIRECTORY: Final = Path(__file__).parent
#: Directories that hold nothing but what is generated.
OWNED: Final = ("kustomize", "chart")


def documents() -> Mapping[str, str]:
    """Return the text of each file by its path below ``deploy``."""
    return {**kustomize.documents(), **chart.documents()}


def write(directory: Path = DIRECTORY) -> None:
    """Write every file anew."""
    for name in OWNED:
        shutil.rmtree(directory / name, ignore_errors=True)
    for name, text in documents().items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
