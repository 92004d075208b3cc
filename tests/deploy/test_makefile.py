"""What ``make`` says while it works: whoever runs it the first time waits for a minute."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest


@pytest.fixture
def checkout(repository: Path, tmp_path: Path) -> Path:
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(repository / name, tmp_path / name)
    return tmp_path


def steps(checkout: Path, target: str) -> list[str]:
    """The commands that would run, in order."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    listed = subprocess.run(
        ["make", "--dry-run", target], cwd=checkout, env=outside, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [line for line in listed if line]


def test_the_first_demo_says_that_it_sets_up_and_for_how_long_before_it_does(checkout: Path) -> None:
    commands = steps(checkout, "demo")
    assert commands[0].startswith('echo "Setting up .venv')
    assert "a minute or two" in commands[0]
    assert "-m venv" in commands[1]
    started = next(number for number, line in enumerate(commands) if line.startswith(".venv/bin/colocate demo"))
    assert commands[started - 1].startswith('echo "Starting the demo')


def test_a_later_demo_does_not_set_up(checkout: Path) -> None:
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / ".runs").touch()
    commands = steps(checkout, "demo")
    assert [line.split()[0] for line in commands] == ["echo", ".venv/bin/colocate"]
