"""All policies, by hand; a new one is one line here."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from jobs.simulation.policies.advised import Advised
from jobs.simulation.policies.informed import Informed
from jobs.simulation.policies.load_variation import LoadVariation
from jobs.simulation.policies.oracle import Oracle
from jobs.simulation.policies.plain import AsHappened, LeastLoaded
from jobs.simulation.policies.predecessor import Predecessor
from jobs.simulation.replay import Make
from rules import policy

#: By name, in the order in which they are shown; each is made from the limits of the rules.
POLICIES: Final[Mapping[str, Callable[[policy.Policy], Make]]] = {
    "as-happened": lambda _: AsHappened,
    "least-loaded": lambda _: LeastLoaded,
    "predecessor": lambda _: Predecessor,
    "load-variation": lambda _: LoadVariation,
    "advised": lambda limits: partial(Advised, policy=limits),
    "informed": lambda limits: partial(Informed, policy=limits),
    "oracle": lambda _: Oracle,
}
#: Those that make sense only where the truth is given.
KNOWING: Final = ("informed", "oracle")
