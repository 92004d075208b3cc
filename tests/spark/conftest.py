"""A real Spark cluster of one standalone master and two workers on loopback, for the session.

``COLOCATION_SPARK_TESTS=1`` turns the suite on; it needs pyspark (the extra ``[spark]``) and Java.
"""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import ports

REPOSITORY = Path(__file__).resolve().parents[2]
#: A busy machine starts a virtual machine in tens of seconds.
PATIENCE = 240.0

#: Virtual machines that live for a minute: compiling what they do takes longer than doing it.
SHORT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

SETTINGS = {
    "spark.driver.extraJavaOptions": SHORT,
    "spark.executor.extraJavaOptions": SHORT,
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "1g",
    "spark.locality.wait": "0s",
    # Nothing begins before both workers are there.
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "240s",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    why = _missing()
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.spark)
            if why:
                item.add_marker(pytest.mark.skip(reason=why))


def _missing() -> str:
    if os.environ.get("COLOCATION_SPARK_TESTS") != "1":
        return "the Spark suite runs where COLOCATION_SPARK_TESTS=1"
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed (the extra [spark])"
    return "" if shutil.which("java") else "there is no Java"


@dataclass(frozen=True)
class Cluster:
    """The master's address and its workers' processes."""

    url: str
    workers: tuple[subprocess.Popen[bytes], ...]


def below(pid: int) -> list[int]:
    """The processes that *pid* started, and those that they did."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # gone
            continue
        parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, ahead = [], [pid]
    while ahead:
        own = parents.get(ahead.pop(), [])
        found += own
        ahead += own
    return found


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and all below it at once, as a machine that loses its power does."""
    for pid in [*below(process.pid), process.pid]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()


@pytest.fixture(scope="session", autouse=True)
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with Spark's settings, which this process and all that it starts go by.

    pyspark keeps one virtual machine for all sessions, and that reads them once.
    """
    import pyspark

    place = tmp_path_factory.mktemp("spark")
    (place / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in SETTINGS.items()))
    environment = {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_CONF_DIR": str(place),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_JAVA_OPTS": SHORT,
        "SPARK_LOCAL_DIRS": str(place / "local"),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(REPOSITORY),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        yield place


@pytest.fixture(scope="session")
def cluster(place: Path) -> Iterator[Cluster]:
    port, page = ports.free(), ports.free()
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (place / f"{len(started)}.log").open("wb") as log:
            program = Path(os.environ["SPARK_HOME"]) / "bin" / "spark-class"
            command = [str(program), f"org.apache.spark.deploy.{name}", *arguments]
            started.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=place))
        return started[-1]

    url = f"spark://127.0.0.1:{port}"
    try:
        start("master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page))
        own = [
            start(
                "worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "2g",
                "--work-dir", str(place / f"work-{number}"), url,
            )
            for number in range(2)
        ]  # fmt: skip
        _wait_for_workers(page, len(own))
        yield Cluster(url, tuple(own))
    finally:
        for process in started:
            if process.poll() is None:
                kill(process)


def _wait_for_workers(page: int, number: int) -> None:
    until = time.monotonic() + PATIENCE
    alive = 0
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=10) as answer:
                alive = json.load(answer)["aliveworkers"]
        except OSError:  # not up yet
            alive = 0
        if alive == number:
            return
        time.sleep(0.2)
    raise AssertionError(f"{alive} of {number} workers came")
