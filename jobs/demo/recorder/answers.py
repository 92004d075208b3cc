"""``python -m jobs.demo.recorder.answers --recording DIR --prometheus URL``: keep what a real Prometheus answers.

The server at URL holds the recording's history:

    gunzip -k DIR/history.openmetrics.gz
    promtool tsdb create-blocks-from openmetrics DIR/history.openmetrics DATA
    prometheus --storage.tsdb.path=DATA --storage.tsdb.retention.time=100y --config.file=/dev/null

The product's own collectors ask their own queries, through a server that passes each on and keeps the answer.
"""

import argparse
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

from jobs import collect, config
from jobs.demo import recorded, replay
from jobs.demo.httpd import serving
from jobs.demo.recorder import assemble
from jobs.demo.standins import request
from pipeline.errors import ColocationError


def keep(recording: recorded.Recording, prometheus: str) -> dict[recorded.Request, str]:
    """Collect usage from *prometheus* as the demo will, and return each request with the answer that it got."""
    kept: dict[recorded.Request, str] = {}

    def passed_on(path: str, parameters: Mapping[str, str]) -> tuple[int, bytes]:
        asked = urllib.request.Request(f"{prometheus}{path}", data=urlencode(parameters).encode())
        try:
            with urllib.request.urlopen(asked, timeout=60) as answer:
                body: bytes = answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()
        if path == "/api/v1/query_range":
            kept[request(parameters)] = body.decode()
        return 200, body

    with (
        tempfile.TemporaryDirectory() as directory,
        serving(passed_on) as between,
        replay.replay(recording, Path(directory), prometheus=between) as settings,
    ):
        moment = replay.moment(recording)
        outcomes = collect.run(config.load(settings), now=lambda: moment, only=("nodes", "usage"))
    for outcome in outcomes:
        if outcome.outcome != "ok":
            raise ColocationError(f"{outcome.source}/{outcome.scope}: {outcome.message}")
    return kept


def write(path: Path, answers: Mapping[recorded.Request, str]) -> None:
    """Write *answers* to *path*, in the order of their queries."""
    names = ("query", "start", "end", "step")
    assemble.write_json(
        path, [{**dict(zip(names, key, strict=True)), "body": answers[key]} for key in sorted(answers)]
    )


def main(arguments: list[str] | None = None) -> int:
    """Record the answers; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m jobs.demo.recorder.answers", description=__doc__)
    parser.add_argument("--recording", type=Path, default=recorded.DIRECTORY, help="directory of the recording")
    parser.add_argument("--prometheus", required=True, help="URL of a Prometheus that holds the recording's history")
    given = parser.parse_args(arguments)
    path = given.recording / recorded.ANSWERS
    try:
        answers = keep(recorded.load(directory=given.recording, answers=False), given.prometheus)
    except ColocationError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    write(path, answers)
    sys.stdout.write(f"{path}: {len(answers)} answers\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
