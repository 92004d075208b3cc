"""What the admission handler is handed: one callable that decides about one pod."""

from datetime import datetime
from typing import Protocol

import msgspec
from msgspec import structs

from featurestore.store.decision import Decision
from jobs.service.review import AdmissionRequest, allow


class Answering(Protocol):
    """An answer that is prepared: `encoded` is the whole answer to a uid, `document` what the history keeps of it."""

    def encoded(self, uid: str, /) -> bytes: ...

    def document(self, decision: str, namespace: str, pod: str, /) -> object: ...


class Decided(msgspec.Struct, frozen=True, gc=False):
    """One decision about a pod: what is *kept* of it, and what is answered.

    *patch* is a JSON Patch, empty for none. *reason* is a short stable word that it is counted under, beside its mode
    and outcome (patched, unchanged, left_alone). *prepared* is the answer where many pods get it; it stands in *kept*
    for the recommendation then: rendering it is left to whoever writes the history.
    """

    kept: Decision
    reason: str
    patch: bytes = b""
    warnings: tuple[str, ...] = ()
    prepared: Answering | None = None

    def answer(self, uid: str) -> bytes:
        """Return the answer to the review *uid*."""
        return self.prepared.encoded(uid) if self.prepared is not None else allow(uid, self.patch, self.warnings)

    def record(self) -> Decision:
        """Return what is kept, with its document."""
        if self.prepared is None:
            return self.kept
        kept = self.kept
        return structs.replace(kept, document=self.prepared.document(kept.decision, kept.namespace, kept.pod))


class Decide(Protocol):
    """Decide about the pod of *request* at *at*; pure with respect to disk, locks and other processes.

    Where *dry_run*, nothing may be remembered of it.
    """

    def __call__(self, request: AdmissionRequest, at: datetime, /, *, dry_run: bool) -> Decided: ...


class Keep(Protocol):
    """Hand a decision to the history without waiting; returns whether there was room."""

    def __call__(self, decided: Decided, /) -> bool: ...
