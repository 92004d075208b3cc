"""Terms against pods of given functions, by the labels that such pods really carry at that moment.

The webhook labels at creation the function that it recognises itself; OpenWhisk puts ``openwhisk/action`` on a pod
only once it has initialised it. So every wish comes twice: against one's own label, and against OpenWhisk's on pods
that lack one's own (else a pod with both would count double). Of required terms nothing can count double.

A scheduler compares every term with every pod: preferred terms of several namespaces are one wherever no function
that is known would be meant by mistake.
"""

from collections.abc import Callable, Iterable, Iterator

from rules.advice import Expression, PodTerm
from rules.functions import action_of, namespace_of
from rules.labels import label_value, legal_value
from rules.policy import Policy

#: Namespaces, and actions that are meant in them.
_Group = tuple[tuple[str, ...], set[str]]


def own_values(functions: Iterable[str]) -> tuple[str, ...]:
    """Return the values that one's own label may have on pods of *functions*.

    The bare action stands on a pod whose OpenWhisk namespace was not known at its creation.
    """
    return tuple(sorted({label_value(name) for each in functions for name in (each, action_of(each))}))


def bare_values(functions: Iterable[str]) -> tuple[str, ...]:
    """Return those of `own_values` that only pods of unknown namespaces have."""
    named = set(functions)
    return tuple(sorted({label_value(action_of(each)) for each in named} - {label_value(each) for each in named}))


def against(
    functions: Iterable[str],
    policy: Policy,
    *,
    weight: int | None,
    across: bool,
    where: tuple[Expression, ...] = (),
    known: Callable[[str], bool],
    apart: bool = False,
) -> tuple[PodTerm, ...]:
    """Return anti-affinity to pods of *functions*; *where* narrows it to pods that also carry other own labels.

    *known* says whether there is a function of that name. Bare names of actions are *apart* in a term of their own,
    where it may be left out.
    """
    named = sorted(set(functions))
    if not named:
        return ()
    key, bare = policy.own("function"), bare_values(named) if apart else ()
    mine = tuple(each for each in own_values(named) if each not in bare)
    selected = [(Expression(key, "In", values), *where) for values in (mine, bare) if values]
    others = _initialised(named, policy, None if weight is None else known)
    return tuple(PodTerm(True, each, policy.topology_key, weight, across) for each in (*selected, *others))


def toward(
    functions: Iterable[str], policy: Policy, *, weight: int, across: bool, known: Callable[[str], bool]
) -> tuple[PodTerm, ...]:
    """Return preferred affinity to pods of *functions* that carry OpenWhisk's labels and lack one's own."""
    others = _initialised(sorted(set(functions)), policy, known)
    return tuple(PodTerm(False, each, policy.topology_key, weight, across) for each in others)


def _initialised(
    functions: Iterable[str], policy: Policy, known: Callable[[str], bool] | None
) -> Iterator[tuple[Expression, ...]]:
    """Yield what OpenWhisk's labels say of pods of *functions*; with *known* of those without one's own, in few."""
    by_namespace: dict[str, set[str]] = {}
    for each in functions:
        if legal_value(action_of(each)) and legal_value(namespace_of(each)):
            by_namespace.setdefault(namespace_of(each), set()).add(action_of(each))
    groups = [((namespace,), actions) for namespace, actions in sorted(by_namespace.items())]
    namespace_key, action_key = policy.function_labels
    for namespaces, actions in groups if known is None else _merged(groups, known):
        expressions = [Expression(action_key, "In", tuple(sorted(actions)))]
        if namespaces != ("",):
            expressions.append(Expression(namespace_key, "In", namespaces))
        if known is not None:
            expressions.append(Expression(policy.own("function"), "DoesNotExist"))
        yield tuple(expressions)


def _merged(groups: Iterable[_Group], known: Callable[[str], bool]) -> list[_Group]:
    """Bring groups together whose namespaces have none of each other's actions, but those that are meant.

    A group without a namespace means those of all, and stays alone.
    """
    merged: list[_Group] = []
    wanted: dict[str, set[str]] = {}
    for (namespace,), actions in groups:
        wanted[namespace] = actions
        for number, (namespaces, others) in enumerate(merged):
            if "" in (namespace, *namespaces):
                continue
            every = (*namespaces, namespace)
            if not any(
                action not in wanted[each] and known(f"{each}/{action}")
                for each in every
                for action in others | actions
            ):
                merged[number] = (every, others | actions)
                break
        else:
            merged.append(((namespace,), actions))
    return merged
