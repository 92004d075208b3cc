"""Turn recorded sessions into the files of a recording."""

import gzip
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jobs.demo.recorder import activations, layout, machine, objects, openmetrics, truth
from jobs.demo.recorder.functions import FUNCTIONS

HOW = (
    "Real work of small functions on one machine, one session at a time on all its cores. Each session is shown as a"
    " node of its own: times of a session are shifted by a constant, differences within it are exact. Between the"
    " end of a session and the end of its round the containers are shown idle, though their processes had ended."
    " The machine's loopback interface is shown as eth0. Nodes are one machine at different times, so of one type."
    " A pod's CPU limit is all cores: no quota held anything back."
)


def write(out: Path, sessions: Sequence[Mapping[str, Any]]) -> None:
    """Write the recording of *sessions* to *out*: equal sessions give equal bytes."""
    placed = layout.place(sessions)
    described = machine.describe() if "described" not in sessions[0] else sessions[0]["described"]
    count = layout.nodes(sessions)
    write_json(
        out / "objects.json.gz",
        {
            "nodes": [objects.node(number, described) for number in range(count)],
            "pods": objects.pods(placed, described["cores"]),
        },
    )
    records = sorted(activations.records(placed), key=lambda record: (record["start"], record["activationId"]))
    write_lines(out / "activations.ndjson.gz", (compact(record) + "\n" for record in records))
    write_lines(out / "history.openmetrics.gz", openmetrics.text(placed, count))
    (out / "measured.json").write_text(_rows(truth.measured(sessions)), encoding="utf-8")
    (out / "manifest.json").write_text(_manifest(placed, described, len(records), count) + "\n", encoding="utf-8")


def _manifest(placed: Sequence[layout.Placed], described: Mapping[str, Any], records: int, nodes: int) -> str:
    sessions = [each.session for each in placed]
    firsts = [min(container["spawned"] for container in session["containers"]) for session in sessions]
    manifest = {
        "how": HOW,
        "machine": described,
        "recorded": [_utc(min(firsts)), _utc(max(firsts))],
        "shown": [_utc(layout.ANCHOR), _utc(layout.end(placed))],
        "scrape_seconds": layout.SCRAPE // 1_000_000,
        "nodes": nodes,
        "activations": records,
        "rejected_sessions": sum(session["rejected"] for session in sessions),
        "functions": {
            name: FUNCTIONS[name].bound for name in sorted({name for each in sessions for name in each["members"]})
        },
        "columns": ["session", "recorded", "node", "shift_us", "share_of_cores_used_by_others"],
        "sessions": [
            [each.session["key"], _utc(first), layout.node_name(each.node), each.shift, each.session["foreign"]]
            for each, first in zip(placed, firsts, strict=True)
        ],
    }
    text = json.dumps({**manifest, "sessions": []}, indent=1)
    return text.removesuffix("[]\n}") + _rows(manifest["sessions"]).rstrip() + "\n}"


def _utc(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1e6, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _rows(rows: Any) -> str:
    return "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"


def compact(value: object) -> str:
    """Write JSON without spaces."""
    return json.dumps(value, separators=(",", ":"))


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Compress *lines* to *path*, written aside and then renamed; no time or name is put into the file."""
    aside = path.with_suffix(".part")
    with (
        aside.open("wb") as raw,
        gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8") as file,
    ):
        file.writelines(lines)
    aside.replace(path)


def write_json(path: Path, value: object) -> None:
    """Compress *value* as JSON to *path*."""
    write_lines(path, [compact(value)])


def read_json(path: Path) -> Any:
    """Read what `write_json` wrote."""
    return json.loads(gzip.decompress(path.read_bytes()))
