"""Sends each PE its board as one datagram; what is lost the PE finds when it asks.

Names are resolved and datagrams sent in a thread of their own: a slow name server delays nothing else.
"""

import socket
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import structlog

from jobs.regions.boards import Boards

_log = structlog.get_logger(__name__)

#: How long a resolved name is used, in seconds: a pod that is replaced has another address.
_RESOLVED = 5.0


#: The family of a socket and where it sends to.
Address = tuple[socket.AddressFamily, tuple[Any, ...]]


class Addresses:
    """Where the PEs listen: *template* holds ``{job}``, ``{pe}`` and ``{namespace}``.

    On loopback ``127.0.{high}.{low}`` gives each PE an address: high is pe // 250, low is pe % 250 + 1.
    """

    def __init__(self, template: str, port: int, job: str, namespace: str) -> None:
        self._template, self._port = template, port
        self._job, self._namespace = job, namespace
        self._resolved: dict[int, tuple[float, Address]] = {}

    def of(self, pe: int, now: float) -> Address:
        """Resolve the family and address of *pe*; raises OSError where it has none."""
        known = self._resolved.get(pe)
        if known is not None and known[0] > now:
            return known[1]
        host = self._template.format(
            job=self._job, pe=pe, namespace=self._namespace, high=pe // 250, low=pe % 250 + 1
        )
        family, _, _, _, where = socket.getaddrinfo(host, self._port, type=socket.SOCK_DGRAM)[0]
        self._resolved[pe] = now + _RESOLVED, (family, where)
        return family, where

    def forget(self, pe: int) -> None:
        """Resolve *pe* anew next time."""
        self._resolved.pop(pe, None)


class Messenger:
    """Tells PEs what is on their boards."""

    def __init__(self, boards: Boards, addresses: Addresses, clock: Callable[[], float] = time.monotonic) -> None:
        self._boards, self._addresses, self._clock = boards, addresses, clock
        self._waiting: dict[int, None] = {}
        self._condition = threading.Condition()
        self._closing = threading.Event()
        self._sockets: dict[socket.AddressFamily, socket.socket] = {}
        self._thread = threading.Thread(target=self._run, name="messenger", daemon=True)
        #: Datagrams that were sent, and that could not be.
        self.sent = self.failed = 0

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def tell(self, pes: Iterable[int]) -> None:
        """Have each of *pes* sent its board, as it is when it is sent."""
        with self._condition:
            self._waiting.update(dict.fromkeys(pes))
            self._condition.notify()

    def close(self) -> None:
        """Stop; what waits is not sent."""
        with self._condition:
            self._closing.set()
            self._condition.notify()
        if self._thread.ident is not None:
            self._thread.join(5.0)
        for sock in self._sockets.values():
            sock.close()

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._waiting and not self._closing.is_set():
                    self._condition.wait()
                if self._closing.is_set():
                    return
                pes, self._waiting = self._waiting, {}
            for pe in pes:
                if self._closing.is_set():
                    return
                self._send(pe)

    def _send(self, pe: int) -> None:
        body = self._boards.of(pe)
        if body is None:
            return
        try:
            family, address = self._addresses.of(pe, self._clock())
            if family not in self._sockets:
                self._sockets[family] = socket.socket(family, socket.SOCK_DGRAM)
                self._sockets[family].setblocking(False)
            self._sockets[family].sendto(body, address)
            self.sent += 1
        except (OSError, UnicodeError) as error:
            self.failed += 1
            self._addresses.forget(pe)
            _log.info("notification not sent", pe=pe, error=str(error))
