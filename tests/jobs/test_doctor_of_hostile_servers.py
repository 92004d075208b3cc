"""`colocate doctor` on servers that are something else, or worse: one finding each in bounded time, with a remedy."""

import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from threading import Event, Thread

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from jobs import config, doctor
from jobs.finding import Finding

Answer = Callable[[socket.socket, Event], None]
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def _endless(peer: socket.socket, over: Event) -> None:
    peer.sendall(_HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    while not over.wait(0.002):
        peer.sendall(b"1000\r\n" + b"[" * 4096 + b"\r\n")


def _trickling(peer: socket.socket, over: Event) -> None:
    peer.sendall(_HEAD + b"Content-Length: 100000\r\n\r\n")
    while not over.wait(0.05):
        peer.sendall(b"[")


def _head_without_end(peer: socket.socket, over: Event) -> None:
    peer.sendall(_HEAD + b"X-Long: ")
    while not over.wait(0.05):
        peer.sendall(b"x")


def _silent(peer: socket.socket, over: Event) -> None:
    over.wait()


def _page(peer: socket.socket, over: Event) -> None:
    body = b"<!DOCTYPE html><title>Welcome</title>"
    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n")
    peer.sendall(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))


def _turning(peer: socket.socket, over: Event) -> None:
    peer.sendall(b"HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


def _other_protocol(peer: socket.socket, over: Event) -> None:
    peer.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")


@contextmanager
def _serving(answer: Answer, certificate: Path | None = None) -> Iterator[str]:
    """Answer each connection once it has asked, and yield the base URL; over TLS with a *certificate* and its key."""
    over, context = Event(), None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)

    def one(peer: socket.socket) -> None:
        with suppress(OSError), peer:
            held = peer if context is None else context.wrap_socket(peer, server_side=True)
            with held:
                held.recv(65536)
                answer(held, over)

    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            with suppress(OSError):
                while not over.is_set():
                    Thread(target=one, args=(server.accept()[0],), daemon=True).start()

        Thread(target=accept, daemon=True).start()
        try:
            yield f"{'https' if certificate else 'http'}://127.0.0.1:{server.getsockname()[1]}"
        finally:
            over.set()


def _certificate(file: Path, until: timedelta) -> Path:
    """Write a self-signed certificate of 127.0.0.1 that is valid *until* so long from now, and its key."""
    name = "127.0.0.1"
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=60))
        .not_valid_after(now + until)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(name))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file.write_bytes(made.public_bytes(pem) + private)
    return file


SOURCES = ("kubernetes", "prometheus", "openwhisk", "writer", "traces")
#: Far below what an answer that never ends would take, far above what a busy machine needs.
_BOUND = 60.0


def _examined(directory: Path, url: str, trusted: Path | None = None) -> dict[str, list[Finding]]:
    """Make *url* every source there can be, with a *trusted* authority, and return what is found wrong, by source."""
    ca = f'ca_file = "{trusted}"' if trusted else ""
    kubeconfig = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [
            {"name": "c", "cluster": {"server": url} | ({"certificate-authority": str(trusted)} if trusted else {})}
        ],
        "users": [{"name": "u", "user": {"token": "s3cret"}}],
    }
    (directory / "kubeconfig").write_text(json.dumps(kubeconfig), encoding="utf-8")
    file = directory / "colocate.toml"
    file.write_text(
        f"""
[store]
snapshot = "{directory}/snapshot"
[[clusters]]
name = "edge"
[clusters.kubernetes]
kubeconfig = "{directory}/kubeconfig"
timeout = "300ms"
[clusters.prometheus]
url = "{url}"
timeout = "1s"
{ca}
token = "s3cret"
[clusters.openwhisk]
url = "{url}"
timeout = "300ms"
{ca}
namespaces = [{{name = "guest", key = "user:s3cret"}}, {{name = "other", key = "user:s3cret"}}]
[replica]
writer = "{url}"
timeout = "300ms"
{ca}
token = "s3cret"
[trace]
endpoint = "{url}"
timeout = "300ms"
{ca}
headers = {{Authorization = "s3cret"}}
""",
        encoding="utf-8",
    )
    started = time.monotonic()
    found: dict[str, list[Finding]] = {}
    for each in doctor.examine(config.load(file), datetime.now(UTC)):
        assert "s3cret" not in f"{each.said}{each.fix}"
        if each.verdict != "ok" and each.source != "store":
            found.setdefault(each.source, []).append(each)
    assert time.monotonic() - started < _BOUND
    return found


@pytest.mark.parametrize(
    ("answer", "remedies"),
    [
        (_endless, {"raise timeout"}),
        (_trickling, {"raise timeout"}),
        (_head_without_end, {"raise timeout"}),
        (_silent, {"raise timeout"}),
        (_page, {"something else than the API answers there"}),
        (_turning, {"give the address that it redirects to"}),
        (_other_protocol, {"check the address"}),
    ],
)
def test_each_source_that_misbehaves_costs_one_finding_with_its_remedy(
    answer: Answer, remedies: set[str], tmp_path: Path
) -> None:
    with _serving(answer) as url:
        found = _examined(tmp_path, url)
    # Of these two only the status and the head of an answer count, and who takes traces may answer in JSON.
    headed = {"writer", "traces"} if answer in (_endless, _trickling) else set()
    assert set(found) - headed == set(SOURCES) - headed
    for source in set(SOURCES) - headed:
        [one] = found[source]
        assert (one.verdict, one.check) == ("failed", "reach"), one
        assert url in one.said
        assert any(each in one.fix for each in remedies), one


@pytest.mark.parametrize(
    ("days", "host", "known", "said", "fix"),
    [
        (-1, "127.0.0.1", True, "certificate has expired", "renewed"),
        (9, "127.0.0.1", False, "self-signed certificate", "authority"),
        (9, "localhost", True, "certificate is not valid for 'localhost'", "give the address that"),
    ],
)
def test_what_is_wrong_with_a_certificate_is_told_with_its_remedy(
    days: int, host: str, known: bool, said: str, fix: str, tmp_path: Path
) -> None:
    file = _certificate(tmp_path / "server.pem", timedelta(days=days))
    with _serving(_page, file) as url:
        found = _examined(tmp_path, url.replace("127.0.0.1", host), trusted=file if known else None)
    assert set(found) == set(SOURCES)
    for source, ones in found.items():
        [one] = ones
        assert (one.verdict, one.check) == ("failed", "reach"), one
        assert said in one.said
        assert fix in one.fix
        assert ("kubeconfig" in one.fix) == (source == "kubernetes" and not known)
