"""A page of OpenMetrics with timestamps, gathered series by series.

The format is that of https://prometheus.io/docs/specs/om/open_metrics_spec/: the samples of a family stand together,
those of a series in the order of their times, and the page ends in ``# EOF``. Lines are made when they are written: a
day of thousands of nodes is tens of millions of them.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path

from prometheus_client.metrics_core import Metric

_KINDS = {"gauge", "counter", "info"}

#: Values of a series at as many times.
_Run = tuple[Iterable[float], Sequence[float]]
_Series = dict[str, list[_Run]]


class Page:
    """Gathers samples; times are epoch seconds and come in order for each series."""

    def __init__(self) -> None:
        self._families: dict[str, tuple[str, _Series]] = {}
        self.samples = 0

    def add(self, families: Iterable[Metric], times: Sequence[float]) -> None:
        """Add every sample of *families* at each of *times*."""
        for family in families:
            series = self._series(family)
            for sample in family.samples:
                self._extend(series, sample.name, sample.labels, (repeat(sample.value), times))

    def add_series(
        self, family: Metric, labels: Sequence[str], times: Sequence[float], values: Sequence[float]
    ) -> None:
        """Add one series of the gauge *family*: the values of its labels, and its own at *times*."""
        names: Sequence[str] = getattr(family, "_labelnames", ())
        run = array("d", values), array("d", times)
        self._extend(self._series(family), family.name, dict(zip(names, labels, strict=True)), run)

    def write(self, path: Path) -> None:
        """Write the page aside and rename it to *path*."""
        aside = path.with_name(f".{path.name}")
        try:
            with aside.open("w", encoding="utf-8") as file:
                for _, (head, series) in sorted(self._families.items()):
                    file.write(head)
                    for key, runs in series.items():
                        file.writelines(_lines(key, runs))
                file.write("# EOF\n")
            aside.replace(path)
        finally:
            aside.unlink(missing_ok=True)

    def _series(self, family: Metric) -> _Series:
        assert family.type in _KINDS, family.type
        if family.name not in self._families:
            head = f"# HELP {family.name} {_escaped(family.documentation)}\n# TYPE {family.name} {family.type}\n"
            self._families[family.name] = head, {}
        return self._families[family.name][1]

    def _extend(self, series: _Series, name: str, labels: Mapping[str, str], run: _Run) -> None:
        inner = ",".join(f'{label}="{_escaped(value)}"' for label, value in labels.items())
        series.setdefault(f"{name}{{{inner}}}" if inner else name, []).append(run)
        self.samples += len(run[1])


def _lines(key: str, runs: Iterable[_Run]) -> Iterator[str]:
    for values, times in runs:
        for value, time in zip(values, times, strict=False):  # a value that stays is repeated without end
            yield f"{key} {float(value)!r} {time:.3f}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
