"""Tables for people: as wide as the terminal, and where its columns would not be legible, a block of lines a row.

What goes to a file or another program is not wrapped.
"""

import io
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import UTC, datetime

from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from jobs.cli.plain import line, plain

#: Numbers nearer to nothing are shown as less than this.
_LEAST = 0.0001
#: Characters below which folded text is no longer read.
_LEGIBLE = 10
#: Lines and spaces that each column costs, and one line more.
_BETWEEN = 3
_UNWRAPPED = 1_000_000


def table(
    columns: Sequence[str], records: Sequence[Mapping[str, object]], title: str = "", width: int | None = None
) -> str:
    """Render *records* in *width* characters; default: the terminal's, and no limit where there is none.

    Empty columns are left out. Where all others would be too wide, what is the same in every row stands under the
    table; where even that is too wide, each row is a block of lines.
    """
    if not records:
        return f"{title}: none\n" if title else "none\n"
    width = width or (shutil.get_terminal_size().columns if sys.stdout.isatty() else _UNWRAPPED)
    cells = {column: [_cell(record.get(column)) for record in records] for column in columns}
    shown = {column: held for column, held in cells.items() if any(cell not in ("", "-") for cell in held)}
    numeric = {column for column in shown if any(isinstance(record.get(column), int | float) for record in records)}
    whole = _grid(title, shown, numeric)
    if Console(width=_UNWRAPPED).measure(whole).maximum <= width:
        return _rendered(whole, width)
    same = [column for column, held in shown.items() if len(set(held)) == 1] if len(records) > 1 else []
    kept = {column: held for column, held in shown.items() if column not in same}
    least = {column: min(max(map(len, held)), _LEGIBLE) for column, held in kept.items()}
    if sum(least.values()) + _BETWEEN * len(least) + 1 > width:
        return "\n".join([*([title] if title else []), *_blocks(shown, width)])
    everywhere = "".join(f"{each}\n" for column in same for each in _said(f"{column}: ", shown[column][0], width))
    return f"{_rendered(_grid(title, kept, numeric, least, width), width)}{everywhere}"


def _grid(
    title: str,
    cells: Mapping[str, Sequence[str]],
    numeric: Set[str],
    least: Mapping[str, int] | None = None,
    width: int = 0,
) -> Table:
    """Lay out *cells*; in *width* no column is narrower than *least*, or than its cells where only headings fold."""
    if least is not None:
        longest = {column: max(map(len, held)) for column, held in cells.items()}
        least = longest if sum(longest.values()) + _BETWEEN * len(longest) < width else least
    grid = Table(title=Text(title) if title else None, title_justify="left")
    for column in cells:
        justify: JustifyMethod = "right" if column in numeric else "left"
        grid.add_column(column, justify=justify, overflow="fold", min_width=least[column] if least else None)
    for row in zip(*cells.values(), strict=True):
        grid.add_row(*map(Text, row))
    return grid


def _blocks(cells: Mapping[str, Sequence[str]], width: int) -> Iterator[str]:
    """Yield a block of lines for each row, a name and its value a line; empty values are left out."""
    indent = max(map(len, cells)) + 2
    for row in zip(*cells.values(), strict=True):
        told = ((name, value) for name, value in zip(cells, row, strict=True) if value not in ("", "-"))
        yield "".join(f"{each}\n" for name, value in told for each in _said(f"{name:<{indent}}", value, width))


def _said(head: str, value: str, width: int) -> list[str]:
    indent = " " * min(len(head), width // 2)
    return textwrap.wrap(value, width, initial_indent=head, subsequent_indent=indent, break_on_hyphens=False) or [
        head
    ]


def _rendered(grid: Table, width: int) -> str:
    """Render to text: with colours only where standard output is a terminal."""
    text = io.StringIO()
    Console(file=text, width=width, force_terminal=sys.stdout.isatty()).print(grid)
    return text.getvalue()


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"
    value = plain(value)
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        if 0 < abs(value) < _LEAST:
            return f"<{_LEAST:g}" if value > 0 else f">-{_LEAST:g}"
        return f"{value:.4g}" if abs(value) < 9999.5 else f"{value:,.0f}"
    return line(str(value))
