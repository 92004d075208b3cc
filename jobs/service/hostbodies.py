"""What is posted about stream jobs, and what is answered."""

from typing import Any

import msgspec


class HostConstraintsRequest(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A job's document, with the *nodes* to place it on (default: the cluster's); *dry_run* stores nothing."""

    job: dict[str, Any]
    nodes: Any = None
    dry_run: bool = False


class HostConstraints(msgspec.Struct, frozen=True, rename="camel"):
    """The pods of a job and what its pools ask of nodes; *nodes_changed* of these were changed, *stored* it was."""

    pods: list[Any]
    nodes: list[Any]
    stored: bool
    nodes_changed: int


class ReleasedJob(msgspec.Struct, frozen=True):
    """What is to be taken off *nodes*; *changed* says whether it was."""

    nodes: list[Any]
    changed: bool
