"""The page: as OpenMetrics writes it, escapes and order included."""

from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from jobs.exporting.page import Page


def test_samples_of_a_series_stand_together_in_order_and_labels_are_escaped(tmp_path: Path) -> None:
    odd = 'a"b\\c\nd'
    gauge = GaugeMetricFamily("g_ratio", "A gauge", labels=("of",))
    gauge.add_metric((odd,), 0.25)
    gauge.add_metric(("x",), 1)
    counter = CounterMetricFamily("c", "A counter", labels=())
    counter.add_metric((), 3)
    info = InfoMetricFamily("i", "An info", labels=("of",))
    info.add_metric(("x",), {"model": "m"})
    page = Page()
    page.add([gauge, counter], [60.0, 120.0])
    page.add([info, gauge], [180.0])
    page.add_series(GaugeMetricFamily("g_ratio", "A gauge", labels=("of",)), ("y",), [61.5], [2.0])
    page.write(tmp_path / "page")
    text = (tmp_path / "page").read_text()
    assert text.endswith("# EOF\n")
    assert page.samples == text.count("\n") - 2 * 3 - 1 == 10
    found = {family.name: family for family in text_string_to_metric_families(text)}
    assert [(s.labels["of"], s.value, float(s.timestamp)) for s in found["g_ratio"].samples] == [
        (odd, 0.25, 60), (odd, 0.25, 120), (odd, 0.25, 180), ("x", 1, 60), ("x", 1, 120), ("x", 1, 180),
        ("y", 2, 61.5),
    ]  # fmt: skip
    assert [(s.name, s.value, float(s.timestamp)) for s in found["c"].samples] == [
        ("c_total", 3, 60),
        ("c_total", 3, 120),
    ]
    assert found["i"].samples[0].labels == {"of": "x", "model": "m"}
    assert list(tmp_path.iterdir()) == [tmp_path / "page"]
