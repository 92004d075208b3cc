"""Which processes there are, read from /proc."""

import contextlib
from pathlib import Path


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
