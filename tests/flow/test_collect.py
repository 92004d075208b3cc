"""`colocate collect` by the real command: idempotent, any number at once, and a dead source costs only itself."""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from featurestore.store.duck import Store
from jobs.demo.openwhisk import Fault
from pipeline.clients import openwhisk
from tests.support.kube_server import HTML, status
from tests.support.town import KEY, Town, town
from tests.support.web import Reply

SOURCES = ("nodes", "workflows", "placements", "disks", "regions", "usage", "activations")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Town]:
    with town(tmp_path) as made:
        yield made


def counted(place: Town) -> dict[str, int]:
    """Return the rows of each table of the history, and how many activations are distinct."""

    def count(con: object) -> dict[str, int]:
        tables = ("node_specs", "placements", "usage", "activations")
        found = {name: con.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables}  # type: ignore[attr-defined]
        distinct = con.execute("SELECT count(DISTINCT activation_id) FROM activations").fetchone()[0]  # type: ignore[attr-defined]
        return {**found, "distinct": distinct}

    return Store(place.database).read(count)


def outcomes(text: str) -> dict[str, dict[str, object]]:
    return {f"{each['source']}{'/' if each['scope'] else ''}{each['scope']}": each for each in json.loads(text)}


def test_the_second_collection_adds_nothing(place: Town) -> None:
    first = place.colocate("collect", "-o", "json")
    assert first.returncode == 0, first.stderr
    held = counted(place)
    assert held["node_specs"] == 2
    assert held["placements"] == 6
    assert held["activations"] == held["distinct"] == 500
    assert set(outcomes(first.stdout)) == {
        "nodes", "workflows", "placements", "disks", "regions", "usage/node", "usage/pod", "usage/drive",
        "activations/guest",
    }  # fmt: skip
    second = place.colocate("collect", "nodes", "placements", "activations", "-o", "json")
    assert second.returncode == 0, second.stderr
    assert [each["rows"] for each in json.loads(second.stdout)] == [0, 0, 0]
    assert counted(place) == held


def test_four_at_once_lose_nothing_and_add_nothing_twice(place: Town) -> None:
    given = place.home / "colocate.toml"
    given.write_text(given.read_text().replace('"3s"', '"60s"'))  # four processes that start together take a while
    running = [place.start("collect") for _ in range(4)]
    for each in running:
        _, said = each.communicate(timeout=120)
        assert each.returncode == 0, said
    held = counted(place)
    assert (held["node_specs"], held["placements"], held["activations"], held["distinct"]) == (2, 6, 500, 500)


def test_records_that_arrive_late_are_found_by_the_next_collection(place: Town) -> None:
    assert place.colocate("collect", "activations").returncode == 0
    late = {**place.records[-3], "activationId": "f" * 32}
    place.whisk.add([late])
    assert place.colocate("collect", "activations").returncode == 0
    assert counted(place)["activations"] == 501


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Reply("<html>Sign in</html>"), "not_json"),
        (Reply("out of order", status=500), "status_500"),
        (Reply('{"status":"success","data":{"resultType":"matrix","result":[]}}', cut=20), "half_page"),
        (Reply("", pause=4.0), "timeout"),
        (Reply('{"status":"success","data":{"resultType":"matrix","result":[]}}'), "empty"),
    ],
    ids=["html", "500", "half", "timeout", "empty"],
)
def test_a_broken_prometheus_costs_only_its_usage(place: Town, fault: Reply, reason: str) -> None:
    place.usage.append(fault)
    done = place.colocate("collect", "-o", "json")
    assert done.returncode == 3
    found = outcomes(done.stdout)
    assert {name for name, each in found.items() if each["outcome"] != "ok"} == {"usage/node", "usage/pod"}
    assert found["usage/pod"]["reason"] == reason
    assert counted(place)["activations"] == 500
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("fault", "reason"),
    [(HTML, "not_json"), (status(500, "etcd"), "status_500"), ("half", "half_page"), ("hang", "timeout")],
    ids=["html", "500", "half", "hang"],
)
def test_a_broken_api_server_costs_only_its_objects(place: Town, fault: object, reason: str) -> None:
    place.kube.script.extend([fault] * 40)
    done = place.colocate("collect", "nodes", "placements", "activations", "-o", "json")
    assert done.returncode == 3
    found = outcomes(done.stdout)
    assert {name: each["outcome"] for name, each in found.items()} == {
        "nodes": "failed", "placements": "failed", "activations/guest": "ok",
    }  # fmt: skip
    assert found["nodes"]["reason"] == reason
    held = counted(place)
    assert (held["node_specs"], held["placements"], held["activations"]) == (0, 0, 500)


