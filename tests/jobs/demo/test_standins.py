"""The stand-ins of the API server and of Prometheus, asked by the ordinary clients."""

import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from jobs.demo import recorded, standins
from jobs.demo.httpd import serving
from pipeline.clients.kubernetes import KubernetesClient
from pipeline.clients.prometheus import PrometheusClient
from pipeline.errors import SourceError

BEGIN = datetime(2026, 1, 5, 8, tzinfo=UTC)
STEP = timedelta(minutes=5)


def _at(steps: int) -> datetime:
    return BEGIN + steps * STEP


def _answers() -> dict[recorded.Request, str]:
    """Two series over six steps: a at all of them, with the number of the step; b at the first two."""
    epoch = BEGIN.timestamp()
    result = [
        {"metric": {"pod": pod}, "values": [[epoch + 300 * n, str(n)] for n in range(count)]}
        for pod, count in (("a", 6), ("b", 2))
    ]
    body = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})
    return {("up", epoch, epoch + 1500, 300.0): body}


def test_a_recorded_query_is_answered_for_its_window_and_for_parts_of_it() -> None:
    with serving(standins.prometheus(_answers())) as url:
        client = PrometheusClient(url)
        whole = client("up", _at(0), _at(5), STEP)
        assert [(one.labels["pod"], one.values.tolist()) for one in whole] == [
            ("a", [0, 1, 2, 3, 4, 5]),
            ("b", [0, 1]),
        ]
        part = client("up", _at(3), _at(9), STEP)
        assert [(one.labels["pod"], one.values.tolist()) for one in part] == [("a", [3, 4, 5])]
        assert part[0].times.tolist() == [(_at(n)).timestamp() for n in (3, 4, 5)]
        client.close()


@pytest.mark.parametrize(("query", "step"), [("down", STEP), ("up", timedelta(minutes=1))])
def test_what_was_not_recorded_is_refused(query: str, step: timedelta) -> None:
    with serving(standins.prometheus(_answers())) as url:
        client = PrometheusClient(url)
        with pytest.raises(SourceError, match="was not recorded"):
            client(query, _at(0), _at(5), step)
        client.close()


def test_lists_are_paged_and_unknown_kinds_are_not_found(tmp_path: Path) -> None:
    recording = recorded.load()
    closing = threading.Event()
    with serving(standins.kubernetes(recording, closing)) as url:
        kubeconfig = tmp_path / "kubeconfig"
        named = [{"name": "c", "cluster": {"server": url}}], [{"name": "u", "user": {}}]
        contexts = [{"name": "x", "context": {"cluster": "c", "user": "u"}}]
        content = {"clusters": named[0], "users": named[1], "contexts": contexts, "current-context": "x"}
        kubeconfig.write_text(json.dumps(content))
        client = KubernetesClient(kubeconfig=kubeconfig, page=50)
        pods = [json.loads(bytes(item)) for item in client.list("/api/v1/pods").items]
        assert pods == recording.pods
        namespaces = [json.loads(bytes(item))["metadata"]["name"] for item in client.list("/api/v1/namespaces").items]
        assert namespaces == sorted({pod["metadata"]["namespace"] for pod in recording.pods})
        with pytest.raises(SourceError) as failed:
            client.list("/apis/apps/v1/deployments")
        assert failed.value.reason == "status_404"
        closing.set()
        assert list(client.watch("/api/v1/pods", "5000")) == []
