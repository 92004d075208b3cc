"""The SPL clauses of host placement: ``placement: ...`` of an operator and ``hostPool: ...`` of a job.

placement  := clause {"," clause}
clause     := "host" "(" (string | pool ["[" number "]"]) ")"
            | ("hostColocation" | "hostExlocation" | "partitionColocation" | "partitionExlocation") "(" string ")"
            | "hostIsolation" | "partitionIsolation"
hostPool   := name "=" pool {"," name "=" pool}
pool       := "[" string {"," string} "]" | "createPool" "(" ["{" property {"," property} "}" ","] sharing ")"
property   := "size" "=" number | "tags" "=" "[" string {"," string} "]"
sharing    := "Sys" "." ("Shared" | "Exclusive")
"""

import re
from typing import Final

from rules.hosts.keys import tag
from rules.hosts.lexer import Cursor
from rules.hosts.model import Host, Placement, Pool

_TOKENS: Final = {
    "hostColocation": "colocations",
    "hostExlocation": "exlocations",
    "partitionColocation": "partition_colocations",
    "partitionExlocation": "partition_exlocations",
}
_FLAGS: Final = {"hostIsolation": "isolated", "partitionIsolation": "partition_isolated"}
_CLAUSES: Final = ", ".join(("host", *_TOKENS, *_FLAGS))
_NUMBER: Final = re.compile(r"(\d{1,9})(u|l|ul|i|[us]?(8|16|32|64))?")
_TAG: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
#: What is left of a label's name behind ``hostpool.``.
_LONGEST_TAG: Final = 63 - (len(tag("")) - tag("").index("/") - 1)


def placement(text: str, where: str) -> Placement:
    """Read what stands behind ``placement:``; nothing is no constraint. Raises `BadInput` with line and column."""
    cursor = Cursor(text, where)
    if cursor.at("config"):
        cursor.take()
    if cursor.at("placement") and cursor.after().value == ":":
        cursor.take(), cursor.take()
    found = Placement() if cursor.next.kind == "end" else read_placement(cursor)
    cursor.skip(";")
    if cursor.next.kind != "end":
        cursor.fail(f"expected ',' or the end, not {cursor.next}")
    return found


def pool(name: str, text: str, where: str) -> Pool:
    """Read what stands behind ``NAME =`` of a pool."""
    cursor = Cursor(text, where)
    found = read_pool(cursor, name)
    cursor.skip(";")
    if cursor.next.kind != "end":
        cursor.fail(f"expected the end, not {cursor.next}")
    return found


def read_placement(cursor: Cursor) -> Placement:
    """Read clauses up to what is no comma."""
    hosts: list[Host] = []
    tokens: dict[str, list[str]] = {field: [] for field in _TOKENS.values()}
    flags = dict.fromkeys(_FLAGS.values(), False)
    while True:
        word = cursor.kind("name", f"one of {_CLAUSES}")
        if word.value == "host":
            hosts.append(_host(cursor))
        elif word.value in _TOKENS:
            cursor.expect("(")
            tokens[_TOKENS[word.value]].append(cursor.kind("text", "a string").value)
            cursor.expect(")")
        elif word.value in _FLAGS:
            flags[_FLAGS[word.value]] = True
        else:
            cursor.fail(f"expected one of {_CLAUSES}, not {word}", word)
        if not cursor.skip(","):
            lists = {field: tuple(dict.fromkeys(found)) for field, found in tokens.items()}
            return Placement(hosts=tuple(hosts), **lists, **flags)  # type: ignore[arg-type]  # two kinds of fields


def read_pools(cursor: Cursor) -> dict[str, Pool]:
    """Read ``NAME = POOL, ...`` up to what is no comma."""
    pools: dict[str, Pool] = {}
    while True:
        name = cursor.kind("name", "the name of a pool")
        if name.value in pools:
            cursor.fail(f"a second pool of the name {name.value}", name)
        cursor.expect("=")
        pools[name.value] = read_pool(cursor, name.value)
        if not cursor.skip(","):
            return pools


def read_pool(cursor: Cursor, name: str) -> Pool:
    """Read one pool."""
    if cursor.at("["):
        began = cursor.next
        hosts = _strings(cursor)
        return Pool(name, hosts=hosts) if hosts else cursor.fail("a pool of no hosts", began)
    cursor.expect("createPool")
    cursor.expect("(")
    size: int | None = None
    tags: tuple[str, ...] = ()
    if cursor.at("{"):
        size, tags = _properties(cursor)
        cursor.expect(",")
    cursor.expect("Sys")
    cursor.expect(".")
    sharing = cursor.kind("name", "Shared or Exclusive")
    if sharing.value not in ("Shared", "Exclusive"):
        cursor.fail(f"expected Shared or Exclusive, not {sharing}", sharing)
    cursor.expect(")")
    return Pool(name, size=size, tags=tags, exclusive=sharing.value == "Exclusive")


def _host(cursor: Cursor) -> Host:
    cursor.expect("(")
    if cursor.next.kind == "text":
        found = Host(name=cursor.take().value)
    else:
        sign = "$" if cursor.skip("$") else ""  # $default: the pool of whoever names none
        name = sign + cursor.kind("name", "a string or the name of a pool").value
        index = None
        if cursor.skip("["):
            index = _number(cursor)
            cursor.expect("]")
        found = Host(pool=name, index=index)
    cursor.expect(")")
    return found


def _properties(cursor: Cursor) -> tuple[int | None, tuple[str, ...]]:
    size: int | None = None
    tags: tuple[str, ...] = ()
    seen: set[str] = set()
    cursor.expect("{")
    while True:
        word = cursor.kind("name", "size or tags")
        if word.value in seen or word.value not in ("size", "tags"):
            cursor.fail(
                f"a second {word.value}" if word.value in seen else f"expected size or tags, not {word}", word
            )
        seen.add(word.value)
        cursor.expect("=")
        if word.value == "size":
            at = cursor.next
            size = _number(cursor)
            if not size:
                cursor.fail("a pool of size 0", at)
        else:
            tags = _tags(cursor)
        if not cursor.skip(","):
            cursor.expect("}")
            return size, tags


def _tags(cursor: Cursor) -> tuple[str, ...]:
    at = cursor.next
    tags = _strings(cursor)
    for each in tags:
        if _TAG.fullmatch(each) is None:
            cursor.fail(f"tag {each!r}: a letter, then letters, digits and underscores", at)
        if len(each) > _LONGEST_TAG:
            cursor.fail(f"tag {each!r}: longer than {_LONGEST_TAG}", at)
        if each.endswith("_"):
            cursor.fail(f"tag {each!r}: ends in an underscore, which no label does", at)
    return tuple(dict.fromkeys(tags))


def _strings(cursor: Cursor) -> tuple[str, ...]:
    cursor.expect("[")
    found: list[str] = []
    if not cursor.at("]"):
        found.append(cursor.kind("text", "a string").value)
        while cursor.skip(","):
            found.append(cursor.kind("text", "a string").value)
    cursor.expect("]")
    return tuple(found)


def _number(cursor: Cursor) -> int:
    token = cursor.kind("number", "a whole number")
    found = _NUMBER.fullmatch(token.value)
    return int(found[1]) if found else cursor.fail(f"expected a whole number, not {token}", token)
