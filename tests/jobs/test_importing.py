"""Importing history: every documented form goes in once, and what is wrong is one line and nothing written."""

import datetime as dt
import json

import pyarrow as pa
import pyarrow.parquet
import pytest

from featurestore.store import queries
from featurestore.store.duck import Store
from jobs import importing
from jobs.config import Settings
from pipeline.errors import BadInput
from tests.support.stores import activations

NOW = dt.datetime(2024, 6, 1, tzinfo=dt.UTC)
SINCE, UNTIL = dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(2100, 1, 1, tzinfo=dt.UTC)
HEAD = "activation_id,function,start,end,init_ms,status_code,node\n"


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "history.duckdb", dt.timedelta(seconds=30))


@pytest.fixture
def bring(store, tmp_path):
    def call(kind, *files, cluster="c1"):
        return importing.run(Settings(), kind, files, cluster=cluster, now=lambda: NOW, store=store)

    return call


@pytest.fixture
def file(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        return path

    return write


def stored(store):
    return activations(store, "c1", SINCE, UNTIL).to_pylist()


def test_times_are_epoch_milliseconds_or_rfc_3339(bring, file, store):
    text = (
        HEAD
        + "a,ns/f,1714521600000,1714521601500,,,\n"
        + "b,ns/f,2024-05-01T05:45:00+05:45,2024-05-01t00:00:01.5z,20,1,n7\n"
    )
    outcome = bring("activations", file("a.csv", text))
    assert (outcome.rows, outcome.refused) == (2, 0)
    first, second = stored(store)
    for row in (first, second):
        assert row["start"] == dt.datetime(2024, 5, 1, tzinfo=dt.UTC)
        assert row["end"] == dt.datetime(2024, 5, 1, 0, 0, 1, 500_000, tzinfo=dt.UTC)
    assert (first["init_ms"], first["status_code"], first["node"]) == (None, 0, None)
    assert (second["init_ms"], second["status_code"], second["node"]) == (20, 1, "n7")


def test_importing_again_adds_nothing(bring, file, store):
    path = file("a.csv", HEAD + "a,ns/f,0,1500,,,\nb,ns/f,10,20,,,\n")
    assert bring("activations", path).rows == 2
    again = bring("activations", path)
    assert (again.rows, again.duplicates) == (0, 2)
    assert len(stored(store)) == 2


def test_names_are_kept_as_they_are_and_unknown_columns_named(bring, file, store):
    path = file("a.csv", 'activation_id,colour,function,start,end\na,red,"Odd name, with/comma @1",0,5\n')
    assert bring("activations", path).ignored == ("colour",)
    assert stored(store)[0]["function"] == "Odd name, with/comma @1"


def test_a_missing_end_is_unknown_and_a_sequence_is_composite(bring, file, store):
    bring("activations", file("a.csv", "activation_id,function,start,end,kind\na,f,0,,\nb,f,1,9,sequence\n"))
    assert [(row["end"] is None, row["composite"]) for row in stored(store)] == [(True, False), (False, True)]


def test_the_node_that_a_directory_tells_is_that_of_its_rows(bring, tmp_path, store):
    """As in an export: percent-encoded, Hive's name for a null is none, and a column comes first."""
    columns = {"function": ["f"], "start": [1714521600000], "end": [1714521601000]}
    given = {"node=worker%201": {}, "node=__HIVE_DEFAULT_PARTITION__": {}, "node=n1": {"node": ["n2"]}, "plain": {}}
    paths = [tmp_path / "activations" / "day=2024-05-01" / name / "data_0.parquet" for name in given]
    for number, (path, more) in enumerate(zip(paths, given.values(), strict=True)):
        path.parent.mkdir(parents=True)
        pa.parquet.write_table(pa.table({"activation_id": [f"{number}"], **columns, **more}), path)
    assert bring("activations", *paths).rows == 4
    found = {row["activation_id"]: row["node"] for row in stored(store)}
    assert found == {"0": "worker 1", "1": None, "2": "n2", "3": None}


def test_parquet_with_timestamps_and_with_numbers(bring, tmp_path, store):
    start = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)
    typed = pa.table(
        {
            "activation_id": ["a"],
            "function": pa.array(["f"]).dictionary_encode(),
            "start": pa.array([start], pa.timestamp("ns", tz="Asia/Kathmandu")),
            "end": pa.array([start + dt.timedelta(seconds=1)], pa.timestamp("ns", tz="Asia/Kathmandu")),
            "status_code": pa.array([2], pa.int64()),
        }
    )
    pa.parquet.write_table(typed, tmp_path / "typed.parquet")
    numbers = pa.table({"activation_id": ["b"], "function": ["f"], "start": [1714521600000], "end": [1714521601000]})
    pa.parquet.write_table(numbers, tmp_path / "numbers.parquet")
    assert bring("activations", tmp_path / "typed.parquet", tmp_path / "numbers.parquet").rows == 2
    first, second = stored(store)
    assert first["start"] == second["start"] == start
    assert first["end"] == second["end"] == start + dt.timedelta(seconds=1)
    assert (first["status_code"], second["status_code"]) == (2, 0)


