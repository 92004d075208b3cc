"""The live cluster while serving: nodes, pods that hold something, services, namespaces and workflows, watched.

Only what answers need is kept of each object, so that 50,000 pods stay small and a garbage collection short.
"""

import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Final, Generic, TypeVar

import msgspec
import structlog

from pipeline import objects
from pipeline.clients.watch import Source, Watcher
from pipeline.collectors import workflows
from pipeline.errors import ColocationError, SourceError
from pipeline.records import Node, Pod, PodSelection, Workflow

#: Pods that hold their node's resources; the API server reports one that ends as deleted.
HOLDING = "status.phase!=Succeeded,status.phase!=Failed"

#: So many label sets beyond twice those of the pods that are there are kept, to be the same object where they come
#: again: OpenWhisk labels each pod with its own name.
_SPARE: Final = 2000
#: Kinds that a cluster need not know.
_OPTIONAL: Final = ("workflows",)
_log = structlog.get_logger(__name__)


class Meta(msgspec.Struct):
    """What names an object, also one that cannot be read otherwise."""

    name: str = ""
    namespace: str = ""
    uid: str = ""


class _Named(msgspec.Struct):
    metadata: Meta


class _Labelled(msgspec.Struct):
    name: str = ""
    labels: dict[str, str] | None = None


class _Namespace(msgspec.Struct):
    metadata: _Labelled


class _ServiceSpec(msgspec.Struct):
    selector: dict[str, str] | None = None


class _Service(msgspec.Struct):
    metadata: Meta
    spec: _ServiceSpec | None = None


_NAMED = msgspec.json.Decoder(_Named)
_SERVICES = msgspec.json.Decoder(_Service)
_NAMESPACES = msgspec.json.Decoder(_Namespace)
#: Namespace and name.
Key = tuple[str, str]
K = TypeVar("K")
T = TypeVar("T")


class Held(Generic[K, T]):
    """Objects of one kind by key; *read* gives key and value, or raises for one odd object, which is left out.

    *named* gives the key of what has this name: what became odd is left out too, as a list leaves it out. *seen* is
    told of each object that is read, and whether it is still there. Only if *followed* is kept which keys changed,
    for `taken`.
    """

    def __init__(
        self,
        kind: str,
        read: Callable[[msgspec.Raw], tuple[K, T]],
        named: Callable[[Meta], K],
        changed: Callable[[], None],
        seen: Callable[[T, bool], None] = lambda value, there: None,
        followed: bool = False,
    ) -> None:
        self.items: dict[K, T] = {}
        self.refused = 0
        self.changes = 0
        #: Keys of what changed, each put here after its change; None stands for all of them.
        self.touched: deque[K | None] = deque()
        self._kind = kind
        self._read = read
        self._named = named
        self._followed = followed
        self._changed = changed
        self._seen = seen

    def replace(self, raws: Sequence[msgspec.Raw]) -> None:
        """Take a whole list: what is not among *raws* is gone."""
        self.refused = 0
        listed = [pair for raw in raws if (pair := self._readable(raw)) is not None]
        self.items = dict(listed)
        for _, value in listed:
            self._seen(value, True)
        self._touch(None)

    def event(self, kind: str, raw: msgspec.Raw) -> None:
        """Take one change; an update that changes nothing of interest is none."""
        pair = self._readable(raw)
        if pair is None:
            self._leave_out(kind, raw)
            return
        key, value = pair
        self._seen(value, kind != "DELETED")
        if kind == "DELETED":
            if self.items.pop(key, None) is not None:
                self._touch(key)
        elif self.items.get(key) != value:
            self.items[key] = value
            self._touch(key)

    def taken(self) -> set[K] | None:
        """Return the keys of what changed since the last call, None for all."""
        keys: set[K] = set()
        whole = False
        while self.touched:
            key = self.touched.popleft()
            if key is None:
                whole = True
            else:
                keys.add(key)
        return None if whole else keys

    def _leave_out(self, kind: str, raw: msgspec.Raw) -> None:
        """Forget what was held of an object that cannot be read any more."""
        try:
            key = self._named(_NAMED.decode(raw).metadata)
        except msgspec.MsgspecError:
            return
        held = self.items.pop(key, None)
        if held is not None:
            if kind == "DELETED":
                self._seen(held, False)
            self._touch(key)

    def _touch(self, key: K | None) -> None:
        if self._followed:
            self.touched.append(key)
        self.changes += 1
        self._changed()

    def _readable(self, raw: msgspec.Raw) -> tuple[K, T] | None:
        try:
            return self._read(raw)
        except (ColocationError, msgspec.MsgspecError) as error:
            self.refused += 1
            _log.warning("object left out of the live view", kind=self._kind, error=str(error).splitlines()[0])
            return None


