"""The OpenWhisk client: nothing lost however records lie and arrive, every fault one line, no key ever shown."""

import json
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.demo.openwhisk import Fault, Late, StandIn
from pipeline.clients.openwhisk import ATTEMPTS, Key, OpenWhiskClient, read_key
from pipeline.collectors import activations
from pipeline.errors import BadInput, Permanent, SourceError, Temporary
from pipeline.records import Window
from tests.support.activations import activation, read_back
from tests.support.certificate import make_certificate
from tests.support.web import Asked, Reply, answering

KEY = Key("user:hunter2", "the settings")
KEYS = {"guest": KEY.value}


def at(milliseconds: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)


def ids(spool: Path, client: OpenWhiskClient, since: float, until: float) -> list[int]:
    return [int(record["activationId"], 16) for record in read_back(client(at(since), at(until), spool))]


def connect(url: str, **options) -> OpenWhiskClient:
    return OpenWhiskClient(url, "guest", KEY, sleep=lambda _: None, **options)


@settings(max_examples=80, deadline=None)
@given(
    starts=st.lists(st.integers(0, 6), max_size=25),
    late=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6), st.integers(-3, 30)), max_size=8),
    page=st.integers(1, 7),
    most=st.sampled_from([1, 2, 3, 200]),
    window=st.tuples(st.integers(0, 3), st.integers(3, 8)),
)
def test_no_record_that_was_there_at_the_start_is_ever_lost(starts, late, page, most, window):
    """Late records land among others of their millisecond: ids are thousandths apart, theirs lie between."""
    since, until = window
    first = [activation((number + 5) * 1000, start) for number, start in enumerate(starts)]
    arrivals = [
        Late([activation((place + 5) * 1000 + number + 1, start)], requests=requests)
        for number, (requests, start, place) in enumerate(late)
    ]
    with (
        StandIn(first, KEYS, late=arrivals, max_limit=most) as server,
        connect(server.url, page=page) as client,
        tempfile.TemporaryDirectory() as spool,
    ):
        seen = set(ids(Path(spool), client, since, until))
    there = {(number + 5) * 1000 for number, start in enumerate(starts) if since <= start < until}
    came = {
        (place + 5) * 1000 + number + 1 for number, (_, start, place) in enumerate(late) if since <= start < until
    }
    assert there <= seen <= there | came


def test_a_page_that_is_one_millisecond_is_passed_by_skipping(tmp_path):
    records = [activation(number, 1000) for number in range(450)] + [activation(999, 999), activation(1001, 1001)]
    with StandIn(records, KEYS) as server, connect(server.url) as client:
        found = ids(tmp_path, client, 999, 1002)
    assert set(found) == {*range(450), 999, 1001}
    assert found[0] == 1001


def test_a_short_page_is_not_taken_for_the_last():
    """A server that gives less than it was asked for, without a word."""
    with StandIn([activation(n, n) for n in range(40)], KEYS) as server:

        def stingy(request: Asked) -> Reply:
            parameters = {**request.query, "limit": str(min(int(request.query["limit"]), 7))}
            target = request.path + "?" + "&".join(f"{name}={value}" for name, value in parameters.items())
            status, body = server.answer(target, request.headers["authorization"])
            return Reply(body, status)

        with answering(stingy) as url, connect(url) as client, tempfile.TemporaryDirectory() as spool:
            assert set(ids(Path(spool), client, 0, 100)) == set(range(40))


def test_the_window_is_half_open_to_the_microsecond(tmp_path):
    with StandIn([activation(n, n) for n in range(10)], KEYS) as server, connect(server.url) as client:
        assert set(ids(tmp_path, client, 3, 6)) == {3, 4, 5}
        assert set(ids(tmp_path, client, 2.001, 6.001)) == {3, 4, 5, 6}
        assert ids(tmp_path, client, 6, 6) == []
        assert client.count(at(3), at(6)) == 3
    assert all(asked["docs"] == "true" for asked in server.asked if "docs" in asked)


def test_a_limit_that_is_refused_is_halved_and_stays_so(tmp_path):
    with StandIn([activation(1, 5)], KEYS, max_limit=60) as server, connect(server.url, page=200) as client:
        assert ids(tmp_path, client, 0, 10) == [1]
        assert [asked["limit"] for asked in server.asked][:4] == ["200", "100", "50", "50"]


def test_what_is_refused_even_at_one_is_an_error_with_the_server_s_words(tmp_path):
    refusal = Reply('{"error":"since is\\nodd","code":"1"}', 400)
    with answering(lambda _: refusal) as url, connect(url) as client, pytest.raises(Permanent) as caught:
        list(client(at(0), at(1), tmp_path))
    assert str(caught.value).endswith("status 400: since is odd")


def test_namespaces_are_encoded_and_underscore_is_the_key_s_own(tmp_path):
    name = "a b@c/d.e"
    with StandIn([activation(7, 5, namespace=name)], {name: KEY.value}) as server:
        for asked in (name, "_"):
            with OpenWhiskClient(server.url, asked, KEY) as client:
                assert ids(tmp_path, client, 0, 10) == [7]


