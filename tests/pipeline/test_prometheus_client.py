"""The Prometheus client against answers that are right, odd, broken and hostile."""

import json
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.clients.prometheus import PrometheusClient, windows
from pipeline.errors import BadInput, Permanent, SourceError, Temporary
from pipeline.records import Series
from tests.support.certificate import make_certificate
from tests.support.web import Asked, Reply, answering

T0 = datetime(2026, 1, 1, tzinfo=UTC)
STEP = timedelta(minutes=5)
EMPTY = '{"status":"success","data":{"resultType":"matrix","result":[]}}'


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def matrix(*result: dict[str, Any]) -> str:
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": list(result)}})


def ask(reply: Callable[[Asked], Reply], **options: Any) -> list[Series]:
    with answering(reply) as url:
        client = PrometheusClient(url, **options)
        try:
            return client("up", T0, T0 + STEP, STEP)
        finally:
            client.close()


def points(since: float, until: float, step: int) -> list[list[float]]:
    """All times that the windows' own end points, first and last included, ask a server for."""
    return [
        [start.timestamp() + k * step for k in range(int((end - start).total_seconds()) // step + 1)]
        for start, end in windows(at(since), at(until), timedelta(seconds=step))
    ]


def test_exactly_11000_points_are_one_request_and_one_more_makes_a_second():
    assert [len(part) for part in points(0, 10_999 * 300, 300)] == [11_000]
    assert [len(part) for part in points(0, 11_000 * 300, 300)] == [11_000, 1]


@given(st.integers(-10_000, 2_000_000_000), st.integers(0, 90_000), st.sampled_from([1, 7, 15, 60]))
def test_split_windows_hold_each_aligned_time_once_and_none_outside(since, length, step):
    expected = [time for time in range(since, since + length + 1) if time % step == 0]
    parts = points(since, since + length, step)
    assert [time for part in parts for time in part] == expected
    assert all(len(part) <= 11_000 for part in parts)


@pytest.mark.parametrize("step", [timedelta(0), timedelta(seconds=-5), timedelta(milliseconds=1500)])
def test_a_step_that_the_library_would_round_is_refused(step):
    with pytest.raises(BadInput, match=r"schedule\.step"):
        list(windows(T0, T0 + STEP, step))


def test_every_part_of_a_long_window_keeps_the_step_and_joins_without_a_seam():
    asked: list[tuple[int, int, str]] = []

    def reply(request: Asked) -> Reply:
        start, end, step = int(request.query["start"]), int(request.query["end"]), request.query["step"]
        asked.append((start, end, step))
        values = [[time, str(time)] for time in range(start, end + 1, int(step))]
        return Reply(matrix({"metric": {"__name__": "t"}, "values": values}))

    with answering(reply) as url:
        [series] = PrometheusClient(url)("t", at(10), at(25_000), timedelta(seconds=1))
    assert [step for _, _, step in asked] == ["1", "1", "1"]
    assert series.times.tolist() == list(range(10, 25_001))
    assert series.values.tolist() == list(range(10, 25_001))


def test_nan_and_infinities_are_numbers_not_strings():
    values = [[0, "NaN"], [300, "+Inf"], [600, "-Inf"], [900, "1.5e3"]]
    [series] = ask(lambda _: Reply(matrix({"metric": {}, "values": values})))
    assert math.isnan(series.values[0])
    assert series.values[1:].tolist() == [math.inf, -math.inf, 1500.0]


def test_replicas_become_one_series_in_which_a_finite_value_wins():
    a = {"metric": {"pod": "p", "replica": "a"}, "values": [[0, "1"], [300, "NaN"], [600, "3"]]}
    b = {"metric": {"pod": "p", "replica": "b"}, "values": [[300, "2"], [600, "30"], [900, "4"]]}
    other = {"metric": {"pod": "q"}, "values": [[0, "9"]]}
    for order in ([a, b, other], [other, b, a]):
        first, second = ask(lambda _, order=order: Reply(matrix(*order)))
        assert (first.labels, second.labels) == ({"pod": "p"}, {"pod": "q"})
        assert first.times.tolist() == [0, 300, 600, 900]
        assert first.values.tolist() == [1, 2, 3, 4]


def test_which_labels_are_a_replica_s_can_be_said():
    a, b = ({"metric": {"pod": "p", "site": site}, "values": [[0, "1"]]} for site in "ab")
    assert len(ask(lambda _: Reply(matrix(a, b)))) == 2
    assert len(ask(lambda _: Reply(matrix(a, b)), replica_labels=("site",))) == 1


def test_a_real_answer_is_read_whole(real):
    """Checked against the standard library's reading of the same file."""
    text = (real / "prom_range_up_redhat_2019.json").read_text()
    raw = json.loads(text)
    series = ask(lambda _: Reply(f'{{"status":"success","data":{{"resultType":"matrix","result":{text}}}}}'))
    assert len(series) == len(raw) == 9
    expected = {json.dumps(one["metric"], sort_keys=True): one["values"] for one in raw}
    for one in series:
        values = expected[json.dumps(dict(one.labels), sort_keys=True)]
        assert one.times.tolist() == [time for time, _ in values]
        assert one.values.tolist() == [float(value) for _, value in values]


def test_a_native_histogram_is_noted_and_costs_only_itself(real):
    text = (real / "prom_query_native_histogram_vector.json").read_text()
    answer = json.loads(text)
    answer["data"]["result"].append({"metric": {"job": "y"}, "value": [1641889530.123, "2"]})
    with answering(lambda _: Reply(json.dumps(answer))) as url:
        client = PrometheusClient(url)
        [plain] = client.instant("request_duration_seconds", T0)
        assert (plain.labels, plain.values.tolist()) == ({"job": "y"}, [2.0])
        [noted] = client.take_refused()
        assert noted.what == 'request_duration_seconds{job="x"}'
        assert client.take_refused() == ()


def test_a_scalar_answer_is_one_series_without_labels():
    body = '{"status":"success","data":{"resultType":"scalar","result":[1767225600,"3"]}}'
    with answering(lambda _: Reply(body)) as url:
        [series] = PrometheusClient(url).instant("scalar(x)")
    assert (series.labels, series.times.tolist(), series.values.tolist()) == ({}, [1767225600.0], [3.0])


FAULTS = [
    (Reply("oops", 500), Temporary, "status_500"),
    (Reply('{"status":"error","errorType":"unavailable","error":"starting"}', 503), Temporary, "status_503"),
    (Reply("slow down", 429), Temporary, "status_429"),
    (Reply('{"status":"error","errorType":"bad_data","error":"parse error: x"}', 400), Permanent, "bad_query"),
    (Reply("who?", 401), Permanent, "status_401"),
    (Reply("not yours", 403), Permanent, "status_403"),
    (Reply("404 page", 404), Permanent, "status_404"),
    (Reply("", 302, {"Location": "https://login.invalid/?next=secret"}), Permanent, "redirect"),
    (Reply("<html><body>Log in</body></html>"), SourceError, "not_json"),
    (Reply(""), SourceError, "not_json"),
    (Reply('{"status":"error","error":"query timed out"}'), SourceError, "error"),
    (Reply('{"status":"success","data":{"result":[{"metric":{}'), SourceError, "half_page"),
    (Reply(EMPTY + " " * 1000, cut=30), Temporary, "half_page"),
    (Reply('{"status":"success"}'), SourceError, "not_prometheus"),
    (Reply('{"status":"success","data":{"result":{"a":1}}}'), SourceError, "not_prometheus"),
    (Reply(matrix({"metric": {}, "values": [[0, "many"]]})), SourceError, "not_prometheus"),
    (Reply(matrix({"metric": {}})), SourceError, "not_prometheus"),
    (Reply('{"data":' + "[" * 100_000 + "]" * 100_000 + "}"), SourceError, "not_prometheus"),
    (Reply(EMPTY, pause=1.6), Temporary, "timeout"),
    (Reply(EMPTY, trickle=0.1), Temporary, "timeout"),
]


@pytest.mark.parametrize(("fault", "kind", "reason"), FAULTS, ids=[f"{n}-{f[2]}" for n, f in enumerate(FAULTS)])
def test_each_fault_is_one_line_with_the_url_and_without_a_secret(fault, kind, reason):
    with answering(lambda _: fault) as url:
        client = PrometheusClient(
            url.replace("http://", "http://me:hunter2@"), headers={"X-Key": "s3cret"}, timeout=timedelta(seconds=1)
        )
        with pytest.raises(SourceError) as caught:
            client("up", T0, T0 + STEP, STEP)
    error = caught.value
    assert (type(error), error.source, error.reason) == (kind, "prometheus", reason)
    assert url in str(error)
    assert "\n" not in str(error) and len(str(error)) < 400
    assert not any(secret in str(error) for secret in ("hunter2", "s3cret", "secret"))


def test_what_the_server_says_about_a_query_is_passed_on():
    with pytest.raises(Permanent, match="parse error: x"):
        ask(lambda _: Reply('{"status":"error","error":"parse\\nerror: x"}', 400))


def test_no_server_is_temporary():
    with answering(lambda _: Reply(EMPTY)) as url:
        pass
    with pytest.raises(Temporary) as caught:
        PrometheusClient(url).instant("up")
    assert caught.value.reason == "connection"


def test_a_fault_is_asked_once_not_retried_behind_one_s_back():
    count = []
    with pytest.raises(Temporary):
        ask(lambda _: count.append(1) or Reply("x", 503))
    assert len(count) == 1


def test_basic_login_bearer_token_and_headers_are_sent():
    seen: list[str] = []

    def reply(request: Asked) -> Reply:
        seen.append(request.headers.get("authorization", "none"))
        return Reply(EMPTY)

    ask(reply)
    ask(reply, username="me", password="a:b")
    ask(reply, token="t0")
    assert seen == ["none", "Basic bWU6YTpi", "Bearer t0"]
    tenant = {"X-Scope-OrgID": "t1"}
    ask(lambda request: Reply(EMPTY, 200 if request.headers["x-scope-orgid"] == "t1" else 401), headers=tenant)


def test_netrc_does_not_replace_the_token(tmp_path, monkeypatch):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login other password wrong\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    seen: list[str] = []

    def reply(request: Asked) -> Reply:
        seen.append(request.headers["authorization"])
        return Reply(EMPTY)

    ask(reply, token="t0")
    assert seen == ["Bearer t0"]


def test_a_token_file_is_read_again_for_each_request(tmp_path: Path):
    file = tmp_path / "token"
    seen: list[str] = []

    def reply(request: Asked) -> Reply:
        seen.append(request.headers["authorization"])
        return Reply(EMPTY)

    with answering(reply) as url:
        client = PrometheusClient(url, token_file=file)
        for token in ("one\n", "two\n"):
            file.write_text(token)
            client.instant("up")
        file.unlink()
        with pytest.raises(Permanent, match=f"{file}: no readable bearer token"):
            client.instant("up")
    assert seen == ["Bearer one", "Bearer two"]


@pytest.mark.parametrize("held", ["hunter2\nhunter2\n", "hunter2\x07", "hunter2ж"])
def test_a_token_file_that_holds_no_token_is_named_and_not_shown(tmp_path: Path, held: str):
    file = tmp_path / "token"
    file.write_text(held)
    with answering(lambda _: Reply(EMPTY)) as url, pytest.raises(Permanent) as caught:
        PrometheusClient(url, token_file=file).instant("up")
    assert str(caught.value) == f"{file}: not one line of plain characters"
    assert caught.value.reason == "token"


def test_a_certificate_is_verified_unless_a_ca_or_insecure_says_otherwise(tmp_path: Path):
    certificate = make_certificate(tmp_path)
    with answering(lambda _: Reply(EMPTY), certificate) as url:
        with pytest.raises(Permanent, match="ca_file") as caught:
            PrometheusClient(url).instant("up")
        assert caught.value.reason == "tls"
        assert PrometheusClient(url, ca_file=certificate[0]).instant("up") == []
        assert PrometheusClient(url, insecure=True).instant("up") == []


def test_a_wrong_argument_is_named_without_its_secret(tmp_path):
    with pytest.raises(BadInput, match=r"^prometheus\.url: ") as caught:
        PrometheusClient("ftp://me:hunter2@host")
    assert "hunter2" not in str(caught.value)
    with pytest.raises(BadInput, match="no such file"):
        PrometheusClient("https://host", ca_file=tmp_path / "none.crt")
