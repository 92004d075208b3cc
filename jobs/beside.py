"""What activations used is written beside the fits: of ten million it takes a core for ten seconds, in short holds.

It says nothing of what was learned, and a run that dies, or learns anew, finds the same rows to be there already.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from threading import Event

import numpy as np
import pyarrow as pa

from featurestore.store import use
from featurestore.store.duck import Store
from pipeline.errors import Temporary

#: Seconds for which the file is free after a part: others ask for it ten times a second, and would find it taken.
_PAUSE = 0.05


@contextmanager
def writing(store: Store, cluster: str) -> Iterator[Callable[[pa.Table], pa.Table]]:
    """Yield what begins to write the parts of its rows (`used.USE`) but the last, which it returns; all of them are
    written on leaving, also those for which the file was held for too long meanwhile. Where the work inside fails no
    further part is begun. Raises what writing raised."""
    begun: list[tuple[Future[None], list[pa.Table]]] = []
    failed = Event()

    def begin(rows: pa.Table) -> pa.Table:
        *parts, last = use.parts(rows)
        if not parts:
            return rows
        parts.reverse()
        begun.append((pool.submit(_write, store, cluster, parts, failed), parts))
        return last.take(np.arange(last.num_rows))  # a slice would keep all rows

    with ThreadPoolExecutor(1) as pool:
        try:
            yield begin
            for writing_them, left in begun:
                with suppress(Temporary):
                    writing_them.result()
                if left:
                    _write(store, cluster, left, failed)
        except BaseException:
            failed.set()
            raise


def _write(store: Store, cluster: str, parts: list[pa.Table], failed: Event) -> None:
    """Write *parts*, the last one first, until something *failed*; those that are written are taken off."""
    with store.session(threads=1) as own:  # two that wait for each other take half as much again of the processor
        while parts and not failed.is_set():
            own.write(partial(use.write, cluster=cluster, rows=parts[-1]))
            parts.pop()
            failed.wait(_PAUSE)
