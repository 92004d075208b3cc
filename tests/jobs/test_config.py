"""Settings: from file and environment; each mistake is one line that names the field; no secret is shown."""

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from jobs import config
from jobs.cli.main import main
from pipeline.errors import BadInput


def loaded(tmp_path: Path, text: str) -> config.Settings:
    file = tmp_path / "colocate.toml"
    file.write_text(text, encoding="utf-8")
    return config.load(file)


def refused(tmp_path: Path, text: str) -> str:
    with pytest.raises(BadInput) as caught:
        loaded(tmp_path, text)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_without_a_file_a_fresh_installation_observes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert config.load(None).advice.mode == "observe"
    assert config.load(None).store.path == tmp_path / "colocation.duckdb"


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("30s", timedelta(seconds=30)),
        ("5m", timedelta(minutes=5)),
        ("1h30m", timedelta(minutes=90)),
        ("14d", timedelta(days=14)),
        ("250ms", timedelta(milliseconds=250)),
        ("PT5M", timedelta(minutes=5)),
    ],
)
def test_spans_are_read_as_people_write_them(tmp_path: Path, text: str, span: timedelta) -> None:
    assert loaded(tmp_path, f'[schedule]\nusage = "{text}"\n').schedule.usage == span


@pytest.mark.parametrize("text", ["0s", "-5m", "5 minutes", "5x", ""])
def test_a_span_that_is_none_names_its_field(tmp_path: Path, text: str) -> None:
    message = refused(tmp_path, f'[schedule]\nusage = "{text}"\n')
    assert "schedule.usage" in message
    assert "colocate.toml" in message
    assert "must be" in message


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('path = "a"\nsnapshot = "a"', "path and snapshot are the same file"),
        ('control = "a"\nspool = "./b/../a"', "control and spool are the same file"),
        ('snapshot = "colocation.duckdb"', "path and snapshot are the same file"),
    ],
)
def test_files_that_would_replace_each_other_are_refused(tmp_path: Path, text: str, named: str) -> None:
    assert refused(tmp_path, f"[store]\n{text}\n").endswith(f"store: {named}")


FORM = "must be http(s)://HOST[:PORT][/PATH]"
CLUSTER = '[[clusters]]\nname = "a"\n'


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://me:s3cret@host", "must be without user and password: {instead}"),
        ("https://s3cret@host:8443/path", "must be without user and password: {instead}"),
        ("me:s3cret@host", FORM),
        ("host:8443", FORM),
        ("ftp://host", FORM),
        ("http:///path", FORM),
        ("http://host:s3cret", FORM),
        ("http://a host", FORM),
        ("", FORM),
        ("http://host?token=s3cret", f"{FORM}, without a query"),
    ],
)
@pytest.mark.parametrize(
    ("setting", "field", "instead"),
    [
        ("[replica]\nwriter", "replica.writer", "give token or token_file"),
        ("[trace]\nendpoint", "trace.endpoint", "give headers"),
        (
            f"{CLUSTER}[clusters.prometheus]\nurl",
            "clusters.0.prometheus.url",
            "give username and password, or token or token_file",
        ),
        (
            f'{CLUSTER}[clusters.openwhisk]\nnamespaces = [{{ name = "g", key = "a:b" }}]\nurl',
            "clusters.0.openwhisk.url",
            "give the key of each of namespaces, as key_file, key_env or key",
        ),
    ],
)
def test_a_url_with_what_does_not_belong_there_is_refused_unseen(
    tmp_path: Path, setting: str, field: str, instead: str, url: str, said: str
) -> None:
    message = refused(tmp_path, f'{setting} = "{url}"\n')
    assert message.endswith(f": {field}: {said.format(instead=instead)}")
    assert "s3cret" not in message


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9090", "https://[::1]:9090/a/path/", "http://prometheus.monitoring"]
)
def test_a_base_url_of_either_scheme_is_taken(tmp_path: Path, url: str) -> None:
    settings = loaded(tmp_path, f'{CLUSTER}[clusters.prometheus]\nurl = "{url}"\n')
    assert settings.clusters[0].prometheus is not None
    assert settings.clusters[0].prometheus.url == url


def test_a_misspelled_setting_is_refused_and_not_ignored(tmp_path: Path) -> None:
    assert "store.paht" in refused(tmp_path, '[store]\npaht = "x"\n')


def test_broken_toml_names_the_file_and_the_line(tmp_path: Path) -> None:
    message = refused(tmp_path, '[store]\npath = "x\n')
    assert "colocate.toml" in message
    assert "line 2" in message


