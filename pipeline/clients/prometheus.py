"""The Prometheus client: range and instant queries over prometheus-api-client, its habits made safe.

The library retries three times behind one's back, hides the status that made it give up, and puts whole bodies into
its errors. Here nothing is retried (the next collection is), and each error is one line: URL and a short reason.
"""

import io
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import requests
import urllib3
from prometheus_api_client.exceptions import PrometheusApiClientException
from prometheus_api_client.prometheus_connect import PrometheusConnect

from pipeline.clients import series as answers
from pipeline.clients.certificates import Unverified, unverified
from pipeline.clients.urls import one_line, plain, split, without_credentials
from pipeline.errors import NOT_JSON, BadInput, Permanent, SourceError, Temporary
from pipeline.records import Refusal, Series

SOURCE = "prometheus"

_PIECE = 1 << 16

#: Points a series that one range query may ask for; the server refuses more.
POINTS = 11_000

#: Statuses after which the same query may succeed.
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Failure(msgspec.Struct):
    """What Prometheus answers instead of data."""

    status: str = ""
    error: str = ""


class _Login(requests.auth.AuthBase):
    """Puts the login on each request; being set, it also keeps ~/.netrc from replacing it."""

    def __init__(self, token: str | None, token_file: Path | None, user: tuple[str, str] | None) -> None:
        self._token, self._token_file = token, token_file
        self._basic = requests.auth.HTTPBasicAuth(*(part.encode() for part in user)) if user else None

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        token = self._token
        if self._token_file is not None:
            try:
                token = self._token_file.read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError):
                raise Permanent(SOURCE, "token_file", f"{self._token_file}: no readable bearer token") from None
            if not plain(token):
                raise Permanent(SOURCE, "token", f"{self._token_file}: not one line of plain characters")
        if token:
            request.headers["Authorization"] = f"Bearer {token}"
        elif self._basic is not None:
            self._basic(request)
        return request


class _Patience(requests.adapters.HTTPAdapter):
    """Reads the whole answer within the limit: a server that only trickles is given up on as one that is silent."""

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        limit = kwargs["timeout"]
        deadline = time.monotonic() + limit
        response = super().send(request, *args, **(kwargs | {"stream": True}))
        body = io.BytesIO()
        try:
            while piece := response.raw.read1(_PIECE, decode_content=True):
                body.write(piece)
                if time.monotonic() > deadline:
                    response.close()
                    raise requests.exceptions.ReadTimeout(request=request)
        except urllib3.exceptions.ReadTimeoutError:
            raise requests.exceptions.ReadTimeout(request=request) from None
        except urllib3.exceptions.HTTPError:
            raise requests.exceptions.ChunkedEncodingError(request=request) from None
        response.raw.release_conn()
        body.seek(0)
        response.raw = body
        return response