RECORD = {
    "activationId": "a1",
    "namespace": "guest",
    "name": "f",
    "version": "0.0.2",
    "start": 1714521600000,
    "end": 1714521601000,
    "duration": 1000,
    "response": {"statusCode": 0, "status": "success"},
    "annotations": [
        {"key": "path", "value": "guest/pack/f"},
        {"key": "initTime", "value": 250},
        {"key": "limits", "value": {"memory": 256, "timeout": 60000, "logs": 10, "concurrency": 1}},
    ],
    "node": "n1",
    "pod": "p1",
}


@pytest.mark.parametrize("form", ["array", "lines"])
def test_openwhisk_records_with_node_and_pod(bring, file, store, form):
    records = [RECORD, RECORD | {"activationId": "a2"}]
    text = json.dumps(records, indent=1) if form == "array" else "\n".join(json.dumps(each) for each in records)
    assert bring("activations", file("a.json", text)).rows == 2
    row = stored(store)[0]
    assert (row["function"], row["node"], row["pod"], row["init_ms"], row["memory_mb"]) == (
        "guest/pack/f",
        "n1",
        "p1",
        250,
        256,
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("activation_id,function,start\na,f,0\n", "no column end"),
        (HEAD + "a,ns/f,0,5,,,\nb,ns/f,yesterday,5,,,\n", "line 3: start 'yesterday'"),
        (HEAD + "a,ns/f,0,5,,,\n\n\nb,ns/f,yesterday,5,,,\n", "line 5: start 'yesterday'"),
        (HEAD + '\r\na,"ns/\r\nf",0,5,,,\r\nb,ns/f,yesterday,5,,,\r\n', "line 5: start 'yesterday'"),
        (HEAD + f"a,{'f' * 200_000},yesterday,5,,,\n", "line 2: start 'yesterday'"),
        (HEAD + "a,ns/f,2024-05-01T00:00:00,5,,,\n", "line 2: start '2024-05-01T00:00:00'"),
        (HEAD + "a,ns/f,2024-13-01T00:00:00Z,5,,,\n", "line 2: start '2024-13-01T00:00:00Z'"),
        (HEAD + "a,ns/f,0,5,,,\nb,ns/f,10,5,,,\n", "line 3: end '5': is before the start"),
        (HEAD + "a,,0,5,,,\n", "line 2: function: missing"),
        (HEAD + "a,f,0,5,nan,,\n", "line 2: init_ms 'nan'"),
        (HEAD + "a,f,0,5,-1,,\n", "line 2: init_ms '-1': is negative"),
        (HEAD + "a,f,0,5,,1.5,\n", "line 2: status_code '1.5'"),
        (HEAD + "a,f,1e20,1e20,,,\n", "line 2: start '1e20'"),
        (
            HEAD + 'a,f,0,5,,,n1\nb,f,0,5,,,"n1\nc,f,0,5,,,n2\n',
            "line 3: a value begins with a quote that nothing closes",
        ),
        ("ok: got activation 12ab\n{}\n", "neither JSON nor a table: begins with 'ok: got activation 12ab'"),
        (HEAD + "a,f,0,5\n", "line 2: 4 values where there are 7 columns"),
        ("", "empty"),
        ("activation_id,function,start,end,end\n", "line 1: a column stands twice"),
        ('[{"activationId": "a1", "na', "line 1: not JSON"),
        ('{"activationId": "a1", "start": 1}\n{"activa\n', "line 2: not JSON"),
        ('{"kind": "NodeList", "items": [{"metadata": {"name": "n1"}}]}', "holds no activation record"),
        ('{\n "kind": "AdmissionReview"\n}', "holds no activation record"),
        ('[["up", 1], 3, null, {"id": "a1"}]', "holds no activation record"),
        ('{"a": 1}\n{"b": 2}\n', "holds no activation record"),
        ("[" * 100_000 + "]" * 100_000, "line 1: not JSON"),
        (json.dumps(RECORD) + "\n" + json.dumps([RECORD]), "line 2: an array among records of a line each"),
        (
            json.dumps([RECORD, RECORD | {"end": "2026-09-21T14:20:00Z"}]),
            'record 2: end "2026-09-21T14:20:00Z": is no number',
        ),
        (json.dumps(RECORD) + "\n" + json.dumps(RECORD | {"end": "x"}), 'line 2: end "x": is no number'),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_written(bring, file, store, content, said):
    good = file("good.csv", HEAD + "z,ns/f,0,5,,,\n")
    bad = file("bad.csv", content)
    with pytest.raises(BadInput) as caught:
        bring("activations", good, bad)
    assert said in str(caught.value)
    assert str(bad) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert stored(store) == []


def test_a_quote_within_a_value_is_a_part_of_it(bring, file, store):
    assert bring("activations", file("a.csv", HEAD + 'a,ns/f"g,0,5,,,\n"b",ns/h,0,5,,,\n')).rows == 2
    assert [each["function"] for each in stored(store)] == ['ns/f"g', "ns/h"]


@pytest.mark.parametrize("form", ["array", "lines"])
def test_a_byte_order_mark_is_no_part_of_the_first_record(bring, tmp_path, store, form):
    records = [RECORD, RECORD | {"activationId": "a2"}]
    text = json.dumps(records) if form == "array" else "\n".join(json.dumps(each) for each in records)
    marked = tmp_path / "a.json"
    marked.write_text(text, encoding="utf-8-sig")
    assert bring("activations", marked).rows == 2
    assert len(stored(store)) == 2


def test_where_known_runs_ran_is_taken_up_from_a_file_that_says_so(bring, file, store):
    records = [RECORD | {"activationId": each, "node": None, "pod": None} for each in ("a1", "a2")]
    bring("activations", file("a.json", json.dumps(records)))
    told = bring("activations", file("b.json", json.dumps([records[0] | {"node": "n1"}, records[1]])))
    assert (told.rows, told.duplicates, told.notes) == (1, 1, ())
    assert {each["activation_id"]: each["node"] for each in stored(store)} == {"a1": "n1", "a2": None}
    again = bring("activations", file("c.json", json.dumps(records)))
    assert (again.rows, again.duplicates, again.notes) == (0, 2, ())
    assert {each["activation_id"]: each["node"] for each in stored(store)} == {"a1": "n1", "a2": None}


def rows(*told):
    """CSV rows of "id,hour,node": runs of a second that begin so many hours into a day."""
    parts = (each.split(",") for each in told)
    return "".join(
        f"{name},ns/f,2024-05-01T0{hour}:00:00Z,2024-05-01T0{hour}:00:01Z,,,{at}\n" for name, hour, at in parts
    )


def test_what_contradicts_a_known_run_is_told_and_changes_nothing(bring, file, store):
    bring("activations", file("a.csv", HEAD + rows("a,1,n1", "b,2,n1", "c,3,n1")))
    told = bring("activations", file("b.csv", HEAD + rows("a,7,n1", "b,2,n2", "c,3,n1", "d,4,n1")))
    assert (told.rows, told.duplicates) == (1, 3)
    [note] = told.notes
    assert note.startswith("2 activations are known with another start, end, function, status or node")
    found = store.read(lambda con: con.execute("SELECT activation_id, node FROM activations ORDER BY 1").fetchall())
    assert found == [("a", "n1"), ("b", "n1"), ("c", "n1"), ("d", "n1")]


@pytest.mark.parametrize("form", ["csv", "json"])
def test_times_in_seconds_are_noted(bring, file, form):
    record = RECORD | {"start": 1_790_000_000, "end": 1_790_000_001}
    text = HEAD + "a,ns/f,1790000000,1790000001,,,\n" if form == "csv" else json.dumps(record)
    [note] = bring("activations", file(f"a.{form}", text)).notes
    assert note.endswith("its last run began at 1970-01-21T17:13:20Z; numbers count milliseconds since 1970")


def test_ends_that_are_not_believed_are_counted(bring, file):
    head = "activation_id,function,start,end,timeout_ms,kind\n"
    runs = (("a", 60_120, "60", ""), ("b", 60_121, "60", ""), ("c", 60_121, "", ""), ("d", 60_121, "60", "sequence"))
    begin = 1_714_521_600_000
    text = head + "".join(f"{name},ns/f,{begin},{begin + took},{limit},{kind}\n" for name, took, limit, kind in runs)
    [note] = bring("activations", file("a.csv", text)).notes
    assert "a.csv: 1 runs took a minute more than twice their timeout_ms" in note


def test_a_record_without_a_name_is_refused(bring, file):
    nameless = {**RECORD, "name": "", "annotations": []}
    told = bring("activations", file("a.json", json.dumps([RECORD | {"activationId": "a2"}, nameless])))
    assert (told.rows, told.refused, told.refusals[0].why) == (1, 1, "no name")


def test_an_array_without_records_holds_nothing(bring, file, store):
    assert bring("activations", file("a.json", "[]")).rows == 0


def test_a_file_with_a_header_only_holds_nothing(bring, file, store):
    assert bring("activations", file("a.csv", HEAD)).rows == 0
    assert stored(store) == []


def test_a_file_that_is_not_there_is_named(bring, tmp_path):
    with pytest.raises(BadInput, match=r"nowhere\.csv: no such file"):
        bring("activations", tmp_path / "nowhere.csv")
    with pytest.raises(BadInput, match="is a directory"):
        bring("activations", tmp_path)
    for name in ("", "a\nb", "a\n"):
        with pytest.raises(BadInput, match="--cluster"):
            bring("activations", tmp_path / "nowhere.csv", cluster=name)


def test_profiles_replace_what_was_declared_before(bring, file, store):
    head = "function,node_type,cpu_cores,memory_bytes,network_bytes_per_s,disk_bytes_per_s\n"
    bring("profiles", file("p.csv", head + "f,,0.5,1e8,,\ng,t1,1,2,3,4\n"))
    bring("profiles", file("q.csv", head + "f,,0.75,1e8,,\n"))
    found = store.read(lambda con: queries.declared_profiles(con, "c1")).to_pylist()
    assert [(row["function"], row["node_type"], row["cpu_cores"], row["disk_bytes_per_s"]) for row in found] == [
        ("f", "", 0.75, None),
        ("g", "t1", 1, 4),
    ]


def test_profiles_that_are_no_amounts_are_refused(bring, file):
    for value in ("NaN", "inf", "-1", "many"):
        with pytest.raises(BadInput, match="line 2: cpu_cores"):
            bring("profiles", file("p.csv", f"function,cpu_cores\nf,{value}\n"))


NODE = {
    "metadata": {"name": "n1", "uid": "u1", "labels": {"disktype": "ssd"}},
    "status": {"capacity": {"cpu": "4", "memory": "8Gi"}, "allocatable": {"cpu": "3500m", "memory": "7Gi"}},
}


def node(name):
    return NODE | {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "uid": f"u-{name}"}}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"kind": "List", "apiVersion": "v1", "items": [node("n1"), node("n2")]}),
        json.dumps({"kind": "NodeList", "items": [NODE, node("n2")]}),
        json.dumps({"items": [NODE, node("n2")]}),
        f"---\n{json.dumps(node('n1'))}\n---\n{json.dumps(node('n2'))}\n",
        f"# nodes\nkind: List\nitems: {json.dumps([node('n1'), node('n2')])}\n",
    ],
    ids=["List", "NodeList", "no kind", "documents", "YAML"],
)
def test_nodes_in_every_written_form(bring, file, store, text):
    assert bring("nodes", file("nodes.yaml", text)).rows == 2
    found = store.read(lambda con: queries.nodes(con, "c1", SINCE)).to_pylist()
    assert [(row["node"], row["cpu_cores"], row["memory_bytes"]) for row in found] == [
        ("n1", 3.5, 7 * 2**30),
        ("n2", 3.5, 7 * 2**30),
    ]


