"""Writes regions' resources at the version that is known, and finds out what became of a write that was refused."""

from enum import Enum
from typing import Protocol

import structlog

from jobs.regions.held import Held
from jobs.regions.resources import Conflict, Resource
from pipeline.errors import BadInput, SourceError
from rules.regions.events import Outcome
from rules.regions.region import RegionSpec, RegionStatus, restarted

_log = structlog.get_logger(__name__)

#: Times that a write is tried at once where others change the resource meanwhile.
_TRIES = 5


class Writing(Protocol):
    """What is needed of `jobs.regions.resources.Resources`."""

    def region(self, name: str) -> Resource: ...

    def write(self, name: str, version: str, spec: RegionSpec, status: RegionStatus) -> str: ...


class Wrote(Enum):
    """What became of a write."""

    ACCEPTED = "accepted"
    LATER = "later"
    GONE = "gone"


class Ledger:
    """Writes what a region has *unwritten*."""

    def __init__(self, resources: Writing) -> None:
        self._resources = resources

    def write(self, held: Held) -> Wrote:
        """Write once, and again only where the refusal itself says how.

        LATER leaves everything as it is, with one failure more. Where others changed the dynamic part, *unwritten*
        is replaced by what a controller does that starts again: nobody here knows what was told meanwhile.
        """
        for _ in range(_TRIES):
            outcome = held.unwritten
            assert outcome is not None
            try:
                held.version = self._resources.write(
                    held.name, held.version, outcome.region.spec, outcome.region.status
                )
            except Conflict as conflict:
                wrote = self._compared(held, outcome, conflict)
                if wrote is None:
                    continue
                return wrote
            except SourceError as error:
                return self._refused(held, error)
            held.failures = 0
            held.show(held.version, outcome.region.status)
            return Wrote.ACCEPTED
        return self._later(held, "others change it all the time")

    def _compared(self, held: Held, outcome: Outcome, conflict: SourceError) -> Wrote | None:
        """Look at what the resource is now; None where the write is to be tried again."""
        try:
            current = self._resources.region(held.name)
        except SourceError as error:
            return self._refused(held, error)
        except BadInput as error:
            return self._later(held, f"{conflict}; {error}")
        held.version = current.version
        status = current.region.status
        held.show(current.version, status)
        if status == outcome.region.status:  # our own write, whose answer was lost
            return Wrote.ACCEPTED
        if status != held.written and (held.written is not None or current.run_before):
            _log.warning("region was changed by others: taken up as after a restart", region=held.index)
            region = restarted(current.region)
            held.restarted, held.written = True, status
            held.unwritten = Outcome(region, clear_board=True)
            held.wait(None)
        return None

    def _refused(self, held: Held, error: SourceError) -> Wrote:
        if error.reason == "status_404":
            return Wrote.GONE
        return self._later(held, str(error))

    def _later(self, held: Held, why: str) -> Wrote:
        held.failures += 1
        _log.warning("region not written yet", region=held.index, error=why)
        return Wrote.LATER
