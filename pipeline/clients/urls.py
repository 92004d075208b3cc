"""URLs as they may be shown, without user, password, query and fragment, in which a secret may stand; and what stands
in headers: dates, and plain characters."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import SplitResult, urlsplit, urlunsplit

from pipeline.errors import BadInput


def split(field: str, url: str) -> SplitResult:
    """Parse an http or https base URL; `BadInput` names *field*, not the URL, which may hold a secret."""
    try:
        parts = urlsplit(url.strip())
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        valid = valid and not any(character.isspace() for character in url.strip())
    except ValueError:
        valid = False
    if not valid:
        raise BadInput(f"{field}: not a URL of the form http(s)://HOST[:PORT][/PATH]")
    return parts


def without_credentials(parts: SplitResult) -> str:
    """The URL of *parts* without credentials, query and fragment, and without a slash at its end."""
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))


def http_date(text: str | None) -> datetime | None:
    """Read a ``Date`` header; None where there is none or it is no date."""
    try:
        found = parsedate_to_datetime(text) if text else None
    except ValueError:
        return None
    return found if found is None or found.tzinfo else found.replace(tzinfo=UTC)


def one_line(text: str, limit: int = 200) -> str:
    """A source's own words in one line of at most *limit* characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def plain(text: str) -> bool:
    """Say whether *text* is one line of characters that a header can hold."""
    return text.isascii() and text.isprintable()
