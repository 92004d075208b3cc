"""The one answer: run the rules on a request, combine what they say, and write it into the pod."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rules.advice import Reason
from rules.policy import Mode, Policy
from rules.request import Request
from rules.view import View


@dataclass(frozen=True, slots=True)
class RankedNode:
    """A candidate node; the higher *score* comes first, *reasons* say what it is made of."""

    name: str
    score: float
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The answer for one pod.

    *affinity* is the whole merged affinity of the pod (in mode observe: what it would have become), *patch* the JSON
    Patch (RFC 6902) that makes it so, empty in mode observe. *outcome* is ``patched``, ``unchanged`` or
    ``left_alone``; *cause* is a short word where less than everything was advised: why the pod was left alone,
    ``stale``, ``other_cluster``, ``unsatisfiable``.
    """

    decision: str
    snapshot: str
    mode: Mode
    satisfiable: bool
    affinity: Mapping[str, Any]
    patch: tuple[Mapping[str, Any], ...]
    nodes: tuple[RankedNode, ...]
    reasons: tuple[Reason, ...]
    hpa: Mapping[str, Any] | None = None
    hosts: Mapping[str, Any] | None = None
    disks: Mapping[str, Any] | None = None
    outcome: str = "unchanged"
    cause: str = ""
    function: str = ""
    namespace: str = ""
    pod: str = ""


def recommend(
    request: Request, view: View, policy: Policy, *, decision: str, at: datetime | None = None
) -> Recommendation:
    """Answer *request*; *decision* names the answer, *at* is the time it is given (default: the view's).

    A snapshot older than ``policy.stale_after`` answers with stated needs only.
    """
    raise NotImplementedError
