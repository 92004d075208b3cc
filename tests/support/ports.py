"""Ports that a server started later can have.

A port of the kernel's choice is one that it gives to outgoing connections too: an API server opens a hundred to its
store before the next server starts, and one of them may get it.
"""

import random
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_TRIES = 1_000


def free(kind: socket.SocketKind = socket.SOCK_STREAM, neighbours: int = 1) -> int:
    """The first of *neighbours* free ports in a row on 127.0.0.1 that no outgoing connection will get.

    Raises OSError where there are none.
    """
    lowest, highest = (int(each) for each in _RANGE.read_text().split())
    apart = [port for port in range(10_000, 65_536 - neighbours) if not lowest - neighbours < port <= highest]
    # The generator that all share may be seeded by tests, alike in several processes.
    for port in random.SystemRandom().choices(apart, k=_TRIES if apart else 0):
        if all(_is_free(port + more, kind) for more in range(neighbours)):
            return port
    raise OSError(f"no {neighbours} free ports outside of {lowest} to {highest}, those of outgoing connections")


def _is_free(port: int, kind: socket.SocketKind) -> bool:
    with socket.socket(socket.AF_INET, kind) as sock:
        try:
            sock.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
