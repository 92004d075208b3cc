"""A posted body as one object, in JSON or YAML; JSON is tried first, which is a hundred times faster."""

from typing import Any

import msgspec
import yaml

from jobs.documents import Loader
from pipeline.errors import BadInput

#: Reading YAML is slow; what people write by hand is a few kilobytes.
LONGEST_YAML = 1024 * 1024


class NoObject(BadInput):
    """The body is no JSON and no YAML, or not one object."""


class _Loader(Loader):
    """YAML whose times stay text, as they are in JSON; a key that stands twice is an error."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def mapping(body: bytes) -> dict[str, Any]:
    """Return the object that *body* states; raises `NoObject`."""
    try:
        given: Any = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        given = _yaml(body)
    if not isinstance(given, dict) or not all(isinstance(key, str) for key in given):
        raise NoObject("body: expected one object, in JSON or YAML")
    return given


def _yaml(body: bytes) -> Any:
    if len(body) > LONGEST_YAML:
        raise NoObject(f"body: YAML longer than {LONGEST_YAML} bytes; send JSON")
    try:
        # A few lines of aliases can stand for gigabytes.
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(body, Loader=_Loader)):
            raise NoObject("body: YAML aliases are not accepted")
        return yaml.load(body, Loader=_Loader)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise NoObject(f"body: neither JSON nor YAML: {str(error).splitlines()[0]}") from None
