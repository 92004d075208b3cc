"""A real Prometheus on an ephemeral loopback port, with a history given in OpenMetrics and pages to scrape."""

import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support import ports
from tests.support.processes import end

PROGRAMS = ("prometheus", "promtool")
MISSING = [program for program in PROGRAMS if shutil.which(program) is None]

#: Marks a test that starts a real Prometheus; skipped, with the reason, where it is not installed.
needs_prometheus = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")


@contextmanager
def start_prometheus(
    history: Path | None = None, scrape: Sequence[str] = (), *, interval: str = "1s"
) -> Iterator[str]:
    """Run Prometheus over *history* (an OpenMetrics file that ends in ``# EOF``) and yield its URL.

    Each URL of *scrape* becomes one target, scraped every *interval*, its job named by its path. The server and its
    directory go when the context is left.
    """
    with tempfile.TemporaryDirectory(prefix="prometheus-") as name:
        home = Path(name)
        data = home / "data"
        data.mkdir()
        if history is not None:
            _run("promtool", "tsdb", "create-blocks-from", "openmetrics", str(history), str(data))
        (home / "prometheus.yml").write_text(_config(scrape, interval), encoding="utf-8")
        for attempt in range(3):  # another process may take the port between its choice and its use
            port = ports.free()
            url = f"http://127.0.0.1:{port}"
            log = (home / f"log{attempt}").open("w+b")
            server = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={home / 'prometheus.yml'}",
                    f"--storage.tsdb.path={data}",
                    "--storage.tsdb.retention.time=100y",
                    f"--web.listen-address=127.0.0.1:{port}",
                    "--log.level=warn",
                ],
                stdout=log,
                stderr=log,
            )
            try:
                if _ready(server, url):
                    yield url
                    return
            finally:
                end(server)
                log.close()
        raise RuntimeError((home / f"log{attempt}").read_text(errors="replace")[-2000:])


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:4])}: {done.stdout[-500:]}{done.stderr[-1500:]}")


def _config(scrape: Sequence[str], interval: str) -> str:
    lines = ["global:", f"  scrape_interval: {interval}", f"  scrape_timeout: {interval}", "scrape_configs:"]
    for number, url in enumerate(scrape):
        parts = urlsplit(url)
        lines += [
            f"  - job_name: '{number}{parts.path}'",
            f"    metrics_path: '{parts.path or '/metrics'}'",
            "    static_configs:",
            f"      - targets: ['{parts.netloc}']",
        ]
    if not scrape:
        lines[-1] += " []"
    return "\n".join(lines) + "\n"


def _ready(server: "subprocess.Popen[bytes]", url: str) -> bool:
    """Wait until the server answers; False where it ended instead."""
    for _ in range(600):
        if server.poll() is not None:
            return False
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=1):
                return True
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    return False
