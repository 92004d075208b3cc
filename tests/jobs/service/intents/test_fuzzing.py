"""The intent API against its own description: whatever is sent, no answer is an error of ours or undescribed."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.intents import allocatable, meta, parents
from tests.support.service import Fakes, running

#: What path parameters are replaced by, so that most requests reach what lies behind the lookup of their parents.
_EXISTING = {
    "project": "p1", "composite_app": "ca1", "version": "v1", "group": "dig1", "intent": "i1", "consumer": "c1",
    "requirement": "r1", "app": "a1", "cluster": "edge",
}  # fmt: skip
_CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    fakes = Fakes(control=tmp_path_factory.mktemp("fuzz") / "control.sqlite")
    with running(fakes.parts()) as url, httpx.Client(base_url=url) as client:
        parents(client)
        yield url


def _restore(url: str) -> None:
    """Make sure that there is one item of each level, whatever was deleted."""
    group = "/v2/projects/p1/composite-apps/ca1/v1/deployment-intent-groups/dig1"
    consumers = f"{group}/hpa-intents/i1/hpa-resource-consumers"
    bodies: dict[str, Any] = {
        "/v2/projects": {"metadata": {"name": "p1"}},
        "/v2/projects/p1/composite-apps": meta("ca1", compositeAppVersion="v1"),
        group.rpartition("/dig1")[0]: {"metadata": {"name": "dig1"}},
        f"{group}/hpa-intents": meta("i1", appName="a1"),
        consumers: meta("c1", consumer={"name": "x", "container-name": "y"}),
        f"{consumers}/c1/resource-requirements": meta("r1", **allocatable("cpu", 1)),
    }
    with httpx.Client(base_url=url) as client:
        for path, body in bodies.items():
            assert client.post(path, json=body).status_code in (201, 409)


def test_no_request_finds_an_error_of_ours(served: str) -> None:
    document = httpx.get(f"{served}/openapi.json").json()
    document["paths"] = {path: each for path, each in document["paths"].items() if path.startswith("/v2/")}
    schema = schemathesis.openapi.from_dict(document)
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) == 41
    _restore(served)
    reached: set[int] = set()

    @settings(
        max_examples=90, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.sampled_from(operations).flatmap(lambda operation: operation.as_strategy()), st.integers(0, 9))
    def attempt(case: Any, odds: int) -> None:
        if odds:
            case.path_parameters = {name: _EXISTING[name] for name in case.path_parameters or {}}
        answer = case.call(base_url=served)
        case.validate_response(answer, checks=_CHECKS)
        reached.add(answer.status_code)
        if case.method == "DELETE" and answer.status_code == 204:
            _restore(served)

    attempt()
    assert {200, 201, 400, 404, 409} <= reached, reached
