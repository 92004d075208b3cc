"""One pair explained: what the snapshot tells, with what the store knows of the model that told it."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from duckdb import DuckDBPyConnection

from featurestore.attribution.methods import unplaced
from featurestore.columnar import codes, distinct, micros
from featurestore.explained import Facts, explanation
from featurestore.interference.evidence import Options
from featurestore.interference.spared import aside, keys
from featurestore.interference.together import together
from featurestore.snapshot import Snapshot
from featurestore.store import models, regions, use
from featurestore.store.duck import Store
from jobs import names
from jobs.config import Settings
from jobs.service.known import KNOWN, select
from pipeline.errors import BadInput

_UNKNOWN: Mapping[str, Any] = {
    "status": "unknown",
    "node_type": "",
    "effective_overlaps": 0.0,
    "activations": 0,
    **dict.fromkeys(("slowdown", "low", "high", "probability", "window_start", "window_end")),
}


def explain(
    settings: Settings,
    snapshot: Snapshot,
    victim: str,
    aggressor: str,
    cluster: str | None,
    node_type: str | None,
    patience: timedelta | None = None,
) -> list[dict[str, Any]]:
    """Return one explanation for each cluster that knows both functions (and node type, where one is told apart).

    The victim may be a consistent region. Where a *node_type* is not told apart, what holds for all of them is
    explained. *patience* is how long to wait for a busy store, by default as the settings say.

    Raises `BadInput` naming a function that no cluster (or not *cluster*) knows, a node type of which there is no
    node, and where the store cannot be read.
    """
    held = settings.store.path.exists()
    store = Store(settings.store.path, patience or settings.store.deadline) if held else None
    found = []
    for name in _clusters(snapshot, victim, aggressor, cluster):
        there = set(_kinds(snapshot, name).values())
        if node_type and node_type not in there:
            raise BadInput(f"node type {node_type!r}: no node of cluster {name} is of it; {_listed(there)}")
        for row in _rows(snapshot, victim, aggressor, name, node_type):
            one_way = victim == aggressor or victim.startswith(regions.PREFIX)  # regions are victims alone
            reverse = None if one_way else _rows(snapshot, aggressor, victim, name, row["node_type"])[0]
            found.append(explanation(_facts(settings, snapshot, store, row, reverse)))
    return found


def _clusters(snapshot: Snapshot, victim: str, aggressor: str, cluster: str | None) -> list[str]:
    if aggressor.startswith(regions.PREFIX):
        raise BadInput(f"{aggressor!r}: a consistent region is a victim alone, never an aggressor")
    known = names.known(snapshot)
    chosen = sorted(known) if cluster is None else [cluster]
    both = [name for name in chosen if {victim, aggressor} <= known.get(name, set())]
    if not both:
        names.there((victim, aggressor), known, cluster)
        raise BadInput(f"{victim!r} and {aggressor!r} are not of one cluster")
    return both


def _rows(
    snapshot: Snapshot, victim: str, aggressor: str, cluster: str, node_type: str | None
) -> list[Mapping[str, Any]]:
    """Return the told rows of a pair; one that says unknown where the pair is not listed."""
    given = {"victim": victim, "aggressor": aggressor, "cluster": cluster}
    rows: list[Mapping[str, Any]] = select(KNOWN["interference"], snapshot, given).to_pylist()
    if node_type is not None:
        own = [row for row in rows if row["node_type"] == node_type]
        rows = own or [row for row in rows if not row["node_type"]]
    return rows or [{"victim": victim, "aggressor": aggressor, **_UNKNOWN, "cluster": cluster}]


def _facts(
    settings: Settings,
    snapshot: Snapshot,
    store: Store | None,
    pair: Mapping[str, Any],
    reverse: Mapping[str, Any] | None,
) -> Facts:
    cluster = pair["cluster"]
    kinds = _kinds(snapshot, cluster)
    name = snapshot.models.get(cluster, "")
    facts: dict[str, Any] = {"model": {"model": name}, "details": False}
    if store is not None:
        facts |= store.read(partial(_details, cluster=cluster, model=name, pair=pair))
        if pair["window_start"] is not None:
            apart = bool(facts["model"].get("set_aside"))
            seen = _seen(store, pair, cluster, pair["window_start"], apart=apart)
            facts["seen"] = [{**place, "node_type": kinds.get(place["node"], "")} for place in seen]
    return Facts(
        pair=pair,
        reverse=reverse,
        least_overlaps=settings.learn.min_overlaps,
        least_effect=settings.learn.min_effect,
        least_runs=Options().min_rows,
        node_types=sorted({kind for kind in kinds.values() if kind}),
        nodes=len(kinds),
        unplaced=unplaced(snapshot.attribution.get(cluster, {})),
        **facts,
    )


def _kinds(snapshot: Snapshot, cluster: str) -> dict[str, str]:
    """Return the type of each node of *cluster*, empty where it is not known."""
    kinds: dict[str, str] = {}
    for table in ("latencies", "nodes"):  # of a history from files the nodes may be known by their runs alone
        own = snapshot[table].filter(pc.equal(snapshot[table]["cluster"].cast(pa.string()), cluster))
        kinds |= dict(zip(own["node"].to_pylist(), own["node_type"].to_pylist(), strict=True))
    kinds.pop("", None)
    return kinds


def _listed(node_types: set[str]) -> str:
    named = sorted(node_types - {""})
    return f"there are {', '.join(named)}" if named else "none is known"


def _details(con: DuckDBPyConnection, cluster: str, model: str, pair: Mapping[str, Any]) -> dict[str, Any]:
    known = [each for each in models.saved(con, cluster) if each.model == model]
    if not known:
        return {}
    [own] = known
    victim, both = {"function": pair["victim"]}, {name: pair[name] for name in ("victim", "aggressor")}

    def rows(name: str, given: Mapping[str, str]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = models.table(con, own, name, given).to_pylist()
        return found

    return {
        "model": {
            "model": model,
            "number": own.number,
            "created": own.created,
            "reason": own.reason,
            "window_start": own.window_start,
            "window_end": own.window_end,
            "code_version": own.code_version,
            "set_aside": bool(own.metrics.get("holdout", {}).get("aside")),
        },
        "details": True,
        "evidence": _one(rows("pair_evidence", both)),
        "comparison": _one(rows("comparisons", both)),
        "fit": _one(rows("fits", victim)),
        "controls": {row["control"]: row["moved"] for row in rows("controls", victim)},
        "base_ms": {row["node_type"]: row["base_ms"] for row in rows("base_times", victim)},
    }


def _one(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return rows[0] if rows else {}


def _seen(
    store: Store, pair: Mapping[str, Any], cluster: str, since: datetime, *, apart: bool
) -> list[dict[str, Any]]:
    """Return where the pair met; with *apart* runs that are set aside for judging models are no evidence."""
    victim, aggressor = (
        store.read(partial(use.runs, cluster=cluster, function=pair[role], since=since))
        for role in ("victim", "aggressor")
    )
    if apart:
        nodes = distinct(victim["node"])
        key = keys(nodes.to_pylist())[codes(victim["node"], nodes)]
        victim = victim.filter(pa.array(~aside(key, micros(victim["end"]))))
    places: list[dict[str, Any]] = together(victim, aggressor, same=pair["victim"] == pair["aggressor"]).to_pylist()
    return places
