"""Serving processes share one socket: each takes one connection at a time, and its queue keeps its length."""

import socket
import struct
from pathlib import Path
from threading import Thread

import httpx
import pytest

from jobs.config import Settings
from jobs.service import listening
from jobs.service.process import Process
from tests.support.service import wait_until

#: Where ``struct tcp_info`` of Linux has, of a listening socket, how many connections may wait (``tcpi_sacked``).
_MOST = 28
_SYSTEM = Path("/proc/sys/net/core/somaxconn")


def _queue(sock: socket.socket) -> int:
    found: int = struct.unpack_from("I", sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), _MOST)[0]
    return found


@pytest.mark.skipif(not _SYSTEM.exists(), reason="Linux tells how long a socket's queue is")
def test_a_server_that_takes_one_at_a_time_lets_as_many_wait(tmp_path: Path) -> None:
    store = {"path": tmp_path / "db", "snapshot": tmp_path / "snapshot", "spool": tmp_path / "spool"}
    settings = Settings.model_validate({"store": store, "serve": {"port": 0}})
    most = min(listening.QUEUE, int(_SYSTEM.read_text()))
    with listening.bind(settings.serve) as sock:
        assert _queue(sock) == most
        server = Process(settings, None, 0).server()
        thread = Thread(target=server.run, kwargs={"sockets": [sock]})
        thread.start()
        try:
            wait_until(lambda: server.started)
            assert _queue(sock) == most
            assert {each._backlog for each in server.servers} == {1}  # type: ignore[attr-defined]
            url = f"http://127.0.0.1:{sock.getsockname()[1]}/healthz"
            assert [httpx.get(url).status_code for _ in range(3)] == [200] * 3
        finally:
            server.should_exit = True
            thread.join(30)
