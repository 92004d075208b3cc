"""The labels of each pod of a job: by these the terms of the others find it."""

from collections.abc import Sequence

from rules.hosts import keys
from rules.hosts.model import Job, PeId
from rules.hosts.units import Unit


def labels(job: Job, units: Sequence[Unit]) -> dict[PeId, dict[str, str]]:
    """Return the labels that each PE's pod gets."""
    isolated = [(keys.isolation(name), keys.sanitised(name), unit.number) for unit in units for name in unit.isolated]
    found = {}
    for unit in units:
        from_others = {key: value for key, value, of in isolated if of != unit.number}
        of_group = {keys.group(unit.tokens): unit.tokens[0]} if as_group(job, unit) else {}
        for pe in unit.pes:
            mine = {keys.JOB: job.name, keys.PE: f"{job.name}-{pe.id}"}
            mine |= {keys.colocation(token): token for token in pe.colocations}
            mine |= {keys.exlocation(token): token for token in pe.exlocations}
            found[pe.id] = {**mine, **from_others, **of_group}
    return found


def as_group(job: Job, unit: Unit) -> bool:
    """Whether the members of *unit* find each other by the label of the group instead of by tokens."""
    return not job.preferred and unit.grouped
