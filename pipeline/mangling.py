"""Which function a pod's name speaks of: OpenWhisk names its pods after the action, but not reversibly.

The name is ``{prefix}-{invoker}-{n}-{namespace}-{action}``; of namespace and action only letters and digits are
kept, in lower case, and the whole is cut at 63 (openwhisk: KubernetesContainer, ContainerProxy.containerName). Two
actions may come out alike; then the name tells nothing. Pure.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator

CUT = 63
_DROPPED = re.compile(r"[^a-z0-9]+")
_WHOLE = re.compile(r".+-[0-9]+-([a-z0-9]+)-([a-z0-9]+)")
_CUT_IN_ACTION = re.compile(r".+-[0-9]+-([a-z0-9]+-[a-z0-9]*)")
_CUT_IN_NAMESPACE = re.compile(r".+-[0-9]+-([a-z0-9]+)")
_PREWARM = "prewarm"


def mangled(name: str) -> str:
    """What is left of a namespace or an action in a pod's name."""
    return _DROPPED.sub("", name.lower())


class Index:
    """Known functions (``namespace/action`` or ``namespace/package/action``) by what pods of theirs are called."""

    def __init__(self, functions: Iterable[str] = (), former: "Index | None" = None) -> None:
        self._known = frozenset(functions)
        # A name alone where one function has it, as nearly all have: a set of one takes two hundred bytes.
        self._by_name: dict[str, str | frozenset[str]] = {}
        self._by_label: dict[str, str | frozenset[str]] = {}
        fresh = self._known
        if former is not None:
            self._known |= former._known
            fresh -= former._known
            self._by_name.update(former._by_name)
            self._by_label.update(former._by_label)
        for function in fresh:
            namespace, _, action = function.partition("/")
            if not action:
                continue
            short = action.rpartition("/")[2]
            said = f"{namespace}/{short}"
            _add(self._by_label, function if said == function else said, function)
            # With the package or without it: invokers of either kind are met.
            for spoken in {mangled(action), mangled(short)}:
                _add(self._by_name, f"{mangled(namespace)}-{spoken}", function)
        self._sorted = sorted(self._by_name)

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
            found |= _all(self._by_name.get(f"{whole[1]}-{whole[2]}"))
        if len(pod) >= CUT - 1:  # one less where the cut fell behind a dash, which cannot end a name
            for pattern in (_CUT_IN_ACTION, _CUT_IN_NAMESPACE):
                tail = pattern.fullmatch(pod)
                if tail:
                    found.update(*(_all(self._by_name[name]) for name in self._beginning_with(tail[1])))
        return frozenset(found)

    def of_pod(self, pod: str) -> str | None:
        """Return the one known function that a pod of this name belongs to; None where none or several may."""
        found = self.candidates(pod)
        return next(iter(found)) if len(found) == 1 else None

    def of_labels(self, namespace: str, action: str) -> str:
        """Return the function of a labelled pod; a label without the package names the one action it fits."""
        function = f"{namespace}/{action}"
        if function in self._known:
            return function
        found = self._by_label.get(function)
        return found if isinstance(found, str) else function

    def _beginning_with(self, start: str) -> Iterator[str]:
        for position in range(bisect_left(self._sorted, start), len(self._sorted)):
            name = self._sorted[position]
            if not name.startswith(start):
                return
            yield name


def _add(index: dict[str, str | frozenset[str]], spoken: str, function: str) -> None:
    known = _all(index.get(spoken)) | {function}
    index[spoken] = function if len(known) == 1 else known


def _all(found: str | frozenset[str] | None) -> frozenset[str]:
    """Return the functions that stand for one name."""
    if found is None:
        return frozenset()
    return frozenset((found,)) if isinstance(found, str) else found
