"""A job's document, as it comes from YAML or JSON, to a `Job`."""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pipeline.errors import BadInput
from rules import shape
from rules.hosts import clauses, keys, program
from rules.hosts.model import Job, Operator, Pe, PeId, Pool
from rules.labels import legal_value

_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_POOL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: The pool of every operator that names none.
DEFAULT_POOL: Final = "$default"


class _Operator(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    placement: str | None = None


class _Pe(msgspec.Struct, forbid_unknown_fields=True):
    id: int | str
    operators: list[_Operator] = []
    template: dict[str, Any] | None = None


class _Job(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    job: str
    namespace: str = "default"
    scope: str = "job"
    colocation: str = "required"
    host_pools: dict[str, str | list[str]] = {}
    pes: list[_Pe] | None = None
    spl: str | None = None
    template: dict[str, Any] = {}


def read(document: object, where: str) -> Job:
    """Read a job; *where* (a file, ``body``) stands before every complaint. Raises `BadInput` naming the field."""
    try:
        given = msgspec.convert(document, _Job)
    except msgspec.ValidationError as error:
        raise BadInput(f"{where}: {str(error).replace('`$.', '`')}") from None
    if not given.job or not legal_value(given.job):
        raise BadInput(f"{where}: job: {given.job!r} cannot be a label's value, which the name of a job has to be")
    if _NAMESPACE.fullmatch(given.namespace) is None:
        raise BadInput(f"{where}: namespace: {given.namespace!r} is no name of a namespace")
    _one_of(where, "scope", given.scope, ("job", "token"))
    _one_of(where, "colocation", given.colocation, ("required", "preferred"))
    if given.pes is None and given.spl is None:
        raise BadInput(f"{where}: pes: missing, and no spl either")
    pools = {name: _pool(name, text, f"{where}: hostPools.{name}") for name, text in given.host_pools.items()}
    operators: tuple[Operator, ...] = ()
    if given.spl is not None:
        operators, of_program = program.read(given.spl, f"{where}: spl")
        pools = {**of_program, **pools}
    if given.pes is None:
        pes = program.fused(operators, given.template)
    else:
        known = {each.name: each for each in operators}
        pes = tuple(_pe(each, given.template, known, f"{where}: pes[{at}]") for at, each in enumerate(given.pes))
        _all_there(where, pes, known)
    _check(where, given.job, pes, pools)
    return Job(
        name=given.job,
        namespace=given.namespace,
        pes=pes,
        pools=pools,
        by_token=given.scope == "token",
        preferred=given.colocation == "preferred",
        fused=given.pes is None,
    )


def _one_of(where: str, field: str, value: str, values: tuple[str, ...]) -> None:
    if value not in values:
        raise BadInput(f"{where}: {field}: {value!r} is not one of {', '.join(values)}")


def _pool(name: str, given: str | list[str], where: str) -> Pool:
    if _POOL.fullmatch(name) is None:
        raise BadInput(f"{where}: {name!r} is no name that host() could say")
    if isinstance(given, str):
        return clauses.pool(name, given, where)
    if not given:
        raise BadInput(f"{where}: a pool of no hosts")
    return Pool(name, hosts=tuple(given))


def _pe(given: _Pe, template: Mapping[str, Any], known: Mapping[str, Operator], where: str) -> Pe:
    operators = []
    for number, each in enumerate(given.operators):
        at = f"{where}.operators[{number}]"
        if not each.name:
            raise BadInput(f"{at}.name: empty")
        if each.placement is None and each.name in known:
            operators.append(known[each.name])
        else:
            operators.append(Operator(each.name, clauses.placement(each.placement or "", f"{at}.placement")))
    return Pe(given.id, tuple(operators), given.template if given.template is not None else template)


def _all_there(where: str, pes: tuple[Pe, ...], known: Mapping[str, Operator]) -> None:
    """Operators of the SPL that no PE holds would run nowhere."""
    placed = {name for pe in pes for name in pe.names}
    if missing := [name for name in known if name not in placed]:
        raise BadInput(f"{where}: pes: none holds operator {missing[0]} of the spl")


def _check(where: str, job: str, pes: tuple[Pe, ...], pools: Mapping[str, Pool]) -> None:
    ids: set[str] = set()
    pods: dict[str, PeId] = {}
    holder: dict[str, PeId] = {}
    for number, pe in enumerate(pes):
        at = f"{where}: pes[{number}]"
        if str(pe.id) in ids or not str(pe.id) or not legal_value(str(pe.id)):
            raise BadInput(f"{at}.id: {pe.id!r} {'stands twice' if str(pe.id) in ids else 'cannot be in a label'}")
        ids.add(str(pe.id))
        if not legal_value(f"{job}-{pe.id}"):
            raise BadInput(
                f"{at}.id: {pe.id!r}: {job}-{pe.id} is too long for a label, which has 63 characters at most"
            )
        shape.check(pe.template, f"{at}.template")
        if pe.template.get("kind") not in (None, "Pod"):
            raise BadInput(f"{at}.template.kind: {pe.template['kind']!r}: a PE is a Pod")
        pod = (pe.template.get("metadata") or {}).get("name") or keys.pod_name(job, pe.id)
        if pod in pods:
            raise BadInput(f"{at}: its pod is called {pod}, as that of PE {pods[pod]} is")
        pods[pod] = pe.id
        for operator in pe.operators:
            if operator.name in holder:
                raise BadInput(f"{at}: operator {operator.name} is in PE {holder[operator.name]} too")
            holder[operator.name] = pe.id
            for host in operator.placement.hosts:
                if host.pool and host.pool not in pools and host.pool != DEFAULT_POOL:
                    raise BadInput(f"{at}: operator {operator.name}: {host}: no such pool")
