"""An answer that many pods get: encoded once, with a place for what names the single pod and its decision."""

from binascii import b2a_base64
from threading import Lock, local
from time import thread_time
from typing import Final

import msgspec

from featurestore.store.abridged import Common, names
from jobs.service.review import allow, encode_patch
from rules.recommend import Answer
from rules.running import Reservation

#: Stands for the decision's name while an answer is prepared: as long as a uid, and nobody's.
PLACE: Final = "decision--decision--decision--place-"
_PLACE: Final = PLACE.encode()
#: A uid of so many letters, digits and hyphens takes the place as it is.
_LONG: Final = len(PLACE)
_TAIL: Final = names("", "")
#: On so many of the best nodes the pods of one answer are expected in turn, before they are counted and it is made
#: anew.
_SPREAD: Final = 50


#: Of at least so many best nodes each may be expected to take several pods in turn before the answer is made anew, so
#: many of them on all together at least: the scheduler spreads pods over them by itself.
_MANY: Final = 5
_TURNS: Final = 4
_TOGETHER: Final = 40


class Spent:
    """Adds up the seconds of its blocks; each thread's own, so that waiting for another costs nothing."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = local()

    def __enter__(self) -> None:
        self._began.at = thread_time()

    def __exit__(self, *_: object) -> None:
        self.seconds += thread_time() - self._began.at


class Prepared(Common):
    """The answer to all pods of one shape in one view.

    It is made in the admission path for a decision called `PLACE`; what only the history keeps is rendered when it
    is asked for.
    """

    def __init__(self, answer: Answer, spent: Spent) -> None:
        """Encode *answer*; *spent* is told of what rendering the document takes."""
        self._spent = spent
        request = answer.request
        self.view, self._requests = answer.view, request.requests
        self.mode, self.outcome, self.reason = request.mode, answer.outcome, answer.cause or "none"
        self.snapshot, self.satisfiable = answer.view.version, answer.satisfiable
        self.left_out = answer.left_out
        self.function, self.cluster = request.function_name, request.cluster
        self.patch = encode_patch(answer.patch)
        #: False where the pod itself holds the text that stands for the decision: it has to be decided alone.
        self.sound = self.patch.count(_PLACE) <= 1
        self._before, self._between, self._behind = _encoded(self.patch)
        nodes = answer.view.nodes.names
        self._nodes = [nodes[node] for node in answer.top[:_SPREAD].tolist()] if answer.outcome == "patched" else []
        self._room = len(self._nodes)
        if self._room >= _MANY:
            self._room = max(self._room * _TURNS, _TOGETHER)
        self.reserved: list[Reservation] = []
        self._answer: Answer | None = answer
        self._document: list[bytes] = []
        self._rendering = Lock()

    @property
    def spent(self) -> bool:
        """Whether so many pods were expected on the best nodes that these may not be the best any more."""
        return bool(self._nodes) and len(self.reserved) >= self._room

    def reserve(self, decision: str) -> Reservation | None:
        """Expect the pod of *decision* on the next of the best nodes; None where the pod will not tell of it."""
        if not self._nodes:
            return None
        node = self._nodes[len(self.reserved) % len(self._nodes)]
        reservation = Reservation(decision, node, self.function, self._requests)
        self.reserved.append(reservation)
        return reservation

    def encoded(self, uid: str) -> bytes:
        """Return the whole answer to the review *uid*, whose decision bears the same name."""
        if len(uid) != _LONG or not (uid.isascii() and uid.replace("-", "").isalnum()):
            return allow(uid, self.patch.replace(_PLACE, _inside(uid)))
        name = uid.encode()
        if not self._behind:
            return self._before + name + self._between
        return b"".join((self._before, name, self._between, b2a_base64(name, newline=False), self._behind))

    def render(self) -> None:
        """Work out what the history keeps, and let go of what it is made of: columns over all nodes."""
        with self._rendering, self._spent:
            if self._answer is not None:
                told = self._answer.recommendation(PLACE, raw=True)
                self._document = msgspec.json.encode(told).removesuffix(_TAIL).split(_PLACE)
                self._answer = None

    def document(self, decision: str, namespace: str, pod: str) -> msgspec.Raw:
        """Return the recommendation as the history keeps it for one pod; not for the admission path."""
        if not self._document:
            self.render()
        return msgspec.Raw(_inside(decision).join(self._document) + names(namespace, pod))


def _around() -> tuple[bytes, bytes, bytes]:
    """Return what an answer says before the uid, between that and its patch in base64, and behind it."""
    mark = b"\xff" * 36
    head, rest = allow(PLACE, mark).split(_PLACE)
    opening, closing = rest.split(b2a_base64(mark, newline=False))
    return head, opening, closing


_AROUND: Final = _around()


def _inside(text: str) -> bytes:
    """Return *text* as it stands inside of a JSON string."""
    return msgspec.json.encode(text)[1:-1]


def _encoded(patch: bytes) -> tuple[bytes, bytes, bytes]:
    """Return what stands before the uid, up to the decision in the patch, and behind it.

    The patch goes out in base64, which encodes three bytes at a time: blanks behind its bracket bring the decision
    to such a boundary. Without a decision in it, the third part is empty.
    """
    before, found, after = patch.partition(_PLACE)
    if not found:
        head, tail = allow(PLACE, patch).split(_PLACE)
        return head, tail, b""
    padded = before[:1] + b" " * (-len(before) % 3) + before[1:]
    head, opening, closing = _AROUND
    return head, opening + b2a_base64(padded, newline=False), b2a_base64(after, newline=False) + closing
