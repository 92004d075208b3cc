"""Which processes there are, read from /proc; and how one that a test started is ended."""

import contextlib
import subprocess
from pathlib import Path
from typing import Any


def alive(pid: int) -> bool:
    """Whether process *pid* runs; a zombie does not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def children(pid: int) -> dict[int, str]:
    """The command lines of the children of *pid* that run, by process id."""
    found = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            number = int(entry.name)
            state, parent = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[:2]
            if int(parent) == pid and state != "Z":
                command = Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                found[number] = command
    return found


def end(process: "subprocess.Popen[Any]", patience: float = 60.0) -> None:
    """Ask *process* to end, if it still runs, and kill it where it does not within *patience* seconds."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
