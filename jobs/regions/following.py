"""While serving: consistent regions of all clusters, every few seconds, for the history and the serving processes.

Regions are few and drain by the minute: they are listed, not watched, so that a cluster without them costs one answer
of 404 now and then. The last drains of each come with its resource, so that none is missed between two lists.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import structlog

from featurestore.snapshot import TABLES
from featurestore.store.duck import Store
from featurestore.store.ingest import ingest
from jobs import wire
from jobs.config import KubernetesSettings, Settings
from jobs.service.periodic import Periodic
from pipeline.clients.kubernetes import KubernetesClient
from pipeline.collectors import regions
from pipeline.errors import ColocationError
from pipeline.records import Batch

_log = structlog.get_logger(__name__)

#: The file's name in the directory that the supervisor shares with the serving processes.
FILE = "regions.arrow"

#: Seconds between two lists; runs are recorded, and what did not change is written again, that often.
EVERY, _RECORD = 10.0, timedelta(minutes=1)

#: How long a write waits for the store before it is put off to the next turn.
_PATIENCE = timedelta(seconds=3)


class Following:
    """Lists the regions of every cluster that is reached by the Kubernetes API."""

    def __init__(self, settings: Settings, directory: Path, every: float = EVERY) -> None:
        self._clusters = {each.name: each.kubernetes for each in settings.clusters if each.kubernetes is not None}
        self._store = Store(settings.store.path, min(_PATIENCE, settings.store.deadline))
        self._path = directory / FILE
        self._clients: dict[str, KubernetesClient] = {}
        self._seen: dict[str, tuple[pa.Table, datetime]] = {}
        self._stored: dict[str, tuple[pa.Table, datetime]] = {}
        self._shown: Mapping[str, tuple[pa.Table, datetime]] | None = None
        self._work = Periodic("regions", every, self._turn)

    def start(self) -> None:
        """Begin to list."""
        if self._clusters:
            self._work.start()

    def close(self) -> None:
        """Stop."""
        self._work.close()

    def _turn(self) -> None:
        for cluster, settings in self._clusters.items():
            try:
                self._one(cluster, settings)
            except ColocationError as error:
                _log.warning("regions not followed", cluster=cluster, error=str(error))
        if self._shown != self._seen:
            write(self._path, self._seen)
            self._shown = dict(self._seen)

    def _one(self, cluster: str, settings: KubernetesSettings) -> None:
        if cluster not in self._clients:
            self._clients[cluster] = wire.kubernetes(settings)
        at = datetime.now(UTC)
        batch = regions.collect(self._clients[cluster].list, at)
        rows = batch.rows
        assert rows is not None
        self._seen[cluster] = rows, at
        stored = self._stored.get(cluster)
        if stored is not None and stored[0].equals(rows) and at < stored[1] + _RECORD:
            return
        if stored is None or rows.num_rows or stored[0].num_rows:  # a cluster without regions is written once
            self._keep(cluster, batch, at)
        self._stored[cluster] = rows, at

    def _keep(self, cluster: str, batch: Batch, at: datetime) -> None:
        ingest(self._store, cluster, batch, collected=at, overlap=timedelta(0), source="regions", started=at)


def write(path: Path, seen: Mapping[str, tuple[pa.Table, datetime]]) -> None:
    """Leave the regions of all clusters as one table, written aside and renamed."""
    schema = TABLES["regions"]
    tables = [schema.empty_table()]
    for cluster, (rows, at) in seen.items():
        count = rows.num_rows
        whole = rows.append_column("cluster", pa.array([cluster] * count, pa.string()))
        whole = whole.append_column("seen", pa.array([at] * count, schema.field("seen").type))
        tables.append(whole.select(schema.names).cast(schema))
    table = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    aside = path.with_name(f".{path.name}")
    with pa.OSFile(str(aside), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        writer.write_table(table)
    aside.replace(path)


def latest(directory: Path | None, known: pa.Table) -> pa.Table:
    """The regions as the supervisor saw them last, else those that are *known* from the snapshot."""
    if directory is None:
        return known
    try:
        with pa.OSFile(str(directory / FILE), "rb") as file:
            found = pa.ipc.open_file(file).read_all()
    except (OSError, pa.ArrowException):
        return known
    return found if found.schema.equals(TABLES["regions"]) else known
