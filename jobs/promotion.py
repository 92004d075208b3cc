"""Whether a new model takes the place of the one that answers: not where a person chose that one, nor where the new
one is worse on what neither has seen."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
from duckdb import DuckDBPyConnection

from featurestore import held
from featurestore.interference.holdout import NONE, WORSE, Verdict
from featurestore.store import heldout, models
from featurestore.store.duck import Store
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


def consider(store: Store, cluster: str, pairs: pa.Table, span: Window, *, aside: bool) -> Promotion:
    """Return whether a new model with *pairs*, learned of *span* with a part set *aside*, is to answer."""

    def read(con: DuckDBPyConnection) -> tuple[Model | None, str, tuple[pa.Table, ...]]:
        known = models.promoted(con, cluster)
        why = _incomparable(known, aside)
        if known is None or why:
            return known, why, ()
        return known, "", (heldout.runs(con, cluster, span), models.table(con, known, "pairs"))

    answering, why, tables = store.read(read)
    verdict = Verdict(NONE)
    if tables:
        verdict = held.compare(tables[0], pairs, tables[1])
        why = "too little was set aside yet" if verdict.word == NONE else ""
    record = {"aside": aside, "verdict": verdict.word, **_numbers(verdict)} | ({"why": why} if why else {})
    if answering is None:
        return Promotion(holdout=record)
    record["against"] = answering.number
    return _promotion(answering, verdict.word == WORSE, record)


def standing(store: Store, cluster: str) -> Promotion:
    """Return whether the newest model that is saved answers."""
    known = store.read(partial(models.saved, cluster=cluster))
    answering = next((model for model in known if model.promoted), None)
    if answering is None or known[0].promoted:
        return Promotion()
    record = known[0].metrics.get("holdout", {})
    return _promotion(answering, record.get("verdict") == WORSE, record)


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
