"""The servers that the webhook benchmark drives, each a process of its own.

``python -m benchmarks.webhook_server noop|webhook DESCRIPTOR CONFIG``: the serving process as the product runs it, or
one with a handler that decodes what the webhook decodes and admits. ``serve CONFIG``: all of ``colocate serve``, its
serving processes with `Compared`. ``load CONFIG ROUNDS``: takes up the snapshot and prints seconds and bytes.
"""

import json
import socket
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from benchmarks import webhook_cores
from featurestore.store import published
from jobs import logs, wire
from jobs.config import Settings, load
from jobs.service import process, review, shape
from jobs.service.ahead import Ahead
from jobs.service.body import read
from jobs.service.prepared import Prepared
from jobs.supervisor import children, main
from pipeline.objects import pod_of
from rules.memo import Memo
from rules.recommend import recommend
from rules.request import from_pod
from rules.view import View, learn, view_of


class Noop:
    """Decodes of a review what the webhook decodes, and admits; an ASGI application as the webhook is one."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        admission = review.decode(await read(receive)).request
        shape.decode(admission.object)
        answer = review.allow(admission.uid)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


class Compared:
    """Notes what each answer was prepared as, and works the same out again without any cache.

    It notes nothing until it is told to: what it keeps alive would otherwise be freed while pods wait.
    """

    def __init__(self, serving: process.Process, settings: Settings) -> None:
        self._policy = wire.policy(settings, serving.state.cluster)
        self._keeping = False
        self._number: dict[str, int] = {}
        self._numbers: dict[int, int] = {}
        self._prepared: list[Prepared] = []
        self._blank: dict[int, View] = {}
        real = Prepared.encoded

        def encoded(prepared: Prepared, uid: str) -> bytes:
            if self._keeping:
                number = self._numbers.get(id(prepared))
                if number is None:
                    number = self._numbers[id(prepared)] = len(self._prepared)
                    self._prepared.append(prepared)
                self._number[uid] = number
            return real(prepared, uid)

        Prepared.encoded = encoded  # type: ignore[method-assign,assignment]

    async def keep(self, request: Request) -> JSONResponse:
        """Note each answer from now on where the body is ``true``, none where it is ``false``; forget the former."""
        self._keeping = json.loads(await request.body())
        self._number, self._numbers, self._prepared, self._blank = {}, {}, [], {}
        return JSONResponse({})

    async def groups(self, request: Request) -> JSONResponse:
        """Answer for each of the posted uids which prepared answer it got, by a number, null for none."""
        return JSONResponse([self._number.get(uid) for uid in json.loads(await request.body())])

    async def reference(self, request: Request) -> JSONResponse:
        """Answer the patch of each posted review, worked out anew from the view of the numbered prepared answer."""
        posted = json.loads(await request.body())
        return JSONResponse([self._reference(each["request"], self._prepared[each["group"]]) for each in posted])

    def _reference(self, asked: dict[str, Any], prepared: Prepared) -> list[Any]:
        view = self._blank.get(id(prepared.view))
        if view is None:
            view = self._blank[id(prepared.view)] = _without_memory(prepared.view)
        pod = asked["object"]
        asking = from_pod(
            pod, pod_of(pod), view, namespace=asked["namespace"], cluster=view.cluster, policy=self._policy
        )
        return list(recommend(asking, view, self._policy, decision=asked["uid"]).patch)


class Holding:
    """Holds up what works answers out ahead, so that a pod that comes before it can be timed."""

    def __init__(self, serving: process.Process) -> None:
        self._ahead, self._held = serving.ahead, False
        take, work = Ahead.take, Ahead.work

        def taken(ahead: Ahead, *asked: Any) -> Prepared | None:
            return None if self._held else take(ahead, *asked)

        def worked(ahead: Ahead, *given: Any) -> None:
            if not self._held:
                work(ahead, *given)

        Ahead.take = taken  # type: ignore[method-assign,assignment]
        Ahead.work = worked  # type: ignore[method-assign,assignment]

    async def hold(self, request: Request) -> JSONResponse:
        """Hold it where the body is ``true``, let it go on where it is ``false``; answer what was made so far, and
        the seconds of CPU that this took.
        """
        asked = json.loads(await request.body())
        self._held = self._held if asked is None else asked
        return JSONResponse({"made": self._ahead.made, "seconds": self._ahead.spent.seconds})


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


def noop(listening: socket.socket, config: Path) -> None:
    """Serve the handler that does nothing, on the same server behind the same layers."""
    settings = load(config)
    serving = process.Process(settings, None, 0)
    routes = serving.app.router.routes
    place = next(row for row, each in enumerate(routes) if getattr(each, "path", "") == "/mutate")
    routes[place] = Route("/mutate", Noop())
    serving.server().run(sockets=[listening])


def webhook(listening: socket.socket, config: Path, directory: Path | None, slot: int) -> None:
    """Serve the real process; ``POST /keep``, ``/groups`` and ``/reference`` are those of `Compared`, ``/hold`` is
    that of `Holding`.
    """
    real, settings = process.Process.server, load(config)

    def server(serving: process.Process) -> uvicorn.Server:
        compared = Compared(serving, settings)
        asked = {name: getattr(compared, name) for name in ("keep", "groups", "reference")}
        for name, handler in {**asked, "hold": Holding(serving).hold}.items():
            serving.app.router.routes.append(Route(f"/{name}", handler, methods=["POST"]))
        return real(serving)

    process.Process.server = server  # type: ignore[method-assign,assignment]
    logs.configure()
    process.run(settings, listening, directory, slot)


def serve(config: Path) -> int:
    """Be ``colocate serve`` but for what its serving processes run, and where."""
    started = children.start

    def start(module: str, arguments: list[str], *given: Any, **named: Any) -> children.Process:
        serves = module == "jobs.service.process"
        return started("benchmarks.webhook_server" if serves else module, arguments, *given, **named)

    children.start = start  # type: ignore[assignment]
    webhook_cores.elsewhere()
    return main.serve(load(config), config, schedule=True)


def taken_up(config: Path, rounds: int) -> dict[str, list[float]]:
    """Take the snapshot up as a serving process does; returns the seconds of each of so many *rounds*, and the bytes
    that memory had grown by at the peak of the first.
    """
    settings = load(config)
    cluster, before = settings.serve.cluster or "", _memory("VmRSS")
    seconds, grown = [], 0
    for _ in range(rounds):
        began = time.perf_counter()
        snapshot = published.load(settings.store.snapshot)
        view = view_of(learn(snapshot, cluster), datetime.now(UTC))
        seconds.append(time.perf_counter() - began)
        grown = grown or _memory("VmHWM") - before
        assert len(view.nodes)
        del snapshot, view
    return {"seconds": seconds, "bytes": [grown]}


def _memory(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def run(arguments: list[str]) -> int:
    """Serve until told to end."""
    kind, *rest = arguments
    if kind == "serve":
        return serve(Path(rest[0]))
    if kind == "load":
        sys.stdout.buffer.write(msgspec.json.encode(taken_up(Path(rest[0]), int(rest[1]))))
        return 0
    webhook_cores.serving()
    if kind in ("noop", "webhook"):
        listening, config = socket.socket(fileno=int(rest[0])), Path(rest[1])
        noop(listening, config) if kind == "noop" else webhook(listening, config, None, 0)
        return 0
    named = dict(zip(arguments[::2], arguments[1::2], strict=True))  # as the supervisor starts it
    listening = socket.socket(fileno=int(named["--descriptor"]))
    webhook(listening, Path(named["--config"]), Path(named["--directory"]), int(named["--slot"]))
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
