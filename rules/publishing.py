"""The columns that are published beside a snapshot's tables: what every process that answers lays out of them."""

from featurestore.snapshot import Column, Snapshot
from rules.laid import Kept
from rules.view import prepare


def columns(snapshot: Snapshot) -> dict[str, dict[str, Column]]:
    """Return by cluster and name what `prepare` lays out of *snapshot*, as far as its tables do not have it."""
    found = {}
    for cluster in snapshot.clusters:
        kept = Kept(snapshot)
        prepare(snapshot, cluster, snapshot.created, share=kept)
        found[cluster] = kept.columns
    return found
