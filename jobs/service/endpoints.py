"""The reference of the HTTP interface, from the routes: ``python -m jobs.service.endpoints`` prints its page."""

import sys
from collections.abc import Iterator

from jobs.service import body
from jobs.service.operation import Operation
from jobs.service.routes import ROUTES
from jobs.service.text import LONGEST_YAML

_HEAD = """\
# HTTP interface

Generated from the code by `python -m jobs.service.endpoints`; `GET /openapi.json` has the same with every schema.

Where a token is configured (`serve.token`, `serve.token_file`), all but what is marked *open* asks for
`Authorization: Bearer TOKEN`; `/mutate` and `/extender/*` take a certificate of the configured client CA instead.
Errors are problem documents (RFC 9457, `application/problem+json`) with `title`, `status` and `detail`.
"""
_LIMITS = f"""
A body has at most {body.LIMIT >> 20} MB ({body.LIMIT:,} bytes), one in YAML at most {LONGEST_YAML >> 20} MB
({LONGEST_YAML:,} bytes) and no aliases.
"""
#: Each is a line of a shell, for the service as `colocate serve` starts it without TLS and tokens.
EXAMPLES = (
    ("Where the pod of a file should run", "curl --data-binary @pod.yaml '{}/v1/recommendations?mode=require'"),
    (
        "Pairs that surely disturb each other, the strongest first",
        "curl '{}/v1/interference?status=observed&min_slowdown=0.1&min_probability=0.9&limit=20'",
    ),
    ("What disturbs one function, as CSV", "curl '{}/v1/interference?victim=guest/resize&format=csv'"),
    ("Why that is said of one pair", "curl '{}/v1/evidence?victim=guest/resize&aggressor=guest/train'"),
)
_AT = "http://localhost:8080"


def markdown() -> str:
    """Return the whole page."""
    return "".join([_HEAD, _LIMITS, *_examples(), *(part for route in ROUTES for part in _told(route))])


def _examples() -> Iterator[str]:
    yield '\n## Examples\n\nWhere a token is configured, with `-H "Authorization: Bearer $TOKEN"`.\n'
    yield from (f"\n{what}:\n\n    {line.format(_AT)}\n" for what, line in EXAMPLES)
    yield "\n## Paths\n"


def _told(route: Operation) -> Iterator[str]:
    yield f"\n### {route.method} {route.path}\n\n{route.summary}.{' *Open.*' if route.open else ''}\n"
    notes = [f"`{name}`: {text}" for name, text in route.parameters.items()]
    if route.bodies:
        media = "JSON or YAML" if route.yaml else "JSON"
        notes.append(f"body: {' or '.join(f'`{_name(each)}`' for each in route.bodies)}, {media}")
    answer = f"`{_name(route.answer)}`" if route.answer is not None else f"`{route.media}`"
    notes.append(f"answers {route.status}{'' if route.status == 204 else f' with {answer}'}")
    if route.problems:
        notes.append(f"problems of its own: {', '.join(map(str, route.problems))}")
    yield from ["\n", *(f"- {note}\n" for note in notes)]


def _name(kind: object) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind).replace("typing.", "")


if __name__ == "__main__":
    sys.stdout.write(markdown())
