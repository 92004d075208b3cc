"""Serves the operator's applications, and lets no client hold a connection by being slow."""

import asyncio
import socket
import threading
import time

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pipeline.errors import BadInput

#: Seconds from the first byte of a request, or from the connection, until all of its answer is taken.
PATIENCE = 10.0


class Prompt(HttpToolsProtocol):
    """One connection, which is broken off where a request takes longer than `PATIENCE`: head, body or answer.

    Between two requests a connection may rest for as long as the server keeps it alive.
    """

    _limit: asyncio.TimerHandle | None = None
    #: Whether a request is under way, or the first one is expected.
    _asked = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Give the first request its time."""
        super().connection_made(transport)
        self._begin()

    def data_received(self, data: bytes) -> None:
        """Give a request its time from its first byte."""
        if not self._asked:
            self._asked = True
            self._begin()
        super().data_received(data)

    def on_response_complete(self) -> None:
        """Stop counting, unless the next request is there already or the answer is not taken yet."""
        super().on_response_complete()
        self._asked = not self.cycle.response_complete
        if self._asked or self.transport.get_write_buffer_size():
            self._begin()
        else:
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop counting."""
        self._end()
        super().connection_lost(exc)

    def _begin(self) -> None:
        self._end()
        self._limit = self.loop.call_later(PATIENCE, self._over)

    def _end(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _over(self) -> None:
        if self._asked or self.transport.get_write_buffer_size():
            self.transport.abort()


class Web:
    """Serves several applications, each on its port, in one thread; port 0 lets the system choose."""

    def __init__(self, *served: tuple[object, int], host: str) -> None:
        self._sockets: list[socket.socket] = []
        try:
            for _, port in served:
                self._sockets.append(_listen(host, port))
        except BadInput:
            self._close_sockets()
            raise
        self._servers = [
            uvicorn.Server(
                uvicorn.Config(
                    app,  # type: ignore[arg-type]
                    ws="none",
                    lifespan="off",
                    interface="asgi3",
                    http=Prompt,
                    log_config=None,
                    access_log=False,
                    proxy_headers=False,
                    server_header=False,
                    timeout_graceful_shutdown=2,
                    timeout_keep_alive=75,
                )
            )
            for app, _ in served
        ]
        self._thread = threading.Thread(target=self._run, name="web", daemon=True)

    @property
    def ports(self) -> tuple[int, int]:
        first, second = (each.getsockname()[1] for each in self._sockets)
        return first, second

    def __enter__(self) -> "Web":
        self._thread.start()
        while self._thread.is_alive() and not all(server.started for server in self._servers):
            time.sleep(0.005)
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.should_exit = True
        self._thread.join(10.0)
        self._close_sockets()

    def _run(self) -> None:
        async def serve() -> None:
            pairs = zip(self._servers, self._sockets, strict=True)
            await asyncio.gather(*(server.serve(sockets=[sock]) for server, sock in pairs))

        asyncio.run(serve())

    def _close_sockets(self) -> None:
        for sock in self._sockets:
            sock.close()


def _listen(host: str, port: int) -> socket.socket:
    try:
        if not host and socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024)
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=1024
        )
    except OSError as error:
        raise BadInput(f"port {port}: cannot listen on {host or '*'}:{port}: {error.strerror or error}") from None
