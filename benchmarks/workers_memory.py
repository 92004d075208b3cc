"""What a serving process has in memory: ``python -m benchmarks.workers_memory CONFIG`` takes a snapshot up and tells.

It imports nothing that the serving process itself does not.
"""

import sys
from pathlib import Path

import msgspec

from jobs import logs
from jobs.config import load
from jobs.service.process import Process

#: Looked at: before there is a snapshot, alone and beside others, with it, and once more when others have it too.
_LOOKS = 4


def memory(pid: int | str) -> dict[str, int]:
    """Return the bytes of memory that process *pid* has to itself (private), and all that it has in use (all)."""
    rows = (line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    kib = {row[0].rstrip(":"): int(row[1]) for row in rows}
    return {"private": 1024 * (kib["Private_Clean"] + kib["Private_Dirty"]), "all": 1024 * kib["Rss"]}


def main(config: Path) -> int:
    """Take up the snapshot as a serving process does, and tell the memory before and after each line that comes."""
    logs.configure(logs.LEVELS["error"])
    made = Process(load(config), None, 0)
    for _ in range(_LOOKS):
        print(msgspec.json.encode(memory("self")).decode(), flush=True)
        sys.stdin.readline()
        made.state.refresh()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
