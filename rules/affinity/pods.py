"""Terms against pods of given functions, by the labels that such pods really carry at that moment.

The webhook labels at creation the function that it recognises itself; OpenWhisk puts ``openwhisk/action`` on a pod
only once it has initialised it. So every wish comes twice: against one's own label, and against OpenWhisk's on pods
that lack one's own (else a pod with both would count double). Of required terms nothing can count double.
"""

from collections.abc import Iterable, Iterator

from rules.advice import Expression, PodTerm
from rules.functions import action_of, namespace_of
from rules.labels import label_value, legal_value
from rules.policy import Policy


def own_values(functions: Iterable[str]) -> tuple[str, ...]:
    """Return the values that one's own label may have on pods of *functions*.

    The bare action stands on a pod whose OpenWhisk namespace was not known at its creation.
    """
    return tuple(sorted({label_value(name) for each in functions for name in (each, action_of(each))}))


def against(
    functions: Iterable[str],
    policy: Policy,
    *,
    weight: int | None,
    across: bool,
    where: tuple[Expression, ...] = (),
) -> tuple[PodTerm, ...]:
    """Return anti-affinity to pods of *functions*; *where* narrows it to pods that also carry other own labels."""
    named = sorted(set(functions))
    if not named:
        return ()
    key = policy.own("function")
    own = PodTerm(True, (Expression(key, "In", own_values(named)), *where), policy.topology_key, weight, across)
    others = _initialised(named, policy, alone=weight is not None)
    return (own, *(PodTerm(True, each, policy.topology_key, weight, across) for each in others))


def toward(functions: Iterable[str], policy: Policy, *, weight: int, across: bool) -> tuple[PodTerm, ...]:
    """Return preferred affinity to pods of *functions* that carry OpenWhisk's labels and lack one's own."""
    others = _initialised(sorted(set(functions)), policy, alone=True)
    return tuple(PodTerm(False, each, policy.topology_key, weight, across) for each in others)


def _initialised(functions: Iterable[str], policy: Policy, *, alone: bool) -> Iterator[tuple[Expression, ...]]:
    """Yield what OpenWhisk's labels say of pods of *functions*, by namespace; *alone* of those without one's own."""
    by_namespace: dict[str, list[str]] = {}
    for each in functions:
        if legal_value(action_of(each)) and legal_value(namespace_of(each)):
            by_namespace.setdefault(namespace_of(each), []).append(action_of(each))
    namespace_key, action_key = policy.function_labels
    for namespace, actions in sorted(by_namespace.items()):
        expressions = [Expression(action_key, "In", tuple(sorted(set(actions))))]
        if namespace:
            expressions.append(Expression(namespace_key, "In", (namespace,)))
        if alone:
            expressions.append(Expression(policy.own("function"), "DoesNotExist"))
        yield tuple(expressions)
