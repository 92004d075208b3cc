"""Who may ask: a bearer token, or for admission and the scheduler a client certificate.

Health is open, and so are the files of the page, which hold no data.
"""

import hmac
from collections.abc import Callable
from pathlib import Path

import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from jobs.service.periodic import signature
from jobs.service.problems import problem
from jobs.service.replication.operations import PREFIX
from pipeline.errors import BadInput

#: Paths that the kubelet probes without credentials, and the page, which asks a person for the token.
OPEN = frozenset({"/healthz", "/readyz", "/"})
_OPEN_BELOW = "/page/"

#: Paths that the API server and the scheduler call; they send a client certificate and no token.
BY_CERTIFICATE = ("/mutate", "/extender/")

_log = structlog.get_logger(__name__)


class Token:
    """The bearer token that is asked for; from the settings or from a file that is read again when it changes."""

    def __init__(self, value: str | None, file: Path | None, name: str = "serve.token") -> None:
        """Take the token of setting *name*; raises `BadInput` naming the file where it holds none."""
        self._file = file
        self._seen = signature([file])
        self._value = value.encode() if value else None
        if file is not None:
            try:
                self._value = self._read(file)
            except (OSError, ValueError) as error:
                raise BadInput(f"{name}_file: {file}: {error}") from None

    @staticmethod
    def _read(file: Path) -> bytes:
        value = file.read_bytes().strip()
        if not value:
            raise ValueError("holds no token")
        return value

    @property
    def asked_for(self) -> bool:
        """Whether there is a token at all."""
        return self._value is not None

    def refresh(self) -> None:
        """Read the file again if it changed; an unreadable or empty one leaves the former token in force."""
        if self._file is None or (seen := signature([self._file])) == self._seen:
            return
        try:
            self._value = self._read(self._file)
        except (OSError, ValueError) as error:
            _log.warning("token file cannot be used, the former token stays", file=str(self._file), error=str(error))
            return
        self._seen = seen

    def matches(self, header: bytes) -> bool:
        """Compare an Authorization header in constant time."""
        kind, _, given = header.partition(b" ")
        return (
            self._value is not None and kind.lower() == b"bearer" and hmac.compare_digest(given.strip(), self._value)
        )


class Auth:
    """ASGI middleware that turns away who may not ask with 401.

    With a token everything but health and the page's files asks for it; with a client CA the paths of
    `BY_CERTIFICATE` accept a verified client certificate instead, and with a client CA alone all else asks for one.
    What replicas ask for is opened by *replicas* too, and where there is such a token, not without one.
    *open_admission* opens the webhook.
    """

    def __init__(
        self,
        app: ASGIApp,
        token: Token,
        client_ca: bool,
        refused: Callable[[], None],
        replicas: Token,
        open_admission: bool = False,
    ) -> None:
        self._app = app
        self._open = OPEN | {"/mutate"} if open_admission else OPEN
        self._token = token
        self._replicas = replicas
        self._client_ca = client_ca
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 401."""
        if scope["type"] != "http" or self._allowed(scope):
            await self._app(scope, receive, send)
            return
        self._refused()
        challenge = {"WWW-Authenticate": "Bearer"} if self._token.asked_for else {}
        await problem(401, "a bearer token or client certificate is needed", challenge)(scope, receive, send)

    def _allowed(self, scope: Scope) -> bool:
        path = scope["path"]
        if self._replicas.asked_for and path.startswith(PREFIX):
            return _shown(scope, self._replicas) or _shown(scope, self._token)
        if path in self._open or path.startswith(_OPEN_BELOW) or not (self._token.asked_for or self._client_ca):
            return True
        if (
            self._client_ca
            and scope.get("state", {}).get("client_certificate")
            and (not self._token.asked_for or path.startswith(BY_CERTIFICATE))
        ):
            return True
        return _shown(scope, self._token)


def _shown(scope: Scope, token: Token) -> bool:
    return any(name == b"authorization" and token.matches(value) for name, value in scope["headers"])
