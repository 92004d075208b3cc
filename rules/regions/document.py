"""The transition table as Markdown, made from the table that runs."""

import re

from rules.regions.machine import TABLE, Row
from rules.regions.region import State

_HEAD = "| state | event | when | what is done | told to the PEs | timer | next |"


def _event(row: Row) -> str:
    """The event's name; what PEs and timers give is named as on the wire, the rest in words."""
    name = row.event.__name__
    if name.startswith(("Became", "Operator")):
        return re.sub(r"(?<!^)(?=[A-Z])", " ", name).lower()
    return name


def _short(state: State) -> str:
    return "MAX" if state is State.MAXIMUM_RESET_ATTEMPTS_REACHED else state.value


def markdown() -> str:
    """Return the whole table, one line a row; the first row that holds counts, anything else is ignored."""
    lines = [_HEAD, "|---|---|---|---|---|---|---|"]
    for row in TABLE:
        cells = (
            ", ".join(map(_short, row.states)),
            _event(row),
            row.guard.words,
            row.action.words,
            " or ".join(f'{kind} `"{message}"`' for kind, message in row.action.tells) or "-",
            ", ".join(kind.value for kind in row.action.starts) or "-",
            " or ".join(map(_short, row.next)) or "same",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
