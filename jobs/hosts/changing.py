"""Changes in a cluster that are made whole or not at all: tried dry first, and taken back where a later one fails."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import structlog

from jobs.hosts.reading import NODES, Seen
from pipeline.clients.kubernetes import KubernetesClient
from pipeline.errors import ColocationError, SourceError, Temporary
from pipeline.records import Node
from rules.advice import Json
from rules.hosts import keys
from rules.hosts.actions import NodeAction

_MERGE: Final = "application/merge-patch+json"
#: Objects to what is sent, and what is answered to objects.
encoded: Final = msgspec.json.encode
decoded: Final = msgspec.json.decode
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Change:
    """One change: *do* makes it (or, dry, only asks whether it could be made), *undo* takes it back."""

    what: str
    do: Callable[[bool], object]
    undo: Callable[[], object]


@dataclass(slots=True)
class Ledger:
    """Changes that were made, to be taken back newest first."""

    made: list[Change] = field(default_factory=list)

    def carry_out(self, changes: Sequence[Change]) -> None:
        """Ask the server about all of *changes*, then make them; on any failure everything made is taken back."""
        for change in changes:
            change.do(True)
        try:
            for change in changes:
                change.do(False)
                self.made.append(change)
        except BaseException:
            self.take_back()
            raise

    def take_back(self) -> None:
        """Undo what was made; what cannot be undone is logged."""
        for change in reversed(self.made):
            try:
                change.undo()
            except ColocationError as error:
                _log.error("not taken back", what=change.what, error=str(error))
        self.made.clear()


def asked(dry: bool) -> dict[str, str]:
    """Return the parameters of a request that, *dry*, only asks whether it could be done."""
    return {"dryRun": "All"} if dry else {}


def nodes(client: KubernetesClient, actions: Iterable[NodeAction], seen: Seen) -> list[Change]:
    """Return the changes of nodes as they were *seen*."""
    records = {each.node.name: each.node for each in seen.nodes}
    return [_node(client, each, records[each.name], seen.raw[each.name]) for each in actions]


def _node(client: KubernetesClient, action: NodeAction, seen: Node, raw: Mapping[str, Any]) -> Change:
    """Return the change of the node that was *seen*, *raw* as the API server gave it.

    Raises (when made) `Temporary` with the reason ``changed`` where another has changed the node since.
    """
    path = f"{NODES}/{action.name}"

    def do(dry: bool) -> None:
        _patch(client, path, _patch_of(action, raw, guarded=True), dry)

    def undo() -> None:
        now = decoded(client.get(path))
        _patch(client, path, _patch_of(action.inverse(seen), now, guarded=False), False)

    return Change(f"node {action.name}", do, undo)


def _patch_of(action: NodeAction, raw: Mapping[str, Any], *, guarded: bool) -> Json:
    """Return a merge patch; it replaces taints as a whole, so that those of others stand in it as they are."""
    metadata: Json = {"labels": {**dict.fromkeys(action.stale), **action.labels}}
    if guarded:
        metadata["resourceVersion"] = raw["metadata"]["resourceVersion"]
    patch: Json = {"metadata": metadata}
    if action.taints or action.untaint:
        standing = (raw.get("spec") or {}).get("taints") or []
        others = [each for each in standing if each.get("key") != keys.EXCLUSIVE]
        patch["spec"] = {"taints": [*others, *action.taints] or None}
    return patch


def _patch(client: KubernetesClient, path: str, patch: Json, dry: bool) -> None:
    try:
        client.send("PATCH", path, encoded(patch), _MERGE, **asked(dry))
    except SourceError as error:
        if error.reason == "status_409":
            raise Temporary("kubernetes", "changed", f"{path}: changed meanwhile, try again") from None
        raise


def pod(client: KubernetesClient, manifest: Json) -> Change:
    """Return the creation of a pod."""
    metadata = manifest["metadata"]
    path = pods_of(metadata["namespace"])
    return Change(
        f"pod {metadata['name']}",
        lambda dry: client.send("POST", path, encoded(manifest), **asked(dry)),
        lambda: client.send("DELETE", f"{path}/{metadata['name']}", encoded({"gracePeriodSeconds": 0})),
    )


def pods_of(namespace: str) -> str:
    """Return the path of the pods of *namespace*."""
    return f"/api/v1/namespaces/{namespace}/pods"


def thing(client: KubernetesClient, path: str, wanted: Json, standing: Mapping[str, Any] | None) -> Change:
    """Return the creation of *wanted* under *path*, or the change that makes it of what is *standing* there."""
    name = wanted["metadata"]["name"]
    what = f"{wanted['kind']} {name}"
    if standing is None:
        return Change(
            what,
            lambda dry: client.send("POST", path, encoded(wanted), **asked(dry)),
            lambda: client.send("DELETE", f"{path}/{name}"),
        )
    before = {part: standing.get(part) for part in ("spec", "status")}
    after = {part: wanted.get(part) for part in ("spec", "status")}
    return Change(
        what,
        lambda dry: client.send("PATCH", f"{path}/{name}", encoded(after), _MERGE, **asked(dry)),
        lambda: client.send("PATCH", f"{path}/{name}", encoded(before), _MERGE),
    )