def test_the_kernel_of_a_node_is_imported_where_it_is_said(bring, file, store):
    told, silent = json.loads(json.dumps(node("n1"))), node("n2")
    told["status"]["nodeInfo"] = {"kernelVersion": "6.8.0-41-generic"}
    bring("nodes", file("nodes.json", json.dumps({"kind": "List", "items": [told, silent]})))
    found = store.read(lambda con: queries.nodes(con, "c1", SINCE)).to_pylist()
    assert {row["node"]: row["kernel"] for row in found} == {"n1": "6.8.0-41-generic", "n2": None}


def test_importing_one_node_does_not_take_the_others_away(bring, file, store):
    bring("nodes", file("a.json", json.dumps(node("n1"))))
    bring("nodes", file("b.json", json.dumps(node("n2"))))
    found = store.read(lambda con: queries.nodes(con, "c1", SINCE)).to_pylist()
    assert [(row["node"], row["valid_to"]) for row in found] == [("n1", None), ("n2", None)]


def test_a_node_in_several_files_is_as_the_last_says(bring, file, store):
    grown = node("n1") | {"status": {"capacity": {"cpu": "8"}, "allocatable": {"cpu": "8"}}}
    assert bring("nodes", file("a.json", json.dumps(node("n1"))), file("b.json", json.dumps(grown))).rows == 1
    [found] = store.read(lambda con: queries.nodes(con, "c1", SINCE)).to_pylist()
    assert found["cpu_cores"] == 8


