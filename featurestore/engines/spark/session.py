"""The connection to a Spark cluster: one session, set up for kernels that compute by themselves."""

import os
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pipeline.errors import BadInput, Permanent

#: A task is one thread of one process: libraries that start more only wait for each other.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.ui.showConsoleProgress": "false",
    # Names of nodes and clusters are texts, whatever they look like.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # A group of few bytes may be hours of work.
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    # What victims say comes to the driver as a whole.
    "spark.driver.maxResultSize": "0",
    **{f"spark.executorEnv.{name}": "1" for name in _THREADS},
}


#: Seconds in which a master takes a connection.
_DEADLINE = 10.0
#: Where a standalone master listens unless told otherwise.
_PORT = 7077


@contextmanager
def session(master: str) -> Iterator[Any]:
    """Yield a session at *master*, of which other settings come from Spark's own configuration.

    Raises `BadInput` where pyspark or Java is not installed, `Permanent` where the master cannot be reached or what
    is done in the session fails.
    """
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        raise BadInput("--engine spark: pyspark is not installed; see docs/spark.md") from None
    _find_java()
    _reach(master)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("colocate learn")
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
    except Exception as error:  # py4j has errors of its own for a JVM that does not start or reach its master
        raise Permanent("spark", "unreachable", f"--master {master}: {line(str(error))}") from error
    try:
        cores = spark.sparkContext.defaultParallelism
        spark.conf.set("spark.sql.shuffle.partitions", str(3 * cores))
        # Directories are listed by so many tasks, and not by one each: there is one for each day and node.
        spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", str(8 * cores))
        yield spark
    except (PySparkException, Py4JError) as error:
        raise Permanent("spark", "failed", f"--master {master}: {line(str(error))}") from error
    finally:
        with suppress(Py4JError, OSError):  # of a virtual machine that is gone
            spark.stop()


def line(said: str) -> str:
    """Return what of an error of Spark, a text of many lines, says what went wrong.

    That is the last line of a worker's traceback, or else the first cause in the virtual machine that is not only the
    head of another.
    """
    lines = [each.strip() for each in said.split("\nJVM stacktrace:")[0].splitlines() if each.strip()]
    _, _, traceback = said.partition("Traceback (most recent call last):\n")
    for each in traceback.splitlines():
        if each and not each[0].isspace():
            return each
    causes = [
        each.removeprefix(": ").removeprefix("Caused by: ")
        for each in lines
        if each.startswith((": ", "Caused by: ")) and not each.endswith(":")
    ]
    return (causes or lines or [""])[0]


def _find_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if not (home and (Path(home) / "bin" / "java").exists()) and shutil.which("java") is None:
        raise BadInput("--engine spark: there is no Java: neither in JAVA_HOME nor in PATH; Spark needs 17 or newer")


def _reach(master: str) -> None:
    """Find that one of a standalone cluster's masters answers; Spark would try for minutes."""
    if not master.startswith("spark://"):
        return
    why = ""
    for place in master.removeprefix("spark://").split(","):
        try:
            address = urlsplit(f"//{place}")
            with socket.create_connection((address.hostname or "", address.port or _PORT), _DEADLINE):
                return
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
    raise Permanent("spark", "unreachable", f"--master {master}: no master answers: {why}")
