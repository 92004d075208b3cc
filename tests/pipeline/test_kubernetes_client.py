"""The Kubernetes client against a server that misbehaves in every way that was met."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from kubernetes.config import incluster_config

from pipeline.clients import credentials
from pipeline.clients.kubernetes import KubernetesClient
from pipeline.errors import BadInput, Permanent, SourceError, Temporary
from tests.support.kube_objects import node
from tests.support.kube_server import HTML, KubeServer, serving, status
from tests.support.web import Reply, answering

NODES = "/api/v1/nodes"
Connect = Callable[..., KubernetesClient]


@pytest.fixture
def server() -> Iterator[KubeServer]:
    with serving({NODES: [node(f"n{i}") for i in range(25)]}) as running:
        yield running


@pytest.fixture
def connect(server: KubeServer, tmp_path: Path) -> Connect:
    def make(page: int = 10, timeout: float = 5.0, token: str | None = None) -> KubernetesClient:
        config = server.kubeconfig(tmp_path, token)
        return KubernetesClient(kubeconfig=config, page=page, timeout=timedelta(seconds=timeout))

    return make


def names(items: tuple[msgspec.Raw, ...]) -> list[str]:
    return [json.loads(bytes(item))["metadata"]["name"] for item in items]


ALL = [f"n{i}" for i in range(25)]


@pytest.mark.parametrize("page", [1, 7, 24, 25, 26, 500])
def test_all_pages_in_order(server: KubeServer, connect: Connect, page: int) -> None:
    listing = connect(page=page).list(NODES)
    assert names(listing.items) == ALL
    assert listing.resource_version == "1000"
    assert len(server.requests) == -(-25 // page)
    assert all(query["limit"] == str(page) for _, query in server.requests)


def test_selectors_go_to_the_server_on_every_page(server: KubeServer, connect: Connect) -> None:
    connect().list(NODES, label_selector="a=b,c in (d)", field_selector="spec.nodeName!=")
    assert len(server.requests) == 3
    for _, query in server.requests:
        assert (query["labelSelector"], query["fieldSelector"]) == ("a=b,c in (d)", "spec.nodeName!=")


def test_an_expired_page_starts_the_list_over(server: KubeServer, connect: Connect) -> None:
    server.expire = 1
    assert names(connect().list(NODES).items) == ALL
    starts = [query.get("continue") for _, query in server.requests]
    assert starts == [None, "10", None, "10", "20"]


def test_pages_that_keep_expiring_end_in_one_whole_page(server: KubeServer, connect: Connect) -> None:
    server.expire = 1000
    assert names(connect().list(NODES).items) == ALL
    assert "limit" not in server.requests[-1][1]
    assert len(server.requests) == 5


def test_a_list_that_is_always_gone_is_an_error_after_three_tries(server: KubeServer, connect: Connect) -> None:
    server.script = [status(410, "too old", "Expired")] * 9
    with pytest.raises(Temporary) as caught:
        connect().list(NODES)
    assert caught.value.reason == "gone"
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("answer", "kind", "reason"),
    [
        (HTML, Permanent, "not_json"),
        ((200, b'{"kind": "Pod"}', "application/json"), Permanent, "not_a_list"),
        ((200, b'{"items": 3}', "application/json"), Permanent, "not_a_list"),
        ((200, b"[]", "application/json"), Permanent, "not_a_list"),
        ((200, b"", "application/json"), Permanent, "not_json"),
        ((200, b"[" * 100_000 + b"]" * 100_000, "application/json"), Permanent, "not_json"),
        ((200, b'{"items": [{]}', "application/json"), Permanent, "not_json"),
        ((302, b"", "text/html"), Permanent, "status_302"),
        (status(403, 'nodes is forbidden: User "x" cannot list', "Forbidden"), Permanent, "status_403"),
        (status(404), Permanent, "status_404"),
        (status(429), Temporary, "status_429"),
        (status(500, "etcd failed"), Temporary, "status_500"),
        ((503, b"<html>gateway</html>", "text/html"), Temporary, "status_503"),
        ("half", Temporary, "half_page"),
    ],
)
@pytest.mark.parametrize("good_pages", [0, 1, 2])
def test_a_bad_page_is_an_error_in_one_line_never_half_a_list(
    server: KubeServer, connect: Connect, answer: object, kind: type[SourceError], reason: str, good_pages: int
) -> None:
    server.script = [None] * good_pages + [answer]
    with pytest.raises(kind) as caught:
        connect().list(NODES)
    assert caught.value.reason == reason
    assert caught.value.source == "kubernetes"
    assert server.url + NODES in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_servers_own_sentence_is_told(server: KubeServer, connect: Connect) -> None:
    server.script = [status(403, 'nodes is forbidden: User "x" cannot list', "Forbidden")]
    with pytest.raises(Permanent, match='User "x" cannot list'):
        connect().list(NODES)


@pytest.mark.parametrize("code", [401, 403, 500])
def test_an_error_that_only_trickles_is_told_without_its_end(tmp_path: Path, code: int) -> None:
    body = json.dumps({"kind": "Status", "message": "the server's own sentence"}).encode()
    for trickle, told in ((0.0, True), (0.05, False)):
        with answering(lambda _, t=trickle: Reply(body, code, trickle=t)) as url:  # type: ignore[misc]
            cluster = {"name": "c", "cluster": {"server": url}}
            context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
            (tmp_path / "config").write_text(json.dumps({
                "clusters": [cluster], "contexts": [context], "users": [{"name": "u", "user": {}}],
                "current-context": "c",
            }))  # fmt: skip
            client = KubernetesClient(kubeconfig=tmp_path / "config", timeout=timedelta(seconds=0.5))
            with pytest.raises(SourceError, match=f"status {code}") as caught:
                client.get(NODES)
        assert ("own sentence" in str(caught.value)) == told


@pytest.mark.parametrize("habit", ["hang", "trickle"])
def test_a_silent_or_trickling_server_is_a_timeout(server: KubeServer, connect: Connect, habit: str) -> None:
    server.script = [habit]
    with pytest.raises(Temporary) as caught:
        connect(timeout=0.2).list(NODES)
    assert caught.value.reason == "timeout"


def test_a_server_that_is_not_there(server: KubeServer, connect: Connect) -> None:
    client = connect()
    server.close()
    with pytest.raises(Temporary) as caught:
        client.list(NODES)
    assert caught.value.reason == "connection"


def test_null_items_are_an_empty_list(server: KubeServer, connect: Connect) -> None:
    server.script = [(200, b'{"items": null, "metadata": {"resourceVersion": "7"}}', "application/json")]
    listing = connect().list(NODES)
    assert (listing.items, listing.resource_version) == ((), "7")


def test_a_damaged_real_body_is_refused_cleanly(server: KubeServer, connect: Connect, real: Path) -> None:
    body = (real / "node_aks_malformed_ruby_hash.txt").read_bytes()
    server.script = [(200, body, "application/json")]
    with pytest.raises(Permanent) as caught:
        connect().list(NODES)
    assert caught.value.reason == "not_json"
    assert len(str(caught.value)) < 200


class TestCredentials:
    def test_a_rotated_token_is_read_again_between_pages(
        self, server: KubeServer, connect: Connect, tmp_path: Path
    ) -> None:
        server.token = "first"
        client = connect(token="first")
        assert names(client.list(NODES).items) == ALL
        for token in ("second", "third"):
            server.token = token
            (tmp_path / "token").write_text(token)
            assert names(client.list(NODES).items) == ALL

    def test_a_token_that_stays_wrong_is_one_error_without_the_token(
        self, server: KubeServer, connect: Connect
    ) -> None:
        server.token = "right"
        with pytest.raises(Permanent) as caught:
            connect(token="s3cret-wrong").list(NODES)
        assert caught.value.reason == "status_401"
        assert len(server.requests) == 2
        assert "s3cret" not in str(caught.value)

    def test_a_server_that_repeats_the_token_does_not_make_us_repeat_it(
        self, server: KubeServer, connect: Connect
    ) -> None:
        server.script = [status(403, "token s3cret-token may not")]
        with pytest.raises(Permanent, match=r"token .* may not") as caught:
            connect(token="s3cret-token").list(NODES)
        assert "s3cret-token" not in str(caught.value)

    def test_a_watch_logs_in_again_too(self, server: KubeServer, connect: Connect, tmp_path: Path) -> None:
        server.token = "first"
        client = connect(token="first")
        server.token = "second"
        (tmp_path / "token").write_text("second")
        server.event(NODES, "ADDED", node("new"))
        assert [each.type for each in client.watch(NODES, "1000", seconds=1)] == ["ADDED"]

    def test_credentials_that_vanish_while_running_are_the_sources_error(
        self, server: KubeServer, connect: Connect, tmp_path: Path
    ) -> None:
        server.token = "first"
        client = connect(token="first")
        server.token = "second"
        (tmp_path / "kubeconfig").unlink()
        with pytest.raises(Permanent) as caught:
            client.list(NODES)
        assert caught.value.reason == "credentials"

    def test_a_login_program_is_run_again(self, server: KubeServer, tmp_path: Path) -> None:
        server.token = "first"
        path = server.kubeconfig(tmp_path)
        config = json.loads(path.read_text())
        credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
        template = json.dumps({**credential, "status": {"token": "@"}})
        program = tmp_path / "login"
        program.write_text(f"#!/bin/sh\nsed s/@/$(cat {tmp_path}/token)/ <<'X'\n{template}\nX\n")
        program.chmod(0o700)
        command = {"apiVersion": credential["apiVersion"], "command": str(program), "interactiveMode": "Never"}
        config["users"][0]["user"] = {"exec": command}
        path.write_text(json.dumps(config))
        client = KubernetesClient(kubeconfig=path, page=10)
        assert names(client.list(NODES).items) == ALL
        server.token = "second"
        (tmp_path / "token").write_text("second")
        assert names(client.list(NODES).items) == ALL

    def test_in_a_pod_the_service_account_is_used(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        token, certificate = tmp_path / "token", tmp_path / "ca.crt"
        token.write_text("pod-token")
        certificate.write_text("certificate")
        monkeypatch.delenv("KUBECONFIG", raising=False)
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
        monkeypatch.setattr(credentials, "_SERVICE_ACCOUNT", token)
        monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
        monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(certificate))
        found = credentials.configuration(None, None)
        assert found.host == "https://10.96.0.1:443"
        assert found.auth_settings()["BearerToken"]["value"].lower() == "bearer pod-token"

    @pytest.mark.parametrize(
        "text",
        [
            None,
            "",
            "a: [",
            "just words",
            "[1]",
            "apiVersion: v1",
            "{contexts: 3, current-context: a, clusters: [], users: []}",
            "{contexts: [{name: a, context: {cluster: b, user: c}}], current-context: zz, clusters: [], users: []}",
        ],
    )
    def test_an_unusable_kubeconfig_is_one_line_naming_the_file(self, tmp_path: Path, text: str | None) -> None:
        path = tmp_path / "config.yaml"
        if text is not None:
            path.write_text(text)
        with pytest.raises(BadInput, match=r"config\.yaml") as caught:
            KubernetesClient(kubeconfig=path)
        assert "\n" not in str(caught.value)

    def test_the_environment_names_the_kubeconfig(
        self, server: KubeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path)))
        assert KubernetesClient().host == server.url

    def test_a_kubeconfig_that_is_not_there_is_not_called_invalid(
        self, server: KubeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("KUBECONFIG", raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))
        with pytest.raises(BadInput, match=r"~/\.kube/config: no such kubeconfig"):
            KubernetesClient()
        monkeypatch.delenv("HOME")
        monkeypatch.setattr(os, "getuid", lambda: 2**31 - 3)  # whom no list of users has
        with pytest.raises(BadInput, match=r"~/\.kube/config: no such kubeconfig"):
            KubernetesClient()
        monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'none'}{os.pathsep}{server.kubeconfig(tmp_path)}")
        assert KubernetesClient().host == server.url

    def test_a_password_in_the_servers_address_is_not_shown(self, server: KubeServer, tmp_path: Path) -> None:
        path = server.kubeconfig(tmp_path)
        path.write_text(path.read_text().replace("http://", "http://user:s3cret@"))
        client = KubernetesClient(kubeconfig=path)
        assert client.host == server.url
        server.script = [status(500)]
        with pytest.raises(SourceError) as caught:
            client.list(NODES)
        assert "s3cret" not in str(caught.value)


class TestWatch:
    def test_events_come_as_they_happen_until_the_quiet_end(self, server: KubeServer, connect: Connect) -> None:
        stream = connect().watch(NODES, "1000", seconds=30)
        events = iter(stream)
        server.event(NODES, "ADDED", node("a"))
        first = next(events)
        assert (first.type, json.loads(bytes(first.object))["metadata"]["name"]) == ("ADDED", "a")
        server.event(NODES, "BOOKMARK", {"kind": "Node"})
        server.event(NODES, "DELETED", node("a"))
        assert [next(events).type, next(events).type] == ["BOOKMARK", "DELETED"]
        server.end_watches()
        assert list(events) == []

    def test_the_watch_begins_after_the_version_it_is_given(self, server: KubeServer, connect: Connect) -> None:
        seen = server.event(NODES, "ADDED", node("old"))
        server.event(NODES, "ADDED", node("new"))
        [event] = connect().watch(NODES, str(seen), seconds=1)
        assert json.loads(bytes(event.object))["metadata"]["name"] == "new"

    def test_a_forgotten_version_is_gone(self, server: KubeServer, connect: Connect) -> None:
        server.oldest = 2000
        with pytest.raises(Temporary) as caught:
            list(connect().watch(NODES, "1000", seconds=1))
        assert caught.value.reason == "gone"

    def test_a_version_refused_at_once_is_gone(self, server: KubeServer, connect: Connect) -> None:
        server.script = [status(410, "too old", "Expired")]
        with pytest.raises(Temporary) as caught:
            connect().watch(NODES, "1000", seconds=1)
        assert caught.value.reason == "gone"

    @pytest.mark.parametrize("line", [b"<html>", b"[]", b'{"type": "ADDED"}', b'{"type": "ERROR", "object": 5}'])
    def test_a_line_that_is_no_event_is_an_error(self, server: KubeServer, connect: Connect, line: bytes) -> None:
        server.raw_event(NODES, line)
        with pytest.raises(Temporary) as caught:
            list(connect().watch(NODES, "1000", seconds=1))
        assert caught.value.reason == "not_json"

    def test_another_error_event_is_not_gone(self, server: KubeServer, connect: Connect) -> None:
        server.raw_event(NODES, b'{"type": "ERROR", "object": {"code": 500, "message": "etcd"}}')
        with pytest.raises(Temporary, match="etcd") as caught:
            list(connect().watch(NODES, "1000", seconds=1))
        assert caught.value.reason == "watch_error"

    def test_closing_wakes_the_reader(self, server: KubeServer, connect: Connect) -> None:
        stream = connect().watch(NODES, "1000", seconds=30)
        got: list[object] = []
        reader = threading.Thread(target=lambda: got.extend(stream))
        reader.start()
        stream.close()
        reader.join(5)
        assert not reader.is_alive()
        assert got == []
