"""OpenWhisk's activation records of what was run. Pure."""

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from jobs.demo.recorder.functions import FUNCTIONS
from jobs.demo.recorder.layout import Placed
from jobs.demo.recorder.worker import COLUMNS

_NAMESPACE = uuid.UUID("6f1d3f5e-5f43-4b8e-9a53-0c2f6d1f7c11")


def identity(*parts: object) -> uuid.UUID:
    """Return the same UUID for the same parts."""
    return uuid.uuid5(_NAMESPACE, "/".join(map(str, parts)))


def records(placed: Sequence[Placed]) -> Iterator[dict[str, Any]]:
    """Yield one full record an invocation; its result holds what was measured of it.

    ``cpu_ms`` is CPU time of all threads, ``memory_bytes`` the resident memory after it, the others bytes moved.
    The first invocation of a container is cold: it starts with the process, and ``initTime`` is inside its duration.
    """
    for each in placed:
        for container in each.session["containers"]:
            for number, row in enumerate(container["invocations"]):
                yield _record(each, container, number, dict(zip(COLUMNS, row, strict=True)))


def _record(placed: Placed, container: dict[str, Any], number: int, row: dict[str, int]) -> dict[str, Any]:
    function = FUNCTIONS[container["function"]]
    start, end = ((row[edge] + placed.shift) // 1000 for edge in ("start", "end"))
    annotations: list[dict[str, Any]] = [
        {"key": "path", "value": function.name},
        {"key": "kind", "value": "python:3"},
        {"key": "limits", "value": {"concurrency": 1, "logs": 10, "memory": function.memory_mb, "timeout": 60000}},
    ]
    if number == 0:
        annotations.append({"key": "initTime", "value": (container["initialised"] - row["start"]) // 1000})
    measured = {
        "cpu_ms": (row["cpu_after"] - row["cpu_before"]) / 1000,
        "memory_bytes": row["rss"],
        "read_bytes": row["read_after"] - row["read_before"],
        "written_bytes": row["written_after"] - row["written_before"],
        "sent_bytes": row["sent"],
        "received_bytes": row["received"],
    }
    return {
        "activationId": identity(placed.session["key"], function.name, number).hex,
        "namespace": function.namespace,
        "name": function.action,
        "version": "0.0.1",
        "subject": function.namespace,
        "start": start,
        "end": end,
        "duration": end - start,
        "response": {"status": "success", "statusCode": 0, "success": True, "result": measured},
        "logs": [],
        "annotations": annotations,
        "publish": False,
    }