def test_an_odd_node_costs_only_itself(bring, file):
    odd = node("n2") | {"status": {"allocatable": {"cpu": "16g"}}}
    outcome = bring("nodes", file("a.json", json.dumps({"kind": "List", "items": [node("n1"), odd]})))
    assert (outcome.rows, outcome.refused) == (1, 1)
    assert "object 2" in outcome.refusals[0].what


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: Pod\nmetadata: {name: p}\n", "kind Pod"),
        ("a: [1\n", "line"),
        ("", "empty"),
        ("just words", "no Kubernetes object"),
        ("metadata: {name: p}\nspec: {containers: [{name: c}]}\n", "a pod"),
        ('{"items": [{"metadata": {"name": "p"}, "spec": {"containers": []}}]}', "holds no node"),
        ('{"kind": "List", "items": 3}', "items"),
        ('{"kind": "List", "items": []}', "holds no node"),
        (json.dumps(node("n2") | {"status": {"allocatable": {"cpu": "16g"}}}), "cpu"),
    ],
)
def test_what_holds_no_node_is_refused(bring, file, text, said):
    with pytest.raises(BadInput, match=said) as caught:
        bring("nodes", file("a.yaml", text))
    assert "a.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_real_node_lists(bring, real):
    assert bring("nodes", real / "node_openshift_aws_nodelist.json").rows == 6
    assert bring("nodes", real / "node_doks_nodelist.json").rows == 3
    popeye = bring("nodes", real / "node_popeye_taint_notready_cordoned.yaml")
    assert popeye.rows + popeye.refused == 5
    with pytest.raises(BadInput, match=r"node_aks_malformed_ruby_hash\.txt"):
        bring("nodes", real / "node_aks_malformed_ruby_hash.txt")


