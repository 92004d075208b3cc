"""The routes of the intent API, five for each level of `rules.hpa.levels`."""

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from jobs.service.operation import Operation
from rules.hpa import wire
from rules.hpa.levels import LEVELS, Level, item_template, template
from rules.hpa.reasons import Unsatisfied

_SINGLE: Final = "only this item, itself instead of a list"


class IntentShownSpec(Struct, rename="camel"):
    """What an intent is for, with its consumers."""

    app_name: wire.Name
    resource_consumers: list[wire.Consumer]


class IntentShown(Struct):
    """An intent as it is shown."""

    metadata: wire.Metadata
    spec: IntentShownSpec


def _operations(name: str, level: Level) -> Iterator[Operation]:
    shown: Any = IntentShown if name == "intent" else level.wire
    many, one = f"/v2/{template(name)}", f"/v2/{item_template(name)}"
    title = level.title
    article = "an" if title[0] in "aeiouH" else "a"
    body = (level.wire,)
    yield Operation(
        "POST", many, f"create_{name}", f"Create {article} {title}; the body is JSON or YAML", body, level.wire,
        status=201, problems=(400, 404, 409, 422), yaml=True,
    )  # fmt: skip
    filters = dict.fromkeys(level.filter, _SINGLE)
    answer = list[shown] | shown if filters else list[shown]
    yield Operation("GET", many, f"list_{name}", f"Every {title} there", answer=answer, parameters=filters,
                    problems=(404,))  # fmt: skip
    yield Operation("GET", one, f"get_{name}", f"One {title}", answer=shown, problems=(404,))
    yield Operation(
        "PUT", one, f"put_{name}", f"Replace {article} {title}; the body is JSON or YAML", body, level.wire,
        problems=(400, 404, 409, 422) if level.settled else (400, 404, 422), yaml=True,
    )  # fmt: skip
    yield Operation("DELETE", one, f"delete_{name}", f"Delete {article} {title} without children", status=204,
                    problems=(404, 409))  # fmt: skip


class Placement(Struct):
    """Where the applications of a group may go, by the last snapshot; *unsatisfied* says why some may go nowhere."""

    candidates: dict[str, dict[str, Any]]
    scores: dict[str, dict[str, int]]
    unsatisfied: list[Unsatisfied]


INTENTS: Final = (
    *(operation for name, level in LEVELS.items() for operation in _operations(name, level)),
    Operation(
        "GET", f"/v2/{item_template('group')}/hpa-placement", "placement",
        "On which clusters the applications of a group have the hardware that their intents ask for",
        answer=Placement, problems=(404,),
    ),
)  # fmt: skip
