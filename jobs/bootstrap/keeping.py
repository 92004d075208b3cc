"""Tokens and certificates in the cluster: three Secrets, and the CA that the API server trusts at the webhook."""

import base64
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import structlog

from jobs.bootstrap.making import Pair
from jobs.bootstrap.renewing import Kept, renewed
from pipeline.clients.kubernetes import KubernetesClient
from pipeline.errors import SourceError, Temporary

_log = structlog.get_logger(__name__)
_WEBHOOKS: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
_JSON_PATCH: Final = "application/json-patch+json"
_TOKENS: Final = ("token", "replica")


@dataclass(frozen=True)
class Objects:
    """What is kept, and where: *prefix* begins the names of the Secrets, *webhook* "" where nothing is to trust."""

    namespace: str
    hosts: Sequence[str]
    webhook: str = ""
    prefix: str = "colocation-advisor"
    tokens_only: bool = False


class Keeper:
    """Brings the objects to what they should be; `turn` may be done again at any time, and changes what is due."""

    def __init__(
        self, client: KubernetesClient, objects: Objects, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._client = client
        self._objects = objects
        self._now = now
        self._path = f"/api/v1/namespaces/{objects.namespace}/secrets"

    def turn(self) -> bool:
        """Make and renew what is due; returns whether all is in place. Raises `SourceError` where a write fails.

        The order is what keeps everybody served: a CA is stored, then trusted, then used.
        """
        self._tokens()
        if self._objects.tokens_only:
            return True
        ca_name, tls_name = f"{self._objects.prefix}-ca", f"{self._objects.prefix}-tls"
        ca, tls = self._read(ca_name), self._read(tls_name)
        kept = Kept(_pair(ca, "tls"), _pair(ca, "next"), ca.get("former.crt", b""), _pair(tls, "tls"))
        after = renewed(kept, ca_name, self._objects.hosts, self._now())
        assert after.ca is not None and after.server is not None
        self._write(ca_name, ca, {**_data("tls", after.ca), **_data("next", after.next), "former.crt": after.former})
        trusted = self._trust(after.trusted)
        # An own CA that others were told of before is in use until the secret below is taken up.
        self._write(tls_name, tls, {**_data("tls", after.server), "ca.crt": after.trusted})
        return trusted

    def _tokens(self) -> None:
        name = f"{self._objects.prefix}-tokens"
        known = self._read(name)
        made = {key: known.get(key) or secrets.token_hex(32).encode() for key in _TOKENS}
        self._write(name, known, {**known, **made})

    def _trust(self, bundle: bytes) -> bool:
        name = self._objects.webhook
        if not name:
            return True
        try:
            found = msgspec.json.decode(self._client.get(f"{_WEBHOOKS}/{name}"))
        except SourceError as error:
            if error.reason != "status_404":
                raise
            _log.warning("the webhook is not there yet", name=name)
            return False
        encoded = base64.b64encode(bundle).decode()
        changes: list[dict[str, Any]] = []
        for number, each in enumerate(found.get("webhooks") or ()):
            if each["clientConfig"].get("caBundle") != encoded:
                at = f"/webhooks/{number}"
                changes.append({"op": "test", "path": f"{at}/name", "value": each["name"]})
                changes.append({"op": "add", "path": f"{at}/clientConfig/caBundle", "value": encoded})
        if changes:
            self._client.send("PATCH", f"{_WEBHOOKS}/{name}", msgspec.json.encode(changes), _JSON_PATCH)
            _log.info("the API server was told which CA to trust", webhook=name)
        return True

    def _read(self, name: str) -> dict[str, bytes]:
        """Return what a Secret holds, nothing where there is none."""
        try:
            found = msgspec.json.decode(self._client.get(f"{self._path}/{name}"))
        except SourceError as error:
            if error.reason != "status_404":
                raise
            return {}
        version = found["metadata"]["resourceVersion"].encode()
        data = {key: base64.b64decode(value) for key, value in (found.get("data") or {}).items()}
        return {**data, _VERSION: version}

    def _write(self, name: str, known: Mapping[str, bytes], data: Mapping[str, bytes]) -> None:
        """Create or replace a Secret where it holds anything else; what others changed meanwhile is a conflict."""
        wanted = {key: value for key, value in data.items() if key != _VERSION and value}
        if wanted == {key: value for key, value in known.items() if key != _VERSION}:
            return
        meta: dict[str, Any] = {
            "name": name,
            "namespace": self._objects.namespace,
            "labels": {"app.kubernetes.io/name": "colocation-advisor"},
        }
        if version := known.get(_VERSION):
            meta["resourceVersion"] = version.decode()
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": meta,
            "data": {key: base64.b64encode(value).decode() for key, value in wanted.items()},
        }
        encoded = msgspec.json.encode(body)
        if version:
            self._client.send("PUT", f"{self._path}/{name}", encoded)
        else:
            self._client.send("POST", self._path, encoded)
        _log.info("secret written", name=name, keys=sorted(wanted))


#: Stands for the version of a Secret among its keys, which cannot hold a colon.
_VERSION: Final = ":version"


def _pair(data: Mapping[str, bytes], name: str) -> Pair | None:
    certificate, key = data.get(f"{name}.crt", b""), data.get(f"{name}.key", b"")
    return Pair(certificate, key) if certificate and key else None


def _data(name: str, pair: Pair | None) -> dict[str, bytes]:
    return {} if pair is None else {f"{name}.crt": pair.certificate, f"{name}.key": pair.key}


def keep(keeper: Keeper, wait: Callable[[float], bool], every: float) -> None:
    """Take turns until *wait* (seconds) says that it is over: *every* so many seconds, and soon after a failure."""
    pause = 0.0
    while not wait(pause):
        try:
            pause = every if keeper.turn() else _SOON
        except SourceError as error:
            _log.error("tokens and certificates not kept", error=str(error))
            pause = _SOON if isinstance(error, Temporary) else min(every, 6 * _SOON)


#: After a failure it is tried again so soon, in seconds.
_SOON: Final = 10.0
