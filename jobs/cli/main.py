"""The root of the command line: what is common to all commands, and how a command ends."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from jobs.cli.answering import register as answering
from jobs.cli.bootstrapping import register as bootstrapping
from jobs.cli.brief import shorten
from jobs.cli.collecting import register as collecting
from jobs.cli.common import BAD, DONE, PARTLY, warn
from jobs.cli.disks import register as disks
from jobs.cli.examples import commands, shown
from jobs.cli.exporting import register as exporting
from jobs.cli.hardware import register as hardware
from jobs.cli.hosting import register as hosting
from jobs.cli.learning import register as learning
from jobs.cli.listing import register as listing
from jobs.cli.regions import register as regions
from jobs.cli.serving import register as serving
from jobs.cli.simulating import register as simulating
from pipeline.errors import ColocationError, Temporary

#: The errors of wrong words: click's own class, which newer versions of typer bring along under their own name.
_WRONG_WORDS: tuple[type[BaseException], ...] = tuple(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "UsageError"
)

_NAME = "colocate"
_HELP = ["-h", "--help"]

app = typer.Typer(
    name=_NAME,
    help="Learns which functions disturb which on a node, and advises where a new pod should run.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help needs none of rich, whose import takes longer than all the rest
    context_settings={"help_option_names": _HELP},
)

#: One line a file of commands.
for _register in (
    collecting,
    learning,
    answering,
    listing,
    serving,
    regions,
    hardware,
    disks,
    hosting,
    simulating,
    exporting,
    bootstrapping,
):
    _register(app)
shorten(app)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(version("colocation-advisor"))
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="settings file; default $COLOCATE_CONFIG, else colocate.toml if present"),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="log what is done to standard error")] = False,
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")] = False,
) -> None:
    """Options of every command."""
    context.obj = config
    for _path, command in commands(context.command):
        command.callback = _logged(command.callback, verbose)


def _logged(run: Callable[..., object], verbose: bool) -> Callable[..., object]:
    """Set up the log when a command runs, and not when only its help is asked for: that import takes long."""

    def command(*given: object, **named: object) -> object:
        from jobs import logs

        logs.configure(logs.LEVELS["info" if verbose else "warning"])
        return run(*given, **named)

    return command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. Errors that a person can mend are one line on standard error."""
    try:
        command = shown(typer.main.get_command(app))
        words = list(sys.argv[1:] if arguments is None else arguments)
        code = DONE if _helped(command, words) else command(args=words, prog_name=_NAME, standalone_mode=False)
        sys.stdout.flush()
    except typer.Exit as stop:
        return stop.exit_code
    except _WRONG_WORDS as error:
        said: str = error.format_message()  # type: ignore[attr-defined]
        if type(error).__name__ == "NoArgsIsHelpError":  # the help of a group that was called without a command
            print(said, file=sys.stderr)
        else:
            warn(said.replace("Value error, ", "", 1))
        return BAD
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:
        _silence()
        return DONE
    except OSError as error:  # such as a full disk behind standard output
        _silence()
        warn(f"{error.filename or 'output'}: {error.strerror or error}")
        return BAD
    except Temporary as error:
        warn(str(error))
        return PARTLY
    except ColocationError as error:
        warn(str(error))
        return BAD
    return code if isinstance(code, int) else DONE


def _helped(command: Any, words: Sequence[str]) -> bool:
    """Print the help of the command that *words* lead to, where they ask for that and nothing else; say whether so.

    The ordinary way works out the options of the root first, and imports pydantic for it, which takes longer than all
    the rest.
    """
    if not words or words[-1] not in _HELP:
        return False
    context = typer.Context(command, info_name=_NAME, **command.context_settings)
    for word in words[:-1]:
        command = getattr(command, "commands", {}).get(word)
        if command is None:
            return False
        context = typer.Context(command, parent=context, info_name=word, **command.context_settings)
    typer.echo(command.get_help(context))
    return True


def _silence() -> None:
    """Let nothing that is still to be written fail again when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
