"""Placements: which pod, of which function, is on which node, from when to when."""

from datetime import datetime

from pipeline.collectors.objects import read, table, text
from pipeline.columns import PLACEMENTS
from pipeline.mangling import Index
from pipeline.objects import pod
from pipeline.ports import ListObjects
from pipeline.records import Batch, Pod

PATH = "/api/v1/pods"
FUNCTION_LABELS = ("openwhisk/namespace", "openwhisk/action")


def collect(
    list_objects: ListObjects,
    at: datetime,
    *,
    function_labels: tuple[str, str] = FUNCTION_LABELS,
    known: Index | None = None,
) -> Batch:
    """List the pods that have a node; *known* functions are looked for in the names of pods without labels.

    Raises `pipeline.errors.SourceError` where the list itself fails.
    """
    pods, refused = read("pods", list_objects(PATH, field_selector="spec.nodeName!=").items, pod)
    index = known or Index()
    rows = [row(each, at, function_labels, index) for each in pods if each.node]
    return Batch("placements", table(PLACEMENTS, rows), refused=refused, watermark=at)


def row(
    each: Pod, at: datetime, function_labels: tuple[str, str], known: Index, *, gone: bool = False
) -> tuple[object, ...]:
    """One pod in the order of `pipeline.columns.PLACEMENTS`; one that is *gone* was deleted at *at*.

    When its label came is not to be seen of a pod: *function_from* is null.
    """
    function, named = function_of(each, function_labels, known)
    started = each.started or each.created
    # A pod may fail without any container or condition to date it by: then it never held anything.
    others = {name: amount for name, amount in each.requests.items() if amount and name not in ("cpu", "memory")}
    ended = (each.ended or started) if each.terminal else max(at, started) if gone else None
    return (
        each.uid,
        each.namespace,
        each.name,
        each.node,
        at,
        function,
        named,
        started,
        ended,
        each.phase,
        each.limits.get("cpu"),
        each.limits.get("memory"),
        each.requests.get("cpu"),
        each.requests.get("memory"),
        text(others) if others else None,
        text(each.labels),
        None,
    )


def function_of(each: Pod, function_labels: tuple[str, str], known: Index) -> tuple[str | None, bool]:
    """The pod's function, or None, and whether its name alone, known from creation on, says so.

    The labels win: they are put on the pod when it is initialised, a prewarmed one too.
    """
    spoken = known.of_pod(each.name)
    namespace, action = (each.labels.get(label) for label in function_labels)
    function = known.of_labels(namespace, action) if namespace and action else spoken
    return function, function is not None and function == spoken
