"""The models that are kept: a list of them, and letting one answer that a person chose."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from duckdb import DuckDBPyConnection

from featurestore.store import models
from featurestore.store.duck import Store
from featurestore.store.models import Model
from jobs.config import Settings
from jobs.saving import publish
from jobs.service.words import WORDS
from pipeline.errors import BadInput

#: The word that stands for the newest model, and for going on by itself.
NEWEST = "newest"

#: What a list tells of a model, in order; the distances are those of the fold to its full fit, in standard errors.
COLUMNS = (
    *("number", "model", "answers", "created", "window_start", "window_end", "code_version", "reason"),
    *(
        "activations",
        "evidence",
        "functions",
        "observed",
        "predicted",
        "unknown",
        "shared_cause",
        "holdout",
        "distance_typical",
        "distance_largest",
        "cluster",
    ),
)

#: Those of them that a table has: which there are, which answers, and why there is another.
ESSENTIAL = ("number", "answers", "created", "activations", "observed", "holdout", "reason", "cluster")


@dataclass(frozen=True, slots=True)
class Chosen:
    """The *model* that answers from now on, in *words*, and the published *snapshot*."""

    model: str
    number: int
    cluster: str
    snapshot: str
    words: str


def listed(store: Store, clusters: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row (`COLUMNS`) for each model that is kept of *clusters*, the newest first."""
    return [_row(model) for name in clusters for model in store.read(partial(models.saved, cluster=name))]


def _row(model: Model) -> dict[str, Any]:
    pairs: Mapping[str, int] = model.metrics.get("pairs", {})
    distance: Mapping[str, float] = model.metrics.get("distance", {})
    told = {name: getattr(model, name) for name in COLUMNS if name in Model.__dataclass_fields__}
    return {
        **told,
        "answers": "chosen" if model.chosen else "yes" if model.promoted else "",
        **{name: model.metrics.get(name) for name in ("activations", "evidence", "functions")},
        **{name: pairs.get(name, 0) for name in WORDS["status"]},
        "holdout": model.metrics.get("holdout", {}).get("verdict", ""),
        **{f"distance_{name}": distance.get(name) for name in ("typical", "largest")},
    }


def choose(settings: Settings, store: Store, cluster: str, which: str, now: Callable[[], datetime]) -> Chosen:
    """Let the model *which* (a number or a name) of *cluster* answer, whatever is learned later; publish it.

    `NEWEST` ends such a choice: the newest model answers, and later ones take its place again. Raises `BadInput`
    where there is no such model.
    """
    free = which == NEWEST

    def promote(con: DuckDBPyConnection) -> Model:
        if free and not models.saved(con, cluster):
            raise BadInput(f"--use: nothing has been learned of cluster {cluster} yet")
        model = models.saved(con, cluster)[0] if free else models.find(con, cluster, which)
        models.use(con, cluster, model.model, chosen=not free)
        return model

    model = store.write(promote)
    snapshot = publish(settings, store, now())
    later = (
        "later ones take its place"
        if free
        else f"later ones are saved beside it until `colocate learn --use {NEWEST}`"
    )
    words = f"model {model.number} ({model.model}) of cluster {cluster} answers from now on; {later}"
    return Chosen(model.model, model.number, cluster, snapshot.version, words)
