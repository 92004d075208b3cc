"""The dashboards as Grafana reads them: ``python -m dashboards.generate`` writes ``dashboards/grafana/boards``."""

from pathlib import Path
from typing import Final

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards.table import DASHBOARDS

DIRECTORY: Final = Path(__file__).parent / "grafana" / "boards"


def documents() -> dict[str, str]:
    """Return the text of each file by its name."""
    return {
        f"{name}.json": JSONEncoder(sort_keys=True, indent=2).encode(build()) + "\n"
        for name, build in DASHBOARDS.items()
    }


def write(directory: Path = DIRECTORY) -> None:
    """Write every file, and take away those of dashboards that are no more."""
    found = documents()
    directory.mkdir(parents=True, exist_ok=True)
    for path in directory.glob("*.json"):
        if path.name not in found:
            path.unlink()
    for name, text in found.items():
        (directory / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
