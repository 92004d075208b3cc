"""``colocate serve`` as a process that a test runs."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.support.processes import children, end
from tests.support.service import wait_until

PATIENCE = 60.0


class Serving:
    """A running supervisor."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.process = process
        self._log = log
        self.url = ""

    def wait(self) -> "Serving":
        """Wait until it answers; its log says on which port."""
        wait_until(lambda: self.address() is not None, PATIENCE)
        self.url = f"http://127.0.0.1:{self.address()}"
        wait_until(self.ready, PATIENCE)
        return self

    def address(self) -> int | None:
        """The port that it listens on, None before it does."""
        for line in self.log().splitlines():
            if line.startswith("{") and (entry := json.loads(line))["event"] == "listening":
                return int(entry["port"])
        assert self.process.poll() is None, self.log()
        return None

    def ready(self) -> bool:
        try:
            return httpx.get(self.url + "/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def log(self) -> str:
        return self._log.read_text()

    def metric(self, name: str, *, client: httpx.Client | None = None, **labels: str) -> float | None:
        """The value of the first sample of *name* that has *labels*."""
        get = httpx.get if client is None else client.get
        for family in text_string_to_metric_families(get(self.url + "/metrics").text):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    return sample.value
        return None

    def family(self) -> dict[int, str]:
        """Everything that it started, by process id."""
        return children(self.process.pid)


def configured(directory: Path, serve: Mapping[str, Any] | None = None, rest: str = "") -> Path:
    """Write a settings file whose files lie in *directory*."""
    lines = ["[store]"]
    names = {"path": "store.duckdb", "control": "control.sqlite", "snapshot": "snapshot", "spool": "spool"}
    lines += [f"{name} = {str(directory / file)!r}" for name, file in names.items()]
    lines += ["[serve]", *(f"{name} = {value!r}" for name, value in {"port": 0, **(serve or {})}.items())]
    file = directory / "colocate.toml"
    file.write_text("\n".join([*lines, rest]) + "\n")
    return file


@contextmanager
def supervisor(config: Path, *arguments: str) -> Iterator[Serving]:
    """Run ``colocate serve`` and kill what is left of it."""
    log = config.with_suffix(".log")
    with log.open("wb") as stderr:
        command = [sys.executable, "-m", "jobs.cli", "--config", str(config), "serve", *arguments]
        process = subprocess.Popen(command, stderr=stderr, stdout=subprocess.DEVNULL)
    served = Serving(process, log)
    try:
        yield served
    finally:
        end(process)
