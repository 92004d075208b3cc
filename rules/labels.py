"""The product's own pod labels: which value stands for a name, and which names a value can be."""

import hashlib
import re
from typing import Final

#: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")


def legal_value(value: str) -> bool:
    """Whether *value* may be a label's value ("" may)."""
    return _VALUE.fullmatch(value) is not None


def legal_key(key: str) -> bool:
    """Whether *key* may be a label's key: ``[prefix/]name``."""
    prefix, slash, name = key.rpartition("/")
    return _NAME.fullmatch(name) is not None and (
        not slash or (len(prefix) <= 253 and _PREFIX.fullmatch(prefix) is not None)
    )


#: Names in Kubernetes have no more characters; a pod with a longer one is refused after its admission.
LONGEST_NAME: Final = 253
#: Namespace, package and action of OpenWhisk have 256 each at most.
LONGEST_FUNCTION: Final = 1024


def cut(text: str, most: int) -> str:
    """Return *text*, of one longer than *most* characters as many, the last of them dots."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


#: So many characters of what somebody wrote are shown in a sentence.
_SHOWN: Final = 80


def short(text: str) -> str:
    """Return *text* in quotes, as it is shown in a sentence: cut where it is long."""
    return repr(cut(text, _SHOWN + len("...")))


def label_value(name: str) -> str:
    """Return the label value for *name*: itself where legal, else ``h-`` and 40 hex digits of its SHA-256."""
    if name and legal_value(name):
        return name
    return f"h-{hashlib.sha256(name.encode()).hexdigest()[:40]}"


def hashed(value: str) -> bool:
    """Whether *value* looks like one that `label_value` made of a name that is no label's value."""
    return value.startswith("h-")
