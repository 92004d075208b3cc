"""Runs a module as a child that does not outlive its supervisor.

``python -m jobs.supervisor.leash PARENT NICENESS MODULE ARGUMENT...``

On Linux the kernel kills the child when the thread that started it ends (``PR_SET_PDEATHSIG``), also where the
supervisor was killed itself. It is set here and not between fork and exec, which is not safe in a process with
threads.
"""

import ctypes
import os
import runpy
import signal
import sys

_PR_SET_PDEATHSIG = 1


def tie(parent: int) -> None:
    """Die with the process *parent*; ends at once where it is gone already."""
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def main() -> None:
    """Tie this process to its parent and become the module."""
    parent, niceness, module, *arguments = sys.argv[1:]
    tie(int(parent))
    os.nice(int(niceness))
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
