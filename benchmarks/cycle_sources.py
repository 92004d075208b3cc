"""The sources of a large cluster, made up as they are asked for: an OpenWhisk API host and a Prometheus server.

Each is a process of its own. Activations lie evenly in time, two thousand a second whenever one looks, so that any
window of any cycle finds its own; every pod and node has a value at every step.
"""

import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection

import numpy as np

from tests.support.web import Asked, Reply, answering

#: Distinct values that series have.
_VALUES = 97
#: Functions that run.
FUNCTIONS = 300

Source = Callable[[Asked], Reply]


def activations(rate: int) -> Source:
    """Answer as an OpenWhisk API host whose one namespace had *rate* activations in each second, for ever."""
    head = {
        "annotations": [
            {"key": "path", "value": "guest/action-@F"},
            {"key": "waitTime", "value": 12},
            {"key": "kind", "value": "nodejs:20"},
            {"key": "timeout", "value": False},
            {"key": "limits", "value": {"concurrency": 1, "logs": 10, "memory": 256, "timeout": 60000}},
        ],
        "duration": 150,
        "logs": [],
        "name": "action-@F",
        "namespace": "guest",
        "publish": False,
        "response": {"result": {"ok": True}, "size": 58, "status": "success", "success": True, "statusCode": 0},
        "subject": "guest",
        "version": "0.0.3",
    }
    text = json.dumps(head, separators=(",", ":"))[1:].replace("%", "%%")
    kinds = [text.replace("@F", str(number)).encode() for number in range(FUNCTIONS)]
    spread = np.random.default_rng(5).integers(0, FUNCTIONS, 8192).tolist()

    def reply(asked: Asked) -> Reply:
        since, upto = int(asked.query["since"]), int(asked.query["upto"])
        limit, skip = int(asked.query.get("limit", 30)), int(asked.query.get("skip", 0))
        first, last = -(-since * rate // 1000), ((upto + 1) * rate - 1) // 1000  # number n starts at 1000 n / rate
        newest = last - skip
        parts = []
        for number in range(newest, max(first, newest - limit + 1) - 1, -1):
            start = 1000 * number // rate
            parts.append(b'{"activationId":"%032x","start":%d,"end":%d,' % (number, start, start + 150))
            parts.append(kinds[spread[number % 8192]])
            parts.append(b",")
        return Reply(b"[" + b"".join(parts)[:-1] + b"]")

    return reply


def usage(pods: int, nodes: int) -> Source:
    """Answer range queries as a Prometheus server that has every pod and node at every step."""
    named = "wskowdev-invoker-00-%d-guest-action%d"  # as the stand-in of the API server calls its pods
    of_pods = [
        b'{"metric":{"namespace":"openwhisk","pod":"%s"},"values":[' % (named % (number, number)).encode()
        for number in range(pods)
    ]
    of_nodes = [b'{"metric":{"node":"node-%d"},"values":[' % number for number in range(nodes)]

    def reply(asked: Asked) -> Reply:
        query = asked.query.get("query", "")
        listed = of_pods if "container_" in query else of_nodes if "node_" in query else []
        start, end, step = (float(asked.query[name]) for name in ("start", "end", "step"))
        times = np.arange(start, end + 1e-6, step).tolist()
        made = [
            (
                ",".join(f'[{time:.0f},"{0.01 * (value + 1) + 0.001 * (time % 7):.6g}"]' for time in times) + "]}"
            ).encode()
            for value in range(_VALUES)
        ]
        body = b",".join([head + made[number % _VALUES] for number, head in enumerate(listed)])
        return Reply(b'{"status":"success","data":{"resultType":"matrix","result":[%s]}}' % body)

    return reply


#: What can be served, by name.
_KINDS: Mapping[str, Callable[..., Source]] = {"activations": activations, "usage": usage}


@contextmanager
def served(kind: str, *given: int) -> Iterator[str]:
    """Serve a source from a process of its own; yields its URL."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, kind, given), daemon=True)
    process.start()
    try:
        yield here.recv()
    finally:
        here.send("stop")
        process.join(30)


def _serve(pipe: Connection, kind: str, given: tuple[int, ...]) -> None:
    os.nice(5)
    with answering(_KINDS[kind](*given)) as url:
        pipe.send(url)
        pipe.recv()
