"""Whether a candidate takes the place of the model that answers: not where a person chose that one."""

from dataclasses import dataclass
from functools import partial

from featurestore.store import models
from featurestore.store.duck import Store

#: Why a candidate does not answer, as the run's record and the metrics say it.
CHOSEN = "chosen"
_UNTIL = "`colocate learn --use newest` lets the newest answer"


@dataclass(frozen=True, slots=True)
class Promotion:
    """*promoted*, else the *reason* in a word; *message* says it in a sentence, "" where there is nothing to say."""

    promoted: bool = True
    reason: str = ""
    message: str = ""


def consider(store: Store, cluster: str) -> Promotion:
    """Return whether a new model of *cluster* is to answer."""
    before = store.read(partial(models.promoted, cluster=cluster))
    if before is not None and before.chosen:
        return Promotion(False, CHOSEN, f"model {before.number} was chosen by hand and goes on answering; {_UNTIL}")
    return Promotion()
