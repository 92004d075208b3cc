"""What admission looks at of the stored intents: an index that is made anew when they changed."""

from pathlib import Path

from featurestore.store import tree
from featurestore.store.control import Control
from jobs.service.periodic import Periodic
from rules.hpa import model
from rules.hpa.admission import Index, index

#: How often the store is asked whether anything changed, in seconds; a change of this process is seen at once.
_POLL = 1.0


class Watched:
    """Holds the *current* index of the intents for *cluster*; readers take the one reference and never wait."""

    def __init__(self, path: Path, cluster: str) -> None:
        self.current = Index()
        self._path = path
        self._control = Control(path)
        self._cluster = cluster
        self._thread = Periodic("intents", _POLL, self.refresh)

    def start(self) -> None:
        """Begin to watch the store."""
        self._thread.start()

    def close(self) -> None:
        """Stop watching; the current index stays."""
        self._thread.close()

    def wake(self) -> None:
        """Look at the store as soon as possible."""
        self._thread.wake()

    def refresh(self) -> None:
        """Take up what changed; a store that is not there yet has no intents, and is not made for that."""
        if not self._path.exists():
            return
        version = self._control.read(tree.changes)
        if version == self.current.version:
            return
        version, items = self._control.read(lambda con: (tree.changes(con), tree.below(con, "")))
        intents = model.intents((item.path, item.body) for item in items)
        self.current = index(intents, self._cluster, version)
