"""A page of OpenMetrics with timestamps, gathered series by series.

The format is that of https://prometheus.io/docs/specs/om/open_metrics_spec/: the samples of a family stand together,
those of a series in the order of their times, and the page ends in ``# EOF``.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from prometheus_client.metrics_core import Metric

#: What Prometheus makes of a gauge's kind, and what the families here are.
_KINDS = {"gauge", "counter", "info"}


class Page:
    """Gathers samples; times are epoch seconds and come in order for each series."""

    def __init__(self) -> None:
        self._families: dict[str, tuple[str, dict[str, list[str]]]] = {}
        self.samples = 0

    def add(self, families: Iterable[Metric], times: Sequence[float]) -> None:
        """Add every sample of *families* at each of *times*."""
        for family in families:
            assert family.type in _KINDS, family.type
            series = self._series(family)
            for sample in family.samples:
                self._extend(series, sample.name, sample.labels, [f"{sample.value!r} {time:.3f}" for time in times])

    def add_series(self, family: Metric, values: Sequence[str], points: Iterable[tuple[float, float]]) -> None:
        """Add one series of the gauge *family* with the label *values*: points of time and value."""
        names: Sequence[str] = getattr(family, "_labelnames", ())
        labels = dict(zip(names, values, strict=True))
        self._extend(
            self._series(family), family.name, labels, [f"{float(value)!r} {time:.3f}" for time, value in points]
        )

    def write(self, path: Path) -> None:
        """Write the page aside and rename it to *path*."""
        aside = path.with_name(f".{path.name}")
        with aside.open("w", encoding="utf-8") as file:
            for _, (head, series) in sorted(self._families.items()):
                file.write(head)
                for key, samples in series.items():
                    file.writelines(f"{key} {sample}\n" for sample in samples)
            file.write("# EOF\n")
        aside.replace(path)

    def _series(self, family: Metric) -> dict[str, list[str]]:
        if family.name not in self._families:
            head = f"# HELP {family.name} {_escaped(family.documentation)}\n# TYPE {family.name} {family.type}\n"
            self._families[family.name] = head, {}
        return self._families[family.name][1]

    def _extend(
        self, series: dict[str, list[str]], name: str, labels: dict[str, str], samples: Sequence[str]
    ) -> None:
        inner = ",".join(f'{label}="{_escaped(value)}"' for label, value in labels.items())
        series.setdefault(f"{name}{{{inner}}}" if inner else name, []).extend(samples)
        self.samples += len(samples)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
