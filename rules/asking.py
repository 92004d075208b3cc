"""How rules are asked: each by itself, so that an answer is made of those that answered.

Rules know no clock: whoever lets them run holds them to a deadline, and says which of them missed it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from rules.advice import Advice

Calls = Mapping[str, Callable[[], Advice]]
Cause = Literal["deadline", "error"]


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """What each rule said, in the order in which they were asked; *left_out* says why others said nothing."""

    advices: Mapping[str, Advice]
    left_out: Mapping[str, Cause] = field(default_factory=dict)


Ask = Callable[[Calls], Asked]


def in_turn(calls: Calls) -> Asked:
    """Ask one after the other, as long as it takes."""
    return Asked({name: call() for name, call in calls.items()})
