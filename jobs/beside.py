"""What is written while others work, in short holds of the file.

What activations used is written beside the fits: of ten million it takes a core for ten seconds. It says nothing of
what was learned, and a run that dies, or learns anew, finds the same rows to be there already. A state's bodies are
written beside the decision over all pairs, which needs nothing of them: of a thousand functions some seconds. They
count for nothing before the model is saved (`featurestore.store.claims`).
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from threading import Event

import numpy as np
import pyarrow as pa
from duckdb import DuckDBPyConnection

from featurestore.states import State
from featurestore.store import bodies, claims, states, use
from featurestore.store.claims import Claim
from featurestore.store.duck import PAUSE, Store
from jobs.saving import BYTES_AT_ONCE
from pipeline.errors import Temporary


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
            failed.wait(PAUSE)


class Bodies:
    """Writes the long bodies of the state of *model* as soon as there is a state, beside what follows.

    *before* is the state that is known of *cluster*, or None; *unchanged* raises `claims.Outdated` where the store
    has another one by now. To be used as a context, which is left once the writing has ended: where the work inside
    fails, with the part that is being written.
    """

    def __init__(
        self,
        store: Store,
        cluster: str,
        model: str,
        before: State | None,
        unchanged: Callable[[DuckDBPyConnection], None],
    ) -> None:
        self._store, self._cluster, self._model, self._before = store, cluster, model, before
        self._unchanged = unchanged
        self._pool = ThreadPoolExecutor(1)
        self._begun: Future[Claim] | None = None
        self._failed = Event()

    def __enter__(self) -> "Bodies":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._failed.set()
        self._pool.shutdown()

    def begin(self, state: State) -> None:
        """Begin to write those of *state*, where they are more than is written together with the model."""
        found = bodies.long(states.laid(state, self._before))
        if sum(map(len, found)) > BYTES_AT_ONCE:
            self._begun = self._pool.submit(self._write, found)

    def claim(self) -> Claim | None:
        """Return under which claim all of them stand, waiting for the last; None where they are still to be written.

        Raises what writing raised, but where others held the file for too long.
        """
        with suppress(Temporary):
            return None if self._begun is None else self._begun.result()
        return None

    def _write(self, found: list[bytes]) -> Claim:
        with self._store.session(threads=1) as own:
            return claims.begun(own, self._cluster, self._model, found, self._unchanged, self._wanted)

    def _wanted(self) -> bool:
        return not self._failed.is_set()
