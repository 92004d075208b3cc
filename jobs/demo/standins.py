"""What answers in the place of a Kubernetes API server and of a Prometheus server, from the recording.

They speak what the ordinary clients ask, and nothing else: a request that was not recorded is refused as such.
"""

import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from jobs.demo.httpd import Answer
from jobs.demo.recorded import Recording, Request

_NODES, _PODS, _SERVICES = "/api/v1/nodes", "/api/v1/pods", "/api/v1/services"
_NAMESPACES = "/api/v1/namespaces"


def kubernetes(recording: Recording, closing: threading.Event) -> Answer:
    """List the recorded nodes, pods and their namespaces; a watch sees nothing change and ends as told, or when
    *closing* is set."""
    namespaces = sorted({pod["metadata"]["namespace"] for pod in recording.pods})
    lists: Mapping[str, tuple[str, Sequence[Any]]] = {
        _NODES: ("Node", recording.nodes),
        _PODS: ("Pod", recording.pods),
        _SERVICES: ("Service", ()),
        _NAMESPACES: (
            "Namespace",
            [{"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}} for name in namespaces],
        ),
    }

    def answer(path: str, parameters: Mapping[str, str]) -> tuple[int, bytes]:
        if path not in lists:
            status = {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}
            return 404, json.dumps({"apiVersion": "v1", **status, "message": f"{path} was not recorded"}).encode()
        if parameters.get("watch") == "true":
            closing.wait(float(parameters.get("timeoutSeconds", "60")))
            return 200, b""
        kind, items = lists[path]
        first = int(parameters.get("continue", "0"))
        limit = int(parameters.get("limit", "0")) or len(items)
        metadata = {"resourceVersion": "5000"}
        if first + limit < len(items):
            metadata["continue"] = str(first + limit)
        page = {
            "apiVersion": "v1",
            "kind": f"{kind}List",
            "metadata": metadata,
            "items": items[first : first + limit],
        }
        return 200, json.dumps(page).encode()

    return answer


def prometheus(answers: Mapping[Request, str]) -> Answer:
    """Answer the recorded range queries with what a real server answered, all of their window or a part of it.

    What a range query says of one time does not depend on its window, so a part is cut out of the whole. Outside the
    recording there is nothing, as on a server that holds just this history.
    """
    whole = {(query, step): (start, body) for (query, start, _, step), body in answers.items()}

    def answer(path: str, parameters: Mapping[str, str]) -> tuple[int, bytes]:
        if path == "/api/v1/query_range":
            asked = request(parameters)
            if asked in answers:
                return 200, answers[asked].encode()
            query, start, end, step = asked
            begin, body = whole.get((query, step), (0.0, ""))
            if body and (start - begin) % step == 0:
                return 200, _cut(body, start, end).encode()
        why = f"{path}: this request was not recorded"
        return 422, json.dumps({"status": "error", "errorType": "execution", "error": why}).encode()

    return answer


def _cut(body: str, start: float, end: float) -> str:
    """Keep the samples in [start, end] and the series that have any."""
    whole = json.loads(body)
    parts = []
    for series in whole["data"]["result"]:
        values = [[at, value] for at, value in series["values"] if start <= at <= end]
        if values:
            parts.append({**series, "values": values})
    return json.dumps({**whole, "data": {**whole["data"], "result": parts}})


def request(parameters: Mapping[str, str]) -> Request:
    """Return the key of a range query among the recorded ones."""
    start, end, step = (float(parameters[name]) for name in ("start", "end", "step"))
    return parameters["query"], start, end, step
