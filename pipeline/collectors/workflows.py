"""Workflows: what their designers say of functions, as one JSON document each."""

from datetime import datetime

from pipeline.collectors.objects import read, table, text
from pipeline.columns import WORKFLOWS
from pipeline.errors import SourceError
from pipeline.objects import workflow
from pipeline.ports import ListObjects
from pipeline.records import Batch

PATH = "/apis/wp5.physics-faas.eu/v1alpha1/workflows"


def collect(list_objects: ListObjects, at: datetime) -> Batch:
    """List the workflows at *at*: none where the cluster does not know the kind.

    Raises `pipeline.errors.SourceError` where the list itself fails otherwise.
    """
    try:
        items = list_objects(PATH).items
    except SourceError as error:
        if error.reason != "status_404":
            raise
        items = ()
    workflows, refused = read("workflows", items, workflow)
    rows: list[tuple[object, ...]] = [(each.namespace, each.name, text(each)) for each in workflows]
    return Batch("workflows", table(WORKFLOWS, rows), refused=refused, watermark=at)
