"""What `colocate serve` does about consistent regions: follows them, and manages their operators where told to."""

from pathlib import Path

from jobs.config import Settings
from jobs.regions.following import Following
from jobs.regions.managing import Managing


class Instance:
    """Both, for every cluster that has a Kubernetes API; *follow* where this process feeds the history."""

    def __init__(self, settings: Settings, directory: Path, *, follow: bool) -> None:
        self._parts: list[Following | Managing] = [
            Managing(each.name, each.kubernetes, settings.regions)
            for each in settings.clusters
            if each.kubernetes is not None and settings.regions.manage
        ]
        if follow:
            self._parts.append(Following(settings, directory))

    def start(self) -> None:
        """Begin."""
        for part in self._parts:
            part.start()

    def close(self) -> None:
        """Stop."""
        for part in self._parts:
            part.close()
