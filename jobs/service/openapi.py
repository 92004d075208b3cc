"""The OpenAPI document, made from the table of routes and the types that are decoded and encoded."""

import math
import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final

import msgspec

from jobs.service.operation import Operation
from jobs.service.problems import MEDIA_TYPE, Problem
from jobs.service.tables import FORMATS
from jobs.service.words import LEAST, WORDS

#: Parameters that `jobs.service.tables.count` reads.
_COUNTS: Final = frozenset({"limit", "offset", "size"})
_VARYING = re.compile(r"\{(\w+)\}")


def _schema(parameter: str) -> dict[str, Any]:
    """Return the schema of a query parameter, which is of one kind wherever it stands."""
    if parameter in _COUNTS:
        return {"type": "integer", "minimum": 0}
    if parameter in LEAST:
        lowest, highest = LEAST[parameter]
        return {"type": "number", "minimum": lowest} | ({} if math.isinf(highest) else {"maximum": highest})
    words = FORMATS if parameter == "format" else WORDS.get(parameter)
    return {"type": "string"} if words is None else {"type": "string", "enum": words}


def document(routes: Iterable[Operation], version: str) -> dict[str, Any]:
    """Return an OpenAPI 3.1 document of *routes*."""
    routes = tuple(routes)
    types: list[Any] = [Problem]
    types.extend(each for route in routes for each in (*route.bodies, route.answer) if each is not None)
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    found = dict(zip((repr(each) for each in types), schemas, strict=True))
    problem = {"description": "A problem document", "content": {MEDIA_TYPE: {"schema": found[repr(Problem)]}}}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        answer = found[repr(route.answer)] if route.answer is not None else {}
        operation: dict[str, Any] = {
            "operationId": route.name,
            "summary": route.summary,
            "responses": {
                str(route.status): {"description": HTTPStatus(route.status).phrase},
                **{str(status): problem for status in route.problems},
                "default": problem,
            },
        }
        if route.status != HTTPStatus.NO_CONTENT:
            operation["responses"][str(route.status)]["content"] = {route.media: {"schema": answer}}
        if "format" in route.parameters:
            operation["responses"]["200"]["content"]["text/csv"] = {"schema": {"type": "string"}}
        parameters = [
            *(
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                for name in _VARYING.findall(route.path)
            ),
            *(
                {"name": name, "in": "query", "description": text, "schema": _schema(name)}
                for name, text in route.parameters.items()
            ),
        ]
        if parameters:
            operation["parameters"] = parameters
        if route.bodies:
            bodies = [found[repr(each)] for each in route.bodies]
            schema = bodies[0] if len(bodies) == 1 else {"anyOf": bodies}
            media = ("application/json", *(["application/yaml"] if route.yaml else []))
            operation["requestBody"] = {"required": True, "content": {each: {"schema": schema} for each in media}}
        if route.open:
            operation["security"] = []
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Co-location Advisor", "version": version},
        "security": [{"token": []}, {}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
