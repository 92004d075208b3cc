"""What one serving process has counted, cheap enough for the admission path, and its sum over all of them.

Each serving process writes its tally to a small file from a background thread; whichever process is scraped adds up
the files. A process that is started again goes on from the file of its slot, so the sums never fall.
"""

import os
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

#: Upper bounds of the latency buckets in seconds; the admission timeout is 2 s.
BUCKETS = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0)


#: Told of what was refused: the part (hpa, hosts, disks) and a short word for the cause.
TurnedDown = Callable[[str, str], None]
#: Refusals alone are counted by several threads, and none of them is of the admission path.
_TURNS = threading.Lock()


class Tally(msgspec.Struct):
    """Counts since the service was started.

    *decisions* is keyed by (mode, outcome, reason), *errors* and *rejections* by cause, *buckets* has one
    more entry than `BUCKETS` for what took longer, *seconds* is the sum of the latencies; *left_out* is keyed by
    (rule, cause), *refusals* by (part, cause).
    """

    decisions: Counter[tuple[str, str, str]] = msgspec.field(default_factory=Counter)
    errors: Counter[str] = msgspec.field(default_factory=Counter)
    buckets: list[int] = msgspec.field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    seconds: float = 0.0
    dropped: int = 0
    unauthorized: int = 0
    left_out: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)
    refusals: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)
    rejections: Counter[str] = msgspec.field(default_factory=Counter)

    def decided(self, mode: str, outcome: str, reason: str) -> None:
        """Count one admission decision."""
        self.decisions[mode, outcome, reason] += 1

    def failed(self, cause: str) -> None:
        """Count one answer that failed open."""
        self.errors[cause] += 1

    def rejected(self, cause: str) -> None:
        """Count one request to the webhook that held no review, and was answered with an error."""
        self.rejections[cause] += 1

    def without(self, rule: str, cause: str) -> None:
        """Count one answer that a rule was left out of."""
        self.left_out[rule, cause] += 1

    def took(self, seconds: float) -> None:
        """Count the time of one answer."""
        self.buckets[bisect_left(BUCKETS, seconds)] += 1
        self.seconds += seconds

    def refused(self) -> None:
        """Count one request without the right credentials."""
        self.unauthorized += 1

    def turned_down(self, part: str, cause: str) -> None:
        """Count one thing asked of *part* (hpa, hosts, disks) that could not be given, from any thread."""
        with _TURNS:
            self.refusals[part, cause] += 1

    def lost(self, count: int) -> None:
        """Count decisions that could not be kept for the history."""
        self.dropped += count


class _Written(msgspec.Struct):
    decisions: list[tuple[str, str, str, int]]
    errors: dict[str, int]
    buckets: list[int]
    seconds: float
    dropped: int
    unauthorized: int
    left_out: list[tuple[str, str, int]] = []
    refusals: list[tuple[str, str, int]] = []
    rejections: dict[str, int] = {}


_decoder = msgspec.json.Decoder(_Written)


def write(tally: Tally, path: Path) -> None:
    """Write *tally* aside and rename it to *path*."""
    written = _Written(
        [(*key, count) for key, count in list(tally.decisions.items())],
        dict(tally.errors),
        list(tally.buckets),
        tally.seconds,
        tally.dropped,
        tally.unauthorized,
        [(*key, count) for key, count in list(tally.left_out.items())],
        [(*key, count) for key, count in list(tally.refusals.items())],
        dict(tally.rejections),
    )
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_bytes(msgspec.json.encode(written))
    aside.replace(path)


def read(path: Path) -> Tally:
    """Read a tally; an empty one where there is none yet or it is of another version."""
    try:
        written = _decoder.decode(path.read_bytes())
    except (OSError, msgspec.MsgspecError):
        return Tally()
    if len(written.buckets) != len(BUCKETS) + 1:
        return Tally()
    return Tally(
        Counter({(mode, outcome, reason): count for mode, outcome, reason, count in written.decisions}),
        Counter(written.errors),
        written.buckets,
        written.seconds,
        written.dropped,
        written.unauthorized,
        Counter({(rule, cause): count for rule, cause, count in written.left_out}),
        Counter({(part, cause): count for part, cause, count in written.refusals}),
        Counter(written.rejections),
    )


def total(tallies: Iterable[Tally]) -> Tally:
    """Add tallies up."""
    whole = Tally()
    for tally in tallies:
        whole.decisions.update(dict(tally.decisions))
        whole.errors.update(dict(tally.errors))
        whole.buckets = [a + b for a, b in zip(whole.buckets, tally.buckets, strict=True)]
        whole.seconds += tally.seconds
        whole.dropped += tally.dropped
        whole.unauthorized += tally.unauthorized
        whole.left_out.update(dict(tally.left_out))
        whole.refusals.update(dict(tally.refusals))
        whole.rejections.update(dict(tally.rejections))
    return whole
