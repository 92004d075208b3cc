"""The reference of metrics, from the families themselves; ``python -m jobs.service.described`` prints its page."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from prometheus_client.metrics_core import Metric

from featurestore.snapshot import TABLES, empty
from jobs.regions import gauges
from jobs.service.counts import Tally
from jobs.service.families import admission, freshness, outcomes, refusals, regions, replica, schedule, sources
from jobs.service.metrics import of_snapshot
from jobs.supervisor.status import Status, WriterStatus

_HEAD = """\
# Metrics

Generated from the code by `python -m jobs.service.described`. The service answers them on `/metrics`, all serving
processes together; ratios are fractions (.25 = 25 %), times are seconds. Pairs, functions and drives are the
strongest, most active and busiest `serve.metrics_pairs` only, so that the number of series has a bound.
"""
_OPERATOR = """
## Of a region's operator

On port 9696 of the operator of a stream job ([consistent regions](consistent-regions.md)), under names of their own.
"""
_ENDS = {"counter": "_total", "info": "_info"}


def families() -> Iterator[Metric]:
    """Yield every family of the service's page, without samples."""
    yield from of_snapshot(empty(datetime.fromtimestamp(0, UTC)), 0)
    yield from admission.admission(Tally())
    yield from refusals.refusals(Counter())
    yield from outcomes.outcomes(())
    yield from sources.sources((), 0.0)
    yield from regions.regions(TABLES["regions"].empty_table())
    yield from freshness.snapshot(0.0, 0.0, 0, 0)
    yield from freshness.watches((), 0.0)
    yield from schedule.schedule(Status())
    yield from replica.replica(WriterStatus(), 0.0)


def markdown() -> str:
    """Return the whole page."""
    operator = [*gauges.families({}), *gauges.counted(dict.fromkeys(gauges.COUNTED, 0))]
    return "".join([_HEAD, *_table(families()), _OPERATOR, *_table(operator)])


def name(family: Metric) -> str:
    """Return the name of *family* as queries write it, a histogram's without its ending."""
    return family.name + _ENDS.get(family.type, "")


def _table(found: Iterable[Metric]) -> Iterator[str]:
    yield "\n| metric | type | labels | meaning |\n|---|---|---|---|\n"
    for family in sorted(found, key=name):
        labels = ", ".join(f"`{label}`" for label in getattr(family, "_labelnames", ()))
        yield f"| `{name(family)}` | {family.type} | {labels} | {family.documentation} |\n"


if __name__ == "__main__":
    sys.stdout.write(markdown())
