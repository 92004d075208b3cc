"""The routes that replicas ask their writer for."""

from typing import Final

from featurestore.store.handed import Received
from jobs.service.operation import Operation

#: Paths that a replica's own token opens.
PREFIX: Final = "/v1/replication/"

REPLICATION: Final = (
    Operation(
        "GET", f"{PREFIX}snapshot", "replicated_snapshot",
        "For replicas: the published snapshot file; If-None-Match with the ETag of the last one",
        media="application/octet-stream", problems=(404,),
    ),
    Operation(
        "GET", f"{PREFIX}control", "replicated_control",
        "For replicas: what was asked for (intents, stream jobs), all rows; If-None-Match as for the snapshot",
    ),
    Operation(
        "POST", f"{PREFIX}decisions", "replicated_decisions",
        "For replicas: decisions for the history, a JSON document a line; what comes twice is kept once",
        answer=Received, problems=(503,),
    ),
)  # fmt: skip
