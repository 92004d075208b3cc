"""The functions of a view as columns: their names, profiles, past latencies, and which pairs disturb each other."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from featurestore import company
from pipeline.lookup import Lookup, Numbered, Share, alone
from pipeline.mangling import Index
from pipeline.mangling import mangled as spoken
from pipeline.records import Workflow
from pipeline.texts import behind
from rules import stated
from rules.advice import Evidence
from rules.candidates import Ids
from rules.memo import Memo

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]

RESOURCES: Final = ("cpu", "memory", "network", "disk")
LEVELS: Final = ("low", "medium", "high")
HIGH, MEDIUM, LOW = 3, 2, 1
#: The goal for which interference is to be small.
PERFORMANCE: Final = "performance"


def action_of(function: str) -> str:
    """Return the action's own name out of ``namespace/[package/]action``."""
    return function.rpartition("/")[2]


def namespace_of(function: str) -> str:
    """Return the OpenWhisk namespace out of ``namespace/[package/]action``, "" of a bare name."""
    return function.partition("/")[0] if "/" in function else ""


@dataclass(frozen=True, slots=True, eq=False)
class Functions:
    """Columns over all functions known or running, of length m and in the order of *names*: first those that
    something was learned of, then those that are only seen running.

    *levels* is int8[m, 4] over `RESOURCES`: 0 low, 1 medium, 2 high, -1 not known. *dominant* is the number of a
    resource, -1 where none is. *runs* counts the activations that were learned from. *p50* is the median in ms over
    all node types, NaN unknown. *importance* is 3, 2 or 1; *strict* marks goal Performance with importance High.
    *mangled* finds functions by a pod's name, *actions* by the bare name of their action, *bare* those without a
    namespace by what a pod's name makes of their action. *number* is what each adds to a company's
    (`featurestore.company`).
    """

    names: Sequence[str]
    index: Numbered
    mangled: Index
    actions: Lookup
    bare: Lookup
    levels: npt.NDArray[np.int8]
    dominant: npt.NDArray[np.int8]
    runs: Rows
    p50: Floats
    importance: npt.NDArray[np.int8]
    strict: npt.NDArray[np.bool_]
    number: company.Numbers

    def __len__(self) -> int:
        return len(self.names)

    def named(self, action: str, namespace: str = "") -> tuple[int, ...]:
        """Return the functions with this action name, of *namespace* alone where it is given."""
        found = self.actions.of(action)
        if not namespace:
            return found
        return tuple(number for number in found if namespace_of(self.names[number]) in (namespace, ""))


#: From this probability on a pair's slowdown is that of a pair that interferes.
_LIKELY: Final = 0.5
#: What a pair that interferes is taken to come to before any is known.
USUAL: Final = 0.25

_NO_ROWS: Final[Rows] = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Latencies:
    """Medians of past answers, sorted by function: rows *start*[f]..*start*[f+1] belong to function f.

    *node* is -1 where the row is the median of a whole node type, then *type_of* says which (-1: a type that no node
    has).
    """

    start: Rows
    node: Ids
    type_of: Ids
    runs: Rows
    p50: Floats
    memo: Memo = field(default_factory=Memo)

    def of(self, function: int) -> slice:
        """Return the rows of *function*, none of one that was not learned from."""
        if function + 1 >= len(self.start):
            return slice(0, 0)
        return slice(int(self.start[function]), int(self.start[function + 1]))


