"""What `-o json` of each command holds, in order; a word for those whose answer is a document of its own."""

from collections.abc import Mapping
from dataclasses import fields

from jobs import choosing, forgetting, importing, learn, simulating
from jobs import collect as collection
from jobs.cli import exporting, models
from jobs.cli.regions import ASKED
from jobs.finding import Finding
from jobs.regions import applying, reading
from jobs.service.handlers import DECISIONS
from jobs.service.known import KNOWN
from jobs.simulation.outcome import Outcome
from rules.disks.plan import Plan
from rules.recommend import Recommendation


def _of(kind: type) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


*_FUNCTIONS, _CLUSTER = KNOWN["functions"].columns

_HOSTS = (
    "A mapping: `pods` (`pe`, `manifest`) and `nodes` (`name`, `labels`, `taints` and what is removed); where it "
    "cannot be placed, `refused` (`conflict`, `pes`, `operators`, `tokens`, `message`)."
)

#: Commands that answer nothing that a program would read, and why.
UNTOLD: Mapping[str, str] = {
    "serve": "it runs until it is ended, and logs",
    "regions serve": "it runs until it is ended, and logs",
    "bootstrap": "it runs until it is ended, and logs; with `--once` the exit code tells",
    "demo": "it shows the pipeline to a person; every part of it is a command with `-o json`",
}

#: By command, and there by the option that changes the answer, "" for none.
FIELDS: Mapping[str, Mapping[str, tuple[str, ...] | str]] = {
    "collect": {"": _of(collection.Outcome)},
    "learn": {
        "": _of(learn.Outcome),
        "--list": choosing.COLUMNS,
        "--use": _of(choosing.Chosen),
        "--refold": models.REFOLDED,
    },
    "import": {"": _of(importing.Outcome)},
    "forget": {"": _of(forgetting.Forgotten)},
    "doctor": {"": _of(Finding)},
    "recommend": {"": _of(Recommendation), "-o patch": "`-o patch` is a JSON Patch, a list of operations."},
    "interference": {
        "": KNOWN["interference"].columns,
        "VICTIM AGGRESSOR": "Of one pair: the answer of `GET /v1/evidence`, see [HTTP](http.md).",
    },
    "functions": {"": (*_FUNCTIONS, "declared_otherwise", _CLUSTER)},
    "nodes": {"": KNOWN["nodes"].columns},
    "decisions": {"": tuple(DECISIONS.names)},
    "simulate": {"": _of(simulating.Simulated), "outcomes": _of(Outcome)},
    "export openmetrics": {"": exporting.SERIES},
    "export parquet": {"": exporting.TABLES},
    "regions apply": {"": applying.Applied._fields},
    "regions list": {"": reading.COLUMNS},
    "regions show": {"": "The resource of the region, as the API server has it."},
    "regions reset": {"": ASKED},
    "regions drain": {"": ASKED},
    "hpa place": {
        "": "A mapping by application of `replication-count` and `allow` or `deny`, lists of clusters; with "
        "`--explain` `scores` and `reasons` beside it; where one fits nowhere, `unsatisfied` alone."
    },
    "hpa apply": {"": "The manifests, one or a list, with what the intents ask for written in."},
    "disks plan": {"": _of(Plan), "several pods": "Of several pods: a list of these."},
    "hosts apply": {"": _HOSTS},
    "hosts release": {"": "A mapping: `nodes` (`name`, `labels`, `taints` and what is removed)."},
    "hosts reconcile": {"": ("job", "outcome", "nodes", "why")},
}
