"""Decisions of other replicas, as their pods tell them: counted where a pod is expected, until it has a node."""

from collections.abc import Callable

from jobs.service.reservations import Reservations
from pipeline.records import Pod
from rules.policy import Policy
from rules.running import Reservation, expected_by


class Others:
    """Is told of each pod of the live cluster; keeps *reservations* to the pods that wait for a node."""

    def __init__(self, reservations: Reservations, policy: Policy, function_of: Callable[[Pod], str]) -> None:
        self._reservations = reservations
        self._decision, self._expected, self._mode = (policy.own(name) for name in ("decision", "expected", "mode"))
        self._function_of = function_of

    @property
    def annotations(self) -> tuple[str, ...]:
        """Return the keys of the annotations of running pods that are looked at: also for whose a pod is."""
        return self._decision, self._expected, self._mode

    def __call__(self, pod: Pod, there: bool) -> None:
        """Take note of *pod*, which is still *there* or is gone."""
        decision = pod.annotations.get(self._decision, "")
        if not decision:
            return
        if pod.node or pod.terminal or not there:
            self._reservations.seen(decision)
        elif node := expected_by(decision, pod.annotations.get(self._expected, "")):
            requests = {"pods": 1.0, **pod.requests}
            self._reservations.learn(Reservation(decision, node, self._function_of(pod), requests))
