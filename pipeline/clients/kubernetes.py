"""The Kubernetes API: whole lists, single objects, watches and single writes, raw.

The official client brings credentials and transport (TLS, proxies, pooled connections); bodies stay bytes and are
split into raw objects by msgspec, since the client's models are slow, big and raise for a whole list where one object
is odd (kubernetes-client/python#895).
"""

import threading
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import msgspec
import urllib3
from kubernetes.client import ApiClient
from kubernetes.config import ConfigException
from urllib3 import exceptions as transport

from pipeline.clients.credentials import configuration
from pipeline.clients.stream import PIECE, SOURCE, STATUSES, Stream, Watching, failed, one_line
from pipeline.clients.urls import http_date
from pipeline.errors import NOT_JSON, BadInput, Permanent, SourceError, Temporary
from pipeline.records import Listing

_TRIES = 3
_GRACE = 10.0

#: Bytes of an error's body that are looked at.
_LONGEST = 1 << 18


class _PageMeta(msgspec.Struct, rename={"resource_version": "resourceVersion", "next": "continue"}):
    resource_version: str | None = None
    next: str | None = None


class _Page(msgspec.Struct):
    items: list[msgspec.Raw] | None
    metadata: _PageMeta | None = None


_PAGES = msgspec.json.Decoder(_Page)


class _Write(NamedTuple):
    """What is sent besides the path: the method, and a body of a media type."""

    method: str
    body: bytes | None = None
    kind: str = ""


_GET = _Write("GET")


