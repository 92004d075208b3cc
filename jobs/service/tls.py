"""TLS whose certificate, key and client CA follow their files while the server runs."""

import ssl
from pathlib import Path
from time import perf_counter
from typing import Any

import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from jobs.config import ServeSettings
from jobs.service.periodic import Signature, signature
from pipeline.errors import BadInput

_log = structlog.get_logger(__name__)


def _context(cert: Path, key: Path, client_ca: Path | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(cert, key)
    if client_ca is not None:
        # Optional, because a client with a bearer token has no certificate; the application asks who came how.
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(client_ca)
    return context


class ReloadingContext(ssl.SSLContext):
    """A server context that hands each new connection to the newest context that could be loaded.

    The whole context is replaced, not changed, so that a client CA that is taken away is trusted no more. A half
    written renewal (certificate and key that do not match) leaves the former context in use until both are there.
    """

    _files: tuple[Path, Path, Path | None]
    _current: ssl.SSLContext
    _seen: Signature

    @classmethod
    def of(cls, cert: Path, key: Path, client_ca: Path | None) -> "ReloadingContext":
        """Load the files; raises `BadInput` naming them where they cannot be used."""
        self = cls(ssl.PROTOCOL_TLS_SERVER)
        self._files = (cert, key, client_ca)
        self._seen = signature(self._files)
        try:
            self._current = _context(*self._files)
        except (OSError, ssl.SSLError) as error:
            raise BadInput(f"serve.tls_cert, serve.tls_key, serve.client_ca: {self._named()}: {error}") from None
        return self

    def _named(self) -> str:
        return ", ".join(str(file) for file in self._files if file is not None)

    def refresh(self) -> bool:
        """Load the files again if they changed; returns whether a new context is in use."""
        seen = signature(self._files)
        if seen == self._seen:
            return False
        try:
            self._current = _context(*self._files)
        except (OSError, ssl.SSLError) as error:
            _log.warning("TLS files cannot be used yet, the former ones stay", files=self._named(), error=str(error))
            return False
        self._seen = seen
        _log.info("TLS files loaded again")
        return True

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """Begin a connection with the newest context."""
        return self._current.wrap_bio(*args, **kwargs)


class Protocol(HttpToolsProtocol):
    """HTTP/1.1 that tells the application (``scope["state"]``) whether the client showed a verified certificate, and
    when a request arrived (`time.perf_counter`)."""

    def connection_made(self, transport: Any) -> None:
        """Note the verified certificate of the client, if any."""
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        self.app_state = {**self.app_state, "client_certificate": bool(tls is not None and tls.getpeercert())}

    def on_message_begin(self) -> None:
        """Note when the request arrived: under load it waits for its turn."""
        super().on_message_begin()
        self.scope["state"]["arrived"] = perf_counter()


def context_of(serve: ServeSettings) -> ReloadingContext | None:
    """Return the TLS context, None where the server speaks plain HTTP; raises as `ReloadingContext.of`."""
    if serve.tls_cert is None or serve.tls_key is None:
        return None
    return ReloadingContext.of(serve.tls_cert, serve.tls_key, serve.client_ca)
