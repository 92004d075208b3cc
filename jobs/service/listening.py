"""Where the server listens; decided and checked before anything else starts."""

import errno
import ipaddress
import socket
from typing import Final

from jobs.config import ServeSettings
from pipeline.errors import BadInput

_TLS_PORT, _PLAIN_PORT = 8443, 8080

#: Connections that wait on the socket at most.
QUEUE: Final = 2048


def check(settings: ServeSettings) -> None:
    """Refuse settings that contradict each other or would answer strangers; raises `BadInput` naming the field."""
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise BadInput("serve.tls_cert, serve.tls_key: give both or neither")
    if settings.client_ca is not None and settings.tls_cert is None:
        raise BadInput("serve.client_ca: needs serve.tls_cert and serve.tls_key")
    if settings.token is not None and settings.token_file is not None:
        raise BadInput("serve.token, serve.token_file: give one of them")
    if settings.replica_token is not None and settings.replica_token_file is not None:
        raise BadInput("serve.replica_token, serve.replica_token_file: give one of them")
    if settings.host is not None and not guarded(settings) and not _loopback(settings.host):
        raise BadInput(
            f"serve.host: {settings.host} can be reached from elsewhere; set serve.token_file or serve.client_ca, "
            "or listen on 127.0.0.1"
        )


def guarded(settings: ServeSettings) -> bool:
    """Whether callers must show a token or a certificate."""
    return any(given is not None for given in (settings.token, settings.token_file, settings.client_ca))


def port(settings: ServeSettings) -> int:
    """The port to listen on; 0 lets the system choose."""
    if settings.port is not None:
        return settings.port
    return _PLAIN_PORT if settings.tls_cert is None else _TLS_PORT


def bind(settings: ServeSettings) -> socket.socket:
    """Open the listening socket, which the serving processes inherit.

    One socket that the supervisor holds, and not one a process with SO_REUSEPORT: connections wait in its queue
    while a serving process is started again, and a second server on the same port is an error and not a surprise.
    Raises `BadInput`, one line, where the address is not free or not ours.
    """
    check(settings)
    number = port(settings)
    host = settings.host or ("" if guarded(settings) else "127.0.0.1")
    try:
        if not host and socket.has_dualstack_ipv6():
            return socket.create_server(("", number), family=socket.AF_INET6, dualstack_ipv6=True, backlog=QUEUE)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, number), family=family, backlog=QUEUE)
    except OSError as error:
        where = f"{host or '*'}:{number}"
        if error.errno == errno.EADDRINUSE:
            raise BadInput(f"serve.port: {where} is in use by another program; set another port") from None
        raise BadInput(f"serve.host, serve.port: cannot listen on {where}: {error.strerror or error}") from None


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
