"""Kinds of panels with the product's own defaults: a number, lines, bars, a table, a matrix, a timeline of states.

Expressions are PromQL with Grafana's variables; every panel reads the source that the dashboard's variable names.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, Self, TypeVar

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import prometheus, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    FieldColorModeId,
    Panel,
    ValueMap,
    ValueMappingResult,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

#: The data source that a dashboard's variable chooses.
SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")

#: Columns of a table that say nothing: the time of the query, and what Prometheus adds.
_HIDDEN = ("Time", "__name__", "instance", "job")


class Query(NamedTuple):
    """PromQL and the name of its series; in a table the name of its column of values."""

    expr: str
    legend: str = ""


def told(expr: str, *by: str) -> str:
    """Return *expr* with one series for each value of the labels *by*: every replica tells of the same snapshot."""
    return f"max by ({', '.join(by)}) ({expr})"


class _Described(Protocol):
    def title(self, title: str) -> Self: ...
    def description(self, description: str) -> Self: ...
    def datasource(self, datasource: DataSourceRef) -> Self: ...
    def span(self, w: int) -> Self: ...
    def height(self, h: int) -> Self: ...


_P = TypeVar("_P", bound=_Described)


def number(title: str, text: str, query: Query, *, unit: str = "short", width: int = 4) -> Builder[Panel]:
    """Show one value, the newest, or one a series."""
    panel = _described(stat.Panel(), title, text, width, 4).unit(unit)
    panel.color_mode(common.BigValueColorMode.NONE).graph_mode(common.BigValueGraphMode.AREA)
    return panel.with_target(_target(query, 0))


def lines(
    title: str, text: str, *queries: Query, unit: str = "short", width: int = 12, stacked: bool = False
) -> Builder[Panel]:
    """Show values over time; *stacked* where they add up."""
    panel = _described(timeseries.Panel(), title, text, width, 8).unit(unit)
    panel.legend(common_builders.VizLegendOptions().show_legend(True).placement(common.LegendPlacement.BOTTOM))
    panel.fill_opacity(20 if stacked else 0).show_points(common.VisibilityMode.AUTO).line_width(1)
    if stacked:
        panel.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL))
    for number_, query in enumerate(queries):
        panel.with_target(_target(query, number_))
    return panel


def listing(
    title: str, text: str, *queries: Query, units: Mapping[str, str] | None = None, width: int = 12
) -> Builder[Panel]:
    """Show the newest values as a table: one row for equal labels, one column a query; *units* by column."""
    panel = _described(table.Panel(), title, text, width, 9)
    for number_, query in enumerate(queries):
        panel.with_target(_target(query, number_, as_table=True))
    names = {
        "Value" if len(queries) == 1 else f"Value #{_letter(number_)}": query.legend
        for number_, query in enumerate(queries)
    }
    panel.with_transformation(DataTransformerConfig("merge", options={}))
    hidden = dict.fromkeys(_HIDDEN, True)
    organized = {"excludeByName": hidden, "renameByName": {key: name for key, name in names.items() if name}}
    panel.with_transformation(DataTransformerConfig("organize", options=organized))
    for column, unit in (units or {}).items():
        panel.override_by_name(column, [DynamicConfigValue("unit", unit)])
    return panel


def matrix(
    title: str, text: str, query: Query, *, row: str, column: str, unit: str, width: int = 24
) -> Builder[Panel]:
    """Show the newest values as a heat map: a row a value of the label *row*, a column one of *column*."""
    panel = _described(table.Panel(), title, text, width, 12).unit(unit)
    panel.with_target(_target(query, 0, as_table=True))
    grouped = {"columnField": column, "rowField": row, "valueField": "Value", "emptyValue": "null"}
    panel.with_transformation(DataTransformerConfig("groupingToMatrix", options=grouped))
    panel.color_scheme(builders.FieldColor().mode(FieldColorModeId.CONTINUOUS_YL_RD)).min(0)
    coloured = DynamicConfigValue("custom.cellOptions", {"type": "color-background", "mode": "gradient"})
    panel.override_by_field_type("number", [coloured])
    return panel


def states(
    title: str, text: str, query: Query, names: Sequence[tuple[str, str]], *, width: int = 24
) -> Builder[Panel]:
    """Show which state each series was in over time; *names* are the words and colours of 0, 1, 2, ..."""
    panel = _described(statetimeline.Panel(), title, text, width, 9).merge_values(True)
    words = {
        str(number_): ValueMappingResult(text=word, color=colour, index=number_)
        for number_, (word, colour) in enumerate(names)
    }
    panel.mappings([ValueMap(words)]).show_value(common.VisibilityMode.AUTO)
    return panel.with_target(_target(query, 0))


def _described(panel: _P, title: str, text: str, width: int, height: int) -> _P:
    return panel.title(title).description(text).datasource(SOURCE).span(width).height(height)


def _target(query: Query, number_: int, *, as_table: bool = False) -> prometheus.Dataquery:
    target = prometheus.Dataquery().expr(query.expr).ref_id(_letter(number_)).datasource(SOURCE)
    if as_table:
        return target.instant().format(PromQueryFormat.TABLE)
    return target.range().legend_format(query.legend or "__auto")


def _letter(number_: int) -> str:
    return chr(ord("A") + number_)
