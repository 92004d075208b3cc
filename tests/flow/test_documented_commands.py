"""Every command in the documentation is one that the command line takes; what can be answered here is run as well.

What changes a cluster's stream jobs is run in `test_documented_changes`, and what needs runs whose nodes are certain
in `test_simulating`; completion is installed in a home of its own, and what needs a Spark cluster is held against its
parser alone.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import typer

from jobs.cli.fields import FIELDS
from jobs.cli.main import app
from tests.support.disks import capacity, storage_classes
from tests.support.documented import COMMANDS, DOCUMENTED, ROOT, command
from tests.support.town import Town, node, town

#: What a stand-in of a cluster can answer.
RUN = {
    *("collect", "learn", "import", "doctor", "recommend", "interference", "functions", "nodes", "decisions"),
    *("export openmetrics", "export parquet", "hpa place", "hpa apply", "disks plan"),
}
#: What stands for the reader's own names.
OWN = {"JOB": "ex", "REGION": "0", "A": "guest/alpha", "B": "guest/beta", "DIR": "state"}
WEB = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: example}]}
  volumeClaimTemplates:
  - metadata: {name: www}
    spec: {accessModes: [ReadWriteOnce], storageClassName: hdd, resources: {requests: {storage: 1Gi}}}
"""
INTENTS = re.compile(r"```yaml\n(path: projects/.*?)```", re.DOTALL)


@pytest.mark.parametrize(("page", "words"), DOCUMENTED, ids=[" ".join(words) for _, words in DOCUMENTED])
def test_a_documented_command_is_one_that_its_parser_takes(page: str, words: list[str]) -> None:
    name, arguments = command(words)
    if not name:
        known = {option for each in typer.main.get_command(app).params for option in each.opts}
        assert words[0] in known, f"{page}: no such command"
        return
    COMMANDS[name].make_context(name, [OWN.get(each, each) for each in arguments])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    """A cluster of stand-ins, and beside its settings the files that the documentation names."""
    home = tmp_path_factory.mktemp("documented")
    with town(home, records=300) as made:
        at = datetime.now(UTC) - timedelta(hours=2)
        times = [at + timedelta(seconds=number) for number in range(20)]
        length = timedelta(seconds=0.5)
        rows = [f"a{n},guest/x,{t.isoformat()},{(t + length).isoformat()}" for n, t in enumerate(times)]
        for name in ("history.csv", "h.csv"):
            (home / name).write_text("\n".join(["activation_id,function,start,end", *rows, ""]))
        (home / "profiles.csv").write_text("function,cpu_cores\nguest/x,0.5\n")
        listed = {"apiVersion": "v1", "kind": "List", "items": [{"kind": "Node", "apiVersion": "v1", **node("n0")}]}
        for name in ("nodes.yaml", "edge.yaml", "hub.yaml"):
            (home / name).write_text(json.dumps(listed))
        (home / "deploy").symlink_to(ROOT / "deploy")
        (home / "pod.yaml").symlink_to(ROOT / "deploy" / "samples" / "pod.yaml")
        [intents] = INTENTS.findall((ROOT / "README.md").read_text(encoding="utf-8"))
        (home / "intents.yaml").write_text(intents.replace("kind: StatefulSet", "kind: Deployment"))
        (home / "state").mkdir()
        objects = [capacity("ac-d1", "HDD", 100), *storage_classes()]
        where = {"name": "worker-1", "uid": "u1", "labels": {"nodes.csi-baremetal.dell.com/uuid": "n1"}}
        objects.append({"kind": "Node", "apiVersion": "v1", "metadata": where})
        (home / "state" / "all.json").write_text(json.dumps({"kind": "List", "items": objects}))
        (home / "web.yaml").write_text(WEB)
        container = {"name": "main", "image": "example"}
        template = {"metadata": {"labels": {"app": "core"}}, "spec": {"containers": [container]}}
        spec = {"replicas": 1, "selector": {"matchLabels": {"app": "core"}}, "template": template}
        manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "core"}, "spec": spec}
        (home / "manifests.yaml").write_text(json.dumps(manifest))
        assert made.colocate("collect").returncode == 0
        assert made.colocate("learn").returncode == 0
        yield made


def answerable() -> Iterator[list[str]]:
    """Yield each command that is run: once, with names for what is the reader's own."""
    for words in {tuple(words): list(words) for _, words in DOCUMENTED}.values():
        if (command(words)[0] in RUN and "spark" not in words) or words == ["--version"]:
            yield [OWN.get(each, each) for each in words]


@pytest.mark.parametrize("words", list(answerable()), ids=" ".join)
def test_a_documented_command_does_what_it_is_for(words: list[str], place: Town) -> None:
    done = place.colocate(*words)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    if words[-2:] == ["-o", "json"]:
        json.loads(done.stdout)


@pytest.mark.parametrize(
    ("words", "of"),
    [
        ("collect nodes", "collect"),
        ("learn", "learn"),
        ("learn --list", "learn"),
        ("import nodes nodes.yaml --cluster edge", "import"),
        ("doctor", "doctor"),
        ("recommend -f pod.yaml", "recommend"),
        ("functions", "functions"),
        ("nodes", "nodes"),
        ("export openmetrics series", "export openmetrics"),
        ("export parquet tables", "export parquet"),
    ],
)
def test_json_holds_the_fields_that_are_documented(words: str, of: str, place: Town) -> None:
    done = place.colocate(*words.split(), "-o", "json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    rows = answer if isinstance(answer, list) else [answer]
    fields = FIELDS[of]["--list" if "--list" in words else ""]
    assert rows
    assert {tuple(row) for row in rows} == {tuple(fields)}


def test_completion_is_installed_in_the_shell_that_asks(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("colocate")
    environment = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(
        ["bash", "-c", f"{shlex.quote(str(program))} --install-completion; exit $?"],
        env=environment, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    [script] = re.findall(r"installed in (\S+)", done.stdout)
    ask = f"source {shlex.quote(script)}; complete -p colocate"
    asked = subprocess.run(["bash", "-c", ask], env=environment, capture_output=True, text=True, check=False)
    assert asked.stdout.startswith("complete ")


def test_most_of_the_documentation_is_run() -> None:
    assert len(list(answerable())) > 20
