"""What learning remembers of a cluster between runs: the victims' folded states, and how they are packed as bytes.

A state begins with a full fit. It holds the point around which each victim is linear (which moves where the victim
does), what is known from before the window of that fit (*aged*), the blocks folded since the window's begin, and the
sum of it all (*current*): folding `blocks` onto `aged` in order gives `current` again.
"""

from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from featurestore.compiled import compiled
from featurestore.interference.blocks import Block, Linearisation
from featurestore.interference.evidence import Floats, Ints, Predictions
from featurestore.interference.fold import faded, fold

#: The number of the layout of what is packed; states of another are not read.
LAYOUT = 2

#: Victims in one packed part at most.
PART = 125

#: How hard what is packed is compressed: sums of floats hardly can be. The usual level takes three times as long and
#: saves 4 % more.
_LEVEL = -5

Blocks = Mapping[int, Block]
Points = Mapping[int, Linearisation]


@dataclass(frozen=True, slots=True)
class Head:
    """What a state speaks of; times in microseconds, codes are places in *names* and *node_types*.

    *model* made the full fit, *made* when; runs that ended from *since* to *closed* are folded for good, *rows* of
    them are evidence, at the full fit *fitted* were, those not yet folded included. *drift* is that of the victims,
    by name, at the full fit. *basis* says in words what the estimation was set to, *outside* which declarations it
    knew. *serial* counts the changes of the state. What ended before *aged* is known from before the
    steps (0: nothing); of that, *past* rows of evidence are of before *since*. What was collected by *read* is known
    (0: by the newest model).
    """

    model: str
    made: int
    since: int
    closed: int
    code_version: str
    basis: Mapping[str, str]
    outside: str
    names: tuple[str, ...]
    node_types: tuple[str, ...]
    rows: float
    fitted: float
    drift: Mapping[str, float]
    serial: int = 0
    aged: int = 0
    past: float = 0.0
    read: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the fold: the *blocks* of all victims whose runs ended from *since* to *until*, *rows* of evidence.

    A step of no duration is the correction to the full fit (`solution.corrected`). *running* are the kernels that
    nodes of the cluster ran from *since* to *until*; none: not known of all.
    """

    since: int
    until: int
    rows: float
    blocks: Blocks
    running: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class State:
    """A cluster's state: see the module; *steps* are those not yet stored, or, where asked for, all.

    *predictions* are the priors of pairs that the full fit worked out, or None. *former* are points that moved, by
    the time (microseconds) up to which they held: those not yet stored, or, where asked for, all.
    """

    head: Head
    points: Points
    current: Blocks
    predictions: Predictions | None = None
    steps: Sequence[Step] = ()
    aged: Blocks = field(default_factory=dict)
    former: Mapping[int, Points] = field(default_factory=dict)

    def emptied(self) -> "State":
        """Return what a state speaks of, without what it says: of a thousand functions that is half a gigabyte."""
        return State(self.head, {}, {})

    def points_of(self, since: int) -> Points:
        """Return the points at which the step from *since* on was reduced."""
        found = dict(self.points)
        for until in sorted(self.former, reverse=True):
            if since < until:
                found |= self.former[until]
        return found


def folded(state: Blocks, steps: Iterable[Step], memory: float) -> dict[int, Block]:
    """Return the victims' states after *steps*, in order.

    What came under kernels that no node ran any more in a step is old with its end (`fold.faded`), also of victims
    that the step has nothing of; else those are as they were.
    """
    found = dict(state.items())
    with threadpool_limits(1, "blas"):  # a fold is .2 ms: threads that wait for each other make half a second of it
        for step in steps:
            for victim, block in step.blocks.items():
                found[victim] = fold(found.get(victim, Block()), block, memory)
            if step.running:
                found = {victim: faded(block, step.running) for victim, block in found.items()}
    return found


class Packed(Mapping[int, Block]):
    """Blocks as the bytes of `pack_blocks`, unpacked a part at a time whenever they are looked at.

    Many days' blocks exist at once in this form alone: a third of the memory, and what is stored in the end.
    """

    def __init__(self, parts: Sequence[bytes]) -> None:
        self.parts = list(parts)

    @classmethod
    def of(cls, blocks: Blocks) -> "Packed":
        """Return *blocks* packed."""
        return cls(pack_blocks(blocks))

    def __getitem__(self, victim: int) -> Block:
        for own, block in self.items():
            if own == victim:
                return block
        raise KeyError(victim)

    def __iter__(self) -> Iterator[int]:
        names = pa.ipc.IpcReadOptions(included_fields=[0])
        for part in self.parts:
            yield from pa.ipc.open_stream(part, options=names).read_all()["victim"].to_pylist()

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def items(self) -> ItemsView[int, Block]:
        """Return the victims and their blocks, a part at a time."""
        return _Items(self)


class _Items(ItemsView[int, Block]):
    def __init__(self, packed: Packed) -> None:
        super().__init__(packed)
        self._parts = packed.parts

    def __iter__(self) -> Iterator[tuple[int, Block]]:
        for part in self._parts:
            yield from unpack_blocks([part]).items()


def pack_blocks(blocks: Blocks) -> list[bytes]:
    """Return *blocks* as Arrow streams of at most `PART` victims each; grams as their lower triangles."""
    if isinstance(blocks, Packed):
        return blocks.parts
    rows = sorted(blocks.items())
    return [_stream(_block_table(rows[at : at + PART])) for at in range(0, len(rows), PART)]


def unpack_blocks(parts: Iterable[bytes]) -> dict[int, Block]:
    """Return what `pack_blocks` packed."""
    found: dict[int, Block] = {}
    for part in parts:
        table = pa.ipc.open_stream(part).read_all()
        lists = {name: _parts(table[name]) for name in _BLOCK_LISTS}
        plain = {name: table[name].to_pylist() for name in ("victim", *_BLOCK_VALUES)}
        kernels = table["kernels"].to_pylist()
        for row, victim in enumerate(plain["victim"]):
            own: dict[str, Any] = {name: lists[name][row] for name in _BLOCK_LISTS}
            own["gram"] = _square(own["gram"], len(own["pull"]))
            own["kernels"] = tuple(kernels[row])
            found[victim] = Block(**own, **{name: plain[name][row] for name in _BLOCK_VALUES})
    return found


def pack_points(points: Points) -> list[bytes]:
    """Return *points* as Arrow streams."""
    rows = sorted(points.items())
    tables = [rows[at : at + PART] for at in range(0, len(rows), PART)]
    return [_stream(_point_table(part)) for part in tables]


def unpack_points(parts: Iterable[bytes]) -> dict[int, Linearisation]:
    """Return what `pack_points` packed; points that once were packed without what the load did, or
    without whether ends take part, know nothing of it."""
    found: dict[int, Linearisation] = {}
    for part in parts:
        table = pa.ipc.open_stream(part).read_all()
        lists = {name: _parts(table[name]) for name in _POINT_LISTS if name in table.column_names}
        noise, usual = table["noise"].to_pylist(), table["usual"].to_pylist()
        ends = table["ends"].to_pylist() if "ends" in table.column_names else [False] * table.num_rows
        for row, victim in enumerate(table["victim"].to_pylist()):
            own: dict[str, Any] = {name: lists[name][row] for name in lists}
            found[victim] = Linearisation(victim=victim, noise=noise[row], usual=usual[row], ends=ends[row], **own)
    return found


def pack_predictions(found: Predictions | None) -> list[bytes]:
    """Return predictions, or none, as Arrow streams: the functions, and the square of their pairs."""
    if found is None:
        return []
    return [_stream(pa.table({"value": values})) for values in (found.functions, found.probability.ravel())]


def unpack_predictions(parts: Sequence[bytes]) -> Predictions | None:
    """Return what `pack_predictions` packed; a square without functions is of all of them, as states once had it."""
    if not parts:
        return None
    *functions, flat = (pa.ipc.open_stream(part).read_all()["value"].to_numpy() for part in parts)
    size = round(len(flat) ** 0.5)
    square = flat.reshape(size, size).copy()
    return Predictions(functions[0].astype(np.int64), square) if functions else Predictions.of(square)


_BLOCK_LISTS = ("types", "columns", "gram", "pull", "met", "overlaps", "activations", "under")
_BLOCK_VALUES = ("rows", "version", "gap", "weight")
_POINT_LISTS = ("types", "base", "columns", "slowdown", "widening", "crowd")


def _block_table(rows: Sequence[tuple[int, Block]]) -> pa.Table:
    columns: dict[str, pa.Array] = {"victim": pa.array([victim for victim, _ in rows], pa.int64())}
    for name in _BLOCK_LISTS:
        triangle = name == "gram"
        columns[name] = _lists(
            [_triangle(np.ascontiguousarray(block.gram)) if triangle else getattr(block, name) for _, block in rows]
        )
    for name in _BLOCK_VALUES:
        columns[name] = pa.array([getattr(block, name) for _, block in rows])
    columns["kernels"] = pa.array([block.kernels for _, block in rows], pa.list_(pa.string()))
    return pa.table(columns)


def _point_table(rows: Sequence[tuple[int, Linearisation]]) -> pa.Table:
    columns: dict[str, pa.Array] = {"victim": pa.array([victim for victim, _ in rows], pa.int64())}
    for name in _POINT_LISTS:
        columns[name] = _lists([getattr(point, name) for _, point in rows])
    for name in ("noise", "usual"):
        columns[name] = pa.array([getattr(point, name) for _, point in rows], pa.float64())
    columns["ends"] = pa.array([point.ends for _, point in rows], pa.bool_())
    return pa.table(columns)


@compiled
def _triangle(gram: Floats) -> Floats:
    """Return the lower triangle of a matrix, row by row."""
    found, at = np.empty(len(gram) * (len(gram) + 1) // 2), 0
    for row in range(len(gram)):
        found[at : at + row + 1] = gram[row, : row + 1]
        at += row + 1
    return found


@compiled
def _square(triangle: Floats, size: int) -> Floats:
    """Return the symmetric matrix [size, size] of a `_triangle`."""
    found, at = np.empty((size, size)), 0
    for row in range(size):
        for other in range(row + 1):
            found[row, other] = found[other, row] = triangle[at + other]
        at += row + 1
    return found


def _lists(arrays: Sequence[Floats | Ints]) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum([len(each) for each in arrays])])
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), pa.array(np.concatenate(arrays)))


def _parts(column: pa.ChunkedArray) -> list[Any]:
    whole = column.combine_chunks()
    values, offsets = whole.values.to_numpy(), whole.offsets.to_numpy()
    return [values[first:last].copy() for first, last in pairwise(offsets)]


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=_LEVEL))
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found
