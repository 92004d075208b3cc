"""The servers that the webhook benchmark drives, each a process of its own: ``noop`` or the real ``webhook``.

``python -m benchmarks.webhook_server noop|webhook DESCRIPTOR [CONFIG]``
"""

import json
import socket
import sys
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonpatch
import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from jobs import logs, wire
from jobs.config import load
from jobs.service import process, review, shape
from jobs.service.prepared import Prepared
from jobs.service.tls import Protocol
from pipeline.objects import pod_of
from rules.memo import Memo
from rules.recommend import recommend
from rules.request import from_pod
from rules.view import View

_OBJECT = msgspec.json.Decoder(dict[str, Any])
#: So many answers of a run are kept to be compared.
_KEPT = 20_000


async def mutate(request: Request) -> Response:
    """Decode what the webhook decodes of every pod, and admit."""
    admission = review.decode(await request.body()).request
    shape.decode(admission.object)
    return Response(review.allow(admission.uid), media_type="application/json")


def noop(listening: socket.socket) -> None:
    """Serve the handler that does nothing, on the same server."""
    app = Starlette(routes=[Route("/mutate", mutate, methods=["POST"])])
    config = uvicorn.Config(
        app, http=Protocol, ws="none", lifespan="off", log_config=None, access_log=False, timeout_keep_alive=600
    )
    uvicorn.Server(config).run(sockets=[listening])


class Compared:
    """Keeps of each answer what it was prepared as, and holds it against one that is worked out without any cache."""

    def __init__(self, serving: process.Process, config: Path) -> None:
        settings = load(config)
        self._policy = wire.policy(settings, serving.state.cluster)
        self._kept: deque[tuple[str, Prepared]] = deque(maxlen=_KEPT)
        self._blank: dict[int, View] = {}
        real = Prepared.encoded

        def encoded(prepared: Prepared, uid: str) -> bytes:
            self._kept.append((uid, prepared))
            return real(prepared, uid)

        Prepared.encoded = encoded  # type: ignore[method-assign,assignment]

    async def compare(self, request: Request) -> Response:
        """Answer how many of the posted reviews' last answers were compared, and which differ from the reference."""
        posted = {each["request"]["uid"]: each["request"] for each in json.loads(await request.body())}
        last = {uid: prepared for uid, prepared in list(self._kept) if uid in posted}
        self._blank = {id(each.view): _without_memory(each.view) for each in last.values()}
        wrong = [uid for uid, prepared in last.items() if not self._same(posted[uid], uid, prepared)]
        return JSONResponse({"compared": len(last), "wrong": wrong})

    def _same(self, asked: dict[str, Any], uid: str, prepared: Prepared) -> bool:
        pod, view = asked["object"], self._blank[id(prepared.view)]
        asking = from_pod(
            pod, pod_of(pod), view, namespace=asked["namespace"], cluster=view.cluster, policy=self._policy
        )
        reference = recommend(asking, view, self._policy, decision=uid)
        answer = msgspec.json.decode(prepared.encoded(uid), type=review.AdmissionAnswer).response
        patched = jsonpatch.apply_patch(pod, json.loads(answer.patch))
        return bool(patched == jsonpatch.apply_patch(pod, list(reference.patch)))


def _without_memory(view: View) -> View:
    """Return *view* with nothing worked out from it yet."""
    return replace(
        view,
        nodes=replace(view.nodes, memo=Memo()),
        pairs=replace(view.pairs, memo=Memo()),
        latencies=replace(view.latencies, memo=Memo()),
        running=replace(view.running, memo=Memo()),
        memo=Memo(),
    )


def webhook(listening: socket.socket, config: Path) -> None:
    """Serve the real process; ``POST /compare`` holds its last answers against a reference."""
    real = process.Process.server

    def server(serving: process.Process) -> uvicorn.Server:
        serving.app.router.routes.append(Route("/compare", Compared(serving, config).compare, methods=["POST"]))
        return real(serving)

    process.Process.server = server  # type: ignore[method-assign,assignment]
    logs.configure()
    process.run(load(config), listening, None, 0)


def main(kind: str, descriptor: str, config: str = "") -> None:
    """Serve until told to end."""
    listening = socket.socket(fileno=int(descriptor))
    if kind == "noop":
        noop(listening)
    else:
        webhook(listening, Path(config))


if __name__ == "__main__":
    main(*sys.argv[1:])
