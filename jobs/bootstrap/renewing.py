"""When which certificate is made anew: a decision over what is kept, at one moment.

A CA is followed by a *next* one in time, which everybody trusts for a while before anything is signed by it, and
stays trusted as the *former* one after that: at no moment is a certificate in use whose CA is not trusted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from jobs.bootstrap.making import Pair, authority, is_signed, names, signed

CA_LIFE, LIFE = timedelta(days=5 * 365), timedelta(days=90)
#: A certificate is renewed when less than this share of its life is left.
RENEW: Final = 1 / 3
#: How long a new CA is trusted before it signs: mounted secrets arrive minutes after they were written.
SETTLE: Final = timedelta(days=1)


@dataclass(frozen=True)
class Kept:
    """What an installation has: the CA that signs, the *next* one, the *former* one's certificate, the server's."""

    ca: Pair | None = None
    next: Pair | None = None
    former: bytes = b""
    server: Pair | None = None

    @property
    def trusted(self) -> bytes:
        """Every CA that certificates in use may be signed by, as PEM, the one that signs first."""
        found = [each.certificate for each in (self.ca, self.next) if each is not None]
        return b"".join([*found, *([self.former] if self.former else [])])


def renewed(kept: Kept, name: str, hosts: Sequence[str], now: datetime) -> Kept:
    """Return what an installation with *kept* should have at *now*; equal to *kept* where nothing is due.

    What cannot be read is as if it were not there.
    """
    ca = kept.ca if kept.ca is not None and kept.ca.sound and kept.ca.left(now) > 0 else None
    coming = kept.next if ca is not None and kept.next is not None and kept.next.sound else None
    former = kept.former if _valid(kept.former, now) else b""
    if ca is None:
        ca = authority(name, now, CA_LIFE)
    elif ca.left(now) < RENEW and coming is None:
        coming = authority(name, now, CA_LIFE)
    elif coming is not None and coming.age(now) >= SETTLE:
        ca, coming, former = coming, None, ca.certificate
    server = kept.server
    if server is None or not _good(server, ca, hosts, now):
        server = signed(ca, hosts, now, LIFE)
    return replace(kept, ca=ca, next=coming, former=former, server=server)


def _good(server: Pair, ca: Pair, hosts: Sequence[str], now: datetime) -> bool:
    return server.sound and is_signed(server, ca) and names(server) == set(hosts) and server.left(now) >= RENEW


def _valid(certificate: bytes, now: datetime) -> bool:
    if not certificate:
        return False
    try:
        return Pair(certificate, b"").left(now) > 0
    except ValueError:
        return False
