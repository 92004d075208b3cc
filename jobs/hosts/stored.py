"""Submitted jobs in the control store: by cluster and name, which no two of a cluster share."""

import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import msgspec
import structlog

from featurestore.store import control
from featurestore.store.control import Control
from jobs.hosts.changing import Change
from pipeline.errors import BadInput, Temporary
from rules.hosts.model import Job
from rules.hosts.plan import Plan
from rules.hosts.podrules import HostRules, PodRules

KIND: Final = "host-job"
_log = structlog.get_logger(__name__)


class StoredJob(msgspec.Struct, frozen=True):
    """A submitted job: its *document*, the nodes chosen for its *pools*, and what each PE's pod gets."""

    cluster: str
    job: str
    namespace: str
    document: Any
    pools: Mapping[str, tuple[str, ...]]
    rules: Mapping[str, PodRules]


def keep(
    store: Control, cluster: str, plan: Plan, document: object, at: datetime, instead_of: StoredJob | None = None
) -> None:
    """Store *plan*; a job that is stored as it is stays untouched. Raises `BadInput` as `known` does.

    With *instead_of*, raises `Temporary` where another is stored by now, or none.
    """
    job = plan.job
    rules = {str(pe): replace(rules, freedom=()) for pe, rules in plan.rules.items()}  # that counts nodes
    made = StoredJob(cluster, job.name, job.namespace, document, plan.pools, rules)
    body = msgspec.json.decode(msgspec.json.encode(made))  # as it will be read, to be compared

    def write(con: sqlite3.Connection) -> None:
        found = control.get(con, KIND, _name(cluster, job.name))
        there = None if found is None else _read(found.body)
        _same_namespace(there, job)
        if instead_of is not None and there != instead_of:
            raise Temporary("control store", "changed", f"job {job.name}: submitted or released meanwhile")
        if found is None or found.body != body:
            control.put(con, KIND, _name(cluster, job.name), body, at)

    store.write(write)


def change(
    store: Control,
    cluster: str,
    plan: Plan,
    document: object,
    at: datetime,
    before: StoredJob | None,
    *,
    again: bool = False,
) -> Change:
    """Return the change that stores *plan* as `keep` does, and back to what was stored *before*.

    With *again* it is not made unless that is stored still.
    """
    name = _name(cluster, plan.job.name)

    def do(dry: bool) -> None:
        if not dry:
            keep(store, cluster, plan, document, at, before if again else None)

    def undo() -> None:
        if before is None:
            forget(store, cluster, plan.job.name)
        else:
            body = msgspec.json.decode(msgspec.json.encode(before))
            store.write(lambda con: control.put(con, KIND, name, body, at))

    return Change("stored job", do, undo)


def known(store: Control, cluster: str, job: Job) -> StoredJob | None:
    """Return what is stored of *job*; raises `BadInput` where another namespace has a job of its name.

    Labels and taints of nodes know a job by its name alone.
    """
    found = get(store, cluster, job.name)
    _same_namespace(found, job)
    return found


def get(store: Control, cluster: str, name: str) -> StoredJob | None:
    """Return the job *name*, None where there is none; a store that is not there yet holds none."""
    if not store.path.exists():
        return None
    found = store.read(lambda con: control.get(con, KIND, _name(cluster, name)))
    return None if found is None else _read(found.body)


def every(store: Control, cluster: str) -> list[StoredJob]:
    """Return all jobs of *cluster*, in order of name; one that cannot be read costs only itself."""
    if not store.path.exists():
        return []
    found = []
    for each in store.read(lambda con: control.listed(con, KIND)):
        try:
            found.append(_read(each.body))
        except BadInput as error:
            _log.error("stored job left out", error=str(error))
    return [each for each in found if each.cluster == cluster]


def rules(store: Control, cluster: str) -> HostRules:
    """Return what the pods of all jobs of *cluster* get."""
    return {(each.namespace, each.job): each.rules for each in every(store, cluster)}


def forget(store: Control, cluster: str, name: str) -> bool:
    """Remove the job *name*; returns whether there was one."""
    return store.path.exists() and store.write(lambda con: control.delete(con, KIND, _name(cluster, name)))


def _name(cluster: str, job: str) -> str:
    return f"{cluster}/{job}"


def _read(body: object) -> StoredJob:
    try:
        return msgspec.convert(body, StoredJob)
    except msgspec.ValidationError as error:
        name = body.get("job") if isinstance(body, dict) else None
        raise BadInput(f"stored job {name}: written by another version: {error}") from None


def _same_namespace(found: StoredJob | None, job: Job) -> None:
    if found is not None and found.namespace != job.namespace:
        raise BadInput(f"job {job.name}: is in namespace {found.namespace} already, and no two share a name")
