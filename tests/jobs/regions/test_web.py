"""The server of the operator's applications: what a client that is slow, or silent, can hold up."""

import socket
import time
from collections.abc import Callable, Iterator

import pytest

from jobs.regions import web
from jobs.regions.boards import Boards
from jobs.regions.inbox import Inbox
from jobs.regions.rest import BASE, Rest, metrics
from jobs.regions.web import Web
from rules.regions.events import CheckpointDone

#: Larger than all buffers between the two ends.
BIG = 32 * 1024 * 1024
HEAD = f"PUT {BASE}/region/0/pe/1/checkpoint HTTP/1.1\r\nHost: x\r\nContent-Length: ".encode()


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
def served(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    monkeypatch.setattr(web, "PATIENCE", 0.4)
    boards = Boards()
    rest = Rest(boards.of, boards.entry, lambda index: None, inbox.report)
    with Web((rest, 0), (metrics(lambda: b"#" * BIG), 0), host="127.0.0.1") as served:
        yield served


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30.0)


def is_broken_off(sock: socket.socket, say: Callable[[], object] = lambda: None) -> bool:
    """Whether the other end breaks the connection off, without an answer, while this one goes on to *say* things."""
    sock.settimeout(0.05)
    for _ in range(600):
        try:
            say()
            return sock.recv(100) == b""
        except TimeoutError:
            continue
        except (ConnectionResetError, BrokenPipeError):
            return True
    return False


@pytest.mark.parametrize(
    "begun",
    [b"", b"PUT /api", HEAD, HEAD + b"5\r\n\r\n", HEAD + b"5\r\n\r\n1", HEAD + b"1\r\n\r\n1PUT /api"],
    ids=["nothing", "half a line", "half a head", "no body", "half a body", "half a second request"],
)
def test_a_request_that_never_ends_does_not_hold_its_connection(served: Web, begun: bytes) -> None:
    with connected(served.ports[0]) as sock:
        sock.sendall(begun)
        if begun.endswith(b"1PUT /api"):
            assert sock.recv(1000).startswith(b"HTTP/1.1 204")
            sock.sendall(b"/consistentregion")
        assert is_broken_off(sock)


def test_a_body_that_comes_byte_by_byte_is_not_waited_for_either(served: Web, inbox: Inbox) -> None:
    with connected(served.ports[0]) as sock:
        sock.sendall(HEAD + b"4000\r\n\r\n")
        assert is_broken_off(sock, say=lambda: sock.sendall(b"1"))
    assert inbox.take(0.0) is None


def test_an_answer_that_is_not_taken_is_not_kept_for_ever(served: Web) -> None:
    with connected(served.ports[1]) as sock:
        sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(2.0)  # nothing is read meanwhile
        got = 0
        try:
            while piece := sock.recv(1 << 20):
                got += len(piece)
        except ConnectionResetError:
            pass
    assert got < BIG


def test_slow_clients_hold_up_nobody_else_and_a_connection_may_rest(served: Web, inbox: Inbox) -> None:
    with connected(served.ports[0]) as sock:
        slow = [connected(served.ports[0]) for _ in range(100)]
        for number in (1, 2):
            for each in slow if number == 1 else ():
                each.sendall(HEAD + b"5\r\n\r\n1")
            sock.sendall(HEAD + b"1\r\n\r\n%d" % number)
            assert sock.recv(1000).startswith(b"HTTP/1.1 204")
            time.sleep(1.0)  # longer than a request may take, shorter than a connection may rest
        for each in slow:
            each.close()
    taken = [inbox.take(0.0), inbox.take(0.0)]
    assert [item and item.what for item in taken] == [CheckpointDone(1, 1), CheckpointDone(1, 2)]
