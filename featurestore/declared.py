"""What workflows declare of their functions' use of resources, and where it is not what was measured."""

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from featurestore import profiles
from featurestore.exposure.kernels import Floats
from featurestore.profiles import RESOURCES, Profiles
from pipeline.records import Workflow


def levels(workflows: pa.Table, functions: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the classes, by resource, that *workflows* (their documents) declare for those of *functions* that they
    name: an action is known by its last name."""
    by_action: dict[str, list[str]] = {}
    for name in functions:
        by_action.setdefault(name.rpartition("/")[2], []).append(name)
    found: dict[str, dict[str, str]] = {}
    for document in workflows["document"].to_pylist():
        for action in msgspec.json.decode(document, type=Workflow).actions:
            if action.performance_profile:
                found |= dict.fromkeys(by_action.get(action.name, ()), action.performance_profile)
    return found


def otherwise(functions: pa.Table, workflows: pa.Table) -> pa.Array:
    """Return for each row of *functions* (a snapshot's, measured or not) which classes its workflow declares that are
    not the measured ones, such as ``cpu low, disk high``; "" where none differs."""
    stated: dict[str, dict[str, dict[str, str]]] = {}
    clusters = workflows["cluster"].cast(pa.string())
    for cluster in pc.unique(functions["cluster"].cast(pa.string())).to_pylist():
        own = functions.filter(pc.equal(functions["cluster"].cast(pa.string()), cluster))["function"].to_pylist()
        stated[cluster] = levels(workflows.filter(pc.equal(clusters, cluster)), own)
    said = []
    for row in functions.select(["cluster", "function", "source", *RESOURCES]).to_pylist():
        declared = stated[row["cluster"]].get(row["function"], {}) if row["source"] == "measured" else {}
        differ = [name for name in RESOURCES if declared.get(name) and row[name] and declared[name] != row[name]]
        said.append(", ".join(f"{name} {declared[name]}" for name in differ))
    return pa.array(said, pa.string())


def disagreements(
    functions: pa.Array, measured: Profiles, limits: Floats, declared: Mapping[str, Mapping[str, str]]
) -> list[dict[str, str]]:
    """Return where a class that a workflow declares is not the one that was measured, by function and resource."""
    found = []
    for row in np.flatnonzero(measured.node_type < 0):
        name = functions[int(measured.function[row])].as_py()
        for resource, level in zip(RESOURCES, profiles.levels(measured.share[row], limits), strict=True):
            said = declared.get(name, {}).get(resource, "")
            if said and level and said != level:
                found.append({"function": name, "resource": resource, "declared": said, "measured": level})
    return sorted(found, key=lambda each: (each["function"], each["resource"]))
