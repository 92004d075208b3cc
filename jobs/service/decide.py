"""What the admission handler is handed: one callable that decides about one pod."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from featurestore.store.decisions import Decision
from jobs.service.review import AdmissionRequest


@dataclass(frozen=True, slots=True)
class Decided:
    """One decision about a pod: what is *kept* of it, and what is answered.

    *patch* is a JSON Patch, empty for none. *reason* is a short stable word that it is counted under, beside its mode
    and outcome (patched, unchanged, left_alone). The kept document is the recommendation, which is encoded for the
    history away from the admission path.
    """

    kept: Decision
    reason: str
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
