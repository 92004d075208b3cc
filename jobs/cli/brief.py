"""What a command does, in the half line that the list of commands has for it."""

import inspect
import re
from collections.abc import Callable

import typer

#: Characters beside the longest name of a command in 80 columns.
_ROOM = 62


def shorten(app: typer.Typer) -> None:
    """Give every command of *app* and of its groups a brief of its docstring's first sentence."""
    for command in app.registered_commands:
        if command.callback is not None:
            command.short_help = brief(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            shorten(group.typer_instance)


def brief(command: Callable[..., object]) -> str:
    """Return what *command* says first, up to where it goes into detail; of a longer clause the parts that fit."""
    said = " ".join(inspect.cleandoc(command.__doc__ or "").split("\n\n")[0].split())
    clause = re.split(r"[:;.] | \(|\.$", said)[0]
    parts = clause.split(", ")
    while len(", ".join(parts)) > _ROOM and len(parts) > 1:
        parts.pop()
    return ", ".join(parts)
