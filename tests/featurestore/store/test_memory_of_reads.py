"""What DuckDB needed to read goes back to the system with the transaction, in a process of its own."""

import subprocess
import sys

import pytest

from featurestore.store.duck import Store

READER = """
import sys
from pathlib import Path
from featurestore.store.duck import Store

def megabytes(name):
    return next(int(line.split()[1]) / 1024 for line in open("/proc/self/status") if line.startswith(name))

def told(con):
    return con.execute("SELECT count(DISTINCT value) FROM numbers").fetchall()[0][0]

store = Store(Path(sys.argv[1]))
with store.session() as own:
    own.read(lambda con: con.execute("SELECT 1").fetchall())
    before = megabytes("VmRSS")
    count = own.read(told)
    print(count, megabytes("VmHWM") - before, megabytes("VmRSS") - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="resident memory is read from /proc")
def test_what_a_scan_needed_is_given_back(tmp_path):
    """Three million numbers are told apart: over a hundred MB while they are, less than a third of it afterwards."""
    store = Store(tmp_path / "history.duckdb")
    store.write(lambda con: con.execute("CREATE TABLE numbers AS SELECT range * 7 AS value FROM range(3000000)"))
    ran = subprocess.run([sys.executable, "-c", READER, str(store.path)], capture_output=True, text=True, check=True)
    count, needed, left = map(float, ran.stdout.splitlines()[-1].split())  # a busy machine is told of before
    assert count == 3_000_000
    assert needed > 100
    assert left < needed / 3
