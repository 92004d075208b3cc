"""A replica and its writer: nothing wrong is taken over, nothing is lost, and nothing comes twice."""

import hashlib
import itertools
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from featurestore.store import decisions, published
from featurestore.store.decisions import Spool
from featurestore.store.duck import Store
from jobs.config import Settings, load
from jobs.service.process import Process
from jobs.service.replication import digests
from jobs.supervisor.replica import Replica
from jobs.supervisor.status import WriterStatus
from tests.featurestore.store.test_decisions_spool import decision
from tests.support.advised import AGGRESSOR, LABELS, learned, node_row, placement_row
from tests.support.processes import alive
from tests.support.service import AT, encoded, review, running_app, wait_until
from tests.support.serving import PATIENCE, Serving, configured, supervisor
from tests.support.snapshots import snapshot
from tests.support.web import Asked, Reply, answering

Answer = Callable[[Asked], Reply]


def _replica(directory: Path, url: str, told: list[WriterStatus]) -> Replica:
    settings = Settings.model_validate(
        {
            "store": {
                "snapshot": directory / "snapshot",
                "control": directory / "control.sqlite",
                "spool": directory / "spool",
            },
            "replica": {"writer": url, "token": "s3cret"},
        }
    )
    return Replica(settings, told.append, now=lambda: 100.0)


@pytest.fixture
def sent(tmp_path: Path) -> bytes:
    published.write(snapshot(AT, {}, version="sent"), tmp_path / "sent")
    return (tmp_path / "sent").read_bytes()


def _control(schema: int = 2) -> Reply:
    content = msgspec.json.encode([schema, [], [], []])
    return Reply(content, headers=digests.headers(digests.of(content)))


def _whole(content: bytes) -> Reply:
    return Reply(content, headers=digests.headers(hashlib.sha256(content).hexdigest()))


def test_what_did_not_change_is_not_fetched_again_even_after_a_start(tmp_path: Path, sent: bytes) -> None:
    asked: list[Asked] = []

    def reply(request: Asked) -> Reply:
        asked.append(request)
        if request.path.endswith("control"):
            return _control()
        known = request.headers.get("if-none-match")
        return Reply(status=304) if known == f'"{hashlib.sha256(sent).hexdigest()}"' else _whole(sent)

    told: list[WriterStatus] = []
    with answering(reply) as url:
        _replica(tmp_path, url, told).fetch()
        _replica(tmp_path, url + "/", told).fetch()
    assert published.load(tmp_path / "snapshot").version == "sent"
    assert [one.exchanges["snapshot"] for one in told] == [{"changed": 1}, {"unchanged": 1}]
    assert [one.confirmed for one in told] == [100.0, 100.0]
    assert {request.headers["authorization"] for request in asked} == {"Bearer s3cret"}
    assert {request.path for request in asked} == {"/v1/replication/snapshot", "/v1/replication/control"}


