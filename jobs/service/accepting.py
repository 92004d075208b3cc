"""How a serving process takes connections from the socket that it shares with the others."""

import socket

import uvicorn

from jobs.service.listening import QUEUE


class Server(uvicorn.Server):
    """A server that takes one connection at a time from the socket that it shares with others.

    An event loop takes as many connections at once as its queue is long: of processes on one socket the first to
    wake up would take all that wait, and an API server keeps its connections. So the loop is told of a queue of one
    (``backlog=1``), and the socket keeps its own.
    """

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, and give the queue of each socket back its length."""
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(QUEUE)
