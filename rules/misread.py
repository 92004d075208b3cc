"""What a pod and its workflow state with words of which there are few: those that are none of them are told."""

from collections.abc import Iterator

from pipeline.records import Action, Labels, Workflow
from rules.functions import IMPORTANCE
from rules.labels import short
from rules.policy import MODES, Policy


def misread(annotations: Labels, workflow: Workflow | None, action: Action | None, policy: Policy) -> Iterator[str]:
    """Yield a sentence for each value that says nothing: the annotation, its value, and those that there are."""
    key = policy.own("mode")
    if (mode := annotations.get(key)) is not None and mode not in MODES:
        yield f"annotation {key}: {short(mode)} is none of {', '.join(MODES)}: it changes nothing"
    if workflow is not None and action is not None:
        level = stated_importance(workflow, action)
        if level and level.lower() not in IMPORTANCE:
            known = ", ".join(IMPORTANCE)
            yield f"workflow {workflow.name}: importance {short(level)} is none of {known}: taken for medium"


def stated_importance(workflow: Workflow, action: Action) -> str:
    """Return how important *action* is said to be, itself or with all of *workflow*; "" where nothing says it."""
    whole = {key.lower(): value for key, value in workflow.annotations.items()}
    return action.importance or str(whole.get("importance") or "")
