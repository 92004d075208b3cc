"""The OpenAPI document: lists what is served, and nothing else."""

import shlex
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from starlette.routing import Route

from jobs.service import endpoints
from jobs.service.app import create_app
from jobs.service.routes import ROUTES
from tests.support.service import Fakes, running


def _document() -> dict[str, dict[str, dict[str, object]]]:
    with running(Fakes().parts()) as url:
        document: dict[str, dict[str, dict[str, object]]] = httpx.get(url + "/openapi.json").json()
    return document


def test_every_route_that_is_served_is_described_and_the_other_way_round() -> None:
    served = {route.path for route in create_app(Fakes().parts()).routes if isinstance(route, Route)}
    described = _document()["paths"]
    assert set(described) == served
    assert served == {route.path for route in ROUTES}
    methods = {(path, method.upper()) for path, operations in described.items() for method in operations}
    assert methods == {(route.path, route.method) for route in ROUTES}


def test_every_reference_leads_to_a_schema() -> None:
    document = _document()
    schemas = document["components"]["schemas"]
    found: list[str] = []

    def walk(part: object) -> None:
        if isinstance(part, dict):
            if isinstance(part.get("$ref"), str):
                found.append(part["$ref"])
            for value in part.values():
                walk(value)
        elif isinstance(part, list):
            for value in part:
                walk(value)

    walk(document)
    assert found
    assert {reference.removeprefix("#/components/schemas/") for reference in found} <= set(schemas)
    assert {"Problem", "AdmissionReview", "Page"} <= set(schemas)


def test_errors_are_problem_documents_and_health_needs_no_token() -> None:
    paths = _document()["paths"]
    nodes = paths["/v1/nodes"]["get"]
    assert isinstance(nodes, dict)
    assert "application/problem+json" in nodes["responses"]["default"]["content"]
    assert {parameter["name"] for parameter in nodes["parameters"]} == {
        "cluster", "node", "node_type", "format", "limit", "offset",
    }  # fmt: skip
    health = paths["/healthz"]["get"]
    assert isinstance(health, dict)
    assert health["security"] == []


def test_parameters_have_the_type_that_is_read_and_the_words_that_are_taken() -> None:
    paths: dict[str, dict[str, dict[str, list[dict[str, object]]]]] = _document()["paths"]  # type: ignore[assignment]
    found = {
        (path, each["name"]): each["schema"]
        for path in ("/v1/interference", "/v1/decisions", "/v1/functions", "/v1/heat-map")
        for each in paths[path]["get"]["parameters"]
    }
    assert found["/v1/interference", "victim"] == {"type": "string"}
    for place in (("/v1/interference", "limit"), ("/v1/decisions", "offset"), ("/v1/heat-map", "size")):
        assert found[place] == {"type": "integer", "minimum": 0}
    assert found["/v1/interference", "min_slowdown"] == {"type": "number", "minimum": -1}
    assert found["/v1/interference", "min_probability"] == {"type": "number", "minimum": 0, "maximum": 1}
    for (path, name), words in {
        ("/v1/interference", "status"): ["observed", "predicted", "unknown", "shared_cause"],
        ("/v1/interference", "format"): ["json", "csv"],
        ("/v1/functions", "dominant"): ["cpu", "memory", "network", "disk", "mixed"],
        ("/v1/decisions", "mode"): ["observe", "prefer", "require"],
    }.items():
        assert found[path, name] == {"type": "string", "enum": words}


@pytest.mark.parametrize("example", [line for _, line in endpoints.EXAMPLES])
def test_an_example_calls_a_path_with_parameters_that_it_has(example: str) -> None:
    words = shlex.split(example)
    url = urlsplit(words[-1])
    method = "POST" if "--data-binary" in words else "GET"
    [route] = [each for each in ROUTES if (each.method, each.path) == (method, url.path.removeprefix("{}"))]
    assert set(parse_qs(url.query, strict_parsing=True)) <= set(route.parameters)
    assert f"    {example.format('http://localhost:8080')}\n" in endpoints.markdown()
