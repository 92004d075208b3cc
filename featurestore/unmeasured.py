"""What is known of each function apart from measured use, and the classes that follow from it."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from scipy import sparse

from featurestore import classes, profiles
from featurestore.classes import Classes
from featurestore.columnar import codes, floats
from featurestore.exposure.kernels import Floats, Ints
from featurestore.interference.evidence import Told
from featurestore.profiles import RESOURCES, Profiles
from featurestore.quantiles import quantiles
from featurestore.runs import Runs

#: Runtimes that are told apart: the most frequent ones.
_KINDS = 6
#: A slowdown whose log has a larger standard error says nothing of a function.
_SURE = 0.25


def facts(runs: Runs, activations: pa.Table) -> Floats:
    """Return what is known of each function without measuring it [F, columns]: limits, runtime, durations.

    *activations* have function, memory_mb, timeout_ms and, where it is known, kind.
    """
    return np.concatenate([_limits(runs, activations), _durations(runs)], axis=1)


def predicted(known: Floats, measured: Profiles, limits: Floats, fits: Sequence[Told]) -> Classes:
    """Return the classes of functions that were not measured, in order of their codes.

    *known* are the `facts`; *limits* (4, 2) are those between the classes of what was measured.
    """
    number = len(known)
    targets: dict[str, list[str]] = {name: [""] * number for name in ("dominant", *RESOURCES)}
    for row in np.flatnonzero(measured.node_type < 0):
        code = int(measured.function[row])
        targets["dominant"][code] = profiles.dominant(measured.share[row])
        for name, level in zip(RESOURCES, profiles.levels(measured.share[row], limits), strict=True):
            targets[name][code] = level
    return classes.predict(
        np.concatenate([known, classes.effects(_hurt(fits, number), targets["dominant"])], axis=1), targets
    )


def _hurt(fits: Sequence[Told], number: int) -> sparse.coo_matrix:
    """Return the log of what is surely known of a victim's slowdown by an aggressor [F, F]."""
    sure = [fit.se / (1.0 + fit.slowdown) < _SURE for fit in fits]
    parts = [np.log1p(np.maximum(fit.slowdown[own], -0.5)) for fit, own in zip(fits, sure, strict=True)]
    victim = np.repeat([fit.victim for fit in fits], [len(part) for part in parts])
    aggressor = [fit.met[own] for fit, own in zip(fits, sure, strict=True)]
    if not parts:
        return sparse.coo_matrix((number, number))
    return sparse.coo_matrix((np.concatenate(parts), (victim, np.concatenate(aggressor))), shape=(number, number))


def _limits(runs: Runs, activations: pa.Table) -> Floats:
    """Return memory and time limit (logs) and the runtime [F, 2 + kinds] of each function."""
    function = codes(activations["function"], runs.functions).astype(np.int64)
    mine = function >= 0
    found = [
        np.log(np.maximum(_mean(function[mine], floats(activations[name])[mine], len(runs.functions)), 1.0))
        for name in ("memory_mb", "timeout_ms")
    ]
    if "kind" in activations.column_names:
        kind = activations["kind"].cast(pa.string()).fill_null("")
        names, counts = np.unique(kind.to_numpy(), return_counts=True)
        for name in names[np.argsort(-counts, kind="stable")[:_KINDS]]:
            is_it = (kind.to_numpy() == name).astype(np.float64)
            found.append(_mean(function[mine], is_it[mine], len(runs.functions)))
    return np.stack(found, axis=1)


def _mean(group: Ints, values: Floats, groups: int) -> Floats:
    """Return the mean by group of what is known and not negative; NaN where nothing is."""
    seen = np.isfinite(values) & (values >= 0)
    count = np.bincount(group[seen], minlength=groups)
    total = np.bincount(group[seen], weights=values[seen], minlength=groups)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _durations(runs: Runs) -> Floats:
    """Return the median of the execution and how far its tail reaches (logs) [F, 2]."""
    own = runs.evidence & np.isfinite(runs.execution)
    levels = quantiles(runs.function[own].astype(np.int64), runs.execution[own], len(runs.functions), (0.5, 0.95))
    usual = np.log(np.maximum(levels[:, 0], 1e-4))
    return np.stack([usual, np.log(np.maximum(levels[:, 1], 1e-4)) - usual], axis=1)
