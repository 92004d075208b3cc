"""Certificates are good by openssl's and TLS' own judgement, and in ten years none in use is untrusted."""

import shutil
import ssl
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from jobs.bootstrap import making
from jobs.bootstrap.making import Pair
from jobs.bootstrap.renewing import CA_LIFE, LIFE, SETTLE, Kept, renewed
from tests.support.web import Reply, answering

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
HOSTS = ("colocation-advisor.colocation-system.svc", "localhost")


def _made(now: datetime = NOW, kept: Kept | None = None) -> Kept:
    return renewed(kept or Kept(), "test-ca", HOSTS, now)


def _written(directory: Path, pair: Pair, name: str) -> tuple[Path, Path]:
    certificate, key = directory / f"{name}.crt", directory / f"{name}.key"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    return certificate, key


def test_openssl_trusts_what_was_signed_for_its_hosts_and_nothing_else(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("not installed: openssl")
    kept = _made(datetime.now(UTC))
    assert kept.ca is not None and kept.server is not None
    ca, _ = _written(tmp_path, kept.ca, "ca")
    server, _ = _written(tmp_path, kept.server, "server")

    def verified(*more: str) -> bool:
        command = ["openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", str(ca), *more]
        return subprocess.run([*command, str(server)], capture_output=True, check=False).returncode == 0

    assert all(verified("-verify_hostname", host) for host in HOSTS)
    assert not verified("-verify_hostname", "elsewhere.svc")
    other, _ = _written(tmp_path, making.authority("other", NOW, LIFE), "other")
    ca = other
    assert not verified()


def test_a_client_that_trusts_the_bundle_speaks_to_the_server(tmp_path: Path) -> None:
    kept = _made(datetime.now(UTC))
    assert kept.server is not None
    bundle = tmp_path / "bundle"
    bundle.write_bytes(making.authority("another", datetime.now(UTC), LIFE).certificate + kept.trusted)
    with answering(lambda _: Reply("yes"), _written(tmp_path, kept.server, "server")) as url:
        name = url.replace("127.0.0.1", "localhost")
        context = ssl.create_default_context(cafile=str(bundle))
        assert httpx.get(name, verify=context, trust_env=False).text == "yes"
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(name, verify=ssl.create_default_context(), trust_env=False)


def test_nothing_is_made_anew_before_it_is_due() -> None:
    kept = _made()
    assert _made(NOW + LIFE * 0.66, kept) == kept
    later = _made(NOW + LIFE * 0.67, kept)
    assert (later.ca, later.server == kept.server) == (kept.ca, False)


@pytest.mark.parametrize(
    "broken", [Pair(b"junk", b"junk"), None, making.authority("someone", NOW, LIFE)], ids=["junk", "gone", "foreign"]
)
def test_a_certificate_that_cannot_be_used_is_replaced_and_the_ca_stays(broken: Pair | None) -> None:
    kept = _made()
    after = _made(NOW, replace(kept, server=broken))
    assert after.ca == kept.ca and after.ca is not None and after.server is not None
    assert making.is_signed(after.server, after.ca)


def test_a_key_that_is_not_the_certificates_makes_all_anew() -> None:
    kept = _made()
    assert kept.ca is not None and kept.server is not None
    after = _made(NOW, replace(kept, ca=Pair(kept.ca.certificate, kept.server.key)))
    assert after.ca is not None and after.ca.certificate != kept.ca.certificate


def test_other_hosts_get_another_certificate() -> None:
    kept = _made()
    after = renewed(kept, "test-ca", [*HOSTS, "new.svc"], NOW)
    assert after.server is not None
    assert making.names(after.server) == {*HOSTS, "new.svc"}


def test_in_ten_years_of_looks_whatever_is_in_use_was_trusted_long_before() -> None:
    """What serves at each look is signed by a CA that was in the bundle at the look before; neither has expired.

    A CA of 1,825 days is followed at two thirds of it: by days 1,217 and 2,434, and again by 3,651.
    """
    step, kept, authorities, servers = timedelta(days=2), _made(), set(), set()
    trusted_before = kept.trusted
    for number in range(1, int(2 * CA_LIFE / step)):
        now = NOW + number * step
        kept = _made(now, kept)
        assert kept.ca is not None and kept.server is not None
        assert kept.ca.certificate in trusted_before  # trusted since the last look, two days ago
        assert making.is_signed(kept.server, kept.ca)
        for each in (kept.ca, kept.server):
            assert each.parsed.not_valid_before_utc <= now < each.parsed.not_valid_after_utc - LIFE / 4
        trusted_before = kept.trusted
        authorities.add(kept.ca.certificate)
        servers.add(kept.server.certificate)
    assert step >= SETTLE
    assert len(authorities) == 3
    assert len(servers) >= 10 * 365 // 62


def test_the_former_ca_stays_trusted_until_it_expires() -> None:
    old = _made()
    assert old.ca is not None
    due = NOW + CA_LIFE * 0.7
    coming = _made(due, old)
    assert (coming.ca, coming.next is None) == (old.ca, False)
    assert _made(due + SETTLE / 2, coming).ca == old.ca
    after = _made(due + SETTLE, coming)
    assert after.ca == coming.next
    assert old.ca.certificate in after.trusted
    assert old.ca.certificate not in _made(NOW + CA_LIFE + SETTLE, after).trusted
