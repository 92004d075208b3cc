"""Every dashboard, by the name of its file."""

from collections.abc import Callable, Mapping
from typing import Final

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.disks import disks
from dashboards.functions import functions
from dashboards.interference import interference
from dashboards.overview import overview
from dashboards.recommendations import recommendations
from dashboards.regions import regions
from dashboards.requirements import requirements

DASHBOARDS: Final[Mapping[str, Callable[[], Dashboard]]] = {
    "overview": overview,
    "interference": interference,
    "functions": functions,
    "recommendations": recommendations,
    "requirements": requirements,
    "disks": disks,
    "regions": regions,
}
