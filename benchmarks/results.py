"""Results that are kept: a section a benchmark, which the next run of the same benchmark replaces."""

import platform
from datetime import UTC, datetime
from pathlib import Path

_HEAD = "# Results\n\nWritten by `python -m benchmarks NAME --results`; each section says where and when.\n"


def keep(path: Path, name: str, machine: str, table: str) -> None:
    """Put the *table* of *name* into the file at *path*, in place of the one that is there; sections stay sorted."""
    found = dict(_sections(path.read_text(encoding="utf-8"))) if path.exists() else {}
    at = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    found[name] = f"{at}; {machine}; {processor()}, {platform.system()} {platform.release()}\n\n{table}\n"
    body = "".join(f"\n## {name}\n\n{section}" for name, section in sorted(found.items()))
    path.write_text(_HEAD + body, encoding="utf-8")


def processor() -> str:
    """Return the model of the processor and the memory of the machine, as Linux tells them."""
    known = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.partition(":")[2].strip() for line in known if line.startswith("model name")), "processor")
    memory = Path("/proc/meminfo").read_text(encoding="utf-8").split()[1]
    return f"{model}, {int(memory) / 2**20:.0f} GiB"


def _sections(text: str) -> list[tuple[str, str]]:
    parts = text.split("\n## ")[1:]
    return [(name, body.lstrip("\n")) for name, _, body in (part.partition("\n") for part in parts)]
