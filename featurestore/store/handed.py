"""Decisions handed from one process's spool to another's, by whatever way lies between them: at least once.

Who hands over keeps its file until the other has said that it is safe; who receives has it on disk before it says so.
What comes twice is known by its id when the store takes it (`featurestore.store.decisions.flush`).
"""

import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from featurestore.store import decisions
from pipeline.errors import BadInput, Temporary

#: So many files may wait for the store before no more are received.
_FILES: Final = 4096


class Received(msgspec.Struct, frozen=True):
    """What came of a batch: lines *accepted*, and lines *refused* that are no decision."""

    accepted: int
    refused: int


def receive(directory: Path, content: bytes, *, files: int = _FILES) -> Received:
    """Put the decisions of *content*, a JSON document a line, into the spool in *directory*, synced to its disk.

    Raises `Temporary` where *files* files wait there already, and `BadInput` where the directory cannot be written.
    """
    lines = content.splitlines()
    kept = [line for line in lines if decisions.is_decision(line)]
    if kept:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            if len(os.listdir(directory)) >= files:  # noqa: PTH208
                raise Temporary("spool", "full", f"{directory}: {files} files wait for the store", delay=10.0)
            _write(directory, b"".join(line + b"\n" for line in kept))
        except OSError as error:
            raise BadInput(f"{directory}: cannot be written: {error.strerror}") from error
    return Received(len(kept), len(lines) - len(kept))


def _write(directory: Path, content: bytes) -> None:
    name = f"decisions-{time.time_ns():020d}-{os.getpid()}-{secrets.token_hex(4)}.jsonl"
    aside = directory / f".{name}"
    try:
        with aside.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(directory / name)
    finally:
        aside.unlink(missing_ok=True)
    entry = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(entry)
    finally:
        os.close(entry)


def waiting(directory: Path) -> list[Path]:
    """Return the files of the spool in *directory* that are ready to be handed over, the oldest first.

    Files left behind by a process that died are among them.
    """
    decisions.adopt(directory)
    return sorted(directory.glob("decisions-*.jsonl"))


def batches(path: Path, size: int) -> Iterator[bytes]:
    """Yield the lines of *path*, in full, in batches of at most *size* bytes; a longer line makes one of its own."""
    batch: list[bytes] = []
    held = 0
    for line in decisions.in_full(path.read_bytes()):
        if batch and held + len(line) > size:
            yield b"".join(batch)
            batch, held = [], 0
        batch.append(line)
        held += len(line)
    if batch:
        yield b"".join(batch)


def shed(directory: Path, room: int) -> int:
    """Delete the oldest files that wait in *directory* until the rest takes at most *room* bytes.

    Returns how many decisions are lost with them.
    """
    sizes = [(path, path.stat().st_size) for path in waiting(directory)]
    over = sum(size for _, size in sizes) - room
    lost = 0
    for path, size in sizes:
        if over <= 0:
            break
        lost += path.read_bytes().count(b"\n")
        path.unlink()
        over -= size
    return lost
