"""A child process for tests of what runs children: ``python -m tests.support.child exit CODE | hang FILE``.

*hang* ignores the request to end, starts a grandchild that does too, and writes both process ids to FILE.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def main(what: str, argument: str) -> int:
    """Do what was asked for."""
    if what == "exit":
        return int(argument)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    script = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    grandchild = subprocess.Popen([sys.executable, "-c", script])
    aside = Path(f"{argument}.part")
    aside.write_text(f"{os.getpid()} {grandchild.pid}")
    aside.replace(argument)
    time.sleep(600)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