def test_a_missing_file_that_was_asked_for_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"nowhere\.toml"):
        config.load(tmp_path / "nowhere.toml")


def test_the_environment_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLOCATE_STORE__PATH", "/elsewhere.duckdb")
    held = loaded(tmp_path, '[store]\npath = "here.duckdb"\ndeadline = "7s"\n')
    assert held.store.path == Path("/elsewhere.duckdb")
    assert held.store.deadline == timedelta(seconds=7)


def test_a_misspelled_variable_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLOCATE_STOER__PATH", "x")
    assert "COLOCATE_STOER__PATH" in refused(tmp_path, "")


def test_two_clusters_of_one_name_are_refused(tmp_path: Path) -> None:
    assert "same name" in refused(tmp_path, '[[clusters]]\nname = "a"\n[[clusters]]\nname = "a"\n')


def test_a_secret_is_in_no_message_and_no_text(tmp_path: Path) -> None:
    text = '[[clusters]]\nname = "a"\n[clusters.prometheus]\nurl = "http://p"\ntoken = "hunter2"\n'
    held = loaded(tmp_path, text)
    assert "hunter2" not in repr(held) + str(held) + held.model_dump_json()
    message = refused(tmp_path, text + 'username = "u"\n')
    assert "hunter2" not in message
    assert "clusters.0.prometheus" in message


PROMETHEUS = f'{CLUSTER}[clusters.prometheus]\nurl = "http://p"\n'


@pytest.mark.parametrize("token", ["hunter2\\nhunter2", "hunter2\\u0007", "hunter2\\r\\n", "hunter2\\u0436"])
def test_a_token_that_no_header_holds_is_refused_and_not_shown(tmp_path: Path, token: str) -> None:
    message = refused(tmp_path, f'{PROMETHEUS}token = "{token}"\n')
    assert message.endswith(": clusters.0.prometheus.token: is not one line of plain characters")
    assert "hunter2" not in message


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('token = "hunter2"\ntoken_file = "f"\n', "give token or token_file, not both"),
        ('password = "hunter2"\n', "password: needs username"),
        ('password = "hunter2"\ntoken_file = "f"\n', "password: needs username"),
    ],
)
def test_a_login_of_which_a_part_would_be_left_out_is_refused(tmp_path: Path, given: str, said: str) -> None:
    message = refused(tmp_path, PROMETHEUS + given)
    assert message.endswith(f": clusters.0.prometheus: {said}")
    assert "hunter2" not in message


@pytest.mark.parametrize("login", ['token = "a b"', 'token_file = "f"', 'username = "u"\npassword = "ж"', ""])
def test_each_whole_login_is_taken(tmp_path: Path, login: str) -> None:
    assert loaded(tmp_path, f"{PROMETHEUS}{login}\n").clusters[0].prometheus is not None


def test_an_openwhisk_namespace_needs_exactly_one_key(tmp_path: Path) -> None:
    start = '[[clusters]]\nname = "a"\n[clusters.openwhisk]\nurl = "https://o"\n[[clusters.openwhisk.namespaces]]\n'
    assert "exactly one" in refused(tmp_path, start + 'name = "guest"\n')
    assert "exactly one" in refused(tmp_path, start + 'name = "guest"\nkey = "a:b"\nkey_env = "K"\n')


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('[store]\ndeadline = "99999999999999d"', "store.deadline"),
        ('[schedule]\nfirst_window = "5000000d"', "schedule.first_window"),
        ("[learn]\nmin_overlaps = inf", "learn.min_overlaps"),
        ('[store]\npath = ""', "store.path"),
        ('[store]\nspool = "a\\u0000b"', "store.spool"),
        ('[serve]\ntoken_file = "a\\u0000b"', "serve.token_file"),
        ('[serve]\ntoken = ""', "serve.token"),
        ('[serve]\nreplica_token = " "', "serve.replica_token"),
        ('[replica]\nwriter = "https://h"\ntoken = ""', "replica.token"),
        ('[advice]\ntopology_key = ""', "advice.topology_key"),
        ('[advice]\ntopology_key = "a b"', "advice.topology_key"),
        ('[advice]\nlabel_prefix = "A/b"', "advice.label_prefix"),
        ('[[clusters]]\nname = "a\\nb"', "clusters.0.name"),
        (
            '[[clusters]]\nname = "a"\n[clusters.openwhisk]\nurl = "https://h"\n'
            'namespaces = [{ name = "g", key = "a:b" }, { name = "g", key = "a:c" }]',
            "clusters.0.openwhisk",
        ),
    ],
)
def test_what_could_only_fail_later_is_refused_at_once(tmp_path: Path, text: str, field: str) -> None:
    assert f": {field}: " in refused(tmp_path, text)


