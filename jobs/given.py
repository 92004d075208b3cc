"""One CSV or Parquet file as it came: its columns, where in it a row stands, and the first row that is wrong."""

import csv
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from pipeline.errors import BadInput

Bools = npt.NDArray[np.bool_]
T = TypeVar("T")


class BadRow(Exception):
    """What is wrong with the *row* of a number."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(why)
        self.row = row


@dataclass(frozen=True, slots=True)
class Given:
    """A file's columns as they came; *place* says in words where in it the row of a number is.

    *broken* is the first row that is none of these columns.
    """

    file: Path
    table: pa.Table
    place: Callable[[int], str]
    broken: BadRow | None = None

    def judged(self, convert: Callable[["Given"], T]) -> T:
        """Return what *convert* makes of this, which looks at one column after the other.

        Raises `BadInput` for the first row that is wrong in any column: those before a wrong one are looked at again.
        """
        worst = self.broken
        if worst is None:
            try:
                return convert(self)
            except BadRow as bad:
                worst = bad
        while worst.row:
            try:
                convert(replace(self, table=self.table.slice(0, worst.row)))
            except BadRow as bad:
                worst = bad
            else:
                break
        raise BadInput(f"{self.file}, {self.place(worst.row)}: {worst}") from None

    def fail(self, column: str, bad: Bools, why: str) -> None:
        """Raise `BadRow` for the first of the *bad* rows, if there is one."""
        where = np.flatnonzero(bad)
        if len(where):
            row = int(where[0])
            value = _shown(self.table[column][row]) if column in self.table.column_names else None
            shown = "" if value is None else f" {value[:60]!r}"
            raise BadRow(row, f"{column}{shown}: {why}")

    def column(self, name: str) -> pa.ChunkedArray | None:
        """Return a column, empty texts as nulls; None where the file lacks it or it is all null."""
        if name not in self.table.column_names:
            return None
        found = self.table[name]
        if pa.types.is_dictionary(found.type):
            found = found.cast(found.type.value_type)
        if textual(found.type):
            found = found.cast(pa.string())
            try:
                found.validate(full=True)
            except pa.ArrowInvalid:
                raise BadInput(f"{self.file}: column {name}: holds bytes that are no UTF-8") from None
            found = pc.utf8_trim_whitespace(found)
            found = pc.if_else(pc.equal(found, ""), pa.scalar(None, pa.string()), found)
        return found if found.null_count < len(found) else None


def read(file: Path, needed: tuple[str, ...]) -> Given:
    """Read *file*; raises `BadInput` where it is neither form, or lacks one of the *needed* columns."""
    try:
        with file.open("rb") as content:
            magic = content.read(4)
        given = _parquet(file) if magic == b"PAR1" else _csv(file)
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}") from None
    names = given.table.column_names
    for name in needed:
        if name not in names and len(names) == 1 and magic != b"PAR1":
            raise BadInput(f"{file}: neither JSON nor a table: begins with {names[0][:60]!r}")
        if name not in names:
            raise BadInput(f"{file}: no column {name}; needed are {', '.join(needed)}")
    return given


def _parquet(file: Path) -> Given:
    try:
        return Given(file, pa.parquet.read_table(file), lambda row: f"row {row + 1}")
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.strerror:
            raise
        raise BadInput(f"{file}: damaged: begins as Parquet, and cannot be read as such") from None


def _csv(file: Path) -> Given:
    """Read every column as text, so that a value is judged by this product and not guessed at."""
    place: Callable[[int], str] = lambda row: f"line {_line_of(file, row)}"  # noqa: E731
    broken: list[BadRow] = []

    def other(row: pa.csv.InvalidRow) -> str:
        many = f"{row.actual_columns} value{'' if row.actual_columns == 1 else 's'}"
        broken.append(BadRow(row.number - 2, f"{many} where there are {row.expected_columns} columns"))
        return "skip"

    try:
        table = _texts(file, other)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        line = _not_text(file)
        if line is None:
            raise BadInput(f"{file}: {str(error).splitlines()[0]}") from None
        raise BadInput(f"{file}, line {line}: neither Parquet nor CSV: holds bytes that are no UTF-8") from None
    if (line := _unclosed(file)) is not None:
        raise BadInput(f"{file}, line {line}: a value begins with a quote that nothing closes")
    return Given(file, table, place, broken[0] if broken else None)


def _texts(file: Path, other: "Callable[[pa.csv.InvalidRow], str]") -> pa.Table:
    """Read a CSV file; *other* is told of rows that have not as many values as there are columns, and counts from 1,
    the names of the columns included."""
    with file.open(encoding="utf-8-sig", newline="") as content:
        head = content.readline()
        names = [name.strip().strip('"') for name in head.rstrip("\r\n").split(",")]
        empty = not content.read(1)
    if not head.strip():
        raise BadInput(f"{file}: empty")
    if len(set(names)) != len(names):
        raise BadInput(f"{file}, line 1: a column stands twice")
    if empty:
        return pa.table({name: pa.array([], pa.string()) for name in names})
    return pa.csv.read_csv(
        pa.OSFile(str(file)),  # a name alone would be taken for what it ends with, such as .gz
        read_options=pa.csv.ReadOptions(column_names=names, skip_rows=1, use_threads=False),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=other),
        convert_options=pa.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=[""]
        ),
    )


def _unclosed(file: Path) -> int | None:
    """Return the line where the last row of a CSV file begins if one of its values is quoted and does not end: that
    would hold all rows that follow."""
    with file.open("rb") as content:
        if sum(part.count(b'"') for part in iter(lambda: content.read(1 << 20), b"")) % 2 == 0:
            return None
    with file.open(encoding="utf-8-sig", newline="") as content:
        csv.field_size_limit(sys.maxsize)
        lines, begun = csv.reader(content, strict=True), 1
        while True:
            try:
                next(lines)
            except StopIteration:
                return None
            except csv.Error as error:
                if str(error) == "unexpected end of data":
                    return begun
            begun = lines.line_num + 1


def _not_text(file: Path) -> int | None:
    """Return the first line of *file* that is no UTF-8; None where all are."""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    return None


def _line_of(file: Path, row: int) -> int:
    """Return the line on which a *row* of a CSV file begins: empty lines are no rows, and a row may have several."""
    with file.open(encoding="utf-8-sig", newline="") as content:
        csv.field_size_limit(sys.maxsize)
        lines = csv.reader(content)
        next(lines)  # the names of the columns
        begun, rows = lines.line_num + 1, 0
        for given in lines:
            if rows == row and given:
                break
            rows += bool(given)
            begun = lines.line_num + 1
    return begun


def textual(kind: pa.DataType) -> bool:
    """Whether a column is of texts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view())


def _shown(value: pa.Scalar) -> str | None:
    """Return what stands in a file, a time in UTC: its zone may be unknown here, or the time be none in Python."""
    if pa.types.is_timestamp(value.type):
        value = value.cast(pa.timestamp(value.type.unit, tz="UTC"))
    try:
        found = value.as_py()
    except (OverflowError, ValueError):
        found = value.value
    return None if found is None else str(found)
