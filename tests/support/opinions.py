"""What one rule says, as the combination takes it, in a line each."""

from dataclasses import dataclass

import numpy as np

from rules.candidates import Candidates


@dataclass
class Opinion:
    rule: str
    candidates: Candidates | None = None
    scores: np.ndarray | None = None
    firm: bool = True
