"""Import, learn and interference as one line of shell: a simulated history in, the pairs that interfere out."""

import csv
import io
import subprocess
import sys

import numpy as np

from benchmarks import simulator
from benchmarks.simulated import name, write

SETTING = simulator.Setting(functions=10, nodes=3, activations=6_000, hosts=2, renewed=0.0, throttled=0.0)


def test_import_learn_and_interference_in_one_line(tmp_path):
    world = simulator.world(5, SETTING)
    with (tmp_path / "history.csv").open("w", encoding="utf-8") as out:
        count = write(world, out)
    colocate = f"{sys.executable} -m jobs.cli"
    line = (
        f"{colocate} import activations history.csv --cluster sim && {colocate} learn --cluster sim"
        f" && {colocate} interference -o csv > pairs.csv"
    )
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # Nothing but how far learning is, which is told where it takes long: its loops may have to be compiled first.
    assert all(line.startswith("learning sim: ") for line in done.stderr.splitlines()), done.stderr
    assert str(count) in done.stdout
    rows = list(csv.DictReader(io.StringIO((tmp_path / "pairs.csv").read_text(encoding="utf-8"))))
    truth = {
        (name(a), name(b)): bool(world.interferes[a, b])
        for a in range(SETTING.functions)
        for b in range(SETTING.functions)
    }
    often = [row for row in rows if row["status"] == "observed" and float(row["effective_overlaps"]) >= 100]
    assert len(often) >= 10
    said = np.array([float(row["probability"]) for row in often])
    true = np.array([truth[row["victim"], row["aggressor"]] for row in often])
    assert true.any()
    assert not true.all()
    # Each pair that interferes is likelier told than any that does not, nearly always (Mann-Whitney).
    above = (said[true][:, None] > said[~true]).mean()
    assert above >= 0.95
