"""The commands in the documentation: the lines that begin with ``colocate`` in its blocks of code."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import typer

from jobs.cli.examples import commands
from jobs.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
GENERATED = {"commands.md", "http.md", "metrics.md"}
PAGES = [ROOT / "README.md", *sorted(each for each in (ROOT / "docs").glob("*.md") if each.name not in GENERATED)]
COMMANDS = dict(commands(typer.main.get_command(app)))
#: Options of the root, before a command.
ROOT_OPTIONS = {"-v", "--verbose"}


def documented() -> Iterator[tuple[str, list[str]]]:
    """Yield each command with its page: its words without the leading ``colocate`` and without optional ones."""
    for page in PAGES:
        fenced = False
        for line in page.read_text(encoding="utf-8").splitlines():
            fenced ^= line.lstrip().startswith("```")
            if not (fenced or line.startswith("    ")):
                continue
            for each in line.split(" && "):
                if each.strip().startswith("colocate "):
                    yield page.name, shlex.split(re.sub(r"\[[^]]*\]", "", each), comments=True)[1:]


def command(words: list[str]) -> tuple[str, list[str]]:
    """Return the command of *words* and its arguments."""
    words = [each for each in words if each not in ROOT_OPTIONS]
    text = f"{' '.join(words)} "
    name = max((each for each in COMMANDS if text.startswith(f"{each} ")), key=len, default="")
    return name, words[len(name.split()) :]


#: Each command with its page, as it stands there.
DOCUMENTED = list(documented())
