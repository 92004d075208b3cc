"""Directories for pages: in nobody's way while they are used, and gone after whatever end their process came to."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jobs import pages
from pipeline.errors import BadInput

_KILLED = """
import os, pathlib, signal, sys
from jobs import pages
with pages.directory(pathlib.Path(sys.argv[1]), "usage") as place:
    (place / "page.json").write_text("[]")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_directory_goes_with_its_block_also_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), pages.directory(tmp_path, "usage") as place:
        (place / "page.json").write_text("[]")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_collection_left_is_cleared_by_the_next_and_what_is_in_use_is_not(tmp_path: Path) -> None:
    decisions = tmp_path / "decisions-1.jsonl"
    decisions.write_text("{}")
    killed = subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    [left] = tmp_path.glob("pages-*")
    assert (left / "page.json").exists()
    with pages.directory(tmp_path, "usage") as first, pages.directory(tmp_path, "usage") as second:
        pages.prepare(tmp_path)
        assert {path for path in tmp_path.iterdir() if path.is_dir()} == {first, second}
        (first / "page.json").write_text("[]")
    assert list(tmp_path.iterdir()) == [decisions]


def test_a_spool_that_is_a_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "spool"
    file.write_text("")
    with pytest.raises(BadInput, match=f"store.spool: {file}"):
        pages.prepare(file)
