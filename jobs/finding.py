"""What one check of ``colocate doctor`` saw."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check saw; *fix* says what to do about a warning or a failure."""

    cluster: str
    source: str
    check: str
    verdict: Verdict
    said: str
    fix: str = ""
