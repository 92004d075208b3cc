"""A dashboard: its panels, the variables that narrow them, and links to the others."""

from collections.abc import Iterable, Sequence
from typing import Final

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import (
    Dashboard,
    DashboardLinkType,
    Panel,
    VariableModel,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from dashboards.panels import SOURCE

_TAG: Final = "colocation"
_ALL: Final = ".*"

Section = tuple[str, Sequence[Builder[Panel]]]


def board(
    uid: str, title: str, text: str, variables: Iterable[Builder[VariableModel]], *sections: Section
) -> Dashboard:
    """Return the dashboard of *sections*, each a row's title with its panels."""
    made = builders.Dashboard(f"Co-location: {title}").uid(f"colocation-{uid}").description(text).tags([_TAG])
    made.readonly().refresh("1m").time("now-6h", "now").timezone("browser")
    made.link(
        builders.DashboardLink("Co-location")
        .type(DashboardLinkType.DASHBOARDS)
        .tags([_TAG])
        .as_dropdown(True)
        .include_vars(True)
        .keep_time(True)
    )
    made.with_variable(builders.DatasourceVariable("datasource").label("data source").type("prometheus"))
    for variable in variables:
        made.with_variable(variable)
    for name, panels in sections:
        made.with_row(builders.Row(name))
        for panel in panels:
            made.with_panel(panel)
    built = made.build()
    for number, placed in enumerate(built.panels or (), 1):
        placed.id_val = number
    return built


def chosen(name: str, query: str, regex: str = "") -> Builder[VariableModel]:
    """A variable of many values, all at first; *query* is Grafana's ``label_values(METRIC, LABEL)``."""
    variable = builders.QueryVariable(name).query(query).datasource(SOURCE).multi(True).include_all(True)
    variable.all_value(_ALL).refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(VariableSort.ALPHABETICAL_ASC)
    variable.current(VariableOption(selected=True, text=["All"], value=["$__all"]))
    return variable.regex(regex) if regex else variable


def cluster() -> Builder[VariableModel]:
    """The clusters that nodes are known of."""
    return chosen("cluster", "label_values(colocation_nodes, cluster)")


def node() -> Builder[VariableModel]:
    """The nodes of the chosen clusters."""
    return chosen("node", 'label_values(colocation_node_cpu_allocatable_cores{cluster=~"$cluster"}, node)')


def namespace() -> Builder[VariableModel]:
    """The namespaces of functions: what stands before the first slash of their names."""
    query = 'label_values(colocation_function_activations{cluster=~"$cluster"}, function)'
    return chosen("namespace", query, regex="/^([^/]+)/")


def function() -> Builder[VariableModel]:
    """The functions of the chosen clusters and namespaces."""
    matched = 'cluster=~"$cluster", function=~"($namespace)/.*"'
    return chosen("function", f"label_values(colocation_function_activations{{{matched}}}, function)")
