"""`colocate doctor` on whom it reaches beside the clusters: the writer of a replica, and who takes traces."""

from pathlib import Path

import msgspec
import pytest

from jobs import doctor, peers
from jobs.config import ReplicaSettings, Settings, TraceSettings, load
from jobs.finding import Finding
from jobs.service.replication import digests
from pipeline.errors import BadInput
from tests.jobs.test_doctor import NOW
from tests.support.certificate import make_certificate
from tests.support.otlp import receiving
from tests.support.web import Asked, Reply, answering


def told(**given: ReplicaSettings | TraceSettings) -> tuple[str, str, str]:
    """Source, verdict and check of the only finding."""
    [found] = peers.examine(Settings.model_validate(given))
    return found.source, found.verdict, found.check


def writer(asked: Asked) -> Reply:
    if asked.headers.get("authorization") != "Bearer s3cret":
        return Reply(status=401)
    content = msgspec.json.encode([2, [], [], []])
    return Reply(content, headers=digests.headers(digests.of(content)))


def test_nothing_that_is_not_configured_costs_a_line() -> None:
    assert list(peers.examine(Settings())) == []


def test_a_receiver_of_traces_is_reached_with_its_headers_and_gets_no_span() -> None:
    with receiving() as receiver:
        given = TraceSettings.model_validate({"endpoint": f"{receiver.url}/", "headers": {"X-Tenant": "t1"}})
        assert told(trace=given) == ("traces", "ok", "reach")
        assert (receiver.spans, receiver.headers[0]["x-tenant"]) == ([], "t1")
        receiver.refusing = True
        [found] = peers.examine(Settings(trace=given))
        assert (found.verdict, "503" in found.said) == ("failed", True)
        [found] = peers.examine(Settings(trace=TraceSettings(endpoint=f"{receiver.url}/elsewhere")))
        assert found.verdict == "failed"
    [found] = peers.examine(Settings(trace=given))
    assert found.said == f"{receiver.url}/v1/traces: no connection"
    assert found.fix


def test_a_writer_is_reached_with_the_token_of_replicas() -> None:
    with answering(writer) as url:
        assert told(replica=ReplicaSettings.model_validate({"writer": url, "token": "s3cret"}))[1] == "ok"
        [found] = peers.examine(Settings(replica=ReplicaSettings(writer=url)))
    assert (found.verdict, found.said) == ("failed", f"{url}/v1/replication/control: status 401")
    assert "token" in found.fix


def test_a_page_that_answers_everything_is_neither(tmp_path: Path) -> None:
    given = {"replica": {"writer": ""}, "trace": {"endpoint": ""}}
    headers = {"Content-Type": "text/html; charset=utf-8"}
    with answering(lambda asked: Reply("<html></html>", headers=headers)) as url:
        given["replica"]["writer"] = given["trace"]["endpoint"] = url
        found = list(peers.examine(Settings.model_validate(given)))
    assert [(each.source, each.verdict) for each in found] == [("writer", "failed"), ("traces", "failed")]
    assert found[0].said == f"{url}/v1/replication/control: something else answers"


def test_a_certificate_of_nobody_known_is_told_as_such(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    with answering(writer, (certificate, key)) as url:
        given = {"writer": url, "token": "s3cret"}
        [found] = peers.examine(Settings(replica=ReplicaSettings.model_validate(given)))
        assert (found.said, found.fix) == (
            f"{url}/v1/replication/control: the certificate could not be verified: self-signed certificate",
            "name the server's authority in ca_file",
        )
        assert told(replica=ReplicaSettings.model_validate({**given, "ca_file": certificate}))[1] == "ok"


def test_a_writer_that_is_silent_costs_its_timeout_and_no_more() -> None:
    with answering(lambda asked: Reply(pause=0.6)) as url:
        given = ReplicaSettings.model_validate({"writer": url, "timeout": "100ms"})
        [found] = peers.examine(Settings(replica=given))
    assert found.said.endswith("no answer in time")


@pytest.mark.parametrize("what", ["two lines", "ключ", "missing"])
def test_a_token_file_that_cannot_be_used_is_named_without_what_it_holds(tmp_path: Path, what: str) -> None:
    file = tmp_path / "token"
    if what != "missing":
        file.write_text("hidden\nhidden" if what == "two lines" else f"hidden{what}")
    [found] = peers.examine(Settings(replica=ReplicaSettings(writer="http://127.0.0.1:9", token_file=file)))
    assert (found.verdict, found.check) == ("failed", "settings")
    assert str(file) in found.said
    assert "hidden" not in found.said


@pytest.mark.parametrize("of", ["replica", "trace"])
def test_a_file_of_no_certificates_is_named(tmp_path: Path, of: str) -> None:
    file = tmp_path / "ca"
    file.write_text("none")
    where = {"replica": "writer", "trace": "endpoint"}[of]
    [found] = peers.examine(Settings.model_validate({of: {where: "https://127.0.0.1:9", "ca_file": file}}))
    assert (found.check, found.said) == ("settings", f"{of}.ca_file: {file}: no certificates")


@pytest.mark.parametrize("value", ["two\\nlines", "ключ", " before"])
@pytest.mark.parametrize("group", ["[trace]", "[[clusters]]\nname = 'c'\n[clusters.prometheus]\nurl = 'http://h'"])
def test_a_header_that_cannot_be_sent_is_refused_without_its_value(tmp_path: Path, group: str, value: str) -> None:
    file = tmp_path / "colocate.toml"
    file.write_text(f'{group}\nheaders = {{ X-Key = "hidden{value}hidden{" " if value[0] == " " else ""}" }}\n')
    with pytest.raises(BadInput, match="X-Key") as caught:
        load(file)
    assert "hidden" not in str(caught.value)


def test_a_replica_is_not_told_to_collect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with answering(writer) as url:
        settings = Settings(replica=ReplicaSettings.model_validate({"writer": url, "token": "s3cret"}))
        found: list[Finding] = list(doctor.examine(settings, NOW))
    of_store = [each for each in found if each.source == "store"]
    assert [(each.check, each.fix) for each in of_store] == [("snapshot", "see the writer below")]
    assert ("writer", "ok") in {(each.source, each.verdict) for each in found}
