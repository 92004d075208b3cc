"""SPL source to operators and pools, as far as placement goes: composites are opened, the rest is stepped over.

Besides whole programs, operator invocations and ``config`` clauses that stand alone are read as of a main composite.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from rules.hosts.clauses import read_placement, read_pools
from rules.hosts.groups import joined
from rules.hosts.lexer import Cursor, Token
from rules.hosts.model import Operator, Pe, Placement, Pool

_OF_COMPOSITES: Final = ("param", "type", "graph", "config")
_DEEP: Final = 64
#: More than any job has: a short text can stand for billions, of composites that invoke the next one twice.
_MOST: Final = 20_000


@dataclass(slots=True)
class _Config:
    placement: Placement = field(default_factory=Placement)
    pools: dict[str, Pool] = field(default_factory=dict)
    pools_at: Token | None = None


@dataclass(frozen=True, slots=True)
class _Invocation:
    name: str
    kind: str
    config: _Config
    at: Token


@dataclass(slots=True)
class _Composite:
    name: str
    at: Token
    config: _Config = field(default_factory=_Config)
    graph: list[_Invocation] = field(default_factory=list)


def read(text: str, where: str) -> tuple[tuple[Operator, ...], dict[str, Pool]]:
    """Return the operators and pools of SPL *text*; raises `BadInput` with line and column."""
    cursor = Cursor(text, where)
    composites: dict[str, _Composite] = {}
    loose = _Composite("", cursor.next)
    while cursor.next.kind != "end":
        if cursor.at("namespace", "use", "type"):
            _statement(cursor)
        elif cursor.at("public", "static"):
            cursor.take()
        elif cursor.at("composite"):
            made = _composite(cursor)
            if made.name in composites:
                cursor.fail(f"a second composite {made.name}", made.at)
            composites[made.name] = made
        elif cursor.at("graph"):
            cursor.take()
        elif cursor.at("config"):
            _read_config(cursor, loose.config)
        else:
            loose.graph.append(_invocation(cursor))
    main = loose if loose.graph or not composites else _main(cursor, composites)
    for each in composites.values():
        if each is not main and each.config.pools_at:
            cursor.fail(f"composite {each.name} is not the main one: only that has pools", each.config.pools_at)
    if _size(main, composites, {}, 0) > _MOST:
        cursor.fail(f"composite {main.name} holds more than {_MOST} operators", main.at)
    operators = tuple(_opened(cursor, main, composites, "", Placement(), 0))
    if not operators:
        cursor.fail("no operators", main.at)
    seen: set[str] = set()
    for operator in operators:
        if operator.name in seen:
            cursor.fail(f"two operators of the name {operator.name}", main.at)
        seen.add(operator.name)
    return operators, {**loose.config.pools, **main.config.pools}


def fused(operators: Sequence[Operator], template: Mapping[str, object]) -> tuple[Pe, ...]:
    """Return PEs: operators that share a ``partitionColocation`` token, directly or over others, are one."""
    groups = joined(each.placement.partition_colocations for each in operators)
    return tuple(
        Pe(number, tuple(operators[each] for each in group), template) for number, group in enumerate(groups)
    )


def _main(cursor: Cursor, composites: Mapping[str, _Composite]) -> _Composite:
    invoked = {each.kind for composite in composites.values() for each in composite.graph}
    free = [each for each in composites.values() if each.name not in invoked]
    named = [each for each in free if each.name == "Main"]
    if len(free) != 1 and len(named) != 1:
        told = ", ".join(each.name for each in free)
        last = [*composites.values()][-1]
        cursor.fail(f"which composite is the main one? {told or 'each is used by another'}", last.at)
    return named[0] if len(free) != 1 else free[0]


def _size(composite: _Composite, composites: Mapping[str, _Composite], sizes: dict[str, int], deep: int) -> int:
    """Return how many operators and composites *composite* opens to; *sizes* are those known.

    Those that hold themselves are left to who opens them.
    """
    if deep > _DEEP:
        return 0
    if composite.name not in sizes:
        sizes[composite.name] = 0
        inner = (composites.get(each.kind) for each in composite.graph)
        sizes[composite.name] = sum(
            1 if each is None else 1 + _size(each, composites, sizes, deep + 1) for each in inner
        )
    return sizes[composite.name]


def _opened(
    cursor: Cursor,
    composite: _Composite,
    composites: Mapping[str, _Composite],
    prefix: str,
    around: Placement,
    deep: int,
) -> Iterator[Operator]:
    """Yield the operators of *composite*, those of composites that it invokes in their place."""
    if deep > _DEEP:
        cursor.fail(f"composite {composite.name} holds itself", composite.at)
    around = _within(around, composite.config.placement)
    for each in composite.graph:
        mine = _within(around, each.config.placement)
        inner = composites.get(each.kind)
        if inner is None:
            yield Operator(prefix + each.name, mine)
        else:
            yield from _opened(cursor, inner, composites, f"{prefix}{each.name}.", mine, deep + 1)


def _within(outer: Placement, inner: Placement) -> Placement:
    """What holds for a composite holds for everything in it; a host that is named nearer replaces an outer one."""
    lists = {
        name: tuple(dict.fromkeys((*getattr(outer, name), *getattr(inner, name))))
        for name in ("colocations", "exlocations", "partition_colocations", "partition_exlocations")
    }
    return replace(
        inner,
        **lists,
        hosts=inner.hosts or outer.hosts,
        isolated=inner.isolated or outer.isolated,
        partition_isolated=inner.partition_isolated or outer.partition_isolated,
    )


def _statement(cursor: Cursor) -> None:
    """Step over everything up to a semicolon."""
    began = cursor.next
    while not cursor.skip(";"):
        if cursor.next.kind == "end":
            cursor.fail(f"{began} does not end", began)
        cursor.step()


def _composite(cursor: Cursor) -> _Composite:
    cursor.expect("composite")
    at = cursor.next
    made = _Composite(cursor.kind("name", "the name of a composite").value, at)
    if cursor.at("("):
        cursor.step()
    began = cursor.expect("{")
    while not cursor.skip("}"):
        if cursor.next.kind == "end":
            cursor.fail(f"composite {made.name} is not closed", began)
        if cursor.at("config"):
            _read_config(cursor, made.config)
        elif cursor.skip("graph"):
            while cursor.next.kind != "end" and not cursor.at("}", *_OF_COMPOSITES):
                made.graph.append(_invocation(cursor))
        elif cursor.skip("param") or cursor.skip("type"):
            while cursor.next.kind != "end" and not cursor.at("}", *_OF_COMPOSITES):
                cursor.step()
        else:
            cursor.fail(f"expected one of {', '.join(_OF_COMPOSITES)} or '}}', not {cursor.next}")
    return made


def _invocation(cursor: Cursor) -> _Invocation:
    at = cursor.next
    while cursor.at("@"):
        if cursor.after().value == "parallel":
            cursor.fail("@parallel is not opened: give the PEs of a job with parallel regions")
        cursor.take()
        cursor.kind("name", "an annotation")
        if cursor.at("("):
            cursor.step()
    name = ""
    if cursor.skip("("):
        while not cursor.skip(")"):
            name = _stream(cursor, name)
            cursor.skip(";")
    else:
        name = _stream(cursor, name)
    if cursor.skip("as"):
        name = cursor.kind("name", "a name").value
    if not name:
        cursor.fail("an operator without output needs a name: () as NAME = ...", at)
    cursor.expect("=")
    kind = cursor.kind("name", "an operator").value
    while cursor.skip(".") or cursor.skip("::"):
        kind = cursor.kind("name", "an operator").value
    if cursor.at("<"):
        cursor.balanced("<", ">")
    cursor.balanced("(", ")")
    config = _Config()
    if not cursor.skip(";"):
        _body(cursor, config)
    return _Invocation(name, kind, config, at)


def _stream(cursor: Cursor, first: str) -> str:
    """Read one output; returns the name of the *first*, by which an operator goes that has no other."""
    if not cursor.at("stream"):
        cursor.fail(f"expected an operator, such as stream<...> NAME = ..., not {cursor.next}")
    cursor.take()
    cursor.balanced("<", ">")
    name = cursor.kind("name", "the name of a stream").value
    return first or name


def _body(cursor: Cursor, config: _Config) -> None:
    began = cursor.expect("{")
    while not cursor.skip("}"):
        if cursor.next.kind == "end":
            cursor.fail("the operator is not closed", began)
        if cursor.at("config"):
            _read_config(cursor, config)
        else:
            cursor.step()


def _read_config(cursor: Cursor, into: _Config) -> None:
    """Read a ``config`` clause: placement and pools; other settings are stepped over."""
    cursor.expect("config")
    while True:
        at = cursor.kind("name", "a setting")
        cursor.expect(":")
        if at.value == "placement":
            into.placement = _within(into.placement, read_placement(cursor))
            cursor.expect(";")
        elif at.value == "hostPool":
            pools = read_pools(cursor)
            if twice := into.pools.keys() & pools.keys():
                cursor.fail(f"a second pool of the name {min(twice)}", at)
            into.pools |= pools
            into.pools_at = at
            cursor.expect(";")
        else:
            _statement(cursor)
        if cursor.next.kind != "name" or cursor.after().value != ":" or cursor.after(2).value == ":":
            return
