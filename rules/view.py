"""The view that every rule reads: columns of the snapshot, of the live cluster and of one's own recent decisions.

`learn` lays out what a snapshot knows, `view_of` puts a live cluster beside it, `rules.changes.updated` keeps the
view current by what changed; `prepare` is the first two in one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType

import msgspec
import numpy as np
import pyarrow as pa

from featurestore.company import of_nodes
from featurestore.snapshot import Snapshot
from pipeline.lookup import Share
from pipeline.records import Node, Pod, Workflow
from rules import knowledge, tables
from rules.bases import Bases
from rules.functions import CompanyMedians, Functions, Latencies, Pairs, Rows, weighed, with_unlearned
from rules.hosts.podrules import HostRules
from rules.laid import shared, twins
from rules.memo import Memo
from rules.nodes import Nodes, columns, with_held
from rules.owners import Overwritten, Owners
from rules.running import Busyness, Held, Reservation, Running, Seen, ask
from rules.standing import Scopes, Standing, scoped, standing

__all__ = ["Learned", "Reservation", "Services", "View", "learn", "prepare", "view_of"]

Services = Mapping[tuple[str, str], Mapping[str, str]]
_WORKFLOW = msgspec.json.Decoder(Workflow)
_FUNCTION_LABELS = ("openwhisk/namespace", "openwhisk/action")
_LABEL_PREFIX = "colocation.internal"


def _everywhere(namespace: str, mode: str | None) -> bool:
    return True


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """What one snapshot knows of one cluster; *created* and *version* are the snapshot's.

    *pairs* carry no numbers of node types yet. *tables* are the cluster's rows of the snapshot, *share* knows which
    columns of theirs it has laid out (`rules.laid`).
    """

    cluster: str
    version: str
    created: datetime
    functions: Functions
    pairs: Pairs
    workflows: Mapping[tuple[str, str], Workflow]
    owners: Owners
    tables: Mapping[str, pa.Table]
    share: Share


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """Everything that a decision looks at, frozen at *at*; *created* and *version* are the snapshot's.

    *medians* are those by company, *company* is what each node's is now (`featurestore.company`). *hosts* is what
    pods of submitted stream jobs get. *memo* keeps what was worked out from this view.
    """

    cluster: str
    version: str
    created: datetime
    at: datetime
    learned: Learned
    nodes: Nodes
    functions: Functions
    held: Held
    running: Running
    busyness: Busyness | None
    pairs: Pairs
    latencies: Latencies
    medians: CompanyMedians
    bases: Bases
    workflows: Mapping[tuple[str, str], Workflow]
    services: Services
    standing: Standing
    company: Rows
    hosts: HostRules = field(default_factory=dict)
    memo: Memo = field(default_factory=Memo)


def prepare(
    snapshot: Snapshot,
    cluster: str,
    at: datetime,
    *,
    nodes: Sequence[Node] | None = None,
    pods: Sequence[Pod] | None = None,
    reservations: Sequence[Reservation] = (),
    services: Services = MappingProxyType({}),
    scopes: Scopes = MappingProxyType({}),
    function_labels: tuple[str, str] = _FUNCTION_LABELS,
    label_prefix: str = _LABEL_PREFIX,
    overwritten: Overwritten = _everywhere,
    share: Share | None = None,
) -> View:
    """Make the view of *cluster* at *at*; without live *nodes* or *pods* those that the snapshot last saw."""
    learned = learn(
        snapshot,
        cluster,
        function_labels=function_labels,
        label_prefix=label_prefix,
        overwritten=overwritten,
        share=share,
    )
    return view_of(learned, at, nodes=nodes, pods=pods, reservations=reservations, services=services, scopes=scopes)


def learn(
    snapshot: Snapshot,
    cluster: str,
    *,
    function_labels: tuple[str, str] = _FUNCTION_LABELS,
    label_prefix: str = _LABEL_PREFIX,
    overwritten: Overwritten = _everywhere,
    share: Share | None = None,
) -> Learned:
    """Lay out what *snapshot* knows of *cluster*; the labels, the prefix and where own labels are overwritten are
    those of `Policy`. Columns are those that were published with it where they are the same, or as *share* has them.
    """
    share = twins(snapshot.laid.get(cluster, {})) if share is None else share
    found = tables.of_cluster(snapshot, cluster)
    workflows = _workflows(found["workflows"])
    known = knowledge.function_names(found)
    functions = shared(share, "functions", knowledge.functions(found["functions"], known, workflows.values(), share))
    owners = Owners(functions.mangled, functions.names, function_labels, label_prefix, overwritten, share)
    found["placements"] = tables.owned(found["placements"], owners.labelled)
    return Learned(
        cluster=cluster,
        version=snapshot.version,
        created=snapshot.created,
        functions=functions,
        pairs=shared(share, "pairs", knowledge.pairs(found["pairs"], functions.index)),
        workflows=workflows,
        owners=owners,
        tables=found,
        share=share,
    )


def stating(learned: Learned, workflows: Mapping[tuple[str, str], Workflow]) -> Learned:
    """Return *learned* with the *workflows*, by namespace and name, that there are now in place of the snapshot's."""
    if workflows == learned.workflows:
        return learned
    held = MappingProxyType(dict(workflows))
    return replace(learned, workflows=held, functions=weighed(learned.functions, held.values()))