@pytest.mark.parametrize("fault", ["error", "html", "half", "hang", "forbidden"])
def test_a_broken_openwhisk_costs_only_its_activations(
    tmp_path: Path, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openwhisk, "WAIT", 0.05)
    with town(tmp_path, faults=[fault] * 200, patience="0.5s" if fault == "hang" else "3s") as place:
        done = place.colocate("collect", "-o", "json")
        assert done.returncode == 3
        found = outcomes(done.stdout)
        assert {name for name, each in found.items() if each["outcome"] != "ok"} == {"activations/guest"}
        assert found["activations/guest"]["reason"]
        held = counted(place)
        assert (held["node_specs"], held["placements"], held["activations"]) == (2, 6, 0)
        assert "Traceback" not in done.stderr
        examined = place.colocate("doctor", "-o", "json")
        assert examined.returncode == 3
        assert {each["source"] for each in json.loads(examined.stdout) if each["verdict"] == "failed"} == {
            "openwhisk"
        }


def test_another_namespaces_key_is_said_without_the_key(tmp_path: Path) -> None:
    extra = '[[clusters.openwhisk.namespaces]]\nname = "other"\nkey = "user-of-guest:wordOfGuest"\n'
    with town(tmp_path, extra=extra) as place:
        done = place.colocate("-v", "collect", "activations", "-o", "json")
        found = outcomes(done.stdout)
        assert done.returncode == 3
        assert (found["activations/guest"]["outcome"], found["activations/other"]["outcome"]) == ("ok", "failed")
        assert found["activations/other"]["reason"] == "status_403"
        assert "other" in str(found["activations/other"]["message"])
        assert KEY.split(":")[1] not in done.stdout + done.stderr
        assert counted(place)["activations"] == 500


def test_a_failed_source_does_not_move_its_watermark(place: Town) -> None:
    place.usage.append(Reply("out of order", status=500))
    assert place.colocate("collect", "usage").returncode == 3
    place.usage.clear()
    assert place.colocate("collect", "usage").returncode == 0
    steps = Store(place.database).read(
        lambda con: con.execute("SELECT count(DISTINCT \"at\") FROM usage WHERE scope = 'node'").fetchone()
    )
    assert steps is not None
    assert steps[0] in (288, 289), "the whole first window of a day in steps of five minutes"


def test_kill_9_in_the_middle_twenty_times(tmp_path: Path) -> None:
    with town(tmp_path, records=4000) as place:
        killed = 0
        for number in range(20):
            child = place.start("collect", "activations", "placements", "nodes")
            time.sleep(0.1 + 0.07 * number)
            child.kill()
            child.communicate()
            killed += child.returncode == -signal.SIGKILL
            if place.database.exists():
                held = counted(place)
                assert held["activations"] == held["distinct"]
                assert held["placements"] in (0, 6), "no half batch"
                assert held["node_specs"] in (0, 2), "no half batch"
        assert killed, "some did not end before"
        done = place.colocate("collect", "activations", "placements", "nodes")
        assert done.returncode == 0, done.stderr
        held = counted(place)
        assert (held["activations"], held["distinct"], held["placements"], held["node_specs"]) == (4000, 4000, 6, 2)


def test_wrong_words_are_one_line_and_exit_2(place: Town) -> None:
    for arguments, said in (
        (("collect", "nodse"), "nodse"),
        (("collect", "--cluster", "nowhere"), "nowhere"),
        (("-c", "nowhere.toml", "collect"), "nowhere.toml"),
        (("collekt",), "collekt"),
    ):
        done = place.colocate(*arguments)
        assert done.returncode == 2
        assert said in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("zone", ["Asia/Kathmandu", "America/New_York"])
def test_times_are_utc_whatever_the_zone(tmp_path: Path, zone: str) -> None:
    with town(tmp_path, records=10) as place:
        child = place.start("collect", "activations", TZ=zone)
        _, said = child.communicate(timeout=120)
        assert child.returncode == 0, said
        starts = Store(place.database).read(
            lambda con: con.execute('SELECT epoch_ms("start") FROM activations ORDER BY "start"').fetchall()
        )
        assert [row[0] for row in starts] == [record["start"] for record in place.records]
