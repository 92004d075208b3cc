"""Whether a DuckDB file changed while it was being opened."""

import os
from pathlib import Path
from typing import Final, Self

# The file's own header and the two of which the one with the higher number holds.
_LENGTH: Final = 3 * 4096


class Headers:
    """The headers of the DuckDB file at *path* between entering and leaving; each checkpoint changes them.

    DuckDB (2.0.1) reads them as it asks what kind of file this is, before it has the lock. Where another process ends
    a transaction in between, it goes on from what was before: that transaction would be lost, and blocks be read that
    it freed. To leave closes the file, and with it gives away any lock that this process has on it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Self:
        try:
            self._file = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:  # which DuckDB tells better
            self._file = -1
        self._before = self._read()
        return self

    def __exit__(self, *_: object) -> None:
        if self._file >= 0:
            os.close(self._file)

    def changed(self) -> bool:
        """Return whether they are others than on entering."""
        return self._read() != self._before

    def _read(self) -> bytes:
        try:
            return os.pread(self._file, _LENGTH, 0)
        except OSError:  # not open, or nothing that has content, such as a directory
            return b""
