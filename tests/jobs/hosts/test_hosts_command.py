"""``colocate hosts apply`` and ``release`` on files: forms, exit codes, and one line for what cannot be read."""

import json

import pytest
import yaml

from jobs.cli import main

JOB = """
job: ex
namespace: team
hostPools:
  MyPool: 'createPool({size=2u, tags=["source"]}, Sys.Exclusive)'
  Names: ["n1", "10.0.0.2"]
pes:
- id: 0
  template: {spec: {containers: [{name: pe, image: example}]}}
  operators:
  - {name: Source, placement: 'host(MyPool[1]), hostColocation("together")'}
- id: 1
  operators:
  - {name: Work, placement: 'host(Names)'}
- id: sink
  operators:
  - {name: Sink, placement: hostIsolation}
"""


def _node(number):
    labels = {"streams.ibm.com/hostpool": "source"} if number > 2 else {}
    addresses = [{"type": "InternalIP", "address": f"10.0.0.{number}"}, {"type": "InternalIP", "address": "fd00::1"}]
    return {
        "kind": "Node", "metadata": {"name": f"n{number}", "labels": labels},
        "status": {"addresses": addresses[: 2 if number == 5 else 1]},
    }  # fmt: skip


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "nodes.json").write_text(
        json.dumps({"kind": "NodeList", "items": [_node(each) for each in range(1, 6)]})
    )
    return tmp_path


def run(capsys, *arguments):
    code = main(["hosts", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_pods_and_node_changes_in_the_documented_form(files, capsys):
    code, out, _ = run(capsys, "apply", "-f", "job.yaml", "--nodes", "nodes.json", "-o", "json")
    assert code == 0
    found = json.loads(out)
    assert list(found) == ["pods", "nodes"]
    assert [each["pe"] for each in found["pods"]] == [0, 1, "sink"]
    first = found["pods"][0]["manifest"]
    assert (first["apiVersion"], first["kind"]) == ("v1", "Pod")
    assert (first["metadata"]["name"], first["metadata"]["namespace"]) == ("ex-0", "team")
    assert first["spec"]["containers"] == [{"name": "pe", "image": "example"}]
    assert [each["name"] for each in found["nodes"]] == ["n3", "n4"]
    for each in found["nodes"]:
        assert each["taints"] == [{"key": "streams.ibm.com/exclusive", "value": "ex", "effect": "NoSchedule"}]
    assert [len(each["labels"]) for each in found["nodes"]] == [1, 2], "the second is the host of index 1"
    code, again, _ = run(capsys, "apply", "-f", "job.yaml", "--nodes", "nodes.json", "-o", "yaml")
    assert (code, yaml.safe_load(again)) == (0, found)
    assert sorted(each.name for each in files.iterdir()) == ["job.yaml", "nodes.json"], "nothing is stored"


def test_a_job_as_json_and_of_spl_alone(files, capsys):
    spl = 'stream<T> A = Beacon() { config placement: host("fd00:0::1"); }\n() as B = Custom(A) { }'
    (files / "job.json").write_text(json.dumps({"job": "spl", "spl": spl}))
    code, out, _ = run(capsys, "apply", "-f", "job.json", "--nodes", "nodes.json", "-o", "json")
    assert code == 0
    pods = [each["manifest"] for each in json.loads(out)["pods"]]
    assert [pod["spec"].get("nodeName") for pod in pods] == ["n5", None], "an address of any entry, by value"


def test_a_refusal_is_exit_1_and_names_everything(files, capsys):
    (files / "job.yaml").write_text(JOB.replace("size=2u", "size=9u").replace("MyPool[1]", "MyPool[9]"))
    code, out, err = run(capsys, "apply", "-f", "job.yaml", "--nodes", "nodes.json", "-o", "json")
    assert (code, err) == (1, "")
    refused = json.loads(out)["refused"]
    assert [(each["conflict"], each["pes"], each["operators"]) for each in refused] == [
        ("pool-too-small", [0], ["Source"]),
        ("index-out-of-range", [0], ["Source"]),
    ]
    assert all(set(each) == {"conflict", "pes", "operators", "tokens", "message"} for each in refused)
    code, out, _ = run(capsys, "apply", "-f", "job.yaml", "--nodes", "nodes.json")
    assert code == 1
    assert "pool-too-small" in out


def test_people_get_tables(files, capsys):
    code, out, _ = run(capsys, "apply", "-f", "job.yaml", "--nodes", "nodes.json")
    assert code == 0
    for part in ("ex-sink", "hostisolation In Sink", "node In n2", "streams.ibm.com/exclusive=ex:NoSchedule"):
        assert part in out


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ("hostIsolation", "hostIsolated"),
            "job.yaml: pes[2].operators[0].placement: line 1, column 1: expected one of",
        ),
        (("id: sink", "id: 0"), "job.yaml: pes[2].id: 0 stands twice"),
        (("hostPools", "hostpools"), "job.yaml: Object contains unknown field `hostpools`"),
        (("job: ex", "job: [ex"), "job.yaml, line"),
        (("job: ex", "job: ex\njob: other"), "job.yaml, line 3: not YAML or JSON: 'job' stands twice"),
        (("job: ex", "on: ex"), "job.yaml, line 2: not YAML or JSON: the key on is no text; put it in quotes"),
        (("job: ex", "---\njob: x\n---\njob: ex"), "job.yaml: holds 2 documents where one job should be"),
        (("template: {", "template: &t {metadata: *t, "), "job.yaml: not YAML or JSON: aliases"),
        (("spec: {", "spec: {tolerations: [5], "), "pod job.yaml: pes[0].template: Expected `object`, got `int`"),
        (
            ("template: {", "template: {kind: Deployment, "),
            "job.yaml: pes[0].template.kind: 'Deployment': a PE is a Pod",
        ),
        (("job: ex", "job: " + 62 * "x"), "job.yaml: pes[0].id: 0: xxx"),
        (("id: sink", "id: '0.'"), "job.yaml: pes[2].id: '0.' cannot be in a label"),
        (
            ("id: sink", "id: A\n  operators: []\n- id: a"),
            "job.yaml: pes[3]: its pod is called ex-a, as that of PE A is",
        ),
        (
            ("namespace: team", "template: {metadata: {name: p}}"),
            "job.yaml: pes[2]: its pod is called p, as that of PE 1 is",
        ),
        (("MyPool:", "My-Pool:"), "job.yaml: hostPools.My-Pool: 'My-Pool' is no name that host() could say"),
    ],
)
def test_a_job_that_cannot_be_read_is_exit_2_and_one_line(files, capsys, change, said):
    (files / "job.yaml").write_text(JOB.replace(*change))
    code, out, err = run(capsys, "apply", "-f", "job.yaml", "--nodes", "nodes.json")
    assert (code, out) == (2, "")
    assert err.startswith(f"colocate: {said}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ("{", "nodes.json, line"),
        ('{"kind": "Service", "metadata": {"name": "x"}}', "nodes.json: kind Service: is no Node"),
        ('{"items": [{"metadata": {}}]}', "nodes.json: node without a name"),
        ('{"items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "a"}}]}', "nodes.json: node a stands twice"),
        ("[3]", "nodes.json: a int where a Kubernetes object should be"),
        ("&a\n- *a", "nodes.json: not YAML or JSON: aliases"),
        (
            "a0: &a0 [x, x]\n" + "".join(f"a{at}: &a{at} [*a{at - 1}, *a{at - 1}]\n" for at in range(1, 60)),
            "nodes.json: not YAML or JSON: aliases",
        ),
    ],
)
def test_nodes_that_cannot_be_read_are_exit_2_and_one_line(files, capsys, nodes, said):
    (files / "nodes.json").write_text(nodes)
    code, _, err = run(capsys, "apply", "-f", "job.yaml", "--nodes", "nodes.json")
    assert code == 2
    assert err.startswith(f"colocate: {said}")
    assert err.count("\n") == 1


