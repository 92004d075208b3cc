"""The connection to a Spark cluster: one session, set up for kernels that compute by themselves."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pipeline.errors import BadInput, Permanent

#: A task is one thread of one process: libraries that start more only wait for each other.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Names of nodes and clusters are texts, whatever they look like.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # A group of few bytes may be hours of work.
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    # What victims say comes to the driver as a whole.
    "spark.driver.maxResultSize": "0",
    **{f"spark.executorEnv.{name}": "1" for name in _THREADS},
}


@contextmanager
def session(master: str) -> Iterator[Any]:
    """Yield a session at *master*, of which other settings come from Spark's own configuration.

    Raises `BadInput` where pyspark is not installed, `Permanent` where the master cannot be reached.
    """
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        raise BadInput("--engine spark: pyspark is not installed; pip install 'colocation-advisor[spark]'") from None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("colocate learn")
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
    except Exception as error:  # py4j has errors of its own for a JVM that does not start or reach its master
        raise Permanent("spark", "unreachable", f"--master {master}: {_line(error)}") from error
    try:
        spark.sparkContext.setLogLevel("ERROR")
        spark.conf.set("spark.sql.shuffle.partitions", str(3 * spark.sparkContext.defaultParallelism))
        yield spark
    except PySparkException as error:
        raise Permanent("spark", "failed", f"--master {master}: {_line(error)}") from error
    finally:
        spark.stop()


def _line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
