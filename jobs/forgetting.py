"""``colocate forget``: a cluster whose history came from files, or that is gone, is forgotten."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from featurestore.store import forgotten
from featurestore.store.duck import Store
from jobs.config import Settings
from jobs.saving import publish
from pipeline.errors import BadInput


@dataclass(frozen=True, slots=True)
class Forgotten:
    """How many *rows* of a *table* are gone."""

    table: str
    rows: int
    cluster: str


def run(
    settings: Settings,
    cluster: str,
    *,
    now: Callable[[], datetime],
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> list[Forgotten]:
    """Delete all that is stored of *cluster*, and publish a snapshot without it; return what is gone by table.

    Raises `BadInput` for a cluster that is configured, which the next collection would bring back, or not known.
    """
    path = settings.store.path
    if any(each.name == cluster for each in settings.clusters):
        raise BadInput(f"cluster {cluster!r}: is configured; take it out of [[clusters]] first, or it comes back")
    store = Store(path, settings.store.deadline)
    known = store.read(forgotten.known) if path.exists() else []
    if cluster not in known:
        raise BadInput(f"cluster {cluster!r}: nothing is stored of it; there are {', '.join(known) or 'none'}")
    with store.session() as held:
        gone = forgotten.forget(held, cluster, progress)
        publish(settings, held, now())
    return [Forgotten(table, rows, cluster) for table, rows in gone.items()]