def test_aliases_are_written_out(files, capsys):
    (files / "job.yaml").write_text(
        JOB.replace("template: {", "template: &t {").replace("- id: 1", "- id: 1\n  template: *t")
    )
    code, out, _ = run(capsys, "apply", "-f", "job.yaml", "--nodes", "nodes.json", "-o", "json")
    assert code == 0
    containers = [each["manifest"]["spec"]["containers"] for each in json.loads(out)["pods"]]
    assert containers[0] == containers[1] == [{"name": "pe", "image": "example"}]


def test_merged_keys_may_stand_beside_the_same_of_a_mapping_itself(files, capsys):
    """Whether the mapping that merges is read before or after one that merges it in turn."""
    merging = """
job: ex
hostPools: {}
spl: "() as A = F() {}"
template:
  metadata:
    annotations: &low {x: "1", y: "1"}
    labels: &high {<<: *low, x: "2", w: "2"}
pes:
- id: 0
  operators: [{name: A}]
  template: {metadata: {annotations: {<<: *high, z: "3"}}}
- {id: 1}
"""
    (files / "job.yaml").write_text(merging)
    code, out, err = run(capsys, "apply", "-f", "job.yaml", "--nodes", "nodes.json", "-o", "json")
    assert code == 0, err
    first, second = (each["manifest"]["metadata"] for each in json.loads(out)["pods"])
    assert {"y": "1", "w": "2", "z": "3"}.items() <= first["annotations"].items()
    assert (second["labels"]["x"], second["labels"]["y"]) == ("2", "1")


def test_create_asks_the_cluster_itself(files, capsys):
    code, _, err = run(capsys, "apply", "-f", "job.yaml", "--nodes", "nodes.json", "--create")
    assert code == 2
    assert "--create" in err


def test_pods_of_other_jobs_in_the_file_count(files, capsys):
    nodes = json.loads((files / "nodes.json").read_text())
    other = {
        "kind": "Pod", "metadata": {"name": "o", "namespace": "team", "labels": {"streams.ibm.com/job": "other"}},
        "spec": {"nodeName": "n3", "containers": []}, "status": {"phase": "Running"},
    }  # fmt: skip
    nodes["items"].append(other)
    (files / "nodes.json").write_text(json.dumps(nodes))
    _, out, _ = run(capsys, "apply", "-f", "job.yaml", "--nodes", "nodes.json", "-o", "json")
    assert [each["name"] for each in json.loads(out)["nodes"]] == ["n4", "n5"]


def test_release_shows_what_goes_from_the_nodes_of_a_file(files, capsys):
    _, out, _ = run(capsys, "apply", "-f", "job.yaml", "--nodes", "nodes.json", "-o", "json")
    nodes = json.loads((files / "nodes.json").read_text())
    for action in json.loads(out)["nodes"]:
        [node] = [each for each in nodes["items"] if each["metadata"]["name"] == action["name"]]
        node["metadata"]["labels"] |= action["labels"]
        node["spec"] = {"taints": action["taints"]}
    (files / "nodes.json").write_text(json.dumps(nodes))
    code, out, _ = run(capsys, "release", "ex", "--nodes", "nodes.json", "-o", "json")
    assert code == 0
    assert [(each["name"], each["remove"]["taints"]) for each in json.loads(out)["nodes"]] == [
        ("n3", ["streams.ibm.com/exclusive"]),
        ("n4", ["streams.ibm.com/exclusive"]),
    ]
    assert run(capsys, "release", "other", "--nodes", "nodes.json")[0] == 1
