"""Partition candidates as they are written: ``{app: {"replication-count": n, "allow" | "deny": [names]}}``.

An app's names are clusters; with other apps for names, and no count, the same form says which apps may share a
cluster. Either list says the same: an allow list admits what is named, a deny list all else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from pipeline.errors import BadInput
from rules.candidates import Candidates, Combined

COUNT: Final = "replication-count"
Form = Literal["allow", "deny"]
_FORMS: Final[tuple[Form, ...]] = ("allow", "deny")


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """Where one app may go: *combined* over the clusters, of which *count* are needed."""

    app: str
    combined: Combined
    count: int = 1


@dataclass(frozen=True, slots=True)
class Company:
    """The other apps that *app* shares a cluster with: only *apps*, or without *allow* any but these."""

    app: str
    allow: bool
    apps: frozenset[str]

    def admits(self, other: str) -> bool:
        """Whether *app* stands *other* beside it."""
        return (other in self.apps) is self.allow


def render(partition: Partition, clusters: Sequence[str]) -> dict[str, Any]:
    """Return the candidates of one app over *clusters*.

    Where scores tell the allowed clusters apart, they are listed with the best first; where all are as good, the
    shorter of both lists stands in the order of *clusters*, the allow list where they are level. An empty list is as
    long as one name: a cluster that is the only one is said by its name.
    """
    best = partition.combined.best
    scores = partition.combined.scores[best]
    rendered: dict[str, Any] = {COUNT: partition.count}
    if (scores == scores[:1]).all() and max(1, len(clusters) - len(best)) < len(best):
        rest = np.ones(len(clusters), dtype=np.bool_)
        rest[best] = False
        rendered["deny"] = [clusters[number] for number in np.flatnonzero(rest).tolist()]
    else:
        rendered["allow"] = [clusters[number] for number in best.tolist()]
    return rendered


def candidates(document: Mapping[str, Any], clusters: Sequence[str]) -> dict[str, tuple[int, Candidates]]:
    """Read the count and the set of *clusters* of each app; a name that is no cluster changes nothing.

    Raises `BadInput` naming the app and the field.
    """
    index = {name: number for number, name in enumerate(clusters)}
    found = {}
    for app, given in document.items():
        form, names = _listed(app, given, (COUNT,))
        count = given.get(COUNT, 1)
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise BadInput(f"{app}: {COUNT}: {count!r} is no number of clusters")
        ids = (index[name] for name in names if name in index)
        found[app] = (count, Candidates.named(form == "allow", ids, len(clusters)))
    return found


def company(document: Mapping[str, Any]) -> tuple[Company, ...]:
    """Read which apps each app shares a cluster with; raises `BadInput` naming the app and the field."""
    read = ((app, *_listed(app, given, ())) for app, given in document.items())
    return tuple(Company(app, form == "allow", frozenset(names)) for app, form, names in read)


def _listed(app: str, given: Any, others: tuple[str, ...]) -> tuple[Form, list[str]]:
    if not isinstance(given, Mapping):
        raise BadInput(f"{app}: is no object with allow or deny")
    for field in given:
        if field not in (*_FORMS, *others):
            raise BadInput(f"{app}: {field}: no such field")
    stated = [form for form in _FORMS if form in given]
    if len(stated) != 1:
        raise BadInput(f"{app}: needs one of allow and deny")
    names = given[stated[0]]
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise BadInput(f"{app}: {stated[0]}: is no list of names")
    return stated[0], list(names)
