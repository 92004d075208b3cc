"""Operators of regions: in a thread, as the command starts them, and forked to be killed; and PEs that answer."""

import asyncio
import json
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
import urllib.error
import urllib.request
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from prometheus_client.parser import text_string_to_metric_families

from jobs import logs
from jobs.demo.pes import Manner, Simulator
from jobs.regions.operator import Operator, Options
from pipeline.clients.kubernetes import KubernetesClient
from tests.support.region_world import ADDRESS, Job, wait_for

T = TypeVar("T")


class Reached:
    """What is asked of an operator over HTTP, wherever it runs."""

    ports: tuple[int, int]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports[0]}"

    def listens(self) -> bool:
        """Whether both interfaces answer."""
        try:
            self.metrics()
            return self.ask("GET", "region/0/state")[0] in (200, 404)
        except OSError:
            return False

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, Any]:
        """One request to the REST interface: status and decoded body."""
        request = urllib.request.Request(f"{self.url}/api/consistentregion/{path}", data=body, method=method)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def metrics(self) -> dict[tuple[str, str], float]:
        """The gauges by name and the value of their label."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[1]}/metrics", timeout=10) as answer:
            families = text_string_to_metric_families(answer.read().decode())
            return {
                (sample.name, sample.labels["ConsistentRegion"]): sample.value
                for family in families
                for sample in family.samples
                if "ConsistentRegion" in sample.labels
            }


class Running(Reached):
    """An operator that runs in a thread of this process."""

    def __init__(self, client: KubernetesClient, job: Job, notify_port: int, identity: str = "one") -> None:
        options = Options(
            job=job.name,
            namespace=job.namespace,
            identity=identity,
            host="127.0.0.1",
            rest_port=0,
            metrics_port=0,
            notify_port=notify_port,
            address=ADDRESS,
            lease_seconds=4.0,
        )
        self.operator = Operator(client, options)
        self.ended: bool | None = None
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.ended = self.operator.run()
        except Exception as error:
            self.error = error

    def listening(self) -> "Running":
        """Wait until it acts."""
        wait_for(lambda: self.operator.listening.is_set() or self.error is not None, what="listening")
        assert self.error is None, self.error
        self.ports = self.operator.ports
        return self

    def stop(self) -> None:
        self.operator.stop()
        self._thread.join(20.0)
        assert not self._thread.is_alive()


class Served(Reached):
    """An operator that is a process of its own, as the command starts it; it can be killed and started again."""

    def __init__(self, kubeconfig: Path, job: Job, notify_port: int, ports: tuple[int, int], log: Path) -> None:
        self.ports, self._log = ports, log
        self._command = [
            *(sys.executable, "-m", "jobs.cli", "regions", "serve", "--job", job.name, "--host", "127.0.0.1"),
            *("--port", str(ports[0]), "--metrics-port", str(ports[1]), "--notify-port", str(notify_port)),
            *("--pe-address", ADDRESS, "--identity", "the-pod"),
        ]
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, env=self._environment, stderr=log, cwd=self._log.parent)

    def kill(self) -> None:
        """End it without a chance to say good-bye."""
        self.process.kill()
        self.process.wait(10)

    def stop(self) -> int:
        """Ask it to end; return its exit code."""
        self.process.terminate()
        return self.process.wait(20)


#: Bytes of an operator's log that are shown.
_TAIL = 20_000


def _stacks(*_: object) -> None:
    """Write where all threads are; in Python, since faulthandler's look at threads that run can end the process."""
    for number, frame in sys._current_frames().items():
        sys.stderr.write(f"thread {number}:\n{''.join(traceback.format_stack(frame))}\n")
    sys.stderr.flush()


def _serve(kubeconfig: Path, options: Options, log: Path, level: int) -> None:
    with log.open("ab") as file:
        os.dup2(file.fileno(), sys.stderr.fileno())
    signal.signal(signal.SIGUSR1, _stacks)
    logs.configure(level)
    client = KubernetesClient(kubeconfig=kubeconfig, timeout=timedelta(seconds=min(4.0, options.lease_seconds / 4)))
    Operator(client, options).run()


class Forked(Reached):
    """An operator in a process that is forked from one that has everything loaded: quick to start again.

    It writes a log beside *kubeconfig*, from *level* on; that of the one before it is kept as well.
    """

    _context = multiprocessing.get_context("forkserver")

    def __init__(
        self, kubeconfig: Path, job: Job, notify_port: int, ports: tuple[int, int], level: int = logging.WARNING
    ) -> None:
        self._context.set_forkserver_preload(["tests.support.region_operators"])
        self.ports, self._kubeconfig, self._level = ports, kubeconfig, level
        self.log = kubeconfig.with_name("operator.log")
        self.log_before = kubeconfig.with_name("operator.before.log")
        self._options = Options(
            job=job.name,
            namespace=job.namespace,
            identity="the-pod",
            host="127.0.0.1",
            rest_port=ports[0],
            metrics_port=ports[1],
            notify_port=notify_port,
            address=ADDRESS,
        )
        self.start()

    def start(self) -> None:
        if self.log.exists():
            self.log.replace(self.log_before)
        arguments = (self._kubeconfig, self._options, self.log, self._level)
        self.process = self._context.Process(target=_serve, args=arguments, daemon=True)
        self.process.start()

    def kill(self) -> None:
        """End it without a chance to say good-bye."""
        self.process.kill()
        self.process.join(10.0)

    def says(self) -> str:
        """What explains a failure: how it ended or where its threads are, and the last lines of both logs."""
        if self.process.is_alive() and self.process.pid is not None:
            os.kill(self.process.pid, signal.SIGUSR1)  # the stacks go to the log
            time.sleep(1.0)
            found = [f"operator runs as process {self.process.pid}"]
        else:
            found = [f"operator ended by itself with {self.process.exitcode}"]
        for name, path in (("log of the one before", self.log_before), ("log", self.log)):
            text = path.read_bytes()[-_TAIL:].decode(errors="replace") if path.exists() else "none"
            found.append(f"--- {name}\n{text}")
        return "\n".join(found)

    def cpu(self) -> float:
        """Seconds of CPU time that it used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> int:
        """Bytes that are resident."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Loop:
    """An event loop in a thread, for simulated PEs."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30.0)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10.0)
        self._loop.close()


@contextmanager
def simulated(job: Job, running: Reached, notify_port: int, manner: Manner) -> Iterator[tuple[Simulator, Loop]]:
    """The PEs of *job* against a running operator."""
    loop = Loop()
    simulator = Simulator(
        job.pes,
        operator=("127.0.0.1", running.ports[0]),
        address=lambda pe: ADDRESS.format(high=pe // 250, low=pe % 250 + 1),
        port=notify_port,
        manner=manner,
    )
    try:
        loop.do(simulator.start())
        yield simulator, loop
    finally:
        loop.do(simulator.stop())
        loop.close()
