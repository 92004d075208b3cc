"""Keys and values of labels and taints: hashes where a name may be too long, the name itself as the value."""

import hashlib
import re
from typing import Final

PREFIX: Final = "streams.ibm.com/"
JOB: Final = f"{PREFIX}job"
PE: Final = f"{PREFIX}pe"
#: Tags are the administrator's: this key with the tag as value, or, for pools of several tags, a key for each.
TAG: Final = f"{PREFIX}hostpool"
EXCLUSIVE: Final = f"{PREFIX}exclusive"
MEMBER: Final = f"{PREFIX}hostpool-member."
HOSTNAME: Final = "kubernetes.io/hostname"

_LONGEST: Final = 63
_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9_.-]")
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9.-]+")
_ENDS: Final = {"_": "u", ".": "d", "-": "d"}


def digest(value: str) -> str:
    """Return the SHA-1 of the bare value in UTF-8: 40 hex digits, upper case."""
    return hashlib.sha1(value.encode(), usedforsecurity=False).hexdigest().upper()


def colocation(token: str) -> str:
    """Return the key of pods that say ``hostColocation(token)``."""
    return f"{PREFIX}hostcolocation.{digest(token)}"


def exlocation(token: str) -> str:
    """Return the key of pods that say ``hostExlocation(token)``."""
    return f"{PREFIX}hostexlocation.{digest(token)}"


def isolation(operator: str) -> str:
    """Return the key of the pods that the isolated *operator* keeps away from."""
    return f"{PREFIX}hostisolation.{digest(operator)}"


def group(tokens: tuple[str, ...]) -> str:
    """Return the key of the members of a transitive colocation group, which its sorted *tokens* name."""
    return f"{PREFIX}hostcolocation-group.{digest(chr(0).join(tokens))}"


def member(job: str, pool: str, index: int | None = None) -> str:
    """Return the key of a pool's nodes, or of the one that is its host *index*."""
    return f"{MEMBER}{digest(f'{job}/{pool}' if index is None else f'{job}/{pool}/{index}')}"


def tag(name: str) -> str:
    """Return the key of a node's tag where a pool has several."""
    return f"{TAG}.{name}"


def sanitised(operator: str) -> str:
    """Return the label value for an isolated operator: cut to 63, then its ends mended within them.

    Brackets become ``-`` and ``::`` a dot; at either end ``_`` is mended by ``u``, ``.`` and ``-`` by ``d``.
    """
    value = _ILLEGAL.sub("-", operator.replace("::", "."))[:_LONGEST]
    first, last = _ENDS.get(value[:1], ""), _ENDS.get(value[-1:], "")
    return f"{first}{value[: _LONGEST - len(first) - len(last)]}{last}"


def pod_name(job: str, pe: int | str) -> str:
    """Return the name of the pod of *pe*, the same each time, in the letters that names have."""
    return _NOT_IN_NAMES.sub("-", f"{job}-{pe}".lower()).strip("-.")
