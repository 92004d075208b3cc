"""Whose a running pod is: the function that its labels or its name speak of."""

import re
from collections.abc import Callable, Sequence
from typing import Final

from pipeline.lookup import Lookup, Share, alone
from pipeline.mangling import Index
from pipeline.records import Labels, Pod
from rules.functions import action_of
from rules.labels import label_value

_HASHED = re.compile(r"h-[0-9a-f]{40}")
_PREWARM = re.compile(r".+-[0-9]+-prewarm(?:-[a-z0-9]*)?")
_ROOM: Final = 100_000
#: Pods of these owners have their node already: they are never changed.
_NEVER_CHANGED: Final = ("DaemonSet", "Node")
#: The label by which pods say what program they run, and this one's name: its own pods are never changed either.
PROGRAM: Final = "app.kubernetes.io/name"
ITSELF: Final = "colocation-advisor"


def prewarm(name: str) -> bool:
    """Whether a pod of this *name* was started ahead of any function."""
    return _PREWARM.fullmatch(name) is not None


#: Whether pods of a namespace, with this annotation of a mode, get their own labels overwritten as they are created.
Overwritten = Callable[[str, str | None], bool]


class Owners:
    """Answers for pods of one cluster, from the functions *known* there.

    One's own labels are believed only of pods in which they are *overwritten*: elsewhere anybody may have written
    them. Of a whole pod they are believed only beside the decision that overwrote them: one that was admitted without
    an answer, or that is always left alone, has none.
    """

    def __init__(
        self,
        index: Index,
        known: Sequence[str],
        function_labels: tuple[str, str],
        label_prefix: str,
        overwritten: Overwritten,
        share: Share = alone,
    ) -> None:
        self._names = known
        self._actions = Lookup(
            ((label_value(action_of(name)), number) for number, name in enumerate(known)),
            lambda number, value: label_value(action_of(known[number])) == value,
        ).shared(share, "owners.actions")
        self._functions = Lookup(
            ((label_value(name), number) for number, name in enumerate(known)),
            lambda number, value: label_value(known[number]) == value,
        ).shared(share, "owners.functions")
        self._index = index
        self._namespace, self._action = function_labels
        self._own, self._decision, self._mode, self._ignored = (
            f"{label_prefix}/{name}" for name in ("function", "decision", "mode", "ignore")
        )
        self._overwritten = overwritten
        self._labelled: dict[tuple[str, str], str] = {}

    def function_of(self, pod: Pod) -> str:
        """Return the function that `labelled` says, else an unambiguous pod name; "" where nothing tells."""
        labels = pod.labels
        if self._own in labels and not self._decided(pod):
            labels = {key: value for key, value in labels.items() if key != self._own}
        said = self.labelled(labels, pod.namespace, pod.annotations.get(self._mode))
        return (self._index.of_pod(pod.name) or "") if said is None else said

    def labelled(self, labels: Labels, namespace: str, mode: str | None = None) -> str | None:
        """Return the function that OpenWhisk's labels say, else one's own label; None where there is neither.

        *namespace* and the annotated *mode* are the pod's. A label that names the bare action speaks of the one
        function with that action, else of a function of that very name. "" where one's own label stands for a name
        that is not known.
        """
        action = labels.get(self._action)
        if action:
            said = (labels.get(self._namespace, ""), action)
            function = self._labelled.get(said)
            if function is None:
                function = self._index.of_labels(*said) if said[0] else self._by_value(action) or action
                if len(self._labelled) < _ROOM:
                    self._labelled[said] = function
            return function
        if self._own in labels and self._overwritten(namespace, mode):
            value = labels[self._own]
            return self._by_value(value) or ("" if _HASHED.fullmatch(value) else value)
        return None

    def _by_value(self, value: str) -> str:
        """Return the function that a label's *value* stands for, or whose action alone it does; "" for none."""
        found = self._functions.of(value)
        if not found and len(found := self._actions.of(value)) != 1:
            return ""
        return self._names[found[-1]]

    def _decided(self, pod: Pod) -> bool:
        """Whether *pod* carries a decision that may be one's own: none is made of pods that are always left alone.

        That a pod was bound to a node by whoever created it cannot be seen any more.
        """
        labels = pod.labels
        left_alone = pod.owner_kind in _NEVER_CHANGED or self._ignored in labels or labels.get(PROGRAM) == ITSELF
        return bool(self.decision_of(pod)) and not left_alone

    def decision_of(self, pod: Pod) -> str:
        """Return the name of one's own decision that *pod* carries, "" for none."""
        return pod.annotations.get(self._decision, "")
