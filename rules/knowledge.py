"""From the snapshot's tables of what was learned to the view's columns: functions, pairs, latencies."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from featurestore.snapshot import FUNCTIONS
from pipeline.lookup import Numbered, Share, alone
from pipeline.mangling import Index
from pipeline.records import Workflow
from pipeline.texts import Texts
from rules.arrays import encoded, floats, integers, interned, numbered, pick, turned, whole
from rules.bases import Bases, drawn
from rules.candidates import Ids
from rules.functions import LEVELS, NEVER, RESOURCES, CompanyMedians, Functions, Latencies, Pairs, lay
from rules.memo import Memo
from rules.nodes import Nodes

_USABLE: Final = ("observed", "predicted")
_PART: Final = 250


def function_names(tables: Mapping[str, pa.Table]) -> Sequence[str]:
    """Return every function that any table speaks of, in order; as they lie there where they are published so."""
    if (published := _published(tables)) is not None:
        return published
    every = pa.chunked_array([pc.unique(tables[table][column].cast(pa.string())) for table, column in FUNCTIONS])
    names = pc.unique(every)
    parts = (names.slice(first, _PART) for first in range(0, len(names), _PART))
    return sorted(name for part in parts for name in part.to_pylist() if name)


def _published(tables: Mapping[str, pa.Table]) -> Texts | None:
    """Return the one dictionary of all columns of functions, "" apart, where it has no others and is in order."""
    columns = [whole(tables[table][column]) for table, column in FUNCTIONS if len(tables[table])]
    coded = [column for column in columns if pa.types.is_dictionary(column.type)]
    if not coded or not all(column.dictionary.equals(coded[0].dictionary) for column in coded):
        return None
    texts = coded[0].dictionary
    if len(texts) and texts[-1].as_py() == "":
        texts = texts.slice(0, len(texts) - 1)
    if texts.null_count or not pc.all(pc.less(texts[:-1], texts[1:]), min_count=0).as_py():
        return None
    there = np.zeros(len(texts) + 1, dtype=np.bool_)  # the last for ""
    for column in columns:
        if pa.types.is_dictionary(column.type):
            there[pc.unique(column.indices).drop_null().to_numpy()] = True
        else:
            found = pc.index_in(column, value_set=texts)
            if found.null_count and not pc.all(pc.equal(column.filter(found.is_null()), "")).as_py():
                return None
            there[pc.unique(found).drop_null().to_numpy()] = True
    return Texts(texts) if there[:-1].all() else None


def functions(
    table: pa.Table, names: Sequence[str], workflows: Iterable[Workflow], share: Share = alone
) -> Functions:
    """Lay out all *names*; where a function has rows by node type, the row for all types counts, else the first."""
    index = Numbered(names).shared(share, "functions")
    size = len(index)
    function, kind = numbered(table["function"], index), _ranks(table["node_type"])
    order = np.lexsort((kind, function))
    first = order[np.flatnonzero(np.diff(function[order], prepend=-2))]
    first = first[function[first] >= 0]
    at = function[first]
    levels = np.full((size, len(RESOURCES)), -1, dtype=np.int8)
    for column, resource in enumerate(RESOURCES):
        said = {name: number for number, name in enumerate(LEVELS)}
        levels[at, column] = numbered(table[resource], said)[first]
    dominant = np.full(size, -1, dtype=np.int8)
    dominant[at] = numbered(table["dominant"], {name: number for number, name in enumerate(RESOURCES)})[first]
    runs, p50 = np.zeros(size, dtype=np.int64), np.full(size, np.nan)
    runs[at], p50[at] = integers(table["activations"])[first], floats(table["p50_ms"])[first]
    mangled = Index(index).shared(share, "mangled")
    return lay(index, mangled, levels, dominant, runs, p50, workflows, share)


def _ranks(column: pa.ChunkedArray) -> Ids:
    """Return a number for each text of *column* that sorts as the texts do; null is ""."""
    words, codes = encoded(column)
    rank = np.empty(len(words), dtype=np.int32)
    rank[sorted(range(len(words)), key=words.__getitem__)] = np.arange(len(words), dtype=np.int32)
    return pick(rank, codes)


def latencies(table: pa.Table, functions: Mapping[str, int], nodes: Nodes) -> Latencies:
    """Sort the past medians by function; a node that is gone has no row."""
    function = numbered(table["function"], functions)
    named = pc.not_equal(pc.fill_null(table["node"].cast(pa.string()), ""), "").to_numpy(zero_copy_only=False)
    node = numbered(table["node"], nodes.index)
    types = {name: number for number, name in enumerate(nodes.types)}
    keep = np.flatnonzero(~named.astype(np.bool_) | (node >= 0))
    order = turned(keep[np.argsort(function[keep], kind="stable")], table)
    return Latencies(
        start=np.searchsorted(function[order], np.arange(len(functions) + 1)),
        node=node[order],
        type_of=numbered(table["node_type"], types)[order],
        runs=integers(table["activations"])[order],
        p50=floats(table["p50_ms"])[order],
    )


def bases(table: pa.Table, lived: Latencies, functions: Mapping[str, int], nodes: Nodes) -> Bases:
    """Lay out the times alone, weighed by the runs that *lived* counts on each type; one that is gone has no row."""
    kinds = len(nodes.types)
    function = numbered(table["function"], functions)
    kind = numbered(table["node_type"], {name: number for number, name in enumerate(nodes.types)})
    alone = floats(table["base_ms"])
    keep = np.flatnonzero((function >= 0) & (kind >= 0) & (alone > 0))
    order = keep[np.argsort(function[keep], kind="stable")]
    function, kind = function[order], kind[order]
    of = np.repeat(np.arange(len(lived.start) - 1), np.diff(lived.start))
    whole = np.flatnonzero((lived.node < 0) & (lived.type_of >= 0))
    cells, row = np.unique(of[whole] * kinds + lived.type_of[whole], return_inverse=True)
    counts = np.append(np.bincount(row, lived.runs[whole], len(cells)), 0.0)
    wanted = function.astype(np.int64) * kinds + kind
    found = np.searchsorted(cells, wanted)
    runs = np.where(np.append(cells, -1)[found] == wanted, counts[found], 0.0)
    return drawn(function, kind, alone[order], runs, len(functions), kinds)


def company(table: pa.Table, functions: Mapping[str, int], nodes: Nodes) -> CompanyMedians:
    """Sort the medians by company by function; a node or node type that is gone has no row."""
    function = numbered(table["function"], functions)
    named = pc.not_equal(pc.fill_null(table["node"].cast(pa.string()), ""), "").to_numpy(zero_copy_only=False)
    node = numbered(table["node"], nodes.index)
    kind = numbered(table["node_type"], {name: number for number, name in enumerate(nodes.types)})
    keep = np.flatnonzero(np.where(named.astype(np.bool_), node >= 0, kind >= 0) & (function >= 0))
    order = turned(keep[np.argsort(function[keep], kind="stable")], table)
    return CompanyMedians(
        start=np.searchsorted(function[order], np.arange(len(functions) + 1)),
        node=node[order],
        type_of=kind[order],
        company=integers(table["company"])[order],
        p50=floats(table["p50_ms"])[order],
    )


def pairs(table: pa.Table, functions: Numbered) -> Pairs:
    """Sort the learned pairs by victim, and index them by aggressor; no node's type is known yet."""
    victim, aggressor = numbered(table["victim"], functions), numbered(table["aggressor"], functions)
    order = turned(np.lexsort((aggressor, victim)), table)
    victim, aggressor = victim[order], aggressor[order]
    type_names, type_name = interned(table["node_type"])
    statuses, status_of = interned(table["status"])
    slowdown = floats(table["slowdown"])[order]
    probability = floats(table["probability"])[order]
    usable = np.array([status in _USABLE for status in statuses], dtype=np.bool_)
    observed = np.array([status == "observed" for status in statuses], dtype=np.bool_)
    status_of, type_name = status_of[order], type_name[order]
    by_aggressor = np.argsort(aggressor, kind="stable")
    every = np.arange(len(functions) + 1)
    return Pairs(
        names=functions.names,
        type_names=type_names,
        victim=victim,
        aggressor=aggressor,
        type_of=np.broadcast_to(np.int32(-2), victim.shape),
        type_name=type_name,
        status=statuses,
        status_of=status_of,
        slowdown=slowdown,
        low=floats(table["low"])[order],
        high=floats(table["high"])[order],
        probability=probability,
        overlaps=floats(table["effective_overlaps"])[order],
        window_start=integers(table["window_start"], NEVER)[order],
        window_end=integers(table["window_end"], NEVER)[order],
        known=pick(usable, status_of) & np.isfinite(slowdown) & np.isfinite(probability),
        observed=pick(observed, status_of),
        victim_start=np.searchsorted(victim, every),
        aggressor_start=np.searchsorted(aggressor[by_aggressor], every),
        by_aggressor=by_aggressor.astype(np.int32),
    )


def typed(pairs: Pairs, types: Sequence[str]) -> Pairs:
    """Return *pairs* with the numbers that their node types have among *types*."""
    number = {name: code for code, name in enumerate(types)}
    codes = np.array([-1 if name == "" else number.get(name, -2) for name in pairs.type_names], dtype=np.int32)
    return replace(pairs, type_of=pick(codes, pairs.type_name), memo=Memo())