def view_of(
    learned: Learned,
    at: datetime,
    *,
    nodes: Sequence[Node] | None = None,
    pods: Sequence[Pod] | None = None,
    reservations: Sequence[Reservation] = (),
    services: Services = MappingProxyType({}),
    scopes: Scopes = MappingProxyType({}),
) -> View:
    """Put a live cluster beside what was *learned*; without live *nodes* or *pods* those that the snapshot last saw.

    *services* maps (namespace, name) to the selector of a Service, *scopes* a namespace to its labels. A reservation
    counts until a pod that carries its decision has a node. A pair's slowdown is per activation that runs all the
    time, so a function's pods weigh by how busy they are: by what was measured on the node, else, or where they were
    created after the snapshot, like its other pods, else as always busy; where busyness is measured and the function
    was not seen at all, as `running.IDLE`.
    """
    # In order of their names: equal ones rank alike, in whatever order a server lists them.
    listed = tables.nodes(learned.tables["nodes"]) if nodes is None else sorted(nodes, key=lambda each: each.name)
    kept = tables.node_names(learned.tables["nodes"]) if nodes is None else None
    share = learned.share
    laid = columns(listed, tables.used(learned.tables["nodes"]), kept, share)
    names, decisions = _owners(learned, pods)
    pending = [each for each in reservations if each.decision not in decisions]
    unlearned = {*names, *(each.function for each in pending)} - learned.functions.index.keys()
    functions = with_unlearned(learned.functions, sorted(unlearned), learned.workflows.values())
    seen = _seen(learned, laid, functions, pods, names)
    seen = _reserved(seen, pending, laid, functions)
    busyness = tables.busyness(learned.tables["busyness"], laid.index, learned.functions.index)
    if busyness is not None:
        busyness = shared(share, "busyness", busyness)
    held = seen.held(len(laid))
    running = seen.running(len(laid), len(functions), busyness)
    running = replace(shared(share, "running", running), entries=shared(share, "running.entries", running.entries))
    medians = knowledge.company(learned.tables["company"], learned.functions.index, laid)
    medians = shared(share, "company", medians)
    latencies = knowledge.latencies(learned.tables["latencies"], learned.functions.index, laid)
    latencies = shared(share, "latencies", latencies)
    bases = knowledge.bases(learned.tables["base_times"], latencies, learned.functions.index, laid)
    seen_pods = (
        tables.standing(learned.tables["placements"], laid.index)
        if pods is None
        else standing(filter(counts, pods), laid.index)
    )
    return View(
        cluster=learned.cluster,
        version=learned.version,
        created=learned.created,
        at=at,
        learned=learned,
        nodes=with_held(laid, held),
        functions=functions,
        held=held,
        running=running,
        busyness=busyness,
        pairs=shared(share, "pairs", knowledge.typed(learned.pairs, laid.types)),
        latencies=latencies,
        medians=medians,
        bases=shared(share, "bases", bases),
        company=company_now(running, functions, medians, len(laid)),
        workflows=learned.workflows,
        services=services,
        standing=scoped(shared(share, "standing", seen_pods), scopes),
    )


def company_now(running: Running, functions: Functions, medians: CompanyMedians, nodes: int) -> Rows:
    """Return the company on each of so many *nodes*; nobody's where no *medians* would be found by it."""
    if not len(medians.company):
        return np.broadcast_to(np.int64(0), nodes)
    function, entries = running.all()
    return of_nodes(entries.node, function, entries.busy, functions.number, nodes)


def _owners(learned: Learned, pods: Sequence[Pod] | None) -> tuple[list[str], set[str]]:
    """Return the function of each of *pods*, and one's own decisions that they carry; only pods with a node count.

    Without pods the functions are those of the snapshot's placements that nothing was learned of.
    """
    if pods is None:
        return tables.unlearned(learned.tables["placements"], learned.functions.index), set()
    of = learned.owners
    counting = [pod for pod in pods if counts(pod)]
    return [of.function_of(pod) for pod in counting], {of.decision_of(pod) for pod in counting} - {""}


def counts(pod: Pod) -> bool:
    """Whether *pod* holds something of a node."""
    return bool(pod.node) and not pod.terminal


def _seen(
    learned: Learned, nodes: Nodes, functions: Functions, pods: Sequence[Pod] | None, names: Sequence[str]
) -> Seen:
    if pods is None:
        return tables.placed(learned.tables["placements"], nodes.index, functions.index)
    requests: dict[str, tuple[list[int], list[float]]] = {}
    counting = [pod for pod in pods if counts(pod)]
    for row, pod in enumerate(counting):
        ask(requests, row, pod.requests.items())
    node = np.array([nodes.index.get(pod.node, -1) for pod in counting], dtype=np.int32)
    function = np.array([functions.index.get(name, -1) for name in names], dtype=np.int32)
    fresh = np.array([pod.created > learned.created for pod in counting], dtype=np.bool_)
    return Seen(node, function, requests, fresh)


def _reserved(seen: Seen, pending: Iterable[Reservation], nodes: Nodes, functions: Functions) -> Seen:
    """Add the pods of *pending* behind those that were seen."""
    listed = list(pending)
    if not listed:
        return seen
    requests = {name: (list(rows), list(asked)) for name, (rows, asked) in seen.requests.items()}
    for row, each in enumerate(listed, start=len(seen.node)):
        ask(requests, row, each.requests.items())
    node = [nodes.index.get(each.node, -1) for each in listed]
    function = [functions.index.get(each.function, -1) for each in listed]
    return replace(
        seen,
        node=np.concatenate((seen.node, np.array(node, dtype=np.int32))),
        function=np.concatenate((seen.function, np.array(function, dtype=np.int32))),
        requests=requests,
        fresh=np.concatenate((seen.fresh, np.ones(len(listed), dtype=np.bool_))),
    )


def _workflows(table: pa.Table) -> Mapping[tuple[str, str], Workflow]:
    found = (_WORKFLOW.decode(document) for document in table["document"].to_pylist())
    return MappingProxyType({(each.namespace, each.name): each for each in found})