FAULTS: list[tuple[list[Fault | None], type[SourceError], str]] = [
    (["error"] * ATTEMPTS, Temporary, "status_500"),
    (["busy"] * ATTEMPTS, Temporary, "status_429"),
    (["half"] * ATTEMPTS, Temporary, "half_page"),
    (["hang"] * ATTEMPTS, Temporary, "timeout"),
    (["html"], SourceError, "not_json"),
    (["forbidden"], Permanent, "status_403"),
    ([None, *["error"] * ATTEMPTS], Temporary, "status_500"),
]


@pytest.mark.parametrize(("faults", "kind", "reason"), FAULTS, ids=[f"{f[2]}-{len(f[0])}" for f in FAULTS])
def test_each_fault_is_one_line_that_names_namespace_and_url_but_no_key(faults, kind, reason, tmp_path):
    waits: list[float] = []
    with StandIn([activation(n, n) for n in range(5)], KEYS, faults=faults) as server:
        client = OpenWhiskClient(
            server.url, "guest", KEY, page=2, timeout=timedelta(milliseconds=200), sleep=waits.append
        )
        with client, pytest.raises(SourceError) as caught:
            list(client(at(0), at(9), tmp_path))
    error = caught.value
    assert (type(error), error.source, error.reason) == (kind, "openwhisk", reason)
    assert server.url in str(error)
    assert "guest" in str(error)
    assert "\n" not in str(error)
    assert "hunter2" not in str(error)
    assert len(waits) == (ATTEMPTS - 1 if kind is Temporary else 0)
    assert waits == sorted(waits) and all(wait > 0 for wait in waits)


def test_a_server_that_only_trickles_is_a_timeout(tmp_path):
    with (
        answering(lambda _: Reply("[]" + " " * 100, trickle=0.1)) as url,
        connect(url, timeout=timedelta(milliseconds=300)) as client,
        pytest.raises(Temporary) as caught,
    ):
        client.count(at(0), at(1))
    assert caught.value.reason == "timeout"


@pytest.mark.parametrize("fault", ["error", "busy", "half"])
def test_what_passes_is_survived(fault, tmp_path):
    server = StandIn([activation(n, n) for n in range(5)], KEYS, faults=[fault, None, fault])
    with server, connect(server.url, page=2) as client:
        assert set(ids(tmp_path, client, 0, 9)) == set(range(5))


def test_a_server_is_waited_for_as_long_as_it_asks_within_reason(tmp_path):
    waits: list[float] = []
    patience = iter(["3", "3000"])
    with (
        answering(lambda _: Reply("", 503, {"Retry-After": next(patience)})) as url,
        OpenWhiskClient(url, "guest", KEY, sleep=waits.append) as client,
        pytest.raises(Temporary) as caught,
    ):
        client.count(at(0), at(1))
    assert len(waits) == 1
    assert 3 <= waits[0] <= 4
    assert caught.value.delay == 3000


def test_where_nobody_listens_it_is_said_at_once():
    waits: list[float] = []
    with (
        OpenWhiskClient("http://127.0.0.1:9", "guest", KEY, sleep=waits.append) as client,
        pytest.raises(Temporary, match="namespace guest: no connection") as caught,
    ):
        client.count(at(0), at(1))
    assert (caught.value.reason, waits) == ("connection", [])


def test_where_connecting_takes_too_long_it_is_not_tried_again(monkeypatch):
    def silent(*_: object, **__: object) -> None:
        raise httpx.ConnectTimeout("")

    waits: list[float] = []
    with OpenWhiskClient("http://127.0.0.1:9", "guest", KEY, sleep=waits.append) as client:
        monkeypatch.setattr(client._http, "stream", silent)
        with pytest.raises(Temporary, match="no connection in time") as caught:
            client.count(at(0), at(1))
    assert (caught.value.reason, waits) == ("connection", [])


def test_another_s_key_and_a_wrong_one_are_refused_by_where_they_came_from(tmp_path, monkeypatch):
    monkeypatch.setenv("OTHER_KEY", "someone:s3cret")
    for keys, status in (({"other": "someone:s3cret"}, "403"), ({}, "401")):
        with StandIn([], keys) as server:
            client = OpenWhiskClient(server.url, "guest", read_key(variable="OTHER_KEY"))
            with client, pytest.raises(Permanent, match=f"namespace guest: status {status}.*OTHER_KEY") as caught:
                client.count(at(0), at(1))
        assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('{"activations": 3}', "not_openwhisk"),
        ('[{"name": "a"}]', "not_openwhisk"),
        ('[{"start": 99000}]', "not_openwhisk"),
        ('[{"start": 5, "name": "a"', "half_page"),
        ("", "not_json"),
        ("<html>", "not_json"),
        ("[" * 100_000 + "]" * 100_000, "not_openwhisk"),
    ],
)
def test_what_is_no_page_is_said_to_be_none(body, reason, tmp_path):
    with answering(lambda _: Reply(body)) as url, connect(url) as client, pytest.raises(SourceError) as caught:
        list(client(at(0), at(10), tmp_path))
    assert caught.value.reason == reason


