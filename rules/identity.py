"""Which function a new pod is: by its workflow, its labels, its name, or its owner; never by a guess."""

import re
from dataclasses import dataclass

from pipeline.mangling import mangled
from pipeline.records import Action, Pod, Workflow
from rules.functions import action_of
from rules.labels import LONGEST_FUNCTION, LONGEST_NAME, cut
from rules.policy import Policy
from rules.view import View

#: What a ReplicaSet's or a Job's name adds to the name of the Deployment or CronJob behind it.
_SUFFIX = re.compile(r"-(?:[bcdfghjklmnpqrstvwxz2456789]{5,10}|[0-9]{6,})")
_TAIL = re.compile(r".+-[0-9]+-[a-z0-9]+-([a-z0-9]+)")


@dataclass(frozen=True, slots=True)
class Identity:
    """*function* is the number in the view, -1 without a record; *name* "" where it is not known.

    *named_by* is ``workflow``, ``annotation``, ``labels``, ``name`` or ``owner``; *ambiguous* lists the functions
    that it could be.
    """

    function: int = -1
    name: str = ""
    named_by: str = ""
    ambiguous: tuple[str, ...] = ()
    workflow_name: str = ""
    workflow: Workflow | None = None
    action: Action | None = None


def identify(pod: Pod, view: View, namespace: str, policy: Policy) -> Identity:
    """Say which function *pod* is, and which action of which workflow."""
    named = cut(pod.annotations.get("workflow", ""), 2 * LONGEST_NAME)
    workflow = _workflow(named, view, namespace)
    functions = view.functions
    label_namespace, label_action = (pod.labels.get(key, "") for key in policy.function_labels)
    stated = pod.annotations.get(policy.own("action"), "")
    action = _action(workflow, stated or label_action, pod.name) if workflow else None
    spoken = action.name if action else stated
    if spoken:
        found = _narrowed(functions.named(action_of(spoken), label_namespace), pod.name, view)
        full = f"{label_namespace}/{spoken}" if label_namespace else spoken
        return _chosen(found, view, "workflow" if action else "annotation", full, named, workflow, action)
    if label_action:
        full = functions.mangled.of_labels(label_namespace, label_action) if label_namespace else label_action
        number = functions.index.get(full, -1)
        found = (number,) if number >= 0 else functions.named(label_action, label_namespace)
        return _chosen(found, view, "labels", full, named, workflow, None)
    candidates = functions.mangled.candidates(pod.name)
    if candidates:
        return _chosen(tuple(sorted(functions.index[each] for each in candidates)), view, "name", "", named, workflow)
    tail = _TAIL.fullmatch(pod.name)
    bare = functions.bare.of(tail[1]) if tail else ()
    if bare:
        return _chosen(bare, view, "name", "", named, workflow)
    return _by_owner(pod, namespace, view, named, workflow)


def _by_owner(pod: Pod, namespace: str, view: View, named: str, workflow: Workflow | None) -> Identity:
    if pod.owner_name and pod.owner_kind not in ("Node", "DaemonSet"):
        plain = _SUFFIX.sub("", pod.owner_name) if pod.owner_kind in ("ReplicaSet", "Job") else pod.owner_name
        for name in (f"{namespace}/{pod.owner_name}", f"{namespace}/{plain}", pod.owner_name, plain):
            if name in view.functions.index:
                return _chosen((view.functions.index[name],), view, "owner", name, named, workflow)
    return Identity(workflow_name=named, workflow=workflow)


def _workflow(named: str, view: View, namespace: str) -> Workflow | None:
    """Find the workflow in the pod's namespace, or by ``namespace/name``, or the only one of that name."""
    if not named:
        return None
    there, slash, name = named.partition("/")
    exact = view.workflows.get((there, name) if slash else (namespace, named))
    if exact or slash:
        return exact
    found = [each for (_, name), each in view.workflows.items() if name == named]
    return found[0] if len(found) == 1 else None


def _action(workflow: Workflow, spoken: str, pod: str) -> Action | None:
    """Choose the action by name or id, else the one that the pod's name ends in, else the only one."""
    if spoken:
        return next((each for each in workflow.actions if spoken in (each.name, each.id, action_of(each.name))), None)
    ending = [each for each in workflow.actions if pod.endswith(f"-{mangled(action_of(each.name))}")]
    if len(ending) == 1:
        return ending[0]
    return workflow.actions[0] if len(workflow.actions) == 1 else None


def _narrowed(found: tuple[int, ...], pod: str, view: View) -> tuple[int, ...]:
    """Of several functions with one action name keep those that the pod's name allows, if it allows any."""
    if len(found) < 2:
        return found
    spoken = view.functions.mangled.candidates(pod)
    return tuple(each for each in found if view.functions.names[each] in spoken) or found


def _chosen(
    found: tuple[int, ...],
    view: View,
    named_by: str,
    otherwise: str,
    workflow_name: str,
    workflow: Workflow | None,
    action: Action | None = None,
) -> Identity:
    names = view.functions.names
    if len(found) == 1:
        name, number = names[found[0]], found[0]
    else:
        name, number = cut(otherwise, LONGEST_FUNCTION), -1
    if workflow is not None and action is None and name:
        action = next((each for each in workflow.actions if action_of(each.name) == action_of(name)), None)
    several = tuple(names[each] for each in found) if len(found) > 1 else ()
    return Identity(number, name, named_by, several, workflow_name, workflow, action)
