"""What the collectors of node and pod usage share: a table of queries in, rows of the table ``usage`` out.

A value at time t speaks of the step that ends at t. A query may hold the placeholders ``$step`` (the step as a PromQL
duration), ``$match`` (the cluster's own label matchers) and ``$by`` (the labels that name a node).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import pyarrow as pa

from pipeline.columns import METRICS, USAGE
from pipeline.errors import BadInput, Permanent, SourceError
from pipeline.ports import RangeQuery
from pipeline.records import Batch, Labels, Refusal, Series, Window

#: Interfaces that carry what another one carries too, or nothing that leaves the node.
VIRTUAL = (
    "lo|veth.*|cni.*|cali.*|cilium.*|lxc.*|flannel.*|docker.*|br-.*|br[0-9]+|cbr.*|virbr.*|vnet.*|vxlan.*|geneve.*"
    "|genev_.*|ovs-.*|ovn.*|antrea.*|weave.*|kube-.*|nodelocaldns|dummy.*|ifb.*|wg.*|tun.*|tap.*|sit.*|gre.*|erspan.*"
    "|ip6.*|ip_vti.*|eni[0-9a-f]+|azv.*|gke[0-9a-f]+|bond.*|team.*|vlan.*|podman.*|nerdctl.*|.*[.].*"
)

#: Block devices that are made of others, are parts of others, or are no disks.
STACKED = (
    "(/dev/)?(dm-.*|mapper/.*|md.*|loop.*|z?ram.*|sr.*|fd.*|nbd.*|drbd.*|bcache.*|(s|h|v|xv)d[a-z]+[0-9]+"
    "|(nvme[0-9]+n[0-9]+|mmcblk[0-9]+)p[0-9]+|nvme[0-9]+c[0-9]+n[0-9]+)"
)

_FAR = ("connection", "timeout")

#: Asking again brings nothing more, whatever a person mends meanwhile: the past stays as it is.
_LASTING = ("bad_query", "empty")


@dataclass(frozen=True, slots=True)
class Metric:
    """How one metric is asked for. Where a *base* metric is empty, something is wrong with the source."""

    promql: str
    base: bool = False


#: The namespace and name of what a series is about, or why that cannot be told.
Naming = Callable[[Labels], tuple[str, str] | Refusal]


def gather(
    query: RangeQuery,
    window: Window,
    step: timedelta,
    scope: str,
    metrics: Mapping[str, Metric],
    naming: Naming,
    *,
    queries: Mapping[str, str],
    match: str,
    by: Sequence[str] = (),
) -> Batch:
    """Ask for each of *metrics* at every multiple of *step* in *window*; *queries* (``scope.metric``) replace.

    Only finite values become rows; where two series speak of one thing, the larger value stays. A query that fails,
    and a base metric that succeeds with nothing, are `Batch.failures`; where none succeeds, the first is raised. The
    watermark stays where the same query may bring more later. A server out of reach is asked no further.
    """
    until = window.until - timedelta(microseconds=1)
    matchers = match.strip().rstrip(", ")
    filled = {
        "$step": f"{int(step.total_seconds())}s",
        "$match": f"{matchers}," if matchers else "",
        "$by": ", ".join(by),
    }
    failures: list[SourceError] = []
    answered = False
    refused: dict[Refusal, None] = {}
    tables: list[pa.Table] = []
    for metric, promql, base in _asked(scope, metrics, queries):
        for placeholder, value in filled.items():
            promql = promql.replace(placeholder, value)
        try:
            series = query(promql, window.since, until, step)
        except SourceError as error:
            failures.append(error)
            if error.reason in _FAR:
                break
            continue
        answered = True
        table = _rows(scope, metric, series, naming, refused)
        if table.num_rows:
            tables.append(table)
        elif base and _has_steps(window, step):
            why = "the query succeeded with no usable sample (is it scraped, with the labels the query needs?)"
            failures.append(Permanent("prometheus", "empty", f"{scope}.{metric}: {why}"))
    if failures and not answered:
        raise failures[0]
    rows = pa.concat_tables(tables) if tables else USAGE.empty_table()
    moves = all(failure.reason in _LASTING for failure in failures)
    return Batch(
        "usage",
        rows=rows,
        refused=tuple(refused),
        watermark=window.until if moves else None,
        scope=scope,
        failures=tuple(failures),
    )


def check_queries(queries: Mapping[str, str]) -> None:
    """Raise `BadInput` where a configured query replaces nothing."""
    known = {f"{scope}.{metric}" for scope, metrics in METRICS.items() for metric in metrics}
    for name in queries:
        if name not in known:
            raise BadInput(f"prometheus.queries.{name}: no such metric; known are {', '.join(sorted(known))}")


def _asked(scope: str, metrics: Mapping[str, Metric], queries: Mapping[str, str]) -> Iterator[tuple[str, str, bool]]:
    """Yield name, query and base; an empty query leaves its metric out."""
    check_queries(queries)
    for name, metric in metrics.items():
        promql = queries.get(f"{scope}.{name}", metric.promql)
        if promql.strip():
            yield name, promql, metric.base


def _has_steps(window: Window, step: timedelta) -> bool:
    seconds = step.total_seconds()
    first = -(-window.since.timestamp() // seconds) * seconds
    return first < window.until.timestamp()


def _rows(scope: str, metric: str, series: list[Series], naming: Naming, refused: dict[Refusal, None]) -> pa.Table:
    namespaces: list[str] = []
    names: list[str] = []
    told: list[Series] = []
    for one in series:
        named = naming(one.labels)
        if isinstance(named, Refusal):
            refused[named] = None
            continue
        namespaces.append(named[0])
        names.append(named[1])
        told.append(one)
    if not told:
        return USAGE.empty_table()
    values = np.concatenate([one.values for one in told])
    finite = np.isfinite(values)
    owner = np.repeat(np.arange(len(told)), [len(one.times) for one in told])[finite]
    at = np.rint(np.concatenate([one.times for one in told])[finite] * 1e6).astype(np.int64)
    if not len(at):
        return USAGE.empty_table()
    table = pa.table(
        {
            "namespace": pa.array(namespaces, pa.string()).take(pa.array(owner)),
            "name": pa.array(names, pa.string()).take(pa.array(owner)),
            "at": pa.array(at, pa.timestamp("us", tz="UTC")),
            "value": pa.array(values[finite]),
        }
    )
    keys = ["namespace", "name", "at"]
    table = table.group_by(keys).aggregate([("value", "max")]).sort_by([(key, "ascending") for key in keys])
    same = {"scope": scope, "metric": metric}
    columns = [
        pa.repeat(pa.scalar(same[field.name]), table.num_rows)
        if field.name in same
        else table["value_max" if field.name == "value" else field.name]
        for field in USAGE
    ]
    return pa.table(columns, schema=USAGE)
