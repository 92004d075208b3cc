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


_ADDRESS: Final = "check the address: something else than the API answers there"
_REDIRECTED: Final = "give the address that it redirects to"

#: What to do about a source's error, by the stable word of its reason.
_REMEDIES: Final[Mapping[str, str]] = {
    "timeout": "check that the address is right and reachable from here, or raise timeout",
    "connection": "check the address, the port and that the server runs",
    "half_page": "check the address, and what its own log says",
    "request": _ADDRESS,
    "tls": "name the server's authority in ca_file",
    "tls_expired": "have the server's certificate renewed, or this machine's clock set",
    "tls_name": "give the address that the server's certificate is for",
    "redirect": _REDIRECTED,
    "credentials": "renew what the kubeconfig names",
    "token_file": "let this account read the file",
    "token": "let the file hold the token and nothing else",
    "status_401": "give a valid key or token",
    "status_403": "give a key or token that may read this",
    "status_404": "check the address: no such API there",
    "status_429": "ask less often, or have its limit raised",
    "not_json": _ADDRESS,
    "not_a_list": _ADDRESS,
    "not_prometheus": _ADDRESS,
    "not_openwhisk": _ADDRESS,
    "empty": "check that the exporter is scraped and that the query's labels match, or replace the query",
    "bad_query": "correct the configured query",
}

#: The same for a cluster's API server, whose address and authority the kubeconfig tells.
_OF_KUBERNETES: Final[Mapping[str, str]] = {
    "tls": "name the server's authority in the kubeconfig (certificate-authority)",
    "status_401": "give a kubeconfig with valid credentials",
}


def remedy(reason: str, source: str = "") -> str:
    """Return what to do about an error of *source*, by the stable word of its *reason*."""
    found = (_OF_KUBERNETES.get(reason) if source == "kubernetes" else None) or _REMEDIES.get(reason)
    if found is not None:
        return found
    if reason.startswith("status_3"):
        return _REDIRECTED
    if reason.startswith("status_5"):
        return "look at the server's own log"
    return "see the message, and check the address" if reason.startswith("status_4") else "see the message"
