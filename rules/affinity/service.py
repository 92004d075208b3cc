"""Near the services that the function uses: preferred affinity to the pods that their selectors choose."""

from rules.advice import Advice, Expression, PodTerm, Reason, Term
from rules.policy import Policy
from rules.request import Request
from rules.view import View

NAME = "service"
_WEIGHT = 50


def service(request: Request, view: View, policy: Policy) -> Advice:
    """Prefer the nodes of each used Service's pods; one that is not known, or selects nothing, gives no rule."""
    terms: list[Term] = []
    reasons = []
    for name in request.services:
        there, _, short = name.rpartition("/")
        selector = view.services.get((there or request.namespace, short))
        if not selector:
            reasons.append(Reason(NAME, f"uses service {name}, of which no selector is known: no rule"))
            continue
        expressions = tuple(Expression(key, "In", (value,)) for key, value in sorted(selector.items()))
        across = request.namespace in policy.across
        terms.append(PodTerm(False, expressions, policy.topology_key, _WEIGHT, across))
        reasons.append(Reason(NAME, f"uses service {name}: near its pods"))
    return Advice(NAME, terms=tuple(terms), reasons=lambda: reasons)
