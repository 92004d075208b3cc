"""Who may ask what: bearer token, client certificate, loopback."""

import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from jobs.config import ServeSettings
from jobs.service import listening
from jobs.service.auth import Token
from jobs.service.routes import ROUTES
from jobs.service.tls import ReloadingContext
from pipeline.errors import BadInput
from tests.support.authority import Authority
from tests.support.service import Fakes, encoded, review, running

PROTECTED = [route for route in ROUTES if not route.open]


@pytest.fixture
def with_token() -> Iterator[str]:
    with running(Fakes().parts(Token("secret-token", None))) as url:
        yield url


@pytest.mark.parametrize("route", PROTECTED, ids=lambda route: route.path)
def test_every_route_but_health_asks_for_the_token(with_token: str, route: object) -> None:
    assert isinstance(route, type(ROUTES[0]))
    answer = httpx.request(route.method, with_token + route.path, content=b"{}" if route.method == "POST" else None)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.headers["content-type"] == "application/problem+json"


def test_the_token_opens(with_token: str) -> None:
    headers = {"Authorization": "Bearer secret-token"}
    assert httpx.get(with_token + "/v1/nodes", headers=headers).status_code == 200
    assert httpx.post(with_token + "/mutate", content=encoded(review()), headers=headers).status_code == 200


@pytest.mark.parametrize(
    "header", ["Bearer wrong", "Bearer", "Basic secret-token", "secret-token", "Bearer secret-token2"]
)
def test_anything_else_does_not(with_token: str, header: str) -> None:
    assert httpx.get(with_token + "/metrics", headers={"Authorization": header}).status_code == 401


def test_health_is_open(with_token: str) -> None:
    assert httpx.get(with_token + "/healthz").text == "ok\n"
    assert httpx.get(with_token + "/readyz").json()["status"] == "ready"


def test_a_token_file_is_read_again_and_an_emptied_one_locks_nobody_out_or_in(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    token = Token(None, file)
    assert token.matches(b"Bearer first")
    file.write_text("second-token\n")
    token.refresh()
    assert token.matches(b"Bearer second-token")
    assert not token.matches(b"Bearer first")
    file.write_text("\n\n\n")
    token.refresh()
    assert token.matches(b"Bearer second-token")
    assert not token.matches(b"Bearer ")


def test_a_token_file_without_token_is_bad_input(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("  \n")
    with pytest.raises(BadInput, match=r"serve\.token_file: .*token: holds no token"):
        Token(None, file)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def _client(authority: Authority, certificate: tuple[Path, Path] | None = None) -> httpx.Client:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if certificate is not None:
        context.load_cert_chain(*certificate)
    return httpx.Client(verify=context)


def test_a_client_certificate_stands_for_the_token_at_the_webhook_alone(authority: Authority) -> None:
    server, caller = authority.issue("server"), authority.issue("caller")
    tls = ReloadingContext.of(*server, authority.certificate)
    with running(Fakes().parts(Token("t0ken", None), client_ca=True), tls) as url:
        with _client(authority, caller) as client:
            assert client.post(url + "/mutate", content=encoded(review())).status_code == 200
            assert client.get(url + "/v1/nodes").status_code == 401
        with _client(authority) as client:
            assert client.post(url + "/mutate", content=encoded(review())).status_code == 401
            assert client.get(url + "/v1/nodes", headers={"Authorization": "Bearer t0ken"}).status_code == 200
            assert client.get(url + "/healthz").status_code == 200


def test_with_a_client_ca_alone_everything_but_health_asks_for_a_certificate(authority: Authority) -> None:
    server, caller = authority.issue("server"), authority.issue("caller")
    with running(Fakes().parts(client_ca=True), ReloadingContext.of(*server, authority.certificate)) as url:
        with _client(authority, caller) as client:
            assert client.get(url + "/v1/nodes").status_code == 200
        with _client(authority) as client:
            assert client.get(url + "/v1/nodes").status_code == 401
            assert client.get(url + "/readyz").status_code == 200


def test_a_certificate_of_another_authority_is_refused(authority: Authority, tmp_path: Path) -> None:
    stranger = Authority(tmp_path / "other", "other-ca").issue("stranger")
    tls = ReloadingContext.of(*authority.issue("server"), authority.certificate)
    with (
        running(Fakes().parts(client_ca=True), tls) as url,
        _client(authority, stranger) as client,
        pytest.raises(httpx.TransportError),
    ):
        client.post(url + "/mutate", content=encoded(review()))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"host": "0.0.0.0"}, r"serve\.host: 0\.0\.0\.0 can be reached from elsewhere"),
        ({"host": "node-7.example.org"}, r"serve\.host"),
        ({"host": "::"}, r"serve\.host"),
        ({"tls_cert": "a.crt"}, r"serve\.tls_cert, serve\.tls_key: give both"),
        ({"client_ca": "ca.crt"}, r"serve\.client_ca: needs serve\.tls_cert"),
        ({"token": "x", "token_file": "y"}, r"serve\.token, serve\.token_file: give one"),
        ({"host": "0.0.0.0", "tls_cert": "a", "tls_key": "b"}, r"serve\.host"),
    ],
)
def test_settings_that_would_answer_strangers_are_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        listening.check(ServeSettings.model_validate(given))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"host": "127.0.0.1"},
        {"host": "localhost"},
        {"host": "::1"},
        {"host": "0.0.0.0", "token_file": "t"},
        {"host": "0.0.0.0", "tls_cert": "a", "tls_key": "b", "client_ca": "c"},
    ],
)
def test_guarded_or_local_settings_are_accepted(given: dict[str, str]) -> None:
    listening.check(ServeSettings.model_validate(given))


def test_without_token_or_client_ca_the_server_listens_on_loopback() -> None:
    with listening.bind(ServeSettings(port=0)) as socket:
        assert socket.getsockname()[0] == "127.0.0.1"


def test_with_a_token_it_listens_everywhere() -> None:
    with listening.bind(ServeSettings.model_validate({"port": 0, "token": "x"})) as socket:
        assert socket.getsockname()[0] in ("::", "0.0.0.0")


def test_the_default_port_depends_on_tls() -> None:
    assert listening.port(ServeSettings()) == 8080
    assert listening.port(ServeSettings.model_validate({"tls_cert": "a", "tls_key": "b"})) == 8443
    assert listening.port(ServeSettings(port=9000)) == 9000


def test_a_taken_port_is_one_line() -> None:
    with listening.bind(ServeSettings(port=0)) as socket:
        taken = socket.getsockname()[1]
        with pytest.raises(BadInput, match=rf"serve\.port: 127\.0\.0\.1:{taken} is in use") as error:
            listening.bind(ServeSettings(port=taken))
    assert "\n" not in str(error.value)


def test_an_open_webhook_is_open_alone() -> None:
    with running(replace(Fakes().parts(Token("t0ken", None)), open_admission=True)) as url:
        assert httpx.post(url + "/mutate", content=encoded(review())).status_code == 200
        assert httpx.get(url + "/v1/nodes").status_code == 401
        assert httpx.post(url + "/extender/filter", content=b"{}").status_code == 401
