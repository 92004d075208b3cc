"""Certificates that are renewed on disk while the server runs."""

import shutil
import socket
import ssl
from pathlib import Path

import httpx
import pytest

from jobs.service.tls import ReloadingContext
from pipeline.errors import BadInput
from tests.support.authority import Authority
from tests.support.service import Fakes, encoded, review, running


def _subject(url: str, authority: Authority) -> str:
    """The common name of the certificate that the server at *url* shows."""
    parsed = httpx.URL(url)
    context = ssl.create_default_context(cafile=str(authority.certificate))
    with (
        socket.create_connection((parsed.host, parsed.port or 0)) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as tls,
    ):
        certificate = tls.getpeercert()
    assert certificate is not None
    return dict(pair[0] for pair in certificate["subject"])["commonName"]


def _copy(pair: tuple[Path, Path], to: tuple[Path, Path]) -> None:
    for source, target in zip(pair, to, strict=True):
        shutil.copyfile(source, target)


def test_a_renewed_certificate_is_shown_to_new_connections_and_old_ones_go_on(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    mounted = (tmp_path / "tls.crt", tmp_path / "tls.key")
    _copy(authority.issue("before"), mounted)
    context = ReloadingContext.of(*mounted, None)
    trust = ssl.create_default_context(cafile=str(authority.certificate))
    with running(Fakes().parts(), context) as url, httpx.Client(verify=trust) as kept_alive:
        assert _subject(url, authority) == "before"
        assert kept_alive.get(url + "/healthz").status_code == 200
        _copy(authority.issue("after"), mounted)
        assert context.refresh()
        assert not context.refresh()
        assert _subject(url, authority) == "after"
        assert kept_alive.get(url + "/healthz").status_code == 200


def test_a_half_written_renewal_leaves_the_former_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    mounted = (tmp_path / "tls.crt", tmp_path / "tls.key")
    _copy(authority.issue("before"), mounted)
    after = authority.issue("after")
    context = ReloadingContext.of(*mounted, None)
    with running(Fakes().parts(), context) as url:
        shutil.copyfile(after[0], mounted[0])
        assert not context.refresh()
        assert _subject(url, authority) == "before"
        shutil.copyfile(after[1], mounted[1])
        assert context.refresh()
        assert _subject(url, authority) == "after"


def test_a_secret_mounted_as_a_link_is_seen_when_the_link_is_swapped(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        _copy(authority.issue(name), (tmp_path / name / "tls.crt", tmp_path / name / "tls.key"))
    link = tmp_path / "data"
    link.symlink_to("one")
    context = ReloadingContext.of(link / "tls.crt", link / "tls.key", None)
    with running(Fakes().parts(), context) as url:
        assert _subject(url, authority) == "one"
        fresh = tmp_path / "fresh"
        fresh.symlink_to("two")
        fresh.replace(link)
        assert context.refresh()
        assert _subject(url, authority) == "two"


def test_a_client_ca_that_was_replaced_is_trusted_no_more(tmp_path: Path) -> None:
    old, new = Authority(tmp_path / "old", "old-ca"), Authority(tmp_path / "new", "new-ca")
    ca = tmp_path / "client-ca.crt"
    shutil.copyfile(old.certificate, ca)
    context = ReloadingContext.of(*old.issue("server"), ca)
    trust = ssl.create_default_context(cafile=str(old.certificate))
    trust.load_cert_chain(*old.issue("caller"))
    with running(Fakes().parts(client_ca=True), context) as url:
        with httpx.Client(verify=trust) as client:
            assert client.post(url + "/mutate", content=encoded(review())).status_code == 200
        shutil.copyfile(new.certificate, ca)
        assert context.refresh()
        with httpx.Client(verify=trust) as client, pytest.raises(httpx.TransportError):
            client.post(url + "/mutate", content=encoded(review()))


def test_files_that_cannot_be_used_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"serve\.tls_cert.*missing\.crt") as error:
        ReloadingContext.of(tmp_path / "missing.crt", tmp_path / "missing.key", None)
    assert "\n" not in str(error.value)
