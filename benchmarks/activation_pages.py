"""OpenWhisk activation records by the page, as the collector spools them, for benchmarks and for tests."""

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

#: When the newest made-up activation started.
NEWEST = datetime(2025, 10, 9, tzinfo=UTC)

_ACTIONS = [f"shop/step{number:02d}" for number in range(40)]


def records(count: int, seed: int = 0, newest: datetime = NEWEST) -> Iterator[dict[str, object]]:
    """Yield *count* records, newest first, about ten a second; one in twenty is a cold start."""
    rng = random.Random(seed)
    start = int(newest.timestamp() * 1000)
    for _ in range(count):
        start -= rng.randrange(200)
        action = rng.choice(_ACTIONS)
        duration = int(rng.lognormvariate(5, 1)) + 1
        annotations: list[dict[str, object]] = [
            {"key": "path", "value": f"guest/{action}"},
            {"key": "waitTime", "value": rng.randrange(-2, 400)},
            {"key": "kind", "value": "nodejs:20"},
            {"key": "timeout", "value": False},
            {"key": "limits", "value": {"concurrency": 1, "logs": 10, "memory": 256, "timeout": 60000}},
        ]
        if rng.random() < 0.05:
            annotations.append({"key": "initTime", "value": rng.randrange(20, 400)})
        yield {
            "activationId": f"{rng.getrandbits(128):032x}",
            "annotations": annotations,
            "duration": duration,
            "end": start + duration,
            "logs": [],
            "name": action.rpartition("/")[2],
            "namespace": "guest",
            "publish": False,
            "response": {
                "result": {"body": {"items": rng.randrange(1000), "total": round(rng.random(), 6)}, "ok": True},
                "size": 58,
                "status": "success",
                "success": True,
                "statusCode": 0,
            },
            "start": start,
            "subject": "guest",
            "version": "0.0.3",
        }


def pages(directory: Path, count: int, *, page: int = 200, seed: int = 0, newest: datetime = NEWEST) -> list[Path]:
    """Write *count* records as files of *page* records, newest page first.

    Each page begins with the last record of the one before, as paging by time with an overlap gives it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    texts: list[str] = []

    def close() -> None:
        files.append(directory / f"{len(files):06d}.json")
        files[-1].write_text(f"[{','.join(texts)}]", encoding="utf-8")

    for record in records(count, seed, newest):
        if len(texts) == page:
            close()
            del texts[:-1]
        texts.append(json.dumps(record, separators=(",", ":")))
    if texts:
        close()
    return files