@dataclass(frozen=True, slots=True, eq=False)
class CompanyMedians:
    """Medians by the company that a function had, sorted by function as `Latencies` are; *company* is its number."""

    start: Rows
    node: Ids
    type_of: Ids
    company: Rows
    p50: Floats

    def of(self, function: int) -> slice:
        """Return the rows of *function*, none of one that was not learned from."""
        if function + 1 >= len(self.start):
            return slice(0, 0)
        return slice(int(self.start[function]), int(self.start[function + 1]))


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Learned pairs in columns, sorted by victim; *by_aggressor* orders the same rows by aggressor.

    *type_of* is the number of the node type, -1 where the row speaks for all of them, -2 where no node has its type.
    *window_start* and *window_end* are epoch microseconds, *NEVER* where missing. *known* marks rows that may be used
    for weighing: observed or predicted, with a finite slowdown and probability.
    """

    names: Sequence[str]
    type_names: tuple[str, ...]
    victim: Ids
    aggressor: Ids
    type_of: Ids
    type_name: Ids
    status: tuple[str, ...]
    status_of: Ids
    slowdown: Floats
    low: Floats
    high: Floats
    probability: Floats
    overlaps: Floats
    window_start: Rows
    window_end: Rows
    known: npt.NDArray[np.bool_]
    observed: npt.NDArray[np.bool_]
    victim_start: Rows
    aggressor_start: Rows
    by_aggressor: Ids
    memo: Memo = field(default_factory=Memo)

    def __len__(self) -> int:
        return len(self.victim)

    def suffered_by(self, function: int) -> Rows:
        """Return the rows in which *function* is the victim."""
        if function + 1 >= len(self.victim_start):
            return _NO_ROWS
        return np.arange(self.victim_start[function], self.victim_start[function + 1])

    def caused_by(self, function: int) -> Rows:
        """Return the rows in which *function* is the aggressor."""
        if function + 1 >= len(self.aggressor_start):
            return _NO_ROWS
        found = self.by_aggressor[self.aggressor_start[function] : self.aggressor_start[function + 1]]
        return found.astype(np.int64)

    def expected(self, rows: Rows) -> Floats:
        """Return the slowdown to count with, 0 or more: the mean of both that may be true, by their probabilities.

        A pair that probably interferes slows by what was learned of it, or not at all. What was learned of another is
        the slowdown of one that does not interfere, which is little but not nothing; what there is to fear of it is
        what pairs that do interfere usually come to.
        """
        slowdown, probability = np.maximum(self.slowdown[rows], 0.0), self.probability[rows]
        probably = probability >= _LIKELY
        feared = np.where(probably, slowdown, np.maximum(slowdown, self.usual))
        return feared * probability + np.where(probably, 0.0, slowdown) * (1.0 - probability)

    @property
    def usual(self) -> float:
        """Return the mean slowdown of the pairs that probably interfere, `USUAL` where there are none."""
        return self.memo.once("usual", self._usual)

    def _usual(self) -> float:
        likely = self.known & (self.probability >= _LIKELY)
        return float(np.maximum(self.slowdown[likely], 0.0).mean()) if likely.any() else USUAL

    def evidence(self, row: int) -> Evidence:
        """Return row number *row* as it is shown to people."""
        return Evidence(
            victim=self.names[self.victim[row]],
            aggressor=self.names[self.aggressor[row]],
            status=self.status[self.status_of[row]],
            slowdown=float(self.slowdown[row]),
            low=float(self.low[row]),
            high=float(self.high[row]),
            probability=float(self.probability[row]),
            effective_overlaps=float(self.overlaps[row]),
            node_type=self.type_names[self.type_name[row]],
            window_start=_moment(int(self.window_start[row])),
            window_end=_moment(int(self.window_end[row])),
        )


def lay(
    index: Numbered,
    mangled: Index,
    levels: npt.NDArray[np.int8],
    dominant: npt.NDArray[np.int8],
    runs: Rows,
    p50: Floats,
    workflows: Iterable[Workflow],
    share: Share = alone,
) -> Functions:
    """Complete the columns of the functions in *index*, and add what *workflows* say of their importance."""
    names = index.names
    actions = Lookup(
        ((action_of(name), number) for number, name in enumerate(names)),
        lambda number, action: action_of(names[number]) == action,
    ).shared(share, "actions")
    bare = Lookup(
        ((spoken(name), number) for number, name in enumerate(names) if "/" not in name),
        lambda number, said: spoken(names[number]) == said,
    ).shared(share, "bare")
    weight, strict = _weights(len(names), actions, workflows)
    return Functions(
        names=names,
        index=index,
        mangled=mangled,
        actions=actions,
        bare=bare,
        levels=levels,
        dominant=dominant,
        runs=runs,
        p50=p50,
        importance=weight,
        strict=strict,
        number=company.numbers(names),
    )


def weighed(functions: Functions, workflows: Iterable[Workflow]) -> Functions:
    """Return *functions* with what *workflows* say of their importance."""
    weight, strict = _weights(len(functions), functions.actions, workflows)
    return replace(functions, importance=weight, strict=strict)


def _weights(
    size: int, actions: Lookup, workflows: Iterable[Workflow]
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.bool_]]:
    """Return the columns *importance* and *strict* of `Functions`."""
    weight, strict = np.full(size, MEDIUM, dtype=np.int8), np.zeros(size, dtype=np.bool_)
    for workflow in workflows:
        for action in workflow.actions:
            numbers = actions.of(action_of(action.name))
            if len(numbers) == 1:  # two functions of one action name: which is meant is not guessed
                level = importance(stated.importance(workflow, action))
                weight[numbers[0]] = level
                strict[numbers[0]] = level == HIGH and stated.goal(workflow, action) == PERFORMANCE
    return weight, strict


def with_unlearned(functions: Functions, names: Iterable[str], workflows: Iterable[Workflow]) -> Functions:
    """Return *functions* and behind them those of *names* that are not among them, of which nothing is known."""
    fresh = tuple(dict.fromkeys(name for name in names if name and name not in functions.index))
    if not fresh:
        return functions
    more = len(fresh)
    return lay(
        Numbered(behind(functions.names, fresh)),
        functions.mangled.extended(fresh),
        np.concatenate((functions.levels, np.full((more, len(RESOURCES)), -1, dtype=np.int8))),
        np.concatenate((functions.dominant, np.full(more, -1, dtype=np.int8))),
        np.concatenate((functions.runs, np.zeros(more, dtype=np.int64))),
        np.concatenate((functions.p50, np.full(more, np.nan))),
        workflows,
    )


#: What importance is said with.
IMPORTANCE: Final = {"high": HIGH, "medium": MEDIUM, "low": LOW}


def importance(level: str) -> int:
    """Return 3, 2 or 1 for high, medium or low in any case; absent or unknown is medium."""
    return IMPORTANCE.get(level.lower(), MEDIUM)


NEVER: Final = int(np.iinfo(np.int64).min)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=1024)  # one fit has few windows
def _moment(microseconds: int) -> datetime | None:
    if microseconds == NEVER:
        return None
    return _EPOCH + timedelta(microseconds=microseconds)
