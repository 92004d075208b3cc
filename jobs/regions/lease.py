"""A Lease: of several operators of one job, one acts.

Whoever holds it renews it; another takes it when it has seen no change of it for its whole duration, by its own
clock, so that clocks of machines may differ. The holder stops acting well before that where it cannot renew.
"""

import math
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog

from jobs.regions.resources import Api
from pipeline.errors import NOT_JSON, SourceError

_log = structlog.get_logger(__name__)

#: Shares of the duration: after how much the holder renews, tries again where it could not, and stops acting.
_RENEW, _AGAIN, _GIVE_UP = 0.25, 0.05, 0.7


class Lease:
    """The lease *name* under *path*, for *identity*, which differs from that of any other process that runs."""

    def __init__(
        self,
        api: Api,
        path: str,
        name: str,
        identity: str,
        *,
        seconds: float = 15.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api, self._path, self._name, self._identity = api, path, name, identity
        self._seconds, self._clock = seconds, clock
        self._held_until = float("-inf")
        self._seen: tuple[object, float] = (None, 0.0)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)

    def held(self) -> bool:
        """Whether this process may act."""
        return self._clock() < self._held_until

    def acquire(self, stopped: Callable[[], bool]) -> bool:
        """Wait until the lease is held, and keep it from then on; False where *stopped* came first."""
        said = False
        while not stopped():
            if self._try():
                self._thread.start()
                return True
            if not said:
                said = True
                _log.info("waiting for the lease", lease=self._name)
            self._stop.wait(min(1.0, self._seconds * _RENEW))
        return False

    def release(self) -> None:
        """Stop renewing and let another take it at once."""
        self._stop.set()
        if self._thread.ident is None:
            return
        self._thread.join(self._seconds)
        if self.held():
            self._held_until = float("-inf")
            try:
                found = self._read()
                if found is not None and found["spec"].get("holderIdentity") == self._identity:
                    self._put(found, "")
            except SourceError as error:
                _log.info("lease not released", error=str(error))

    def _renew(self) -> None:
        renewed = True
        while not self._stop.wait(self._seconds * (_RENEW if renewed else _AGAIN)):
            renewed = self._try()

    def _try(self) -> bool:
        """Take or renew it where it is free, ours or abandoned."""
        began = self._clock()
        try:
            found = self._read()
            if found is None:
                self._create()
            else:
                spec = found["spec"]
                holder, ours = spec.get("holderIdentity") or "", spec.get("holderIdentity") == self._identity
                mark = (holder, spec.get("renewTime"), found["metadata"].get("resourceVersion"))
                if mark != self._seen[0]:
                    self._seen = mark, began
                duration = spec.get("leaseDurationSeconds") or self._seconds
                if holder and not ours and began < self._seen[1] + float(duration):
                    if self.held():
                        _log.error("the lease is another's now", lease=self._name)
                    self._held_until = float("-inf")
                    return False
                self._put(found, self._identity)
        except SourceError as error:
            _log.warning("lease not renewed", error=str(error))
            return False
        self._held_until = began + self._seconds * _GIVE_UP
        return True

    def _read(self) -> dict[str, Any] | None:
        try:
            body: dict[str, Any] = msgspec.json.decode(self._api.get(f"{self._path}/{self._name}"))
        except SourceError as error:
            if error.reason == "status_404":
                return None
            raise
        except NOT_JSON:
            raise SourceError("kubernetes", "not_json", f"lease {self._name}: the answer is no object") from None
        if not isinstance(body.get("spec"), dict):
            body["spec"] = {}
        return body

    def _create(self) -> None:
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name},
            "spec": self._spec(self._identity, _moment(), 0),
        }
        self._api.send("POST", self._path, msgspec.json.encode(body))

    def _put(self, found: dict[str, Any], identity: str) -> None:
        """Replace it at the version that was read, so that of two who try one fails."""
        spec = found["spec"]
        same = spec.get("holderIdentity") == identity
        acquired = spec.get("acquireTime") if same and spec.get("acquireTime") else _moment()
        transitions = int(spec.get("leaseTransitions") or 0) + (not same)
        found["spec"] = self._spec(identity, acquired, transitions)
        self._api.send("PUT", f"{self._path}/{self._name}", msgspec.json.encode(found))

    def _spec(self, identity: str, acquired: str, transitions: int) -> dict[str, Any]:
        return {
            "holderIdentity": identity,
            "leaseDurationSeconds": math.ceil(self._seconds),
            "acquireTime": acquired,
            "renewTime": _moment(),
            "leaseTransitions": transitions,
        }


def _moment() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
