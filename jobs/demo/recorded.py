"""The recording that is shipped, read; with two functions' names exchanged where that is asked for."""

import gzip
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pipeline.errors import BadInput

DIRECTORY = Path(__file__).parent / "recording"

#: The file of the answers that a Prometheus gave.
ANSWERS = "prometheus_answers.json.gz"

#: One request to Prometheus: its query, since and until in epoch seconds, step in seconds.
Request = tuple[str, float, float, float]


@dataclass(frozen=True, slots=True)
class Recording:
    """What the three sources say: wire objects as they were recorded, and the truth measured beside them.

    *answers* maps a Prometheus request to the body that answered it; *end* is the recording's last moment.
    """

    manifest: Mapping[str, Any]
    nodes: list[dict[str, Any]]
    pods: list[dict[str, Any]]
    activations: list[dict[str, Any]]
    answers: Mapping[Request, str]
    measured: list[dict[str, Any]]
    end: datetime

    @property
    def namespaces(self) -> list[str]:
        """The OpenWhisk namespaces of the recorded functions."""
        return sorted({name.split("/")[0] for name in self.manifest["functions"]})


def load(swap: tuple[str, str] | None = None, directory: Path = DIRECTORY, *, answers: bool = True) -> Recording:
    """Read the recording in *directory*, with or without the *answers* of Prometheus.

    Raises `BadInput` where a file or a function of *swap* is missing.
    """
    manifest = json.loads(_read(directory / "manifest.json"))
    exchange = _exchange(swap, list(manifest["functions"]))
    objects = json.loads(_read(directory / "objects.json.gz"))
    renamed = {pod["metadata"]["name"]: _pod_name(pod, exchange) for pod in objects["pods"]}
    answered = json.loads(_read(directory / ANSWERS)) if answers else []
    records = _read(directory / "activations.ndjson.gz").splitlines()
    measured = json.loads(_read(directory / "measured.json"))
    return Recording(
        manifest={**manifest, "functions": {exchange.get(n, n): v for n, v in manifest["functions"].items()}},
        nodes=objects["nodes"],
        pods=[_pod(pod, exchange, renamed) for pod in objects["pods"]],
        activations=[_activation(json.loads(record), exchange) for record in records],
        answers={(a["query"], a["start"], a["end"], a["step"]): _rename(a["body"], renamed) for a in answered},
        measured=[
            {**row, **{role: exchange.get(row[role], row[role]) for role in ("victim", "aggressor")}}
            for row in measured
        ],
        end=datetime.fromisoformat(manifest["shown"][1]),
    )


def _read(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode()


def _exchange(swap: tuple[str, str] | None, functions: list[str]) -> dict[str, str]:
    if swap is None:
        return {}
    for name in swap:
        if name not in functions:
            raise BadInput(f"--swap: {name!r} is none of {', '.join(sorted(functions))}")
    return {swap[0]: swap[1], swap[1]: swap[0]}


def _function(pod: Mapping[str, Any]) -> str:
    labels = pod["metadata"]["labels"]
    return f"{labels['openwhisk/namespace']}/{labels['openwhisk/action']}"


def _pod_name(pod: Mapping[str, Any], exchange: Mapping[str, str]) -> str:
    name, function = str(pod["metadata"]["name"]), _function(pod)
    if function not in exchange:
        return name
    return name.removesuffix(function.replace("/", "-")) + exchange[function].replace("/", "-")


def _pod(pod: dict[str, Any], exchange: Mapping[str, str], renamed: Mapping[str, str]) -> dict[str, Any]:
    function = _function(pod)
    if function not in exchange:
        return pod
    namespace, action = exchange[function].split("/")
    name = renamed[pod["metadata"]["name"]]
    named = {"name": name, "openwhisk/namespace": namespace, "openwhisk/action": action}
    metadata = {**pod["metadata"], "name": name, "labels": {**pod["metadata"]["labels"], **named}}
    return {**pod, "metadata": metadata}


def _activation(record: dict[str, Any], exchange: Mapping[str, str]) -> dict[str, Any]:
    function = f"{record['namespace']}/{record['name']}"
    if function not in exchange:
        return record
    namespace, action = exchange[function].split("/")
    annotations = [
        {**each, "value": exchange[function]} if each["key"] == "path" else each for each in record["annotations"]
    ]
    return {**record, "namespace": namespace, "subject": namespace, "name": action, "annotations": annotations}


def _rename(body: str, renamed: Mapping[str, str]) -> str:
    """Exchange pod names in an answer."""
    return re.sub(r'"(wskrecorded-[a-z0-9-]+)"', lambda found: f'"{renamed.get(found[1], found[1])}"', body)
