"""Puts the recorded cluster where the ordinary clients can reach it, and writes ordinary settings that name it."""

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from pathlib import Path

from jobs.demo import openwhisk, standins
from jobs.demo.httpd import serving
from jobs.demo.recorded import Recording

#: The name of the recorded cluster.
CLUSTER = "recorded"

_SETTINGS = """\
# Written by the demo: the recorded cluster, as any other would be configured.
[store]
path = {path}
control = {control}
snapshot = {snapshot}
spool = {spool}
# The recording is of another day: keep it, and answer from it.
retain_usage = "36500d"
retain_activations = "36500d"
retain_placements = "36500d"

[schedule]
first_window = "{hours}h"
# The recorded sessions last seconds: over longer steps they would be taken for idling.
step = "1m"

[advice]
stale_after = "36500d"

[[clusters]]
name = "{cluster}"

[clusters.kubernetes]
kubeconfig = {kubeconfig}

[clusters.prometheus]
url = "{prometheus}"

[clusters.openwhisk]
url = "{openwhisk}"
"""

_NAMESPACE = """
[[clusters.openwhisk.namespaces]]
name = "{name}"
key = "{key}"
"""


def moment(recording: Recording) -> datetime:
    """Return the time at which the demo collects: when the recording's last step has just ended."""
    return recording.end + timedelta(seconds=5)


@contextmanager
def replay(
    recording: Recording, directory: Path, *, prometheus: str | None = None, port: int | None = None
) -> Iterator[Path]:
    """Serve *recording* on loopback and yield the settings file, written to *directory*, that collects from it.

    With *prometheus*, that server is asked instead of the recorded answers; *port* is for the service. The servers go
    with the context.
    """
    keys = {name: f"{name}:recorded" for name in recording.namespaces}
    closing = threading.Event()
    with ExitStack() as servers:
        servers.callback(closing.set)
        cluster = servers.enter_context(serving(standins.kubernetes(recording, closing)))
        if prometheus is None:
            prometheus = servers.enter_context(serving(standins.prometheus(recording.answers)))
        platform = servers.enter_context(openwhisk.serve(recording.activations, keys))
        kubeconfig = directory / "kubeconfig.json"
        kubeconfig.write_text(json.dumps(_kubeconfig(cluster)), encoding="utf-8")
        settings = directory / "colocate.toml"
        text = _SETTINGS.format(
            path=_quoted(directory / "colocation.duckdb"),
            control=_quoted(directory / "colocation.control.sqlite"),
            snapshot=_quoted(directory / "colocation.snapshot"),
            spool=_quoted(directory / "colocation.spool"),
            hours=_hours(recording),
            cluster=CLUSTER,
            kubeconfig=_quoted(kubeconfig),
            prometheus=prometheus,
            openwhisk=platform,
        )
        text += "".join(_NAMESPACE.format(name=name, key=key) for name, key in keys.items())
        if port is not None:
            text += f"\n[serve]\nport = {port}\n"
        settings.write_text(text, encoding="utf-8")
        yield settings


def _hours(recording: Recording) -> int:
    begin = datetime.fromisoformat(recording.manifest["shown"][0])
    return 1 + -(-(recording.end - begin) // timedelta(hours=1))


def _quoted(path: Path) -> str:
    """Write a path as a TOML string: JSON's escapes are among TOML's."""
    return json.dumps(str(path.resolve()))


def _kubeconfig(server: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": CLUSTER,
        "clusters": [{"name": CLUSTER, "cluster": {"server": server}}],
        "users": [{"name": CLUSTER, "user": {}}],
        "contexts": [{"name": CLUSTER, "context": {"cluster": CLUSTER, "user": CLUSTER}}],
    }
