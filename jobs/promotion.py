"""Whether a new model takes the place of the one that answers: not where a person chose that one, nor where the new
one is worse on what neither has seen."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from duckdb import DuckDBPyConnection

from featurestore import held
from featurestore.interference.holdout import NONE, WORSE, Verdict
from featurestore.store import heldout, models
from featurestore.store.models import Model
from pipeline.records import Window

#: Why a model does not answer, as the run's record and the metrics say it.
CHOSEN, HELD_BACK = "chosen", "worse"
_UNTIL = "`colocate learn --use newest` lets the newest answer"


@dataclass(frozen=True, slots=True)
class Promotion:
    """*promoted*, else the *reason* in a word; *message* says it in a sentence, "" where there is nothing to say.
    *holdout* is for the model's record."""

    promoted: bool = True
    reason: str = ""
    message: str = ""
    holdout: Mapping[str, Any] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        """How the run ended, for its record: a model that is worse than the one before is no whole success."""
        return "partial" if self.reason == HELD_BACK else "ok"


@dataclass(frozen=True, slots=True)
class Standing:
    """What a new model is compared with: the one that is *answering*, *why* nothing can be compared ("": it can), the
    runs that were set aside and that model's pairs, and the *newest* model that is saved."""

    answering: Model | None
    newest: Model | None
    why: str = ""
    tables: tuple[pa.Table, ...] = ()

    @property
    def rows(self) -> int:
        """How much there is to compare."""
        return sum(table.num_rows for table in self.tables)


def look(
    con: DuckDBPyConnection,
    cluster: str,
    span: Window,
    *,
    aside: bool,
    carried: tuple[str, pa.Table] | None = None,
) -> Standing:
    """Copy what a new model of *cluster*, learned of *span* with a part set *aside*, is to be compared with.

    *carried* are the pairs of a model, by its name, that were copied already.
    """
    saved = models.saved(con, cluster)
    known, newest = next((model for model in saved if model.promoted), None), next(iter(saved), None)
    why = _incomparable(known, aside)
    if known is None or why:
        return Standing(known, newest, why)
    pairs = carried[1] if carried is not None and carried[0] == known.model else models.table(con, known, "pairs")
    return Standing(known, newest, "", (heldout.runs(con, cluster, span), pairs))


def consider(found: Standing, pairs: pa.Table, *, aside: bool) -> Promotion:
    """Return whether a new model with *pairs*, learned with a part set *aside*, is to answer."""
    answering, why, tables = found.answering, found.why, found.tables
    verdict = Verdict(NONE)
    if tables:
        verdict = held.compare(tables[0], pairs, tables[1])
        why = "too little was set aside yet" if verdict.word == NONE else ""
    record = {"aside": aside, "verdict": verdict.word, **_numbers(verdict)} | ({"why": why} if why else {})
    if answering is None:
        return Promotion(holdout=record)
    record["against"] = answering.number
    return _promotion(answering, verdict.word == WORSE, record)


def unmoved(found: Standing) -> Promotion:
    """Return whether the newest model that is saved answers, where there is no newer one."""
    if found.answering is None or found.newest is None or found.newest.promoted:
        return Promotion()
    record = found.newest.metrics.get("holdout", {})
    return _promotion(found.answering, record.get("verdict") == WORSE, record)


def _promotion(answering: Model, worse: bool, record: Mapping[str, Any]) -> Promotion:
    if answering.chosen:
        said = f"model {answering.number} was chosen by hand and goes on answering; {_UNTIL}"
        return Promotion(False, CHOSEN, said, record)
    if worse:
        said = (
            f"the new model is saved but does not answer: on {record['runs']} runs that were set aside it is worse"
            f" than model {answering.number} (mean log density {record['candidate']:.4f} against"
            f" {record['before']:.4f}, {record['difference']:+.4f} ± {record['error']:.4f}); {_UNTIL}"
        )
        return Promotion(False, HELD_BACK, said, record)
    return Promotion(holdout=record)


def _incomparable(answering: Model | None, aside: bool) -> str:
    """Return why nothing can be compared with the model that answers, "" where something can."""
    if answering is None:
        return "there is no model before it"
    if not aside:
        return "too little history to set a part of it aside"
    if not answering.metrics.get("holdout", {}).get("aside"):
        return f"model {answering.number} has seen all of its history"
    return ""


def _numbers(verdict: Verdict) -> dict[str, float]:
    values = {name: getattr(verdict, name) for name in Verdict.__slots__ if name != "word"}
    return {name: value for name, value in values.items() if math.isfinite(value)}