def test_a_record_with_an_odd_start_costs_only_itself(tmp_path):
    odd = {**activation(2, 3), "start": "yesterday"}

    def reply(request: Asked) -> Reply:
        upto, skip = int(request.query["upto"]), int(request.query["skip"])
        page = [
            record for record in (activation(1, 7), odd, activation(3, 2)) if record is odd or record["start"] <= upto
        ]
        return Reply(json.dumps(page[skip:] if upto >= 2 else []))

    with answering(reply) as url, connect(url) as client:
        records = read_back(client(at(0), at(10), tmp_path))
    assert {int(record["activationId"], 16) for record in records} == {1, 2, 3}


def test_invalid_utf8_in_a_record_does_not_reach_the_spool(tmp_path):
    body = (
        json.dumps([activation(1, 5)])
        .replace('"hello"', '"h\u00e9llo \ud83d\ude00"')
        .encode("utf-8", "surrogatepass")
    )
    pages = iter([body.replace("é".encode(), b"\xff"), b"[]"])
    with answering(lambda _: Reply(next(pages))) as url, connect(url) as client:
        [file] = client(at(0), at(10), tmp_path)
    assert "h\ufffdllo" in file.read_text(encoding="utf-8")


REAL = (
    "ow_activation_sequence_primary.json",
    "ow_activation_stored_caused_by_sequence.json",
    "ow_activation_error_with_statuscode_0.json",
    "ow_activation_trigger_end_zero.json",
)


@pytest.mark.parametrize("name", REAL)
def test_published_records_pass_stand_in_client_and_collector_unchanged(name, real, tmp_path):
    record = json.loads((real / name).read_text())
    namespace = record["namespace"]
    others = [activation(n, record["start"] + n % 3, namespace=namespace) for n in range(7)]
    window = Window(at(record["start"]), at(record["start"] + 2))
    with (
        StandIn([record, *others], {namespace: KEY.value}) as server,
        OpenWhiskClient(server.url, namespace, KEY, page=2) as client,
    ):
        batch = activations.collect(client, window, tmp_path, scope=namespace)
    found = read_back(batch.files)
    expected = [record, *(other for other in others if other["start"] < record["start"] + 2)]
    assert all(one in expected for one in found)
    assert all(one in found for one in expected)
    assert (batch.table, batch.scope, batch.watermark) == ("activations", namespace, window.until)
    assert len(set(batch.files)) == len(batch.files)


def test_a_failure_midway_gives_no_batch(tmp_path):
    server = StandIn([activation(n, n) for n in range(5)], KEYS, faults=[None, *["error"] * ATTEMPTS])
    with server, connect(server.url, page=2) as client, pytest.raises(Temporary):
        activations.collect(client, Window(at(0), at(9)), tmp_path)


def test_keys_come_from_the_settings_a_file_or_the_environment_and_do_not_show(tmp_path, monkeypatch):
    file = tmp_path / "key"
    file.write_text("a:b:c\n")
    monkeypatch.setenv("THE_KEY", " a:b:c ")
    keys = [read_key(key="a:b:c"), read_key(file=file), read_key(variable="THE_KEY")]
    assert [key.value for key in keys] == ["a:b:c"] * 3
    assert [key.origin for key in keys] == ["the settings", str(file), "environment variable THE_KEY"]
    assert not any("a:b:c" in repr(key) for key in keys)
    monkeypatch.delenv("THE_KEY")
    for wrong in ({"key": "nocolon"}, {"file": tmp_path / "none"}, {"variable": "THE_KEY"}, {"key": "a: b"}):
        with pytest.raises(BadInput, match="openwhisk key") as caught:
            read_key(**wrong)
        assert "nocolon" not in str(caught.value)


def test_a_certificate_is_verified_unless_a_ca_or_insecure_says_otherwise(tmp_path):
    certificate = make_certificate(tmp_path)
    with answering(lambda _: Reply('{"activations": 4}'), certificate) as url:
        with connect(url) as client, pytest.raises(Permanent) as caught:
            client.count(at(0), at(1))
        assert caught.value.reason == "tls"
        for options in ({"ca_file": certificate[0]}, {"insecure": True}):
            with connect(url, **options) as client:
                assert client.count(at(0), at(1)) == 4
    with pytest.raises(BadInput, match=r"openwhisk\.ca_file"):
        connect("https://host", ca_file=certificate[1])


def test_a_url_s_credentials_are_not_shown_and_a_redirect_is_not_followed():
    with (
        answering(lambda _: Reply("", 302, {"Location": "https://elsewhere.invalid/"})) as url,
        connect(url.replace("http://", "http://me:s3cret@") + "/") as client,
        pytest.raises(Permanent) as caught,
    ):
        client.count(at(0), at(1))
    assert caught.value.reason == "redirect"
    assert url in str(caught.value)
    assert "s3cret" not in str(caught.value)
