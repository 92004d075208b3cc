"""Small activation records for tests."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec


def activation(number: int, start: int, *, namespace: str = "guest", name: str = "hello") -> dict[str, Any]:
    """A successful warm run of 5 ms, its id made of *number*."""
    return {
        "namespace": namespace,
        "name": name,
        "version": "0.0.1",
        "subject": namespace,
        "activationId": f"{number:032x}",
        "start": start,
        "end": start + 5,
        "duration": 5,
        "response": {"status": "success", "statusCode": 0, "success": True, "result": {"n": number}},
        "logs": [],
        "annotations": [{"key": "path", "value": f"{namespace}/{name}"}, {"key": "kind", "value": "python:3"}],
        "publish": False,
    }


def read_back(files: Iterable[Path]) -> list[dict[str, Any]]:
    """All records of spooled pages, in order, doubles kept."""
    records: list[dict[str, Any]] = []
    for file in files:
        page = msgspec.json.decode(file.read_bytes())
        assert isinstance(page, list)
        assert page, "an empty page was spooled"
        records += page
    return records