class Live:
    """The live cluster: read from any thread, written by the watches' threads."""

    def __init__(
        self,
        source: Source,
        *,
        annotations: Sequence[str],
        node: Callable[[msgspec.Raw], Node] = objects.node,
        on_pod: Callable[[Pod, bool], None] = lambda pod, there: None,
    ) -> None:
        """Keep of each pod's annotations only the given ones; *on_pod* is told of each, and whether it is still
        there."""
        self.changes = 0
        self._annotations = tuple(annotations)
        self._node = node
        self._labels: dict[frozenset[tuple[str, str]], Mapping[str, str]] = {}
        self._shunned: dict[tuple[PodSelection, ...], tuple[PodSelection, ...]] = {}
        self._interned: dict[tuple[tuple[str, float], ...], Mapping[str, float]] = {}
        self._room = _SPARE
        self._nodes = Held("node", self._read_node, _name, self._changed)
        self._pods = Held("pod", self._read_pod, _uid, self._changed, on_pod, followed=True)
        self._services = Held("service", _read_service, full_name, self._changed)
        self._namespaces = Held("namespace", _read_namespace, _name, self._changed)
        self._workflows = Held("workflow", _read_workflow, full_name, self._changed)
        self._absent: set[str] = set()
        self.lists = dict.fromkeys(("nodes", "pods", "services", "namespaces", "workflows"), 0)
        self._watchers = {
            "nodes": self._watcher(source, "nodes", "/api/v1/nodes", self._nodes),
            "pods": self._watcher(source, "pods", "/api/v1/pods", self._pods, HOLDING),
            "services": self._watcher(source, "services", "/api/v1/services", self._services),
            "namespaces": self._watcher(source, "namespaces", "/api/v1/namespaces", self._namespaces),
            "workflows": self._watcher(source, "workflows", workflows.PATH, self._workflows),
        }

    @property
    def synced(self) -> bool:
        """Whether nodes and pods were listed; before, the snapshot's are better than none."""
        return self._watchers["nodes"].synced.is_set() and self._watchers["pods"].synced.is_set()

    def nodes(self) -> list[Node]:
        """Return the nodes now."""
        return list(self._nodes.items.values())

    def pods(self) -> list[Pod]:
        """Return the pods that are not terminal now."""
        return list(self._pods.items.values())

    def pods_now(self) -> dict[str, Pod]:
        """Return the pods that are not terminal now, by uid."""
        return dict(self._pods.items)

    def pod(self, uid: str) -> Pod | None:
        """Return the pod *uid* as it is now, None where it is gone or ended."""
        return self._pods.items.get(uid)

    def touched_pods(self) -> set[str] | None:
        """Return the uids of pods that changed since the last call, None where any may have."""
        return self._pods.taken()

    @property
    def node_changes(self) -> int:
        """A number that differs after any change of a node."""
        return self._nodes.changes

    def services(self) -> dict[Key, Mapping[str, str]]:
        """Return the selectors of services that have one, by namespace and name."""
        return {key: selector for key, selector in list(self._services.items.items()) if selector}

    def namespaces(self) -> dict[str, Mapping[str, str]]:
        """Return the labels of each namespace; none before they were listed."""
        return dict(self._namespaces.items)

    def workflows(self) -> dict[Key, Workflow] | None:
        """Return the workflows by namespace and name; None before they were listed."""
        return dict(self._workflows.items) if self._workflows.changes else None

    @property
    def workflow_changes(self) -> int:
        """A number that differs after any change of a workflow, 0 before they were listed."""
        return self._workflows.changes

    def staleness(self) -> dict[str, float | None]:
        """Return for each watch the seconds since it was last known to be current, None before its first list; of a
        kind that the cluster does not know nothing."""
        there = {name: each for name, each in self._watchers.items() if name not in self._absent}
        ages = {name: watcher.staleness() for name, watcher in there.items()}
        return {name: age if isfinite(age) else None for name, age in ages.items()}

    def start(self) -> None:
        """Begin to watch."""
        for watcher in self._watchers.values():
            watcher.start()

    def close(self) -> None:
        """End the watches."""
        for watcher in self._watchers.values():
            watcher.stop()

    def _watcher(self, source: Source, name: str, path: str, held: Held[K, T], fields: str = "") -> Watcher:
        def replace(raws: Sequence[msgspec.Raw]) -> None:
            self._absent.discard(name)
            self.lists[name] += 1
            held.replace(raws)

        def failed(error: Exception) -> None:
            if name in _OPTIONAL and isinstance(error, SourceError) and error.reason == "status_404":
                self._absent.add(name)
                if held.items:  # the definition was removed, and its objects with it
                    held.replace(())
                return
            _log.warning("watch failed", resource=name, error=str(error).splitlines()[0])

        return Watcher(source, path, on_replace=replace, on_event=held.event, on_error=failed, field_selector=fields)

    def _changed(self) -> None:
        self.changes += 1

    def _read_node(self, raw: msgspec.Raw) -> tuple[str, Node]:
        node = self._node(raw)
        return node.name, msgspec.structs.replace(node, addresses={}, capacity=node.allocatable)

    def _read_pod(self, raw: msgspec.Raw) -> tuple[str, Pod]:
        pod = objects.pod(raw)
        if len(self._labels) > self._room:
            self._forget()
        return pod.uid, msgspec.structs.replace(
            pod,
            namespace=sys.intern(pod.namespace),
            node=sys.intern(pod.node),
            phase=sys.intern(pod.phase),
            labels=self._labels.setdefault(frozenset(pod.labels.items()), pod.labels),
            annotations=_only(pod.annotations, self._annotations),
            requests=self._interned.setdefault(tuple(pod.requests.items()), pod.requests),
            limits={},
            tolerations=(),
            beside=(),
            apart=self._shunned.setdefault(pod.apart, pod.apart),
            spread=(),
        )

    def _forget(self) -> None:
        """Keep of what pods have in common only that of pods that are there."""
        pods = list(self._pods.items.values())
        self._labels = {frozenset(pod.labels.items()): pod.labels for pod in pods}
        self._shunned = {pod.apart: pod.apart for pod in pods}
        self._interned = {tuple(pod.requests.items()): pod.requests for pod in pods}
        self._room = 2 * len(self._labels) + _SPARE


def _only(given: Mapping[str, str], keys: Sequence[str]) -> Mapping[str, str]:
    return {sys.intern(key): sys.intern(given[key]) for key in keys if key in given}


def full_name(meta: Meta) -> Key:
    """Return the key of what is in a namespace, or "" of what is in none."""
    return meta.namespace, meta.name


def _name(meta: Meta) -> str:
    return meta.name


def _uid(meta: Meta) -> str:
    return meta.uid


def _read_service(raw: msgspec.Raw) -> tuple[Key, Mapping[str, str]]:
    service = _SERVICES.decode(raw)
    selector = service.spec.selector if service.spec is not None else None
    return (service.metadata.namespace, service.metadata.name), selector or {}


def _read_workflow(raw: msgspec.Raw) -> tuple[Key, Workflow]:
    workflow = objects.workflow(raw)
    return (workflow.namespace, workflow.name), workflow


def _read_namespace(raw: msgspec.Raw) -> tuple[str, Mapping[str, str]]:
    metadata = _NAMESPACES.decode(raw).metadata
    return metadata.name, metadata.labels or {}