class KubernetesClient:
    """One cluster's API server; safe to use from several threads.

    *page* is the number of objects a list request asks for, *timeout* the limit of one request.
    Raises `BadInput` where the credentials cannot be read.
    """

    def __init__(
        self,
        *,
        kubeconfig: Path | None = None,
        context: str | None = None,
        page: int = 500,
        timeout: timedelta = timedelta(seconds=30),
    ) -> None:
        self._kubeconfig, self._context = kubeconfig, context
        self._page = page
        self._timeout = timeout.total_seconds()
        self._lock = threading.Lock()
        self._login()

    @property
    def host(self) -> str:
        """The server's address, without credentials."""
        parts = urlsplit(str(self._api.configuration.host))
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"

    def get(self, path: str, **parameters: str) -> bytes:
        """Return the body of one object or endpoint."""
        return self._read(path, parameters)

    def date(self) -> datetime | None:
        """Return the server's time by its own clock, in whole seconds; None where it tells none."""
        answer = self._open("/version", {}, silence=self._timeout)
        answer.close()  # the body may never end
        return http_date(answer.headers.get("Date"))

    def send(
        self, method: str, path: str, body: bytes | None = None, kind: str = "application/json", **parameters: str
    ) -> bytes:
        """Write: POST, PUT, PATCH or DELETE *body* of media type *kind*, once; return the answer's body.

        A refusal is a `Permanent` or `Temporary` with the reason ``status_409`` and the like. After any other
        `Temporary` the write may have been done or not.
        """
        return self._read(path, parameters, _Write(method, body, kind))

    def list(self, path: str, *, label_selector: str = "", field_selector: str = "") -> Listing:
        """List every object under *path*, all pages of one consistent answer.

        An expired page (410) starts the list over, the last time as one page, which cannot expire. Raises
        `SourceError` rather than return a part.
        """
        selectors = _selectors(label_selector, field_selector)
        for attempt in range(1, _TRIES + 1):
            try:
                return self._pages(path, selectors, self._page if attempt < _TRIES else 0)
            except Temporary as error:
                if error.reason != "gone" or attempt == _TRIES:
                    raise
        raise AssertionError("unreachable")

    def watch(
        self,
        path: str,
        resource_version: str,
        *,
        label_selector: str = "",
        field_selector: str = "",
        seconds: float = 120.0,
    ) -> Watching:
        """Watch the changes after *resource_version*; the server ends it quietly after about *seconds*.

        While iterating, `Temporary` with the reason ``gone`` says that the version is too old: list anew.
        """
        parameters = {
            **_selectors(label_selector, field_selector),
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(max(1, int(seconds))),
        }
        return Stream(self._open(path, parameters, silence=seconds + _GRACE), self._what(path))

    def _pages(self, path: str, selectors: dict[str, str], page: int) -> Listing:
        items: list[msgspec.Raw] = []
        parameters = {**selectors, **({"limit": str(page)} if page else {})}
        while True:
            body = self._read(path, parameters)
            try:
                answer = _PAGES.decode(body)
            except NOT_JSON:
                raise self._no_list(path, body) from None
            items += answer.items or ()
            meta = answer.metadata or _PageMeta()
            if not meta.next:
                return Listing(tuple(items), meta.resource_version or "")
            parameters["continue"] = meta.next

    def _no_list(self, path: str, body: bytes) -> SourceError:
        """HTML of a proxy, a damaged body, or JSON that is something else."""
        try:
            msgspec.json.decode(body)
        except NOT_JSON:
            return Permanent(SOURCE, "not_json", f"{self._what(path)}: the answer is no JSON")
        return Permanent(SOURCE, "not_a_list", f"{self._what(path)}: the answer is no list of objects")

    def _read(self, path: str, parameters: dict[str, str], write: _Write | None = None) -> bytes:
        """The whole body; a server that only trickles is given up on as one that is silent."""
        deadline = time.monotonic() + self._timeout
        answer = self._open(path, parameters, silence=self._timeout, write=write)
        pieces: list[bytes] = []
        try:
            while piece := answer.read1(PIECE):
                pieces.append(piece)
                if time.monotonic() > deadline:
                    answer.close()
                    raise Temporary(SOURCE, "timeout", f"{self._what(path)}: no whole answer in time")
        except (transport.HTTPError, OSError) as error:
            raise failed(error, self._what(path)) from None
        answer.release_conn()
        return b"".join(pieces)

    def _open(
        self, path: str, parameters: dict[str, str], silence: float, write: _Write | None = None
    ) -> urllib3.BaseHTTPResponse:
        """Send, with fresh credentials once more where the server answers 401; an answer of success or an error."""
        for again in (True, False):
            api = self._api
            answer = self._send(api, path, parameters, silence, write or _GET)
            if answer.status == 401 and again:
                answer.close()
                self._login(instead_of=api)
                continue
            break
        if answer.status == 200 or (write is not None and 200 < answer.status < 300):
            return answer
        raise self._refused(answer, path)

    def _send(
        self, api: Any, path: str, parameters: dict[str, str], silence: float, write: _Write
    ) -> urllib3.BaseHTTPResponse:
        what = self._what(path)
        headers = {"Accept": "application/json", "User-Agent": "colocation-advisor"}
        if write.body is not None:
            headers["Content-Type"] = write.kind
        try:
            settings: dict[str, dict[str, str]] = api.configuration.auth_settings()
        except (ConfigException, OSError, ValueError):
            # An expired token was to be replaced: a file is gone, a login program failed.
            raise Permanent(SOURCE, "credentials", f"{what}: the credentials cannot be renewed") from None
        headers |= {each["key"]: each["value"] for each in settings.values() if each["in"] == "header"}
        url = f"{api.configuration.host}{path}{'?' + urlencode(parameters) if parameters else ''}"
        try:
            answer: urllib3.BaseHTTPResponse = api.rest_client.pool_manager.request(
                write.method,
                url,
                body=write.body,
                headers=headers,
                preload_content=False,
                redirect=False,
                retries=False,
                timeout=urllib3.Timeout(connect=self._timeout, read=silence),
            )
        except (transport.HTTPError, OSError) as error:
            raise failed(error, what) from None
        return answer

    def _told(self, answer: urllib3.BaseHTTPResponse) -> bytes:
        """The body of an error, or what came of it within the limits of time and length."""
        deadline, body = time.monotonic() + self._timeout, b""
        while len(body) < _LONGEST and time.monotonic() < deadline and (piece := answer.read1(PIECE)):
            body += piece
        return body

    def _refused(self, answer: urllib3.BaseHTTPResponse, path: str) -> SourceError:
        """The error for a status other than 200, with the server's own sentence where it gave one."""
        status = answer.status
        try:
            said = STATUSES.decode(self._told(answer)).message or ""
        except (transport.HTTPError, OSError):
            said = ""
        except NOT_JSON:
            said = ""
        answer.close()
        for each in self._api.configuration.auth_settings().values():
            secret = each["value"].rpartition(" ")[2]
            said = said.replace(secret, "***") if secret else said
        message = f"{self._what(path)}: status {status}{': ' + one_line(said) if said else ''}"
        if status == 410:
            return Temporary(SOURCE, "gone", message, delay=0.0)
        if status == 429 or status >= 500:
            return Temporary(SOURCE, f"status_{status}", message, delay=_delay(answer.headers.get("Retry-After")))
        return Permanent(SOURCE, f"status_{status}", message)

    def _what(self, path: str) -> str:
        return f"Kubernetes API {self.host}{path}"

    def _login(self, instead_of: object = None) -> None:
        """Read the credentials anew, unless another thread did so meanwhile."""
        with self._lock:
            if instead_of is not None and instead_of is not self._api:
                return
            try:
                self._api: Any = ApiClient(configuration(self._kubeconfig, self._context))
            except BadInput as error:
                if instead_of is None:
                    raise
                raise Permanent(SOURCE, "credentials", str(error)) from None


def _selectors(label: str, field: str) -> dict[str, str]:
    given = {"labelSelector": label, "fieldSelector": field}
    return {name: value for name, value in given.items() if value}


def _delay(retry_after: str | None) -> float:
    return float(retry_after) if retry_after and retry_after.isdecimal() else 1.0
