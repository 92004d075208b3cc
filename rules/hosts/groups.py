"""Transitive groups: what shares a token, directly or over others, is one."""

from collections.abc import Iterable


def joined(tokens: Iterable[Iterable[str]]) -> list[list[int]]:
    """Group the numbers of *tokens* (those of one thing each) by what they share; in order of the first of each."""
    parent: list[int] = []
    first: dict[str, int] = {}

    def root(number: int) -> int:
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    for number, mine in enumerate(tokens):
        parent.append(number)
        for token in mine:
            other, here = root(first.setdefault(token, number)), root(number)
            parent[max(other, here)] = min(other, here)
    groups: dict[int, list[int]] = {}
    for number in range(len(parent)):
        groups.setdefault(root(number), []).append(number)
    return list(groups.values())
