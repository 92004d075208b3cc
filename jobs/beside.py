"""What activations used is written beside the fits: of ten million it takes a core for ten seconds, in short holds.

It says nothing of what was learned, and a run that dies, or learns anew, finds the same rows to be there already.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Event

import numpy as np
import pyarrow as pa

from featurestore.store import use
from featurestore.store.duck import Store


@contextmanager
def writing(store: Store, cluster: str) -> Iterator[Callable[[pa.Table], pa.Table]]:
    """Yield what begins to write the parts of its rows (`used.USE`) but the last, which it returns; all of them are
    written on leaving. Where the work inside fails no further part is begun. Raises what writing raised."""
    begun: list[Future[None]] = []
    failed = Event()

    def begin(rows: pa.Table) -> pa.Table:
        *parts, last = use.parts(rows)
        if not parts:
            return rows
        begun.append(pool.submit(_write, store, cluster, parts, failed))
        return last.take(np.arange(last.num_rows))  # a slice would keep all rows

    with ThreadPoolExecutor(1) as pool:
        try:
            yield begin
        except BaseException:
            failed.set()
            raise
        for each in begun:
            each.result()


def _write(store: Store, cluster: str, parts: list[pa.Table], failed: Event) -> None:
    """Write *parts* in their order, until something *failed*; each is given free once it is written."""
    parts.reverse()
    with store.session(threads=1) as own:  # two that wait for each other take half as much again of the processor
        while parts and not failed.is_set():
            own.write(partial(use.write, cluster=cluster, rows=parts.pop()))
