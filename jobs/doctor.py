"""``colocate doctor``: reaches every source, checks each metric and label that is needed, and says what to fix."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

import pyarrow as pa
import pyarrow.compute as pc
import structlog

from featurestore.attribution.methods import TELLS, unplaced
from featurestore.store import published, queries, windows
from featurestore.store.duck import Store
from jobs import clocks, misplaced, peers, permissions, scraped, wire
from jobs.config import ClusterSettings, Settings
from jobs.finding import Finding, Verdict, remedy
from jobs.reaching import T, within
from pipeline.collectors import nodes, placements, regions, usage_nodes, usage_pods, workflows
from pipeline.errors import ColocationError, Damaged, SourceError, Temporary
from pipeline.records import Batch, Window
from rules.autoscaler import WARNING, recognised

_log = structlog.get_logger(__name__)


class Usage(TypedDict):
    """What both collectors of usage are handed."""

    step: timedelta
    queries: Mapping[str, str]
    match: str


#: Unreadable objects that are told one by one.
_TOLD = 3
#: HTTP's dates are whole seconds.
_WHOLE = timedelta(seconds=1)
#: What an API server says that is there and gives something else: of all other reasons one finding is enough.
_THERE = ("status_403", "status_404")


def _utc_now() -> datetime:
    return datetime.now(UTC)


def examine(settings: Settings, now: datetime, clock: clocks.Clock = _utc_now) -> Iterator[Finding]:
    """Check everything that is configured; a dead source costs only its own checks.

    *now* is where histories end; *clock* is this machine's, which those of the sources are compared with.
    """
    told = list(_store(settings, now))
    yield from told
    for cluster in settings.clusters:
        for source, check in _SOURCES.items():
            yield from _guarded(cluster.name, source, partial(check, settings, cluster, now, clock))
    yield from peers.examine(settings)
    if not settings.clusters and settings.replica.writer is None:
        known = _guarded("", "settings", partial(_unconfigured, settings))
        yield from (each for each in known if each not in told)


def _unconfigured(settings: Settings) -> Iterator[Finding]:
    """Nothing is collected: a fault, but where what is known came from files."""
    path = settings.store.path
    try:
        known = Store(path, settings.store.deadline).read(windows.clusters) if path.exists() else []
    except ColocationError as error:  # of `_store` too, but where only what is read here is damaged
        yield _unread(error)
        return
    if known:
        said = f"none is configured; {', '.join(known)} known from files"
        yield Finding("", "settings", "clusters", "ok", said)
    elif settings.store.snapshot.exists():
        yield Finding("", "settings", "clusters", "ok", "none is configured; the snapshot answers as it is")
    else:
        yield Finding("", "settings", "clusters", "failed", "none is configured", "name one as [[clusters]]")


def _guarded(cluster: str, source: str, check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    try:
        yield from check()
    except SourceError as error:
        yield Finding(cluster, source, "reach", "failed", str(error), remedy(error.reason, source))
    except ColocationError as error:
        yield Finding(cluster, source, "settings", "failed", str(error), "correct the setting")
    except Exception as error:  # a fault of ours in one check must not cost the others
        _log.exception("check failed", cluster=cluster, source=source)
        yield Finding(cluster, source, "check", "failed", f"{type(error).__name__} in the check itself", "report it")


def _store(settings: Settings, now: datetime) -> Iterator[Finding]:
    """Look at the files; a replica has no history, and its snapshot from its writer."""
    replica = settings.replica.writer is not None
    if not replica:
        try:
            yield from _history(settings, now)
        except ColocationError as error:
            yield _unread(error)
    renew = "see the writer below" if replica else "run colocate learn"
    try:
        yield from _snapshot(settings, now, renew)
    except ColocationError as error:
        yield Finding("", "store", "snapshot", "failed", str(error), renew)


def _unread(error: ColocationError) -> Finding:
    return Finding("", "store", "file", "failed", str(error), _mend(error))


def _mend(error: ColocationError) -> str:
    if isinstance(error, Temporary):
        return "wait for the other process"
    if isinstance(error, Damaged):
        return "put a copy back in its place, or move it away: a new history begins then"
    return "correct store.path, or see the message"


def _history(settings: Settings, now: datetime) -> Iterator[Finding]:
    store = Store(settings.store.path, settings.store.deadline)
    if not store.path.exists():
        bring = "run colocate collect" if settings.clusters else "run colocate import, or configure a cluster"
        yield Finding("", "store", "history", "warning", f"{store.path}: not there yet", bring)
        return
    collected = {cluster.name for cluster in settings.clusters}
    for row in store.read(queries.health).to_pylist():
        late = row["watermark"] is not None and now - row["watermark"] > timedelta(hours=1)
        late = late and row["cluster"] in collected
        verdict: Verdict = "ok" if row["outcome"] == "ok" and not late else "warning"
        said = _ran(row)
        if row["watermark"] is not None:
            said += f", known up to {row['watermark']:%Y-%m-%d %H:%M} UTC"
        yield Finding(row["cluster"], row["source"], "history", verdict, said, _again(row, verdict))


def _snapshot(settings: Settings, now: datetime, renew: str) -> Iterator[Finding]:
    snapshot = settings.store.snapshot
    if not snapshot.exists():
        yield Finding("", "store", "snapshot", "warning", f"{snapshot}: not there yet", renew)
        return
    known = published.load(snapshot)
    age = now - known.created
    stale = age > settings.advice.stale_after
    said = f"{snapshot}: {_long(age)} old"
    yield Finding("", "store", "snapshot", "warning" if stale else "ok", said, renew if stale else "")
    for cluster, counts in known.attribution.items():
        if without := unplaced(counts):
            yield Finding(cluster, "learn", "attribution", "warning", without, TELLS)


def _ran(row: Mapping[str, Any]) -> str:
    """Say how the last run of a source ended; learning adds no rows, but looks at some anew each time."""
    if not row["outcome"]:
        return "never run"
    what = f"{row['rows']:,} activations" if row["source"] == "learn" else f"{row['rows_total']:,} rows in all"
    return f"last run {row['outcome']}, {what}"


def _long(span: timedelta) -> str:
    """Return *span* as people say it, in the unit of which there are two or more."""
    seconds = span.total_seconds()
    unit, name = next(
        (each for each in ((86400, "days"), (3600, "hours")) if abs(seconds) >= 2 * each[0]), (60, "minutes")
    )
    return f"{seconds / unit:.0f} {name}"


def _again(row: Mapping[str, str], verdict: Verdict) -> str:
    """Return what brings the history of a source up to date: what its last run met stands further down."""
    if verdict == "ok":
        return ""
    if row["source"] == "learn":
        return "run colocate learn"
    return "run colocate collect" if row["outcome"] == "ok" else "see the failures below, then run colocate collect"


def _kubernetes(
    settings: Settings, cluster: ClusterSettings, now: datetime, clock: clocks.Clock
) -> Iterator[Finding]:
    given = cluster.kubernetes
    if given is None:
        yield Finding(
            cluster.name, "kubernetes", "settings", "warning", "not configured", "add [clusters.kubernetes]"
        )
        return
    client = wire.kubernetes(given)
    seen = _Seen()
    try:
        reading = _first("kubernetes", given.timeout, client.host, lambda: clocks.read(client.date, clock, _WHOLE))
    except SourceError as error:
        if error.reason not in _THERE:
            raise
        reading = None
    for name, check in (
        (
            "nodes",
            lambda: nodes.collect(
                client.list, now, bandwidth_label=given.bandwidth_label, disk_label=given.disk_label
            ),
        ),
        ("pods", lambda: placements.collect(client.list, now, function_labels=given.function_labels)),
        ("workflows", lambda: workflows.collect(client.list, now)),
        *([("regions", lambda: regions.collect(client.list, now))] if settings.regions.follow else []),
    ):
        yield from _listed(cluster.name, name, check, seen)
    yield from misplaced.examine(client.list, cluster.name, settings)
    yield from permissions.examine(client, cluster.name, settings)
    yield from clocks.examine(cluster.name, "kubernetes", reading, settings.learn.skew)
    if autoscalers := recognised(*seen.signs()):
        said = f"{' and '.join(autoscalers)} found: {WARNING}"
        fix = "see Modes in README.md" if settings.advice.mode == "observe" else "set advice.mode to observe at first"
        yield Finding(cluster.name, "kubernetes", "node autoscaler", "warning", said, fix)


@dataclass(slots=True)
class _Seen:
    """What nodes and pods carry, as JSON texts."""

    labels: set[str] = field(default_factory=set)
    taints: set[str] = field(default_factory=set)
    pods: set[str] = field(default_factory=set)

    def signs(self) -> tuple[set[str], set[str], list[dict[str, str]]]:
        """Return the keys of node labels and of taints, and the distinct labels of pods."""
        keys = {key for text in self.labels for key in json.loads(text)}
        taints = {taint["key"] for text in self.taints for taint in json.loads(text)}
        return keys, taints, [json.loads(text) for text in self.pods]


def _listed(cluster: str, name: str, check: Callable[[], Batch], seen: _Seen) -> Iterator[Finding]:
    try:
        batch = check()
    except SourceError as error:
        if name == "nodes" and error.reason not in _THERE:
            raise
        fix = remedy(error.reason, "kubernetes")
        if error.reason == "status_403":
            fix = f"allow this account to list {name} (deploy/ has the roles)"
        yield Finding(cluster, "kubernetes", f"list {name}", "failed", str(error), fix)
        return
    count = batch.rows.num_rows if batch.rows is not None else 0
    said = f"{count} found{_unreadable(batch)}"
    needed = name == "nodes" and not count
    verdict: Verdict = "failed" if needed else "warning" if batch.refused else "ok"
    fix = "check that this is the cluster that is meant" if needed else ""
    yield Finding(
        cluster, "kubernetes", f"list {name}", verdict, said, fix or ("mend the objects" if batch.refused else "")
    )
    if name == "pods" and batch.rows is not None:
        seen.pods |= _texts(batch.rows["labels"])
    if name == "nodes" and batch.rows is not None:
        seen.labels |= _texts(batch.rows["labels"])
        seen.taints |= _texts(batch.rows["taints"])
    if name == "pods" and batch.rows is not None and count:
        labelled = count - batch.rows["function"].null_count
        hint = (
            ""
            if labelled
            else "no pod has the function labels: are kubernetes.function_labels those of this installation?"
        )
        yield Finding(
            cluster,
            "kubernetes",
            "function labels",
            "ok" if labelled else "warning",
            f"{labelled} of {count} pods",
            hint,
        )
    if name == "nodes" and batch.rows is not None and count:
        for column, setting in (("disk_type", "disk_label"), ("network_bytes_per_s", "bandwidth_label")):
            known = pc.sum(pc.fill_null(pc.not_equal(batch.rows[column].cast("string"), ""), False)).as_py() or 0
            hint = "" if known else f"label the nodes, or name the label in kubernetes.{setting}"
            yield Finding(
                cluster,
                "kubernetes",
                column,
                "ok" if known else "warning",
                f"known of {known} of {count} nodes",
                hint,
            )


def _unreadable(batch: Batch) -> str:
    """Say which objects of a list could not be read, and why."""
    if not batch.refused:
        return ""
    told = "; ".join(each.why for each in batch.refused[:_TOLD])
    more = f"; and {len(batch.refused) - _TOLD} more" if len(batch.refused) > _TOLD else ""
    return f", {len(batch.refused)} unreadable: {told}{more}"


def _texts(column: pa.ChunkedArray) -> set[str]:
    return {text for text in pc.unique(column).to_pylist() if text}


def _prometheus(
    settings: Settings, cluster: ClusterSettings, now: datetime, clock: clocks.Clock
) -> Iterator[Finding]:
    given = cluster.prometheus
    if given is None:
        yield Finding(
            cluster.name, "prometheus", "settings", "warning", "not configured", "add [clusters.prometheus]"
        )
        return
    client = wire.prometheus(given)
    try:
        _first("prometheus", given.timeout, client.url, lambda: client.instant("vector(1)", now))
        yield Finding(cluster.name, "prometheus", "reach", "ok", client.url)
        reading = clocks.read(client.now, clock)
        yield from clocks.examine(cluster.name, "prometheus", reading, settings.learn.skew)
        step = settings.schedule.step
        yield from scraped.scrapes(cluster.name, client, step, now)
        window = Window(now - 3 * step, now)
        known = _addresses(settings, cluster.name)
        common: Usage = {"step": step, "queries": given.queries, "match": given.match}
        of_nodes = partial(
            usage_nodes.collect, client, window, addresses=known, node_labels=given.node_label, **common
        )
        yield from scraped.metrics(cluster.name, "node", of_nodes)
        yield from scraped.metrics(cluster.name, "pod", partial(usage_pods.collect, client, window, **common))
    finally:
        client.close()


def _first(source: str, timeout: timedelta, where: str, ask: Callable[[], T]) -> T:
    """Ask a source for the first time: whatever it does, within about its *timeout*."""
    try:
        return within(timeout, ask)
    except TimeoutError as error:
        raise Temporary(source, "timeout", f"{where}: {error}") from None


def _openwhisk(settings: Settings, cluster: ClusterSettings, now: datetime, clock: clocks.Clock) -> Iterator[Finding]:
    given = cluster.openwhisk
    if given is None:
        yield Finding(cluster.name, "openwhisk", "settings", "warning", "not configured", "add [clusters.openwhisk]")
        return
    for namespace in given.namespaces:
        check = f"namespace {namespace.name}"
        try:
            with wire.openwhisk(given, namespace, attempts=1) as client:
                ask = partial(client.count, now - timedelta(hours=1), now)
                before = clock()
                count = _first("openwhisk", given.timeout, client.url, ask)
                after, date = clock(), client.date
        except ColocationError as error:
            reason = error.reason if isinstance(error, SourceError) else ""
            if isinstance(error, SourceError) and not reason.startswith("status_4"):
                raise  # of the host, whatever the namespace
            yield Finding(cluster.name, "openwhisk", check, "failed", str(error), remedy(reason))
            continue
        fix = "" if count else "nothing ran; if something did, look at the clock below"
        yield Finding(
            cluster.name,
            "openwhisk",
            check,
            "ok" if count else "warning",
            f"{count} activations in the last hour",
            fix,
        )
        if namespace is given.namespaces[0] and date is not None:
            reading = clocks.Reading(before, date, after, _WHOLE)
            yield from clocks.examine(cluster.name, "openwhisk", reading, settings.learn.skew)


_Check = Callable[[Settings, ClusterSettings, datetime, clocks.Clock], Iterator[Finding]]

#: One line a source.
_SOURCES: dict[str, _Check] = {"kubernetes": _kubernetes, "prometheus": _prometheus, "openwhisk": _openwhisk}


def _addresses(settings: Settings, cluster: str) -> dict[str, str]:
    path: Path = settings.store.path
    if not path.exists():
        return {}
    return Store(path, settings.store.deadline).read(lambda con: queries.addresses(con, cluster))
