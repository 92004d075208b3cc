"""What the kernel counts of the whole machine, and what this machine is."""

import os
import platform
import re
import resource
from pathlib import Path
from typing import Any

_TICK = os.sysconf("SC_CLK_TCK")
MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def counters(disk: str, interface: str = "lo") -> dict[str, float]:
    """Read the machine's counters now: CPU and stall seconds, memory, bytes moved by *disk* and *interface*."""
    read: dict[str, float] = {}
    for line in Path("/proc/stat").read_text().splitlines():
        core, *ticks = line.split()
        if core.startswith("cpu") and core != "cpu":
            read.update((f"{core}_{mode}", int(t) / _TICK) for mode, t in zip(MODES, ticks, strict=False))
    for line in Path("/proc/diskstats").read_text().splitlines():
        fields = line.split()
        if fields[2] == disk:
            read["disk_read"], read["disk_written"] = int(fields[5]) * 512, int(fields[9]) * 512
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name.strip() == interface:
            fields = rest.split()
            read["network_received"], read["network_sent"] = int(fields[0]), int(fields[8])
    memory = dict(re.findall(r"^(\w+):\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE))
    read["memory_total"], read["memory_available"] = (int(memory[k]) * 1024 for k in ("MemTotal", "MemAvailable"))
    for kind in ("cpu", "memory", "io"):
        stalls = Path("/proc/pressure") / kind
        if stalls.exists() and (found := re.search(r"some .*total=(\d+)", stalls.read_text())):
            read[f"pressure_{kind}"] = int(found[1]) / 1e6
    return read


def busy(read: dict[str, float]) -> float:
    """Return the CPU seconds that somebody used (or the host withheld) by *read*."""
    counted = [mode for mode in MODES if mode not in ("idle", "iowait")]
    return sum(value for name, value in read.items() if name.startswith("cpu") and name.endswith(tuple(counted)))


def own_cpu() -> float:
    """Return the CPU seconds of this process and of the children that it has waited for."""
    kinds = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in kinds)


def kernel_cpu() -> float:
    """Return the CPU seconds of the kernel's own threads, which work for whoever writes or sends."""
    total = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if fields[1] == "2":
            total += (int(fields[11]) + int(fields[12])) / _TICK
    return total


def disk_of(path: Path) -> str:
    """Return the block device that *path* lies on, as ``/proc/diskstats`` names it ("" where there is none)."""
    number = path.stat().st_dev
    for line in Path("/proc/diskstats").read_text().splitlines():
        major, minor, name = line.split()[:3]
        if (int(major), int(minor)) == (os.major(number), os.minor(number)):
            return name
    return ""


def describe() -> dict[str, Any]:
    """Say what machine this is: processor, cores, memory, kernel and Python."""
    info = Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*:\s*(.*)", info)
    total = re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())
    return {
        "processor": model[1].strip() if model else platform.machine(),
        "architecture": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": int(total[1]) * 1024 if total else 0,
        "virtual": "hypervisor" in info,
        "kernel": platform.release(),
        "python": platform.python_version(),
    }
