"""The functions and consistent regions of each cluster, by their names."""

from collections.abc import Collection, Mapping, Sequence

from featurestore.snapshot import Snapshot
from featurestore.store import regions
from pipeline.errors import BadInput

_LISTED_BY: Mapping[str, str] = {"function": "colocate functions", "region": "colocate regions list"}


def known(snapshot: Snapshot) -> dict[str, set[str]]:
    """Return the names of functions and regions by cluster."""
    found: dict[str, set[str]] = {}
    for row in snapshot["functions"].select(["cluster", "function"]).to_pylist():
        found.setdefault(row["cluster"], set()).add(row["function"])
    for row in snapshot["regions"].select(["cluster", "namespace", "stream_job", "region"]).to_pylist():
        found.setdefault(row["cluster"], set()).add(regions.name(row["namespace"], row["stream_job"], row["region"]))
    return found


def there(wanted: Sequence[str], known: Mapping[str, Collection[str]], cluster: str | None) -> None:
    """Raise `BadInput` for the first of the *wanted* names that no cluster (or not *cluster*) of the *known* has."""
    chosen = known if cluster is None else (cluster,)
    for name in wanted:
        if not any(name in known.get(each, ()) for each in chosen):
            kind = "region" if name.startswith(regions.PREFIX) else "function"
            where = "" if cluster is None else f" of cluster {cluster}"
            raise BadInput(f"{kind} {name!r}: no such {kind}{where} ({_LISTED_BY[kind]} lists them)")
