"""What the admission handler is handed: one callable that decides about one pod."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from jobs.service.review import AdmissionRequest


@dataclass(frozen=True, slots=True)
class Decided:
    """One decision about a pod.

    *patch* is a JSON Patch, empty for none. *mode*, *outcome* (patched, unchanged, left_alone, failed_open) and
    *reason* (a short stable word) are the labels it is counted under; *document* is the recommendation, which is
    encoded for the history away from the admission path.
    """

    decision: str
    at: datetime
    cluster: str
    namespace: str
    pod: str
    function: str
    mode: str
    snapshot: str
    satisfiable: bool
    outcome: str
    reason: str
    document: object
    patch: bytes = b""
    warnings: tuple[str, ...] = ()


class Decide(Protocol):
    """Decide about the pod of *request* at *at*; pure with respect to disk, locks and other processes.

    Where *dry_run*, nothing may be remembered of it.
    """

    def __call__(self, request: AdmissionRequest, at: datetime, /, *, dry_run: bool) -> Decided: ...


class Keep(Protocol):
    """Hand a decision to the history without waiting; returns whether there was room."""

    def __call__(self, decided: Decided, /) -> bool: ...
