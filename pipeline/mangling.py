"""Which function a pod's name speaks of: OpenWhisk names its pods after the action, but not reversibly.

The name is ``{prefix}-{invoker}-{n}-{namespace}-{action}``; of namespace and action only letters and digits are
kept, in lower case, and the whole is cut at 63 (openwhisk: KubernetesContainer, ContainerProxy.containerName). Two
actions may come out alike; then the name tells nothing. Pure.
"""

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from pipeline.lookup import Lookup, Numbered, Share

CUT = 63
_DROPPED = re.compile(r"[^a-z0-9]+")
_WHOLE = re.compile(r".+-[0-9]+-([a-z0-9]+)-([a-z0-9]+)")
_CUT_IN_ACTION = re.compile(r".+-[0-9]+-([a-z0-9]+-[a-z0-9]*)")
_CUT_IN_NAMESPACE = re.compile(r".+-[0-9]+-([a-z0-9]+)")
_PREWARM = "prewarm"


def mangled(name: str) -> str:
    """What is left of a namespace or an action in a pod's name."""
    return _DROPPED.sub("", name.lower())


def spelled(key: object) -> str:
    """What is left of a key that people write: letters and digits in lower case, without its prefix."""
    return mangled(str(key).rpartition("/")[2])


class Index:
    """Known functions (``namespace/action`` or ``namespace/package/action``) by what pods of theirs are called.

    *former* is one that these functions are added to. What is called how is worked out again where it is asked. Where
    the functions are numbered already, and there is no former one, their numbers and names are not kept twice.
    """

    def __init__(self, functions: Iterable[str] = (), former: "Index | None" = None) -> None:
        if former is not None and former._former is not None:  # never more than two that are to be asked
            functions, former = (*former._names, *functions), former._former
        self._former: Index | None = former
        if isinstance(functions, Numbered) and former is None:
            self._known = functions
        else:
            fresh = dict.fromkeys(functions)
            self._known = Numbered(tuple(each for each in fresh if former is None or each not in former._known))
        self._names: Sequence[str] = self._known.names
        names = self._names
        said = sorted((text, place) for place, text in _sayings(names))
        self._by_name = Lookup(said, lambda place, text: _saying(names, place) == text)
        self._sorted = memoryview(array("i", (place for _, place in said)))
        bare = ((short, number) for number, name in enumerate(names) if (short := _unpacked(name)) != name)
        self._by_label = Lookup(bare, lambda number, text: _unpacked(names[number]) == text)

    def shared(self, share: Share, name: str) -> "Index":
        """Return this with its columns, called after *name*, as *share* has them."""
        self._by_name.shared(share, f"{name}.names")
        self._by_label.shared(share, f"{name}.labels")
        self._sorted = share(f"{name}.sorted", np.asarray(self._sorted)).data
        return self

    def extended(self, functions: Iterable[str]) -> "Index":
        """Return an index of these functions too; this one stays as it is."""
        return Index(functions, self)

    def candidates(self, pod: str) -> frozenset[str]:
        """Return every known function that a pod of this name may belong to."""
        whole = _WHOLE.fullmatch(pod)
        if whole and whole[1] == _PREWARM:
            return frozenset()
        found: set[str] = set()
        if whole:
            found.update(self._said(f"{whole[1]}-{whole[2]}"))
        if len(pod) >= CUT - 1:  # one less where the cut fell behind a dash, which cannot end a name
            for pattern in (_CUT_IN_ACTION, _CUT_IN_NAMESPACE):
                tail = pattern.fullmatch(pod)
                if tail:
                    found.update(self._beginning_with(tail[1]))
        return frozenset(found)

    def of_pod(self, pod: str) -> str | None:
        """Return the one known function that a pod of this name belongs to; None where none or several may."""
        found = self.candidates(pod)
        return next(iter(found)) if len(found) == 1 else None

    def of_labels(self, namespace: str, action: str) -> str:
        """Return the function of a labelled pod; a label without the package names the one action it fits."""
        function = f"{namespace}/{action}"
        if self._knows(function):
            return function
        found = self._labelled(function)
        return found[0] if len(found) == 1 else function

    def _knows(self, function: str) -> bool:
        return function in self._known or (self._former is not None and self._former._knows(function))

    def _said(self, text: str) -> list[str]:
        former = self._former._said(text) if self._former is not None else []
        return former + [self._names[place // 2] for place in self._by_name.of(text)]

    def _labelled(self, text: str) -> list[str]:
        former = self._former._labelled(text) if self._former is not None else []
        return former + [self._names[number] for number in self._by_label.of(text)]

    def _beginning_with(self, start: str) -> Iterator[str]:
        if self._former is not None:
            yield from self._former._beginning_with(start)
        names, places = self._names, self._sorted
        for at in range(bisect_left(places, start, key=lambda place: _saying(names, place)), len(places)):
            if not _saying(names, places[at]).startswith(start):
                return
            yield names[places[at] // 2]


def _unpacked(function: str) -> str:
    """Return *function* without its package, which labels do not tell."""
    namespace, slash, action = function.partition("/")
    return f"{namespace}{slash}{action.rpartition('/')[2]}"


def _sayings(names: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield what pods of *names* are called, each at twice the function's number, or one behind without its package.

    With the package or without it: invokers of either kind are met.
    """
    for number, name in enumerate(names):
        if not name.partition("/")[2]:
            continue
        whole = _saying(names, 2 * number)
        yield 2 * number, whole
        if _unpacked(name) != name and (short := _saying(names, 2 * number + 1)) != whole:
            yield 2 * number + 1, short


def _saying(names: Sequence[str], place: int) -> str:
    name = _unpacked(names[place // 2]) if place % 2 else names[place // 2]
    namespace, _, action = name.partition("/")
    return f"{mangled(namespace)}-{mangled(action)}"
