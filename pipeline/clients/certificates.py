"""What is wrong with a server's certificate, in OpenSSL's own words: they hold no address and no secret."""

import re
from typing import Final, NamedTuple

_SAID: Final = re.compile(r"certificate verify failed: ([^()]{1,200}) \(_ssl")
_EXPIRED: Final = ("has expired", "not yet valid")


class Unverified(NamedTuple):
    """A stable word for the reason, and what is wrong."""

    reason: str
    said: str

    @property
    def hint(self) -> str:
        """What is wrong, and the setting that helps where the authority is not known."""
        return f"{self.said} (ca_file names its authority)" if self.reason == "tls" else self.said


def unverified(error: Exception) -> Unverified | None:
    """Return why *error*, of any HTTP library, says that a certificate was not accepted; None where it says no such
    thing. The reason is ``tls_expired``, ``tls_name`` or, where the authority is not known, ``tls``."""
    found = _SAID.search(str(error))
    if found is None:
        return None
    why = found[1].strip()
    reason = "tls_expired" if any(each in why for each in _EXPIRED) else "tls_name" if "mismatch" in why else "tls"
    return Unverified(reason, f"the certificate could not be verified: {why}")
