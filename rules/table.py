"""All rules, by hand; a new rule is one line here.

They are independent: their order does not matter to what they say. Those that an answer needs stand first, for where
time runs out.
"""

from collections.abc import Callable, Mapping
from typing import Final, Literal

from rules.advice import Advice
from rules.affinity.capacity import capacity
from rules.affinity.fastest import fastest
from rules.affinity.hardware import hardware, preferred_hardware
from rules.affinity.interference import interference
from rules.affinity.least_loaded import least_loaded
from rules.affinity.most_free import most_free
from rules.affinity.own import own
from rules.affinity.pod_rules import pod_rules
from rules.affinity.service import service
from rules.affinity.unknown import unknown
from rules.affinity.usable import usable
from rules.affinity.workflow import workflow
from rules.disks.rule import disks
from rules.hosts.rule import hosts
from rules.hpa.rule import hpa
from rules.policy import Policy
from rules.request import Request
from rules.view import View

Rule = Callable[[Request, View, Policy], Advice]

#: ``fact``: what the scheduler knows itself. ``stated``: what pod or workflow demand. ``learned``: what rests on
#: records, left out for a workflow of another cluster. Under a snapshot that is too old only the first two count.
Ground = Literal["fact", "stated", "learned", "load"]

RULES: Final[Mapping[str, tuple[Ground, Rule]]] = {
    "usable": ("fact", usable),
    "capacity": ("fact", capacity),
    "pod_rules": ("fact", pod_rules),
    "disks": ("fact", disks),
    "own": ("stated", own),
    "hardware": ("stated", hardware),
    "hpa": ("stated", hpa),
    "hosts": ("stated", hosts),
    "workflow": ("stated", workflow),
    "preferred_hardware": ("load", preferred_hardware),
    "service": ("load", service),
    "interference": ("learned", interference),
    "unknown": ("learned", unknown),
    "fastest": ("learned", fastest),
    "least_loaded": ("load", least_loaded),
    "most_free": ("load", most_free),
}
