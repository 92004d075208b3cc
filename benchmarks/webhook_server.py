"""The servers that the webhook benchmark drives, each a process of its own: ``noop`` or the real ``webhook``.

``python -m benchmarks.webhook_server noop|webhook DESCRIPTOR [CONFIG]``
"""

import socket
import sys
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from jobs.config import load
from jobs.service import process, review
from jobs.service.tls import Protocol

_OBJECT = msgspec.json.Decoder(dict[str, Any])


async def mutate(request: Request) -> Response:
    """Decode what the webhook decodes, and admit."""
    admission = review.decode(await request.body()).request
    _OBJECT.decode(admission.object)
    return Response(review.allow(admission.uid), media_type="application/json")


def noop(listening: socket.socket) -> None:
    """Serve the handler that does nothing, on the same server."""
    app = Starlette(routes=[Route("/mutate", mutate, methods=["POST"])])
    config = uvicorn.Config(
        app, http=Protocol, ws="none", lifespan="off", log_config=None, access_log=False, timeout_keep_alive=600
    )
    uvicorn.Server(config).run(sockets=[listening])


def main(kind: str, descriptor: str, config: str = "") -> None:
    """Serve until told to end."""
    listening = socket.socket(fileno=int(descriptor))
    if kind == "noop":
        noop(listening)
    else:
        process.run(load(Path(config)), listening, None, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
