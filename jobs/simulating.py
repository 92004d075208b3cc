"""``colocate simulate``: what policies of placement would have made of a cluster's recorded history."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import pyarrow as pa

from featurestore.engines.candidate import Inputs
from featurestore.engines.local import learn
from featurestore.store import windows
from featurestore.store.duck import Store
from jobs import tabular, wire
from jobs.config import Settings
from jobs.learn import clusters
from jobs.planning import micros, options
from jobs.simulation.history import Part, world
from jobs.simulation.outcome import Outcome, outcome
from jobs.simulation.policies.table import KNOWING, POLICIES
from jobs.simulation.replay import replay
from pipeline.errors import BadInput
from pipeline.records import Window
from rules.policy import Mode

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Simulated:
    """Outcomes by policy of one cluster: what was known was of [*since*, *split*), replayed was [*split*, *until*).

    *truth* is the file of the slowdowns that the replay went by; "": those learned from the replayed part itself.
    """

    cluster: str
    since: datetime
    split: datetime
    until: datetime
    truth: str
    outcomes: tuple[Outcome, ...]


class _Slowdown(msgspec.Struct, frozen=True):
    victim: str
    aggressor: str
    slowdown: float | None


def cluster_of(settings: Settings, name: str | None) -> str:
    """Return the cluster that is meant: the named one, else the served one, else the only one there is.

    Raises `BadInput` where there is no history, or none of that cluster, or several clusters to choose from.
    """
    if not settings.store.path.exists():
        raise BadInput(f"store.path: {settings.store.path}: no such file (colocate collect or import brings history)")
    known = clusters(settings, Store(settings.store.path, settings.store.deadline))
    name = name or settings.serve.cluster or (known[0] if len(known) == 1 else None)
    if name not in known:
        raise BadInput(
            f"--cluster: {f'no cluster {name!r}; ' if name else ''}name one of {', '.join(known) or 'none'}"
        )
    return name


def run(
    settings: Settings,
    cluster: str,
    *,
    now: datetime,
    since: datetime | None = None,
    split: datetime | None = None,
    until: datetime | None = None,
    policies: Sequence[str] = (),
    seed: int = 0,
    truth: Path | None = None,
    mode: Mode = "prefer",
    progress: Progress = lambda done, of: None,
) -> Simulated:
    """Replay [*split*, *until*) of *cluster* under *policies* (default: all that can be); known is what was before.

    *split* is the middle by default. The default window is the one that learning looks at, up to the last start of a
    run. *truth* names a file of slowdowns; `truth_of` says of what form. *progress* is told how many of the policies
    are done. Raises `BadInput` for a policy that is not known, or that needs a truth which is not given, and where
    there is nothing to replay.
    """
    chosen = _chosen(policies, truth)
    given = None if truth is None else truth_of(truth)
    store = Store(settings.store.path, settings.store.deadline)
    window = store.read(lambda con: windows.window(con, cluster, now, settings.learn.window))
    oldest = store.read(lambda con: windows.oldest(con, cluster))
    if oldest is None:
        raise BadInput(f"cluster {cluster!r}: no activations in the history")
    newest = store.read(lambda con: windows.newest(con, cluster, now)) or window.until
    window = Window(since or max(window.since, oldest), until or min(window.until, newest + timedelta(seconds=1)))
    if window.since >= window.until:
        raise BadInput(f"--since: {window.since:%Y-%m-%d %H:%M} UTC is not before the end of the window")
    split = split or window.since + (window.until - window.since) / 2
    if not window.since < split < window.until:
        raise BadInput(f"--split: {split:%Y-%m-%d %H:%M} UTC is not within the window")
    earlier = _part(settings, store, cluster, Window(window.since, split))
    laid = world(cluster, earlier, _part(settings, store, cluster, Window(split, window.until)), given)
    if given is not None and not len(laid.load.slowdown):
        raise BadInput(f"{truth}: none of its functions with a slowdown ran")
    limits = wire.policy(settings, cluster, mode=mode)
    outcomes = []
    for done, name in enumerate(chosen):
        progress(done, len(chosen))
        made = POLICIES[name](limits)
        outcomes.append(
            outcome(name, laid, replay(laid, made, seed=seed, step=settings.schedule.step.total_seconds()))
        )
    progress(len(chosen), len(chosen))
    return Simulated(cluster, window.since, split, window.until, str(truth or ""), tuple(outcomes))


def truth_of(file: Path) -> pa.Table:
    """Read true slowdowns: victim, aggressor, slowdown (fraction; missing: none), of CSV, Parquet or a JSON array."""
    if file.suffix != ".json":
        return tabular.slowdowns(file)
    try:
        rows = msgspec.json.decode(file.read_bytes(), type=list[_Slowdown])
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise BadInput(f"{file}: {error}") from None
    for row in rows:
        if row.slowdown is not None and not math.isfinite(row.slowdown):
            raise BadInput(f"{file}: slowdown of {row.victim} beside {row.aggressor}: is not finite")
    return pa.Table.from_pylist([msgspec.to_builtins(row) for row in rows], tabular.SLOWDOWNS)


def _chosen(policies: Sequence[str], truth: Path | None) -> list[str]:
    for name in policies:
        if name not in POLICIES:
            raise BadInput(f"--policy: {name!r} is none; there are {', '.join(POLICIES)}")
        if name in KNOWING and truth is None:
            raise BadInput(f"--policy: {name!r} needs the true slowdowns (--truth FILE)")
    asked = policies or [name for name in POLICIES if truth is not None or name not in KNOWING]
    return [name for name in POLICIES if name in asked]


def _part(settings: Settings, store: Store, cluster: str, window: Window) -> Part:
    tables = windows.copy(store, cluster, window)
    inputs = Inputs(**tables, since=micros(window.since), until=micros(window.until))
    return Part(window, tables, learn(inputs, options(settings)))
