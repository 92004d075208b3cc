"""Examples of every command: shown by its ``--help`` and in the reference, and tried by the tests."""

from collections.abc import Iterator, Mapping
from typing import Any

#: One or more lines for each command, without the leading ``colocate``.
EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "collect": ("collect", "collect nodes placements --cluster edge", "collect usage -o json"),
    "learn": (
        "learn",
        "learn --full --cluster edge",
        "learn --list",
        "learn --use 3 --cluster edge",
        "learn --engine spark --master spark://head:7077 --from s3a://history/tables --cluster edge",
    ),
    "import": (
        "import activations history.csv --cluster edge",
        "import nodes nodes.yaml --cluster edge",
        "import profiles profiles.parquet --cluster edge",
    ),
    "forget": ("forget trial", "forget trial -o json"),
    "doctor": ("doctor", "doctor -o json"),
    "recommend": (
        "recommend -f pod.yaml",
        "recommend -f deployment.yaml --mode require -o patch",
        "recommend -f - -n guest -o json",
    ),
    "interference": (
        "interference",
        "interference --status observed -o csv",
        "interference --min-slowdown 0.1 --min-probability 0.9",
        "interference guest/resize guest/train",
    ),
    "functions": ("functions", "functions --dominant disk --wide", "functions guest/resize -o json"),
    "nodes": ("nodes", "nodes worker-1 -o yaml"),
    "decisions": ("decisions", "decisions --namespace guest --limit 20 -o json"),
    "bootstrap": ("bootstrap --namespace apps --host advisor.apps.svc --once",),
    "serve": ("serve", "serve --no-schedule"),
    "demo": ("demo", "demo --serve --port 8080", "demo --directory kept"),
    "simulate": ("simulate", "simulate --policy advised --policy least-loaded -o json"),
    "export openmetrics": (
        "export openmetrics history",
        "export openmetrics history --since 2026-05-01T00:00:00Z -o json",
    ),
    "export parquet": ("export parquet tables", "export parquet tables --cluster edge --since 2026-05-01T00:00:00Z"),
    "regions apply": ("regions apply -f job.yaml", "regions apply -f job.yaml -n streams -o json"),
    "regions list": ("regions list", "regions list --job ex -n streams -o json"),
    "regions show": ("regions show ex 0", "regions show ex 0 -n streams -o yaml"),
    "regions reset": ("regions reset ex 0", "regions reset ex 0 --force -o json"),
    "regions drain": ("regions drain ex 0", "regions drain ex 0 -o json"),
    "regions serve": ("regions serve --job ex -n streams",),
    "hpa place": (
        "hpa place -f intents.yaml --explain",
        "hpa place -f intents.yaml --cluster edge --nodes edge.yaml -o json",
    ),
    "hpa apply": ("hpa apply -f intents.yaml -m manifests.yaml --cluster edge",),
    "disks plan": ("disks plan -f web.yaml --state objects", "disks plan -f web.yaml -o json"),
    "hosts apply": ("hosts apply -f job.yaml", "hosts apply -f job.yaml --create --change-nodes"),
    "hosts release": ("hosts release ex", "hosts release ex --dry-run"),
    "hosts reconcile": ("hosts reconcile", "hosts reconcile --change-nodes"),
}


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield every command below *command* that does something, with the words that lead to it."""
    below = getattr(command, "commands", None)
    if below is None:
        yield " ".join(path), command
    else:
        for name, each in below.items():
            yield from commands(each, (*path, name))


def shown(command: Any) -> Any:
    """Return *command* with the examples of every command at the end of its help."""
    for path, each in commands(command):
        lines = [f"  colocate {line}" for line in EXAMPLES.get(path, ())]
        each.epilog = "\n".join(["\b", "Examples:", *lines])  # \b: lines stay as they are
    return command
