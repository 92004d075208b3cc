"""The reference of commands, from the commands themselves: ``python -m jobs.cli.described`` prints its page."""

import inspect
import sys
from collections.abc import Iterator
from typing import Any

import typer

from jobs.cli.examples import EXAMPLES, commands
from jobs.cli.fields import FIELDS, UNTOLD
from jobs.cli.main import app

_HEAD = """\
# Commands

Generated from the code by `python -m jobs.cli.described`; every command prints its part with `--help`.

Before a command stand `-c, --config FILE` (settings; default `$COLOCATE_CONFIG`, else `colocate.toml` if present) and
`-v, --verbose` (log to standard error). Completion for your shell: `colocate --install-completion`, and
`colocate --show-completion` prints what that would write.

`-o json` is stable: fields may be added, none is renamed, moved or taken away without a new major version. Lists are
arrays of one object a row, whose fields are the columns of `-o csv`; what is unknown or not finite is null; times are
RFC 3339 in UTC; ratios are fractions. Standard output carries the answer alone, warnings and progress are on standard
error. Exit codes: 0 done; 1 the answer is no; 2 bad input or configuration; 3 some of the work failed, the rest was
done.
"""


def markdown() -> str:
    """Return the whole page."""
    root = typer.main.get_command(app)
    return "".join([_HEAD, *(part for name, each in sorted(commands(root)) for part in _told(name, each))])


def _told(name: str, command: Any) -> Iterator[str]:
    context = typer.Context(command, info_name=f"colocate {name}")
    usage = " ".join(["colocate", name, *command.collect_usage_pieces(context)])
    yield f"\n## colocate {name}\n\n    {usage}\n\n{inspect.cleandoc(command.help or '')}\n\n"
    yield from (f"    colocate {line}\n" for line in EXAMPLES.get(name, ()))
    told = [each.get_help_record(context) for each in command.params if each.name != "help"]
    yield from (f"\n{line}\n" for line in _answers(name))
    if told:
        yield "\n| | meaning |\n|---|---|\n"
        yield from (f"| `{_cell(words)}` | {_cell(meaning)} |\n" for words, meaning in filter(None, told))


def _answers(name: str) -> Iterator[str]:
    """Say what the answer of a command holds as JSON, a paragraph for each form that it has."""
    if name in UNTOLD:
        yield f"No `-o`: {UNTOLD[name]}."
        return
    for option, fields in FIELDS[name].items():
        where = f" of `{option}`" if option else ""
        yield fields if isinstance(fields, str) else f"Fields{where}: {', '.join(f'`{each}`' for each in fields)}."


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(markdown())
