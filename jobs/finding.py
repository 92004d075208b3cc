"""What one check of ``colocate doctor`` saw."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Verdict = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check saw; *fix* says what to do about a warning or a failure."""

    cluster: str
    source: str
    check: str
    verdict: Verdict
    said: str
    fix: str = ""


#: What to do about a source's error, by the stable word of its reason.
FIXES: Final[Mapping[str, str]] = {
    "timeout": "check that the address is right and reachable from here, or raise timeout",
    "connection": "check the address, the port and that the server runs",
    "tls": "name the server's authority in ca_file",
    "status_401": "give a valid key or token",
    "status_403": "give a key or token that may read this",
    "status_404": "check the address: no such API there",
    "not_json": "check the address: something else than the API answers there",
    "empty": "check that the exporter is scraped and that the query's labels match, or replace the query",
    "bad_query": "correct the configured query",
}