def _bad(sent: bytes) -> dict[str, Reply]:
    whole = _whole(sent)
    changed = bytearray(sent)
    changed[len(sent) // 2] ^= 1
    return {
        "truncated": Reply(sent, headers=whole.headers, cut=len(sent) // 2),
        "shorter": Reply(sent[:-1], headers=whole.headers),
        "one bit changed": Reply(bytes(changed), headers=whole.headers),
        "no digest": Reply(sent),
        "a digest of another kind": Reply(sent, headers={"Repr-Digest": "md5=:AA==:"}),
        "no snapshot": _whole(b"COLOSNP0 of some other version"),
        "empty": _whole(b""),
        "an error": Reply("no", status=500, headers=whole.headers),
        "elsewhere": Reply("", status=302, headers={"Location": "/", **whole.headers}),
    }


def _file(path: Path) -> tuple[int, int, bytes]:
    """Which file it is and what it holds; not when it was last read, for reading a snapshot is no change of it."""
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, path.read_bytes()


@pytest.mark.parametrize("how", list(_bad(b"x" * 10)))
def test_a_body_that_is_not_what_the_writer_has_is_refused(tmp_path: Path, sent: bytes, how: str) -> None:
    published.write(snapshot(AT, {}, version="former"), tmp_path / "snapshot")
    before = _file(tmp_path / "snapshot")
    told: list[WriterStatus] = []
    with answering(lambda asked: _control() if asked.path.endswith("control") else _bad(sent)[how]) as url:
        _replica(tmp_path, url, told).fetch()
    assert _file(tmp_path / "snapshot") == before
    assert told[-1].exchanges["snapshot"] == {"failed": 1}
    assert told[-1].confirmed is None
    assert not list(tmp_path.glob("*.fetched")) and not list(tmp_path.glob(".*.fetched"))


def test_a_copy_of_the_control_store_of_another_version_is_refused(tmp_path: Path, sent: bytes) -> None:
    told: list[WriterStatus] = []
    with answering(lambda asked: _control(99) if asked.path.endswith("control") else _whole(sent)) as url:
        _replica(tmp_path, url, told).fetch()
    assert told[-1].exchanges == {"snapshot": {"changed": 1}, "control": {"failed": 1}}
    assert told[-1].confirmed is None


def test_a_writer_without_a_snapshot_is_no_failure(tmp_path: Path) -> None:
    told: list[WriterStatus] = []
    with answering(lambda asked: _control() if asked.path.endswith("control") else Reply("", status=404)) as url:
        _replica(tmp_path, url, told).fetch()
    assert (told[-1].exchanges["snapshot"], told[-1].confirmed) == ({"none": 1}, 100.0)


def test_decisions_stay_until_the_writer_has_them(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    spool.append([decision(1), decision(2)])
    spool.close()
    replies = iter([Reply("", status=503), Reply("not json"), Reply('{"accepted": 2, "refused": 0}')])
    told: list[WriterStatus] = []
    with answering(lambda _: next(replies)) as url:
        replica = _replica(tmp_path, url, told)
        for left in (1, 1, 0):
            replica.hand_back()
            assert len(list((tmp_path / "spool").iterdir())) == left
    assert [one.waiting > 0 for one in told] == [True, True, False]
    assert (told[-1].handed_back, told[-1].lost) == (2, 0)
    assert told[-1].exchanges == {"decisions": {"failed": 2}}


def _publish(directory: Path, version: str, busy: str) -> None:
    nodes = [node_row("a"), node_row("b")]
    placements = [placement_row("training", busy, AGGRESSOR)]
    published.write(learned(version=version, nodes=nodes, placements=placements), directory / "snapshot")


def _pod(name: str) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": dict(LABELS)},
        "spec": {"containers": [container]},
    }


def _kill(served: Serving) -> None:
    """As the end of a container does: all at once, without a word."""
    family = [served.process.pid, *served.family()]
    for pid in family:
        os.kill(pid, signal.SIGKILL)
    served.process.wait()
    wait_until(lambda: not any(alive(pid) for pid in family))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_two_replicas_answer_rightly_through_a_swap_and_a_death_and_every_decision_arrives_once(
    tmp_path: Path,
) -> None:
    """The snapshot v1 has Model_training on a, v2 on b: hello belongs on the other one."""
    right = {"v1": "b", "v2": "a"}
    places = {name: tmp_path / name for name in ("writer", "one", "two")}
    for place in places.values():
        place.mkdir()
    cluster = "[[clusters]]\nname = 'c1'\n"
    written = load(configured(places["writer"], {"replica_token": "replica"}, rest=cluster))
    store = Store(written.store.path)
    _publish(places["writer"], "v1", busy="a")
    numbers = itertools.count()
    decided: list[str] = []

    def decide(served: Serving) -> None:
        uid = f"decision-{next(numbers):027d}"
        answer = httpx.post(served.url + "/mutate", content=encoded(review(_pod(uid), uid=uid, namespace="default")))
        assert answer.json()["response"]["allowed"] is True
        decided.append(uid)

    def rightly(served: Serving) -> str:
        answer = httpx.post(served.url + "/v1/recommendations", json=_pod("asks")).json()
        assert answer["nodes"][0]["name"] == right[answer["snapshot"]]
        version: str = answer["snapshot"]
        return version

    with ExitStack() as stack, ExitStack() as first:
        url = first.enter_context(_writer(written))
        follow = f"{cluster}[replica]\nwriter = '{url}'\ntoken = 'replica'\nevery = '200ms'\n"
        configs = [configured(places[name], rest=follow) for name in ("one", "two")]
        one, two = [stack.enter_context(supervisor(config)) for config in configs]
        for served in (one, two):
            served.wait()
            assert rightly(served) == "v1"
            decide(served)

        # What the writer is asked for is known to both, and neither takes it itself.
        project = {"metadata": {"name": "p1"}}
        assert httpx.post(url + "/v2/projects", json=project).status_code == 201
        for served in (one, two):
            wait_until(lambda served=served: len(httpx.get(served.url + "/v2/projects").json()) == 1, PATIENCE)
            assert httpx.post(served.url + "/v2/projects", json=project).status_code == 421

        # The swap: every answer on the way is right for the snapshot that it names.
        _publish(places["writer"], "v2", busy="b")
        wait_until(lambda: {rightly(one), rightly(two)} == {"v2"}, PATIENCE)
        wait_until(lambda: one.metric("colocation_replica_decisions_handed_back_total") == 1, PATIENCE)

        # The writer is gone: answers go on, decisions wait, and how long it is silent shows.
        first.close()
        for served in (one, two, one):
            assert rightly(served) == "v2"
            decide(served)
        silent = "colocation_replica_staleness_seconds"
        wait_until(lambda: (one.metric(silent) or 0.0) > 1.0 and (two.metric(silent) or 0.0) > 1.0, PATIENCE)
        assert (one.metric("colocation_replica_exchanges_total", what="snapshot", outcome="failed") or 0) > 0

        # A replica is killed with decisions on its disk, and starts again where it was.
        wait_until(lambda: len(_spooled(places["one"])) == 2, PATIENCE)
        _kill(one)
        one = stack.enter_context(supervisor(configs[0])).wait()
        assert rightly(one) == "v2"
        decide(one)

        # The writer is back, and is restarted once more.
        for _ in range(2):
            with _writer(written, httpx.URL(url).port or 0):
                decide(one)
                decide(two)
                wait_until(lambda: _spooled(places["writer"]) | {*_stored(store)} == {*decided}, PATIENCE)
                wait_until(lambda: not _spooled(places["one"]) | _spooled(places["two"]), PATIENCE)
                wait_until(lambda: (two.metric(silent) or 9.0) < 1.0, PATIENCE)
            decisions.flush(store, written.store.spool)
    assert sorted(_stored(store)) == sorted(decided)
    assert len(decided) == 10


@contextmanager
def _writer(settings: Settings, port: int = 0) -> Iterator[str]:
    process = Process(settings, None, 0)
    process.start()
    try:
        with running_app(process.app, port=port) as url:
            yield url
    finally:
        process.close()


def _spooled(place: Path) -> set[str]:
    """Which decisions wait in the spool of *place*; one may lie there twice."""
    found = set()
    for path in (place / "spool").glob("decisions-*"):
        with suppress(FileNotFoundError):  # handed on just now
            found |= {json.loads(line)["decision"] for line in path.read_bytes().splitlines() if line.endswith(b"}")}
    return found


def _stored(store: Store) -> list[str]:
    return [row["decision"] for row in store.read(lambda con: decisions.recent(con, limit=1000)).to_pylist()]
