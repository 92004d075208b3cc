"""The stand-in keeps the original's habits, as its API documents them and its source has them."""

import json
from datetime import timedelta

import httpx
import pytest

from jobs.demo.openwhisk import Late, StandIn, serve
from pipeline.errors import BadInput
from tests.support.activations import activation

KEYS = {"guest": "user:secret", "other": "someone:else"}
PATH = "/api/v1/namespaces/_/activations"


@pytest.fixture(scope="module")
def server():
    """Records 0 to 249, one a millisecond from 1000 on; 250 to 254 in millisecond 1249 too; one of another's."""
    records = [activation(number, 1000 + min(number, 249)) for number in range(255)]
    with StandIn([*records, activation(900, 1100, namespace="other")], KEYS) as running:
        yield running


def get(server: StandIn, path: str = PATH, key: str | None = KEYS["guest"], **parameters: object) -> httpx.Response:
    auth = None if key is None else httpx.BasicAuth(*key.split(":"))
    return httpx.get(server.url + path, params={name: str(value) for name, value in parameters.items()}, auth=auth)


def numbers(response: httpx.Response) -> list[int]:
    assert response.status_code == 200, response.text
    return [int(record["activationId"], 16) for record in response.json()]


def test_thirty_by_default_newest_first_and_those_of_one_millisecond_in_a_steady_order(server):
    assert numbers(get(server)) == list(range(254, 224, -1))
    assert numbers(get(server)) == numbers(get(server))


def test_two_hundred_at_most_and_more_is_refused_in_openwhisk_s_form(server):
    assert len(numbers(get(server, limit=200))) == 200
    assert len(numbers(get(server, limit=0))) == 200
    refused = get(server, limit=201)
    assert refused.status_code == 400
    assert set(refused.json()) == {"error", "code"}
    assert "limit" in refused.json()["error"]


@pytest.mark.parametrize(
    "wrong", [{"limit": -1}, {"limit": "x"}, {"skip": -1}, {"since": "now"}, {"upto": 1.5}, {"docs": "yes"}]
)
def test_a_malformed_parameter_is_named(server, wrong):
    response = get(server, **wrong)
    assert response.status_code == 400
    assert next(iter(wrong)) in response.json()["error"]


def test_since_and_upto_are_milliseconds_and_both_inclusive(server):
    assert numbers(get(server, since=1010, upto=1012)) == [12, 11, 10]
    assert numbers(get(server, since=1249, upto=1249)) == [254, 253, 252, 251, 250, 249]
    assert numbers(get(server, since=1300)) == []
    assert numbers(get(server, since=1012, upto=1010)) == []


def test_skip_leaves_out_the_newest(server):
    assert numbers(get(server, limit=3, skip=2)) == [252, 251, 250]
    assert numbers(get(server, skip=254)) == [0]
    assert numbers(get(server, skip=1000)) == []


def test_count_gives_the_total_less_what_is_skipped(server):
    assert get(server, count="true").json() == {"activations": 255}
    assert get(server, count="true", since=1010, upto=1012, limit=1).json() == {"activations": 3}
    assert get(server, count="true", skip=250).json() == {"activations": 5}
    assert get(server, count="true", skip=500).json() == {"activations": 0}


def test_short_listings_have_a_status_code_at_the_top_and_neither_response_nor_logs(server):
    [short] = get(server, limit=1).json()
    assert short["statusCode"] == 0
    assert not {"response", "logs", "subject"} & set(short)
    [full] = get(server, limit=1, docs="true").json()
    assert full == activation(254, 1249)


def test_a_short_listing_of_a_trigger_has_no_end_duration_or_status(real):
    trigger = json.loads((real / "ow_activation_trigger_end_zero.json").read_text())
    with StandIn([trigger], KEYS) as running:
        [short] = get(running).json()
    assert short["start"] == 1545724800000
    assert not {"end", "duration", "statusCode"} & set(short)


def test_names_filter():
    with StandIn([activation(n, n, name="ab"[n % 2]) for n in range(6)], KEYS) as running:
        assert numbers(get(running, name="a")) == [4, 2, 0]
        assert get(running, name="b", since=2, count="true").json() == {"activations": 2}


def test_one_key_a_namespace(server):
    assert numbers(get(server, key=KEYS["other"])) == [900]
    assert numbers(get(server, "/api/v1/namespaces/other/activations", KEYS["other"])) == [900]
    assert get(server, "/api/v1/namespaces/other/activations").status_code == 403
    assert get(server, "/api/v1/namespaces/nowhere/activations").status_code == 403
    assert get(server, key=None).status_code == 401
    assert get(server, key="user:wrong").status_code == 401
    assert httpx.get(server.url + PATH, headers={"Authorization": "Basic %%"}).status_code == 401
    assert get(server, "/api/v1/namespaces/_/rules").status_code == 404


def test_a_namespace_with_odd_letters_is_read_encoded():
    with StandIn([activation(1, 5, namespace="a b@c/d.e")], {"a b@c/d.e": "k:v"}) as running:
        assert numbers(get(running, "/api/v1/namespaces/a%20b%40c%2Fd.e/activations", "k:v")) == [1]


def test_records_arrive_late_by_requests_by_time_and_by_hand():
    late = [Late([activation(2, 1001)], requests=2), Late([activation(3, 1000)], seconds=3600)]
    with StandIn([activation(1, 1000), activation(9, 1002)], KEYS, late=late) as running:
        assert [numbers(get(running)) for _ in range(3)] == [[9, 1], [9, 1], [9, 2, 1]]
        running.add([activation(0, 1000), activation(5, 1002), activation(4, 1000)])
        assert numbers(get(running)) == [9, 5, 2, 4, 1, 0], "among those of one millisecond by id, not by arrival"


def test_faults_come_in_their_order_and_end():
    faults = ["error", None, "html", "forbidden", "busy", "half"]
    with StandIn([activation(1, 1000)], KEYS, faults=faults) as running:
        assert get(running).status_code == 500
        assert numbers(get(running)) == [1]
        assert get(running).headers["content-type"] == "text/html"
        assert [get(running).status_code, get(running).status_code] == [403, 429]
        with pytest.raises(httpx.RemoteProtocolError):
            get(running)
        assert numbers(get(running)) == [1]


def test_a_server_that_hangs_can_be_left():
    with StandIn([], KEYS, faults=["hang"]) as running, pytest.raises(httpx.ReadTimeout):
        httpx.get(running.url + PATH, timeout=timedelta(milliseconds=100).total_seconds())


def test_a_file_with_a_record_a_line_is_served_like_a_list(tmp_path):
    records = [activation(number, 1000 + number % 7) for number in range(50)]
    file = tmp_path / "activations.jsonl"
    file.write_text("\n".join(json.dumps(record) for record in records) + "\n\n")
    with StandIn(file, KEYS) as running, StandIn(records, KEYS) as same:
        answers = [get(one, docs="true", since=1002, upto=1005, limit=40) for one in (running, same)]
        assert answers[0].json() == answers[1].json()
        assert len(answers[0].json()) == 28, "starts 1002 to 1005, seven each"


def test_what_is_no_record_is_named_by_its_line(tmp_path):
    file = tmp_path / "activations.jsonl"
    file.write_text(json.dumps(activation(1, 2)) + '\n{"start": 3}\n')
    with pytest.raises(BadInput, match="line 2"):
        StandIn(file, KEYS)


def test_serve_gives_the_url():
    with serve([activation(1, 1000)], KEYS) as url:
        assert httpx.get(url + PATH, auth=httpx.BasicAuth("user", "secret")).json()[0]["start"] == 1000
