"""The advice had it learned the truth: the same rules at the same moments, asked with the true slowdowns.

What it falls short of the oracle is lost by deciding without knowing how busy pods will be; what the advice falls
short of it, by what the slowdowns were learned from.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from featurestore.snapshot import TABLES, Snapshot
from jobs.simulation.policies.advised import Advised
from jobs.simulation.replay import Cluster
from jobs.simulation.world import World
from rules.policy import Policy


class Informed(Advised):
    """Asks the rules about a snapshot whose pairs are the true ones, each of them certain."""

    def __init__(self, cluster: Cluster, policy: Policy) -> None:
        super().__init__(replace(cluster, world=replace(cluster.world, known=_told(cluster.world))), policy)


def _told(world: World) -> Snapshot:
    """Return what is known in *world*, with the slowdowns that its runs go by in the place of the learned pairs."""
    load, names = world.load, pa.array(world.functions, pa.string())
    victim = np.repeat(np.arange(len(names)), np.diff(load.first))
    given = {
        "cluster": pa.repeat(world.cluster, len(victim)),
        "victim": names.take(pa.array(victim)),
        "aggressor": names.take(pa.array(load.aggressor)),
        "node_type": pa.repeat("", len(victim)),
        "status": pa.repeat("observed", len(victim)),
        **{name: pa.array(load.slowdown) for name in ("slowdown", "low", "high")},
        "probability": pa.array(np.ones(len(victim))),
        "effective_overlaps": pa.array(np.full(len(victim), np.inf)),
    }
    schema = TABLES["pairs"]
    empty = (pa.nulls(len(victim), field.type) for field in schema)
    columns = {field.name: given.get(field.name, none) for field, none in zip(schema, empty, strict=True)}
    return replace(world.known, tables={**world.known.tables, "pairs": pa.table(columns).cast(schema)})
