"""How a serving process asks for memory and gives it back: beside its snapshot, which all share, it has little."""

import pyarrow as pa


def modest() -> None:
    """Let Arrow's columns come from the system's allocator: Arrow's own keeps megabytes of what was freed."""
    pa.set_memory_pool(pa.system_memory_pool())


def give_back() -> None:
    """Give back what was needed for a moment: the allocator would keep it, twice what stays after a swap."""
    pa.default_memory_pool().release_unused()