def test_a_byte_order_mark_is_no_part_of_the_first_setting(tmp_path: Path) -> None:
    assert loaded(tmp_path, '\ufeff[store]\npath = "/x"\n').store.path == Path("/x")


def test_files_are_relative_to_the_working_directory_wherever_they_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("COLOCATE_STORE__SPOOL", "by/environment")
    namespace = '[[clusters.openwhisk.namespaces]]\nname = "guest"\nkey_file = "key"\n'
    cluster = f'[[clusters]]\nname = "a"\n[clusters.openwhisk]\nurl = "https://o"\n{namespace}'
    held = loaded(elsewhere, f'[store]\npath = "../by.file"\n[serve]\ntls_cert = "/etc/crt"\n{cluster}')
    assert held.store.path == here / ".." / "by.file"
    assert held.store.spool == here / "by" / "environment"
    assert held.store.snapshot == here / "colocation.snapshot"
    assert (held.serve.tls_cert, held.serve.tls_key) == (Path("/etc/crt"), None)
    openwhisk = held.clusters[0].openwhisk
    assert openwhisk is not None
    assert openwhisk.namespaces[0].key_file == here / "key"
    assert openwhisk.ca_file is None


def test_a_file_in_the_home_directory_is_one_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    kubernetes = '[[clusters]]\nname = "a"\n[clusters.kubernetes]\nkubeconfig = "~/.kube/config"\n'
    held = loaded(tmp_path, f'[store]\npath = "~/kept.duckdb"\n{kubernetes}')
    assert held.store.path == tmp_path / "home" / "kept.duckdb"
    reached = held.clusters[0].kubernetes
    assert reached is not None
    assert reached.kubeconfig == tmp_path / "home" / ".kube" / "config"


def test_what_is_missing_is_named_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["--config", "nowhere.toml", "functions"]) == 2
    assert f"{tmp_path}/nowhere.toml: No such file" in capsys.readouterr().err
    assert main(["decisions"]) == 2
    assert f"{tmp_path}/colocation.duckdb: no such file" in capsys.readouterr().err


def test_without_a_working_directory_that_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(BadInput, match="working directory"):
        config.load(None)


def test_a_command_that_starts_without_a_working_directory_tells_so(tmp_path: Path) -> None:
    script = "import os; os.rmdir(os.getcwd()); from jobs.cli.main import main; raise SystemExit(main(['doctor']))"
    root = Path(config.__file__).parents[2]
    told = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env={"PYTHONPATH": str(root)}, capture_output=True, text=True
    )
    assert told.returncode == 2
    assert told.stderr.splitlines() == [
        "colocate: the working directory, which files are relative to, is not there any more"
    ]


@pytest.mark.parametrize("value", ['[{"key": "hunter2"', '["hunter2",' + "[" * 30_000, '{"a":' * 30_000, "1" * 5000])
@pytest.mark.parametrize("variable", ["COLOCATE_STORE", "COLOCATE_CLUSTERS", "COLOCATE_TRACE__HEADERS"])
def test_a_variable_that_is_no_json_is_named_and_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv("COLOCATE_TRACE__ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv(variable, value)
    assert refused(tmp_path, "") == f"environment variable {variable}: is no JSON"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a=" + "[" * 5000, "nested too deep"),
        ("a=" + "{a=" * 5000, "nested too deep"),
        ("[learn]\nactivations=" + "1" * 5000, "a number has too many digits"),
    ],
)
def test_a_file_that_is_too_much_for_its_reader_is_named(tmp_path: Path, text: str, said: str) -> None:
    assert refused(tmp_path, text) == f"{tmp_path / 'colocate.toml'}: {said}"


def test_nesting_without_end_of_file_and_environment_together_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLOCATE_STORE" + "__A" * 5000, "x")
    message = refused(tmp_path, f"store{'.a' * 5000} = 1\n")
    assert message == f"{tmp_path / 'colocate.toml'} or environment: nested too deep"


def test_values_of_a_mapping_in_variables_of_their_own_are_taken_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLOCATE_TRACE__HEADERS__AUTHORIZATION", "[not JSON")
    [(name, value)] = loaded(tmp_path, "").trace.headers.items()
    assert (name, value.get_secret_value()) == ("authorization", "[not JSON")
