"""How the scores of independent rules add up to successive criteria.

Every criterion grades a node from 0 to 1, in whole percent. A later criterion weighs 1/101 of the one before it, so
that all later ones together never outweigh one percent of an earlier one: the sum compares like the list of grades,
first criterion first. Rules that share a criterion share its percents. The digits before the point are the grade of
the first criterion.
"""

from typing import Literal, get_args

import numpy as np

from rules.candidates import Scores

#: In the order in which they count: the company a pod keeps, what its designer would like, how fast its function
#: answered there, how loaded the node is, and how much is free on it.
Criterion = Literal["company", "wishes", "speed", "load", "free"]
CRITERIA: tuple[Criterion, ...] = get_args(Criterion)


def graded(criterion: Criterion, grades: Scores, *, step: float = 0.01, share: float = 1.0) -> Scores:
    """Return the score of *grades* (0..1, one a node), which count as equal within a *step*.

    *share* is the part of the criterion that a rule has where several share it.
    """
    steps = np.rint(np.clip(grades, 0.0, 1.0) / step) * step
    points: Scores = np.rint(100.0 * share * steps) / 101.0 ** CRITERIA.index(criterion)
    return points