@pytest.mark.parametrize("kind", ["activations", "nodes", "profiles"])
def test_every_real_file_is_read_or_refused_in_one_line_that_names_it(bring, real, kind):
    """What is read is just what the file's own name says that it holds."""
    read = []
    for path in sorted(each for each in real.iterdir() if each.is_file()):
        try:
            outcome = bring(kind, path)
        except BadInput as error:
            assert str(path) in str(error)
            assert "\n" not in str(error)
        else:
            assert outcome.rows + outcome.duplicates > 0
            read.append(path.name.split("_")[:2])
    wanted = {"activations": [["ow", "activation"]] * 4, "nodes": [["node", each] for each in ("doks", "gpu")]
              + [["node", "openshift"], ["node", "popeye"]], "profiles": []}  # fmt: skip
    assert read == wanted[kind]


def test_real_activation_records(bring, real, store):
    names = ("sequence_primary", "stored_caused_by_sequence", "error_with_statuscode_0", "trigger_end_zero")
    outcome = bring("activations", *(real / f"ow_activation_{name}.json" for name in names))
    assert (outcome.rows, outcome.duplicates, outcome.refused) == (3, 1, 0)  # two of the files share an id
    assert sum(row["composite"] for row in stored(store)) == 2  # the sequence and the trigger
