"""SHA-256 of what is replicated: as entity tag, as ``Repr-Digest`` (RFC 9530), and of files."""

import base64
import hashlib
from collections.abc import Mapping
from io import BufferedReader
from pathlib import Path

from pipeline.errors import BadInput


def of(content: bytes) -> str:
    """Return the SHA-256 of *content* in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def of_file(file: BufferedReader) -> str:
    """Return the SHA-256 of the rest of *file* in hexadecimal digits."""
    return hashlib.file_digest(file, "sha256").hexdigest()


def headers(digest: str) -> dict[str, str]:
    """Return the headers that state *digest*."""
    encoded = base64.b64encode(bytes.fromhex(digest)).decode()
    return {"ETag": f'"{digest}"', "Repr-Digest": f"sha-256=:{encoded}:", "Cache-Control": "no-cache"}


def matches(given: str, digest: str) -> bool:
    """Compare as RFC 9110 13.1.2 does: any of a list, weak or not."""
    tags = {tag.strip().removeprefix("W/") for tag in given.split(",")}
    return "*" in tags or f'"{digest}"' in tags


def stated(headers: Mapping[str, str]) -> str:
    """Return the SHA-256 that *headers* state, in hexadecimal digits; raises `BadInput` where they state none."""
    found = headers.get("repr-digest", "")
    try:
        for part in found.split(","):
            name, _, value = part.strip().partition("=")
            if name.lower() == "sha-256":
                return base64.b64decode(value.strip(":"), validate=True).hex()
    except ValueError:
        pass
    raise BadInput("the answer states no SHA-256 of itself")


def of_path(path: Path) -> str:
    """Return the SHA-256 of the file at *path*, "" where there is none."""
    try:
        with path.open("rb") as file:
            return of_file(file)
    except OSError:
        return ""
