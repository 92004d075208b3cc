"""The OpenWhisk client: activation records of one namespace, paged by time, spooled as they came."""

import math
import os
import random
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

import httpx
import msgspec

from pipeline.clients.certificates import unverified
from pipeline.clients.urls import http_date, one_line, split, without_credentials
from pipeline.errors import NOT_JSON, BadInput, Permanent, SourceError, Temporary

SOURCE = "openwhisk"

#: How often one request is sent at most, and the wait after the first time; it doubles.
ATTEMPTS = 4
WAIT = 1.0

#: A server that asks for more patience than this gets its answer by the next collection.
_LONGEST_WAIT = 30.0

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Key:
    """A namespace's key, ``user:password``, and where it was read from, which may be shown."""

    value: str = field(repr=False)
    origin: str


def read_key(*, key: str | None = None, file: Path | None = None, variable: str | None = None) -> Key:
    """Take the key from the settings, a file or an environment variable; `BadInput` names where it is missing."""
    if file is not None:
        origin = str(file)
        try:
            key = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise BadInput(f"openwhisk key_file: {file}: cannot be read") from None
    elif variable is not None:
        origin = f"environment variable {variable}"
        if variable not in os.environ:
            raise BadInput(f"openwhisk key_env: {origin} is not set")
        key = os.environ[variable]
    else:
        origin = "the settings"
    value = (key or "").strip()
    if ":" not in value or any(character.isspace() for character in value):
        raise BadInput(f"openwhisk key from {origin}: not of the form user:password")
    return Key(value, origin)


class _Head(msgspec.Struct):
    """All of a record that paging looks at; decoding checks the rest of it as JSON only."""

    start: float | None = None
    activationId: str = ""  # noqa: N815 - the record's own name


class _Total(msgspec.Struct):
    activations: int


class _Failure(msgspec.Struct):
    error: str = ""


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: Mapping[str, str]
    content: bytes


