"""Long histories of a large simulated cluster, as columns and a part at a time, however many activations there are.

The mechanics are the simulator's. A history of several days is made of one world under a fresh load each day, each
stretched to its day, so that who ran beside whom for which share stays the same.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa

from benchmarks import simulator
from pipeline.columns import TABLES

#: The cluster whose figures are told: 1,000 functions on 100 nodes.
FUNCTIONS, NODES = 1_000, 100
SEED = 90_201

_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_SCHEMA = TABLES["activations"]


def history(
    count: int,
    until: datetime,
    *,
    days: int = 1,
    functions: int = FUNCTIONS,
    nodes: int = NODES,
    spells: int = 1,
    seed: int = SEED,
) -> Iterator[pa.Table]:
    """Yield about *count* activations of the *days* up to *until*, as rows of the store, in *spells* parts a day.

    Each part is simulated by itself and ends where the next begins, in order of time.
    """
    parts = days * spells
    setting = simulator.Setting(functions=functions, nodes=nodes, activations=count // parts, days=1.0)
    world = simulator.world(seed, setting)
    length = timedelta(days=days) / parts
    for number in range(parts):
        last = until - (parts - 1 - number) * length
        yield columns(simulator.run(world, repeat=number), world, last - length, last, number * (1 << 40))


def columns(
    records: simulator.Records, world: simulator.World, since: datetime, until: datetime, first: int = 0
) -> pa.Table:
    """Return *records* stretched from *since* to *until*, as rows of the store; ids are numbered from *first*."""
    n = len(records.start)
    begin, last = float(records.start.min()), float(records.end.max())
    stretch = (until - since).total_seconds() / (last - begin)

    def time(seconds: simulator.Floats) -> pa.Array:
        at = since.timestamp() + (seconds - begin) * stretch
        return pa.array(np.round(at * 1e6).astype(np.int64)).cast(pa.timestamp("us", tz="UTC"))

    def text(prefix: str, code: simulator.Ints, names: int) -> pa.Array:
        found = pa.array(code.astype(np.int32), mask=code < 0)
        return pa.DictionaryArray.from_arrays(found, pa.array([f"{prefix}{each}" for each in range(names)]))

    setting = world.setting
    kind = np.where(records.node >= 0, world.node_type[records.node], -1)
    given = {
        "activation_id": _ids(first, n),
        "function": text("guest/f", records.function, setting.functions),
        "version": text("0.0.", records.version + 1, 3),
        "kind": text("python:", np.full(n, 3), 4),
        "start": time(records.start),
        "end": time(records.end),
        "duration_ms": pa.array((records.end - records.start) * stretch * 1000),
        "init_ms": pa.array(records.initialisation * stretch * 1000, mask=~records.cold),
        "status_code": pa.array(np.zeros(n, np.int32)),
        "memory_mb": pa.array(np.full(n, 256, np.int32)),
        "composite": pa.array(np.zeros(n, bool)),
        "node": text("n", records.node, setting.nodes),
        "node_type": text("t", kind, int(world.node_type.max()) + 1),
    }
    made = {name: given.get(name, pa.nulls(n, _SCHEMA.field(name).type)) for name in _SCHEMA.names}
    return pa.table(made).cast(_SCHEMA)


def _ids(first: int, count: int) -> pa.Array:
    """Return *count* ids of 32 hexadecimal digits, spread as real ones are, all different."""
    number = np.arange(first, first + count, dtype=np.uint64)
    digits = np.empty((count, 32), np.uint8)
    low = number * np.uint64(0x9E3779B97F4A7C15)  # odd: no two numbers share a product
    for half, value in enumerate((low ^ np.uint64(0x5DEECE66D), low)):
        for place in range(16):
            digits[:, 16 * half + place] = _HEX[((value >> np.uint64(4 * place)) & np.uint64(15)).astype(np.int64)]
    offsets = np.arange(0, 32 * count + 1, 32, dtype=np.int64)
    whole = pa.LargeStringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(digits))
    return whole.cast(pa.string())
