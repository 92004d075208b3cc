"""What a workflow states of one of its actions: with the action itself, else in its own annotations for all."""

from pipeline.mangling import spelled
from pipeline.records import Action, Workflow


def for_all(workflow: Workflow, key: str) -> list[object]:
    """Return what annotations of *workflow* say under *key*: in any case, with ``-`` or ``_`` in it, or a prefix."""
    word = spelled(key)
    return [value for each, value in workflow.annotations.items() if spelled(each) == word]


def goal(workflow: Workflow, action: Action) -> str:
    """Return the optimization goal of *action* in lower case, "" where nothing says it."""
    return action.optimization_goal or _word(workflow, "optimizationGoal")


def importance(workflow: Workflow, action: Action) -> str:
    """Return how important *action* is said to be in lower case, "" where nothing says it."""
    return action.importance or _word(workflow, "importance")


def _word(workflow: Workflow, key: str) -> str:
    return next((word for each in for_all(workflow, key) if (word := str(each or "").strip().lower())), "")
