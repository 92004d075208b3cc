"""``colocate demo``: the whole pipeline on the recorded cluster, ending with a rule and its reasons."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from featurestore.store import published
from jobs import collect, config, learn, wire
from jobs.demo import recorded, region, show
from jobs.demo.findings import findings, strongest
from jobs.demo.replay import CLUSTER, moment, replay
from jobs.demo.result import Result
from jobs.manifests import Manifest
from jobs.recommending import answer
from jobs.service import listening


def demo(*, directory: Path | None, serve: bool, port: int | None = None, swap: tuple[str, str] | None = None) -> int:
    """Collect, learn and recommend from the recording, and show it; returns the exit code.

    The files go to *directory*, or to a temporary one. With *serve* the service stays up on them until interrupted,
    on *port* or the usual one. With *swap* two functions' names are exchanged in what is replayed, and the answer
    must follow.
    """
    recording = recorded.load(swap)
    with _directory(directory) as home, _own_settings_only(), replay(recording, home, port=port) as path:
        settings = config.load(path)
        if serve:
            listening.bind(settings.serve).close()  # a port that is taken is told before all else is shown
        show.opening(recording)
        result = run(recording, settings, told=show.step)
        show.step("Playing a consistent region of simulated PEs")
        show.region(region.told())
        show.show(result, kept=path if directory is not None else None)
        if serve:
            from jobs.supervisor.main import serve as keep_up

            number = listening.port(settings.serve)
            where = f"http://127.0.0.1:{number}/" if number else "/ on the port that is logged"
            sys.stdout.write(f"\nThe page: {where}   Beside it /v1/interference and the like, and /metrics.\n")
            sys.stdout.write(f"Serving with the settings in {path}. Interrupt to end.\n")
            sys.stdout.flush()
            return keep_up(settings, path, schedule=False)
    return collect.exit_code(result.outcomes)


def run(
    recording: recorded.Recording, settings: config.Settings, *, told: Callable[[str], None] = lambda said: None
) -> Result:
    """Take the recorded cluster, which *settings* reach, through the whole pipeline; *told* hears what begins."""
    at = moment(recording)
    told("Collecting what the recorded cluster answers")
    outcomes = collect.run(settings, now=lambda: at)
    told("Learning which functions disturb which")
    # What was collected counts from then on, so that learning comes after it.
    learn.run(settings, CLUSTER, now=lambda: at + timedelta(seconds=1))
    snapshot = published.load(settings.store.snapshot)
    policy = wire.policy(settings, CLUSTER, mode="prefer")
    found = findings(snapshot, CLUSTER, recording.measured, policy)
    worst = strongest(found)
    function = worst.evidence.victim if worst is not None else min(recording.manifest["functions"])
    manifest = Manifest("Pod", pod(function)["metadata"]["name"], "openwhisk", (), pod(function))
    answered = answer(manifest, snapshot, policy, cluster=CLUSTER, namespace=None, at=at)
    return Result(recording, outcomes, snapshot, policy, found, answered)


def pod(function: str) -> Mapping[str, Any]:
    """Return a new pod for *function* as OpenWhisk creates it: no label says yet whose it is, but its name does."""
    name = f"wskrecorded-invoker-00-999-{function.replace('/', '-')}"
    resources = {"cpu": "100m", "memory": "256Mi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "openwhisk",
            "labels": {"name": name, "user-action-pod": "true", "invoker": "invoker0", "release": "recorded"},
        },
        "spec": {
            "containers": [
                {"name": "user-action", "image": "recorded/runtime", "resources": {"requests": resources}},
            ]
        },
    }


@contextmanager
def _directory(given: Path | None) -> Iterator[Path]:
    if given is not None:
        given.mkdir(parents=True, exist_ok=True)
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="colocate-demo-") as name:
        yield Path(name)


@contextmanager
def _own_settings_only() -> Iterator[None]:
    """Keep settings of the environment, which win over a file's, out of the demo: it must not touch a real store."""
    kept = {name: os.environ.pop(name) for name in list(os.environ) if name.upper().startswith("COLOCATE_")}
    try:
        yield
    finally:
        os.environ.update(kept)
