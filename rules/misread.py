"""What a pod and its workflow state with words of which there are few: those that are none of them are told."""

from collections.abc import Iterator

from pipeline.records import Labels
from rules import stated
from rules.functions import IMPORTANCE, PERFORMANCE, action_of
from rules.identity import Identity
from rules.labels import short
from rules.policy import MODES, Policy


def misread(annotations: Labels, who: Identity, policy: Policy) -> Iterator[str]:
    """Yield a sentence for each value that says nothing: where it stands, the value, and those that there are.

    An action that the workflow of the pod does not have is one of these: nothing that it states counts then. So is a
    mode that stands with the workflow or its action.
    """
    key, workflow, action = policy.own("mode"), who.workflow, who.action
    if (mode := annotations.get(key)) is not None and mode not in MODES:
        yield f"annotation {key}: {short(mode)} is none of {', '.join(MODES)}: it changes nothing"
    if workflow is None:
        return
    if key in workflow.annotations or (action is not None and key in action.annotations):
        what = f"{key} counts on pods, and for whole namespaces as advice.namespaces"
        yield f"workflow {workflow.name}: annotation {what}: it changes nothing there"
    if action is not None:
        goal = stated.goal(workflow, action)
        if goal and goal != PERFORMANCE:
            what = f"optimizationGoal {short(goal)} is not {PERFORMANCE}, the only one that is known"
            yield f"workflow {workflow.name}: {what}: it changes nothing"
        level = stated.importance(workflow, action)
        if level and level not in IMPORTANCE:
            known = ", ".join(IMPORTANCE)
            yield f"workflow {workflow.name}: importance {short(level)} is none of {known}: taken for medium"
    elif workflow.actions:
        what = f"has no action {short(action_of(who.name))}" if who.name else "has several actions, and none is named"
        yield f"workflow {workflow.name} {what}: nothing that it states counts (annotation {policy.own('action')})"
