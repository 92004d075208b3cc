"""What a writer gives to replicas and takes from them, and what a replica sends elsewhere."""

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import msgspec
import pytest

from featurestore.store import copied, decisions, published, tree
from featurestore.store.control import Control
from featurestore.store.duck import Store
from jobs.config import ServeSettings, StoreSettings
from jobs.service import listening
from jobs.service.app import Parts
from jobs.service.auth import Token
from jobs.service.replication.answers import Replication
from jobs.service.replication.operations import REPLICATION
from pipeline.errors import BadInput
from tests.featurestore.store.test_decisions_spool import decision
from tests.support.service import AT, Fakes, encoded, review, running
from tests.support.snapshots import snapshot


@pytest.fixture
def store(tmp_path: Path) -> StoreSettings:
    return StoreSettings(
        snapshot=tmp_path / "snapshot", control=tmp_path / "control.sqlite", spool=tmp_path / "spool"
    )


def _parts(store: StoreSettings) -> Parts:
    return replace(Fakes().parts(), replication=Replication(store))


@pytest.fixture
def writer(store: StoreSettings) -> Iterator[httpx.Client]:
    with running(_parts(store)) as url, httpx.Client(base_url=url) as client:
        yield client


def test_the_snapshot_is_sent_whole_once_and_again_when_it_is_another(
    writer: httpx.Client, store: StoreSettings
) -> None:
    assert writer.get("/v1/replication/snapshot").status_code == 404
    for version in ("first", "second"):
        published.write(snapshot(AT, {}, version=version), store.snapshot)
        content = store.snapshot.read_bytes()
        answer = writer.get("/v1/replication/snapshot")
        assert answer.content == content
        digest = hashlib.sha256(content)
        assert answer.headers["etag"] == f'"{digest.hexdigest()}"'
        assert answer.headers["repr-digest"] == f"sha-256=:{base64.b64encode(digest.digest()).decode()}:"
        known = {"If-None-Match": f'"other", W/"{digest.hexdigest()}"'}
        again = writer.get("/v1/replication/snapshot", headers=known)
        assert (again.status_code, again.content) == (304, b"")
        assert writer.get("/v1/replication/snapshot", headers={"If-None-Match": '"other"'}).status_code == 200


def test_what_was_asked_for_is_sent_whole_and_after_a_change_again(
    writer: httpx.Client, store: StoreSettings, tmp_path: Path
) -> None:
    control, other = Control(store.control), Control(tmp_path / "other.sqlite")
    empty = writer.get("/v1/replication/control")
    control.write(lambda con: tree.add(con, "", "projects", "projects/p1", {}, AT))
    answer = writer.get("/v1/replication/control", headers={"If-None-Match": empty.headers["etag"]})
    copied.restore(other, answer.content)
    assert [item.path for item in other.read(lambda con: tree.below(con, ""))] == ["projects/p1"]
    known = {"If-None-Match": answer.headers["etag"]}
    assert writer.get("/v1/replication/control", headers=known).status_code == 304


def test_decisions_are_safe_when_they_are_answered_for(writer: httpx.Client, store: StoreSettings) -> None:
    lines = b"".join(msgspec.json.encode(decision(number)) + b"\n" for number in range(3))
    for _ in range(2):
        answer = writer.post("/v1/replication/decisions", content=lines + b"no decision\n")
        assert answer.json() == {"accepted": 3, "refused": 1}
    assert decisions.flush(Store(store.spool.parent / "db"), store.spool).rows == 3


def test_a_spool_that_cannot_be_written_keeps_the_replica_from_forgetting(
    writer: httpx.Client, store: StoreSettings
) -> None:
    store.spool.write_text("a file")
    line = msgspec.json.encode(decision(1))
    assert writer.post("/v1/replication/decisions", content=line).status_code == 503


@pytest.mark.parametrize("route", REPLICATION, ids=lambda route: route.path)
@pytest.mark.parametrize("token", [Token(None, None), Token("everything", None)], ids=["open", "guarded"])
def test_the_token_of_replicas_opens_this_and_nothing_else(store: StoreSettings, route: object, token: Token) -> None:
    assert isinstance(route, type(REPLICATION[0]))
    parts = replace(_parts(store), token=token, replicas=Token("replica", None))
    with running(parts) as url, httpx.Client(base_url=url) as client:

        def asked(path: str, given: str | None) -> int:
            headers = {"Authorization": f"Bearer {given}"} if given else {}
            return client.request(route.method, path, headers=headers).status_code

        assert asked(route.path, None) == asked(route.path, "wrong") == 401
        assert asked(route.path, "replica") in (200, 404)
        assert asked(route.path, "everything") == (401 if not token.asked_for else asked(route.path, "replica"))
        if token.asked_for:
            assert client.get("/v1/nodes", headers={"Authorization": "Bearer replica"}).status_code == 401


def test_two_tokens_for_replicas_are_a_contradiction(tmp_path: Path) -> None:
    both = ServeSettings.model_validate({"replica_token": "a", "replica_token_file": tmp_path / "b"})
    with pytest.raises(BadInput, match=r"serve\.replica_token, serve\.replica_token_file: give one"):
        listening.check(both)


def test_a_replica_answers_questions_and_sends_changes_elsewhere(store: StoreSettings) -> None:
    parts = replace(_parts(store), writer="https://writer:443")
    with running(parts) as url, httpx.Client(base_url=url) as client:
        for method, path in (
            ("POST", "/v2/projects"),
            ("PUT", "/v2/projects/p1"),
            ("DELETE", "/v2/projects/p1"),
            ("POST", "/v1/host-constraints"),
            ("DELETE", "/v1/host-constraints/ex"),
            ("POST", "/v1/replication/decisions"),
        ):
            answer = client.request(method, path, content=b"{}" if method != "DELETE" else None)
            assert answer.status_code == 421, path
            assert answer.json()["detail"] == "a replica changes nothing: ask the writer at https://writer:443"
        assert client.post("/mutate", content=encoded(review())).json()["response"]["allowed"] is True
        assert client.post("/v1/recommendations", json={"kind": "Pod", "spec": {}}).status_code == 200
        assert client.get("/v1/nodes").status_code == 200
    assert not store.control.exists()