class PrometheusClient:
    """One Prometheus server, or anything that speaks its query API; calling it is the `RangeQuery` port.

    Give a bearer *token*, a *token_file* (read again for each request) or *username* and *password*. The server's
    certificate is verified, by *ca_file* where given, unless *insecure*. Raises `BadInput` for a wrong argument.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        token_file: Path | None = None,
        username: str | None = None,
        password: str | None = None,
        ca_file: Path | None = None,
        insecure: bool = False,
        headers: Mapping[str, str] | None = None,
        replica_labels: Sequence[str] = ("replica", "prometheus_replica", "__replica__"),
        timeout: timedelta = timedelta(seconds=60),
    ) -> None:
        parts = split("prometheus.url", url)
        if ca_file is not None and not ca_file.is_file():
            raise BadInput(f"prometheus.ca_file: {ca_file}: no such file")
        self.url = without_credentials(parts)
        self._replica_labels = tuple(replica_labels)
        self._refused: list[Refusal] = []
        session = requests.Session()
        session.verify = str(ca_file) if ca_file is not None and not insecure else not insecure
        session.auth = _Login(token, token_file, None if username is None else (username, password or ""))
        session.hooks["response"] = [self._check]
        if insecure:
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        self._connect = PrometheusConnect(
            self.url,
            headers=dict(headers or {}),
            session=session,
            timeout=math.ceil(timeout.total_seconds()),
        )
        session.mount(self.url, _Patience(max_retries=urllib3.Retry(total=0, read=False, redirect=False)))

    def __call__(self, promql: str, since: datetime, until: datetime, step: timedelta) -> list[Series]:
        """Evaluate *promql* at every multiple of *step* (since 1970) in [since, until].

        *step* is a whole number of seconds and never changed; windows of more than 11,000 points are asked for in
        parts. Replicas are merged, series sorted by labels.
        """
        parts: list[Series] = []
        for start, end in windows(since, until, step):
            parts += self._ask(
                lambda start=start, end=end: self._connect.custom_query_range(
                    promql, start, end, str(int(step.total_seconds()))
                )
            )
        return answers.merge(parts, self._replica_labels)

    def instant(self, promql: str, at: datetime | None = None) -> list[Series]:
        """Evaluate *promql* at *at* (default: the server's now); each series has one value."""
        params = {} if at is None else {"time": repr(at.timestamp())}
        return answers.merge(self._ask(lambda: self._connect.custom_query(promql, params)), self._replica_labels)

    def now(self) -> datetime | None:
        """Return the server's time by its own clock; None where it gives none."""
        found = self.instant("vector(time())")
        return _EPOCH + timedelta(seconds=float(found[0].values[-1])) if found else None

    def take_refused(self) -> tuple[Refusal, ...]:
        """The series that could not be used since this was last called."""
        taken, self._refused = tuple(self._refused), []
        return taken

    def close(self) -> None:
        """Close the connections."""
        self._connect.close()

    def _ask(self, query: Any) -> list[Series]:
        try:
            series, refused = answers.parse(query())
        except SourceError:
            raise
        except requests.exceptions.SSLError as error:
            told = unverified(error) or Unverified("tls", "no TLS connection")
            raise Permanent(SOURCE, told.reason, f"{self.url}: {told.hint}") from None
        except requests.exceptions.Timeout:
            raise Temporary(SOURCE, "timeout", f"{self.url}: no answer in time") from None
        except requests.exceptions.JSONDecodeError:
            raise SourceError(SOURCE, "half_page", f"{self.url}: the answer is broken off or no JSON") from None
        except (requests.exceptions.ChunkedEncodingError, requests.exceptions.ContentDecodingError):
            raise Temporary(SOURCE, "half_page", f"{self.url}: the answer broke off") from None
        except requests.exceptions.ConnectionError as error:
            if error.args and isinstance(error.args[0], urllib3.exceptions.ReadTimeoutError):
                raise Temporary(SOURCE, "timeout", f"{self.url}: the answer stopped midway") from None
            raise Temporary(SOURCE, "connection", f"{self.url}: no connection") from None
        except (requests.exceptions.RequestException, PrometheusApiClientException) as error:
            raise SourceError(SOURCE, "request", f"{self.url}: {type(error).__name__}") from None
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
            raise SourceError(SOURCE, "not_prometheus", f"{self.url}: not an answer of Prometheus' API") from None
        self._refused += refused
        return series

    def _check(self, response: requests.Response, *_: object, **__: object) -> None:
        """Refuse an answer that holds no data, before the library makes an unclear error of it."""
        status, body = response.status_code, response.content
        said = ""
        if status != 200 or len(body) < 65_536:
            try:
                failure = msgspec.json.decode(body, type=_Failure)
                said = one_line(failure.error or failure.status) if failure.status == "error" else ""
            except NOT_JSON:
                pass
        where = f"{self.url}: status {status}{': ' + said if said else ''}"
        if 300 <= status < 400:
            raise Permanent(SOURCE, "redirect", f"{where}: redirected elsewhere, which is not followed")
        if status in _PASSING:
            raise Temporary(SOURCE, f"status_{status}", where)
        if status in (400, 422):
            raise Permanent(SOURCE, "bad_query", where)
        if status in (401, 403):
            raise Permanent(SOURCE, f"status_{status}", f"{where}: the login is refused")
        if status != 200:
            raise Permanent(SOURCE, f"status_{status}", f"{where}: no query API there")
        if said:
            raise SourceError(SOURCE, "error", where)
        if not body.lstrip().startswith(b"{"):
            raise SourceError(SOURCE, "not_json", f"{self.url}: answers something other than JSON")


def windows(since: datetime, until: datetime, step: timedelta) -> Iterator[tuple[datetime, datetime]]:
    """Split the multiples of *step* in [since, until] into closed windows of at most 11,000 points, none shared.

    Raises `BadInput` where *step* is not a whole positive number of seconds; *since* and *until* are aware.
    """
    if step < timedelta(seconds=1) or step % timedelta(seconds=1):
        raise BadInput(f"schedule.step: {step}: must be a whole number of seconds")
    first = -((_EPOCH - since) // step)
    last = (until - _EPOCH) // step
    for start in range(first, last + 1, POINTS):
        yield _EPOCH + start * step, _EPOCH + min(start + POINTS - 1, last) * step
