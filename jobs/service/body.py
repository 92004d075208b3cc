"""Reading a request's body, bounded."""

from starlette.types import Receive

#: The API server limits its own requests to 3 MiB.
LIMIT = 8 * 1024 * 1024


class TooLarge(ValueError):
    """The body is longer than `LIMIT`."""


async def read(receive: Receive, limit: int = LIMIT) -> bytes:
    """Read the whole body; raises `TooLarge`. A client that went away leaves an empty body."""
    message = await receive()
    if message["type"] != "http.request":
        return b""
    body: bytes = message.get("body", b"")
    if not message.get("more_body"):
        if len(body) > limit:
            raise TooLarge(f"the body is longer than {limit} bytes")
        return body
    parts = [body]
    size = len(body)
    while message.get("more_body"):
        message = await receive()
        if message["type"] != "http.request":
            return b""
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise TooLarge(f"the body is longer than {limit} bytes")
    return b"".join(parts)
