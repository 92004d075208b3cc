"""Clusters by name: those that the settings name, and those of which history was imported."""

from collections.abc import Iterable

from jobs.config import Settings
from pipeline.errors import BadInput


def configured(settings: Settings) -> tuple[str, ...]:
    """Return the names of the clusters that *settings* name, that which is served among them."""
    served = (settings.serve.cluster,) if settings.serve.cluster is not None else ()
    return tuple(dict.fromkeys((*(cluster.name for cluster in settings.clusters), *served)))


def there(name: str, configured: Iterable[str], imported: Iterable[str]) -> str:
    """Return the *name* of a cluster; raises `BadInput` where it is none of those known, if any is."""
    names = tuple(dict.fromkeys((*configured, *imported)))
    if names and name not in names:
        raise BadInput(f"cluster {name!r}: neither configured nor imported; there are {', '.join(names)}")
    return name
