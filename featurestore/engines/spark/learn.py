"""A full fit on Spark: which step runs where, and what the driver makes of the answers.

By some functions: attribution, and what needs one function's runs and its pods' samples. By some nodes: exposure. By
some victims: the fits, and their days; by block the days beside which something ran that is older. The driver holds
names, one row a function, node or pair, what the days say, packed, and some 60 bytes a run for the concurrency of the
whole cluster.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from featurestore import answers, details, profiles
from featurestore.attribution.methods import CERTAIN, METHODS
from featurestore.engines.beginning import points_of
from featurestore.engines.candidate import Inputs, Learned, Options, Prepared
from featurestore.engines.concluding import Found, conclude
from featurestore.engines.past import Past
from featurestore.engines.spark import fitting, gathered, tasks, work
from featurestore.engines.spark.reading import Export
from featurestore.engines.spark.tries import Tries
from featurestore.engines.spark.window import PLACED, Asked, given_of, groups, together
from featurestore.used import USE

#: What `learn` tells that it has done.
STEPS = ("attribution", "fit", "fold")


def learn(
    spark: Any, asked: Asked, options: Options, progress: Callable[[str], None] = lambda step: None
) -> tuple[Learned, Inputs]:
    """Learn from the export in full, as `engines.local.learn` does without a state from before; also return the
    window and what is declared. *progress* is told the steps that are done.

    What single activations used is not in the answer. Raises `BadInput` where the export has no activations.
    """
    export, tries = Export(spark, asked.place, asked.cluster), Tries(spark)
    cores = spark.sparkContext.defaultParallelism
    tries.step("attribution")
    given, inputs, activations, counted = given_of(export, asked, options, cores)
    number = groups(counted[0], PLACED, cores)
    parcels = together(export, activations, given, number, cores)
    placed = tasks.worked(parcels, number, work.place, given=given).persist()
    try:
        said = tasks.told(placed.filter(f"part = '{work.TOLD}'").toArrow())
        activations.unpersist()
        progress("attribution")
        tries.step("fit")
        found = fitting.fitted(spark, placed, said, given, cores)
        progress("fit")
        tries.step("fold")
        fits, past = found.fits, Past(inputs.since)
        days, folds = fitting.beside(placed, given, found, points_of(fits, past))
        tries.step("rest")
        spark.range(1).count()
        again = tries.again()
        progress("fold")
    finally:
        placed.unpersist()
    everything = Found(
        fits=fits,
        days=days,
        several=set().union(*(each.several for each in said)),
        measured=profiles.shared(*gathered.measured(said), given.specs, given.node_types),
        known=gathered.known(said, len(given.functions)),
        counted={key: value for each in said for key, value in each.counted.items()},
        tables={
            "latencies": gathered.ordered([each.latencies for each in said], ("node", "function", "node_type")),
            "company": answers.most_met(gathered.ordered(found.company, ("node", "function"))),
            "busyness": gathered.ordered([each.busyness for each in said], ("node", "function")),
        },
        compared=lambda: {
            name: pa.concat_tables([each[name] for each in found.compared]).unify_dictionaries()
            for name in details.OF_FULL_FITS
        },
        ran=sum(len(each.functions) for each in said),
        exposures=found.exposures,
        first=min((each.first for each in said if each.first is not None), default=None),
        last=max((each.last for each in said if each.last is not None), default=None),
    )
    methods = gathered.methods(said)
    on_nodes = round(sum(methods[METHODS[code]] for code in CERTAIN))
    nowhere = fitting.nowhere(given)
    ready = Prepared(nowhere, inputs.usage, USE.empty_table(), methods, *counted, on_nodes, np.zeros(0, bool))
    with threadpool_limits(1, "blas"):
        learned = conclude(everything, ready, inputs, options, past, None)
    where = [*(each.where for each in said), *found.where, *folds]
    return replace(learned, metrics={**learned.metrics, "engine": _engine(spark, where, again)}), inputs


def _engine(spark: Any, where: Sequence[Mapping[str, Any]], again: Mapping[str, int]) -> dict[str, Any]:
    """Return for the model's record who ran each step: processes, the largest peak of their memory so far (MB), and
    how many tasks were tried again."""
    steps: dict[str, Any] = {
        name: {"parts": 0, "retried": number, "processes": [], "peak_mb": 0.0} for name, number in again.items()
    }
    for each in where:
        step = steps[each["step"]]
        step["parts"] += each["parts"]
        step["peak_mb"] = max(step["peak_mb"], each["peak_mb"])
        if (process := f"{each['host']}:{each['pid']}") not in step["processes"]:
            step["processes"].append(process)
    return {"name": "spark", "version": spark.version, "steps": steps}
