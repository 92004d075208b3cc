"""History written by a test, in OpenMetrics, for a real Prometheus to load."""

import re
from collections.abc import Callable
from pathlib import Path


class History:
    """Series sampled every *every* seconds in [since, until], each given as a function of seconds since *since*."""

    def __init__(self, since: int, until: int, every: int = 30) -> None:
        self.since, self.until, self.every = since, until, every
        self._families: dict[str, list[str]] = {}

    def add(self, name: str, value: Callable[[float], float | None], **labels: str) -> None:
        """Add a series; a time for which *value* is None has no sample."""
        self.add_raw(name, value, ",".join(f'{label}="{text}"' for label, text in labels.items()))

    def add_raw(self, name: str, value: Callable[[float], float | None], inner: str) -> None:
        """Add a series whose labels are written as they stand between the braces."""
        lines = self._families.setdefault(name, [])
        for time in range(self.since, self.until + 1, self.every):
            sample = value(time - self.since)
            if sample is not None:
                lines.append(f"{name}{{{inner}}} {_number(sample)} {time}")

    def add_page(self, text: str, value: Callable[[str, float], Callable[[float], float | None]]) -> None:
        """Add every series of a scraped page; *value* makes of name and number what it was over time."""
        for line in text.splitlines():
            found = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
            if found:
                self.add_raw(found[1], value(found[1], float(found[3])), found[2] or "")

    def write(self, path: Path) -> Path:
        """Write the file and return its path."""
        lines: list[str] = []
        for name, samples in self._families.items():
            counter = name.endswith("_total")
            lines.append(f"# TYPE {name.removesuffix('_total')} {'counter' if counter else 'gauge'}")
            lines += samples
        path.write_text("\n".join([*lines, "# EOF", ""]), encoding="utf-8")
        return path


def _number(value: float) -> str:
    text = repr(float(value))
    return {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}.get(text, text)


def growing(rate: float, start: float = 1000.0) -> Callable[[float], float]:
    """A counter that grows by *rate* a second."""
    return lambda seconds: start + rate * seconds
