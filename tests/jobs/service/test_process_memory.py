"""What a serving process keeps of memory that it needed for a moment."""

import subprocess
import sys

_ASKED = """
import pyarrow as pa
from jobs.service import memory
memory.modest()
large = pa.array(range(1_000_000))
print(pa.default_memory_pool().backend_name, pa.total_allocated_bytes() > 7_000_000)
del large
memory.give_back()
print(pa.total_allocated_bytes())
"""


def test_columns_come_from_the_systems_allocator() -> None:
    done = subprocess.run([sys.executable, "-c", _ASKED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["system", "True", "0"]
