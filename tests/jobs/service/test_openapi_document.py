"""The OpenAPI document: lists what is served, and nothing else."""

import httpx
from starlette.routing import Route

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
