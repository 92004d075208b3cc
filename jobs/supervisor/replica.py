"""A replica's dealings with the writer: fetches what answers come from, hands back what was decided.

The serving processes know nothing of it: they see the snapshot file and the control store change, and spool
decisions, as they do beside the writer. When the writer is away they go on with what was last fetched, and decisions
wait on disk.
"""

import os
import ssl
import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from threading import Lock
from typing import Final

import httpx
import msgspec
import structlog

from featurestore.store import copied, handed, published
from featurestore.store.control import Control
from featurestore.store.handed import Received
from jobs.config import ReplicaSettings, Settings
from jobs.service.replication import digests
from jobs.service.replication.operations import PREFIX
from jobs.supervisor.status import WriterStatus
from pipeline.clients.urls import plain
from pipeline.errors import BadInput, ColocationError, Temporary

_log = structlog.get_logger(__name__)

#: Bytes of decisions sent at once, and bytes that may wait on disk; beyond, the oldest are given up.
_BATCH, _ROOM = 2 << 20, 256 << 20
_RECEIVED: Final = msgspec.json.Decoder(Received)


class Replica:
    """Keeps the files of *settings.store* as the writer's; *report* is told how it goes after each turn."""

    def __init__(
        self, settings: Settings, report: Callable[[WriterStatus], None], now: Callable[[], float] = time.time
    ) -> None:
        assert settings.replica.writer is not None
        self._settings = settings.replica
        self._url = settings.replica.writer.rstrip("/") + PREFIX
        self._snapshot = settings.store.snapshot
        self._control = Control(settings.store.control)
        self._spool = settings.store.spool
        self._report = report
        self._now = now
        self._status = WriterStatus()
        self._copy = (
            ""  # after a start the control store is fetched once more: its rows may have been changed by hand
        )
        self._failing: set[str] = set()
        self._lock = Lock()  # of the counts: fetching and handing back run apart
        for left in self._snapshot.parent.glob(f".{self._snapshot.name}.*.fetched"):
            left.unlink(missing_ok=True)

    def fetch(self) -> None:
        """Take over the writer's snapshot and control store where they changed; what cannot be used is not taken."""
        whole = [
            self._try("snapshot", lambda: self._fetch("snapshot", self._take_snapshot, self._mine())),
            self._try("control", lambda: self._fetch("control", self._take_control, self._copy)),
        ]
        with self._lock:
            if all(whole):
                self._status.confirmed = self._now()
            self._report(deepcopy(self._status))

    def hand_back(self) -> None:
        """Hand decisions that wait to the writer, the oldest first; each file is deleted when the writer has it."""
        if lost := handed.shed(self._spool, _ROOM):
            self._count(lost=lost)
            _log.error("decisions given up: too many wait for the writer", decisions=lost)
        self._try("decisions", self._hand_back)
        with self._lock:
            self._status.waiting = sum(_size(path) for path in handed.waiting(self._spool))
            self._report(deepcopy(self._status))

    def _mine(self) -> str:
        """The digest of the snapshot on disk, which may be an earlier run's."""
        return digests.of_path(self._snapshot)

    def _fetch(self, what: str, take: Callable[[httpx.Response, str], None], known: str) -> None:
        headers = {"If-None-Match": f'"{known}"'} if known else {}
        with connect(self._settings) as client, client.stream("GET", self._url + what, headers=headers) as answer:
            if answer.status_code == 304:
                self._counted(what, "unchanged")
            elif what == "snapshot" and answer.status_code == 404:
                self._counted(what, "none")  # a new installation: the writer has not learned yet
            else:
                _refuse(answer)
                take(answer, digests.stated(answer.headers))
                self._counted(what, "changed")

    def _take_snapshot(self, answer: httpx.Response, digest: str) -> None:
        """Write what comes aside, look whether it is whole and a snapshot, and put it in place by renaming."""
        path = self._snapshot
        aside = path.with_name(f".{path.name}.{os.getpid()}.fetched")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with aside.open("wb") as file:
                for block in answer.iter_bytes():
                    file.write(block)
                file.flush()
                os.fsync(file.fileno())
            if digests.of_path(aside) != digest:
                raise BadInput("the snapshot that came is not the one that was sent: its SHA-256 differs")
            published.load(aside)
            aside.replace(path)
        except OSError as error:
            raise BadInput(f"{path}: cannot be written: {error.strerror}") from error
        finally:
            aside.unlink(missing_ok=True)

    def _take_control(self, answer: httpx.Response, digest: str) -> None:
        content = answer.read()
        if digests.of(content) != digest:
            raise BadInput("the copy of the control store is not the one that was sent: its SHA-256 differs")
        copied.restore(self._control, content)
        self._copy = digest

    def _hand_back(self) -> None:
        files = handed.waiting(self._spool)
        if not files:
            return
        with connect(self._settings) as client:
            for path in files:
                for batch in handed.batches(path, _BATCH):
                    with client.stream("POST", self._url + "decisions", content=batch) as answer:
                        _refuse(answer)
                        received = _RECEIVED.decode(answer.read())
                    self._count(handed_back=received.accepted, lost=received.refused)
                path.unlink(missing_ok=True)

    def _try(self, what: str, work: Callable[[], None]) -> bool:
        """Do *work*; a failure is counted, said when it begins and when it is over, and tried again next time."""
        try:
            work()
        except (httpx.HTTPError, ssl.SSLError, ColocationError, msgspec.MsgspecError, OSError) as error:
            self._counted(what, "failed")
            if what not in self._failing:
                _log.warning("the writer cannot be used, what was fetched stays", what=what, error=_said(error))
            self._failing.add(what)
            return False
        if what in self._failing:
            self._failing.discard(what)
            _log.info("the writer can be used again", what=what)
        return True

    def _counted(self, what: str, outcome: str) -> None:
        with self._lock:
            counts = self._status.exchanges.setdefault(what, {})
            counts[outcome] = counts.get(outcome, 0) + 1

    def _count(self, *, handed_back: int = 0, lost: int = 0) -> None:
        with self._lock:
            self._status.handed_back += handed_back
            self._status.lost += lost


def connect(settings: ReplicaSettings) -> httpx.Client:
    """Connect anew: token and CA may have been renewed meanwhile; raises `BadInput` where they cannot be used."""
    headers = _authorization(settings)
    try:
        verify = ssl.create_default_context(cafile=settings.ca_file) if settings.ca_file is not None else True
    except ssl.SSLError:
        raise BadInput(f"replica.ca_file: {settings.ca_file}: no certificates") from None
    except OSError as error:
        raise BadInput(f"replica.ca_file: {settings.ca_file}: {error.strerror}") from None
    return httpx.Client(headers=headers, verify=verify, timeout=settings.timeout.total_seconds(), trust_env=False)


def _authorization(settings: ReplicaSettings) -> dict[str, str]:
    token = settings.token.get_secret_value() if settings.token is not None else ""
    if settings.token_file is not None:
        try:
            token = settings.token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"replica.token_file: {settings.token_file}: {error}") from None
    if not plain(token):
        where = "token" if settings.token_file is None else f"token_file: {settings.token_file}"
        raise BadInput(f"replica.{where}: not one line of plain characters")
    return {"Authorization": f"Bearer {token}"} if token else {}


def _refuse(answer: httpx.Response) -> None:
    """Raise where the writer did not do what it was asked."""
    if answer.status_code != 200:
        raise Temporary("writer", f"status_{answer.status_code}", f"{answer.url}: answered {answer.status_code}")


def _said(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
