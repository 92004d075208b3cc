"""One route as a value: the table of routes is made of these, and so is the OpenAPI document."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Method = Literal["GET", "POST", "PUT", "DELETE"]


#: Posted for the length of the question.
_ASKS: Final = frozenset({"mutate", "recommendations", "disk_plans", "extender_filter", "extender_prioritize"})


@dataclass(frozen=True, slots=True)
class Operation:
    """One route: *name* is its handler, *bodies* are the types it reads, *answer* None is a free form of *media*.

    *status* is that of success; 204 has no answer. *problems* are the statuses that this route answers with beside
    those that any may. With *yaml* the body may be YAML too. What stands in braces in *path* is a parameter.
    """

    method: Method
    path: str
    name: str
    summary: str
    bodies: tuple[Any, ...] = ()
    answer: Any = None
    media: str = "application/json"
    parameters: Mapping[str, str] = field(default_factory=dict)
    open: bool = False
    status: int = 200
    problems: tuple[int, ...] = ()
    yaml: bool = False

    @property
    def changes(self) -> bool:
        """Whether it changes what is stored: that is for the writer, not for its replicas."""
        return self.method in ("PUT", "DELETE") or (self.method == "POST" and self.name not in _ASKS)