class OpenWhiskClient:
    """One namespace of an API host with its own key; calling it is the `ActivationPages` port.

    *namespace* may be ``_``, the key's own. *page* is halved, for good, when the server refuses it. The server's
    certificate is verified, by *ca_file* where given, unless *insecure*. What may pass is asked for
    *attempts* times at most. Raises `BadInput` for a wrong argument.
    """

    def __init__(
        self,
        url: str,
        namespace: str,
        key: Key,
        *,
        page: int = 200,
        ca_file: Path | None = None,
        insecure: bool = False,
        timeout: timedelta = timedelta(seconds=60),
        attempts: int = ATTEMPTS,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = without_credentials(split("openwhisk.url", url))
        self.namespace = namespace
        self._key = key
        self._limit = page
        self._attempts = attempts
        self._sleep = sleep
        self._timeout = timeout.total_seconds()
        user, _, password = key.value.partition(":")
        self._http = httpx.Client(
            auth=httpx.BasicAuth(user, password),
            verify=_verification(ca_file, insecure),
            timeout=self._timeout,
            headers={"Accept": "application/json"},
        )
        #: The server's time by its own clock at its last answer, in whole seconds; None where it told none.
        self.date: datetime | None = None
        self._path = f"{self.url}/api/v1/namespaces/{quote(namespace, safe='')}/activations"

    def __enter__(self) -> "OpenWhiskClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __call__(self, since: datetime, until: datetime, spool: Path) -> Iterator[Path]:
        """Spool the full records that started in [*since*, *until*), newest page first, one JSON array a file.

        The next page ends at the oldest start seen, that millisecond included, and only where a whole page lies in
        one millisecond are records of it skipped: what arrives meanwhile moves the others down, never past the
        reader. The end is an empty page, not a short one, since a server may give less than it was asked for.
        """
        first, upto = _milliseconds(since), _milliseconds(until) - 1
        skip = 0
        before: set[str] = set()
        while upto >= first:
            body, heads = self._page(first, upto, skip)
            if not heads:
                if not skip:
                    return
                upto, skip = upto - 1, 0
                continue
            starts = [head.start for head in heads if head.start is not None]
            if not starts:
                raise SourceError(SOURCE, "not_openwhisk", f"{self._where()}: answers records without a start")
            oldest = math.floor(min(starts))
            if max(starts) > upto + 1:
                raise SourceError(SOURCE, "not_openwhisk", f"{self._where()}: answers records later than asked for")
            here = {head.activationId for head in heads}
            if not here <= before:  # the last page is often the end of the one before, read again
                yield _write(spool, body)
            before = here - {""}
            upto, skip = (oldest, 0) if oldest < upto else (upto, skip + len(heads))

    def count(self, since: datetime, until: datetime) -> int:
        """How many activations started in [*since*, *until*), by the server's own count."""
        body = self._get({"count": "true", "since": _milliseconds(since), "upto": _milliseconds(until) - 1})
        try:
            return msgspec.json.decode(body, type=_Total).activations
        except NOT_JSON:
            raise self._unreadable(body) from None

    def _page(self, since: int, upto: int, skip: int) -> tuple[bytes, list[_Head]]:
        """One page as it came, and what paging needs of its records."""
        body = self._get({"docs": "true", "since": since, "upto": upto, "skip": skip}, limited=True)
        try:
            return body, msgspec.json.decode(body, type=list[_Head])
        except msgspec.ValidationError:
            return body, self._tolerant(body)
        except NOT_JSON:
            raise self._unreadable(body) from None

    def _tolerant(self, body: bytes) -> list[_Head]:
        """Read a page in which some record has an odd start; such a one counts, but gives no time."""
        try:
            records = msgspec.json.decode(body, type=list[msgspec.Raw])
        except NOT_JSON:
            raise SourceError(SOURCE, "not_openwhisk", f"{self._where()}: answers no list of records") from None
        heads = []
        for record in records:
            try:
                heads.append(msgspec.json.decode(record, type=_Head))
            except NOT_JSON:
                heads.append(_Head())
        return heads

    def _get(self, parameters: Mapping[str, str | int], *, limited: bool = False) -> bytes:
        """The body of a good answer; what may pass is tried again, a limit that is refused is halved.

        Where nobody can be connected to, the next collection is soon enough.
        """
        attempt = 1
        while True:
            asked = {**parameters, "limit": self._limit} if limited else dict(parameters)
            try:
                answer = self._send(asked)
            except Temporary as error:
                if attempt >= self._attempts or error.delay > _LONGEST_WAIT or error.reason == "connection":
                    raise
                self._sleep(max(error.delay, WAIT * 2 ** (attempt - 1)) * (1 + random.random() / 4))
                attempt += 1
                continue
            if answer.status == 400 and limited and self._limit > 1:
                self._limit //= 2
                continue
            self._refuse(answer)
            return answer.content

    def _send(self, parameters: Mapping[str, str | int]) -> _Answer:
        """Send one request; `Temporary` where the same one may succeed."""
        where = self._where()
        try:
            answer = self._read(parameters)
        except httpx.ConnectTimeout:
            raise Temporary(SOURCE, "connection", f"{where}: no connection in time") from None
        except httpx.TimeoutException:
            raise Temporary(SOURCE, "timeout", f"{where}: no answer in time") from None
        except httpx.TransportError as error:
            if (told := unverified(error)) is not None:
                raise Permanent(SOURCE, told.reason, f"{where}: {told.hint}") from None
            if isinstance(error, (httpx.RemoteProtocolError, httpx.ReadError)):
                raise Temporary(SOURCE, "half_page", f"{where}: the answer broke off") from None
            raise Temporary(SOURCE, "connection", f"{where}: no connection") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise SourceError(SOURCE, "request", f"{where}: {type(error).__name__}") from None
        if answer.status in (408, 429) or answer.status >= 500:
            raise Temporary(
                SOURCE, f"status_{answer.status}", f"{where}: status {answer.status}", _patience(answer.headers)
            )
        return answer

    def _read(self, parameters: Mapping[str, str | int]) -> _Answer:
        """The whole answer; a server that only trickles is given up on as one that is silent."""
        deadline = time.monotonic() + self._timeout
        pieces: list[bytes] = []
        with self._http.stream("GET", self._path, params=parameters) as response:
            for piece in response.iter_bytes():
                pieces.append(piece)
                if time.monotonic() > deadline:
                    raise httpx.ReadTimeout("no whole answer in time")
        self.date = http_date(response.headers.get("Date"))
        return _Answer(response.status_code, response.headers, b"".join(pieces))

    def _refuse(self, answer: _Answer) -> None:
        """Raise for an answer that will not get better by asking again."""
        status = answer.status
        if status == 200:
            return
        where = f"{self._where()}: status {status}"
        if status in (401, 403):
            raise Permanent(SOURCE, f"status_{status}", f"{where}: the key from {self._key.origin} is refused")
        if 300 <= status < 400:
            raise Permanent(SOURCE, "redirect", f"{where}: redirected elsewhere, which is not followed")
        try:
            said = one_line(msgspec.json.decode(answer.content, type=_Failure).error)
        except NOT_JSON:
            said = ""
        raise Permanent(SOURCE, f"status_{status}", f"{where}{': ' + said if said else ''}")

    def _unreadable(self, body: bytes) -> SourceError:
        if body.lstrip()[:1] in (b"[", b"{"):
            return Temporary(SOURCE, "half_page", f"{self._where()}: the answer is broken off or no JSON")
        return SourceError(SOURCE, "not_json", f"{self._where()}: answers something other than JSON")

    def _where(self) -> str:
        return f"{self.url} namespace {self.namespace}"


def _verification(ca_file: Path | None, insecure: bool) -> ssl.SSLContext | bool:
    if insecure:
        return False
    if ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except (OSError, ssl.SSLError):
        raise BadInput(f"openwhisk.ca_file: {ca_file}: no readable certificates") from None


def _milliseconds(at: datetime) -> int:
    """The first whole millisecond at or after *at*, since 1970."""
    return -((_EPOCH - at) // timedelta(milliseconds=1))


def _patience(headers: Mapping[str, str]) -> float:
    """The seconds of Retry-After; a date instead, or nonsense, counts as a short wait."""
    given = headers.get("Retry-After", "")
    return float(given) if given.isdecimal() else WAIT


def _write(spool: Path, body: bytes) -> Path:
    """Write a page as valid UTF-8 into a new file of *spool*."""
    if not body.isascii():
        body = body.decode("utf-8", errors="replace").encode()
    handle, name = tempfile.mkstemp(prefix="activations-", suffix=".json", dir=spool)
    with os.fdopen(handle, "wb") as file:
        file.write(body)
    return Path(name)
