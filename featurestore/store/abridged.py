"""Decisions whose documents differ in names alone, a line each: the first is written whole, the others name it.

A document of eight kilobytes takes most of the time in which a decision is written, and many pods get one answer. In
the line of an abridged decision a text stands for the document: the first decision, earlier in the same file, which
has the same document but for the names of decision, namespace and pod.
"""

from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

import msgspec
from msgspec import structs

from featurestore.store.decision import Decision, Line

#: Names as short as these may stand in a document by chance: such decisions are written whole.
_SHORT: Final = 32
D = TypeVar("D", bound=Decision)


class Common:
    """What the documents of several decisions have in common; whoever makes them says the rest."""

    def document(self, decision: str, namespace: str, pod: str) -> msgspec.Raw:
        """Return the document of one: the decision's name stands in it as it is, its last two fields are *namespace*
        and *pod*, in the form of `names`.
        """
        raise NotImplementedError


def names(namespace: str, pod: str) -> bytes:
    """Return how the document of a decision about *pod* ends."""
    return b',"namespace":%b,"pod":%b}' % (msgspec.json.encode(namespace), msgspec.json.encode(pod))


class Abridging:
    """Abridges the decisions of one file, in their order; `size` counts the bytes that they stand for."""

    def __init__(self) -> None:
        self.size = 0
        self._first: dict[Common, tuple[str, int]] = {}

    def __call__(self, decision: Decision) -> Decision:
        """Return *decision* as it is written."""
        common = decision.document
        if not isinstance(common, Common):
            return decision
        first, length = self._first.get(common, ("", 0))
        if first and len(decision.decision) >= _SHORT:
            self.size += length
            return structs.replace(decision, document=first)
        document = common.document(decision.decision, decision.namespace, decision.pod)
        length = len(bytes(document))
        self.size += length
        if len(decision.decision) >= _SHORT:
            self._first[common] = decision.decision, length
        return structs.replace(decision, document=document)


def whole(lines: Iterable[Line | None]) -> Iterator[Line | None]:
    """Yield the decisions of one file with their documents; None for one that is none, or whose document is lost."""
    documents: dict[str, tuple[bytes, bytes]] = {}
    for line in lines:
        if line is None or not bytes(line.document).startswith(b'"'):
            if line is not None and len(line.decision) >= _SHORT:
                documents[line.decision] = bytes(line.document), names(line.namespace, line.pod)
            yield line
            continue
        first = msgspec.json.decode(line.document, type=str)
        document, ending = documents.get(first, (b"", b"-"))
        if not document.endswith(ending):
            yield None
            continue
        own = document.removesuffix(ending).replace(_inside(first), _inside(line.decision))
        yield structs.replace(line, document=msgspec.Raw(own + names(line.namespace, line.pod)))


def _inside(name: str) -> bytes:
    """Return *name* as it stands inside of a JSON string."""
    return msgspec.json.encode(name)[1:-1]
