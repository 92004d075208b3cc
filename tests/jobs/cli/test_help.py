"""``--help``: at once, with an example of every command that its own parser takes; and completion."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator

import pytest
import typer

from jobs.cli import main
from jobs.cli.examples import EXAMPLES, commands
from jobs.cli.main import app

COMMANDS = dict(commands(typer.main.get_command(app)))

#: What takes long to import, and no help needs.
HEAVY = {
    "jobs.config",
    "duckdb",
    "pandas",
    "pydantic",
    "pyarrow",
    "numpy",
    "scipy",
    "sklearn",
    "numba",
    "kubernetes",
    "prometheus_client",
    "rich",
    "structlog",
    "uvicorn",
    "yaml",
}


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("COLUMNS", "80")
    yield


def test_help_of_every_command_imports_nothing_that_takes_long() -> None:
    program = (
        "import sys, io\nfrom contextlib import redirect_stdout\nfrom jobs.cli import main\n"
        f"for words in {[*COMMANDS, '']!r}:\n"
        "    with redirect_stdout(io.StringIO()):\n"
        "        assert main([*words.split(), '--help']) == 0, words\n"
        f"print(sorted({HEAVY!r} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


@pytest.mark.parametrize("words", ["", "regions", "hpa", "disks", "hosts", "export"])
def test_no_command_is_cut_off_in_the_list(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words.split(), "--help"]) == 0
    said = capsys.readouterr().out.split("Commands:")[1]
    assert "..." not in said
    if not words:
        assert "  learn         Learn profiles and interference from the history\n" in said


@pytest.mark.parametrize("name", COMMANDS)
def test_help_ends_with_the_examples_of_the_command(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*name.split(), "--help"]) == 0
    said = capsys.readouterr().out.split("Examples:")[1]
    assert [each.strip() for each in said.splitlines() if each.strip()] == [
        f"colocate {each}" for each in EXAMPLES[name]
    ]


@pytest.mark.parametrize("words", ["", "learn", "disks", "disks plan"])
def test_help_is_what_the_ordinary_way_prints(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--verbose", *words.split(), "--help"]) == 0
    ordinary = capsys.readouterr().out
    assert main([*words.split(), "-h"]) == 0
    assert capsys.readouterr().out == ordinary


def test_help_of_no_command_is_a_wrong_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["disk", "--help"]) == 2
    assert "disk" in capsys.readouterr().err


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line in lines])
def test_an_example_is_what_its_command_takes(line: str) -> None:
    words = shlex.split(line)
    name = max((each for each in COMMANDS if f"{line} ".startswith(f"{each} ")), key=len)
    assert line in EXAMPLES[name]
    COMMANDS[name].make_context(name, words[len(name.split()) :])


def test_there_are_examples_of_commands_alone() -> None:
    assert set(EXAMPLES) == set(COMMANDS)


def test_a_shell_completes_commands_and_options() -> None:
    def completed(words: str) -> list[str]:
        asked = {"_COLOCATE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        command = [sys.executable, "-m", "jobs.cli"]
        done = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert completed("colocate inter") == ["interference"]
    assert completed("colocate disks plan --sy") == ["--symmetric"]


@pytest.mark.parametrize("words", ["", "disks", "export"])
def test_a_group_without_a_command_shows_its_help(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words.split(), "--help"]) == 0
    helped = capsys.readouterr().out
    assert main(words.split()) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.strip() == helped.strip()


def test_a_value_that_is_none_of_those_there_are_is_said_with_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["interference", "--status", "foo"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("colocate: Invalid value for '--status': 'foo' is not one of 'observed', 'predicted', ")
