"""Traces of what runs: sent to whoever takes them, held back by nobody, and nothing at all unless asked for."""

import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr

from jobs import learn, tracing
from jobs.cli import main
from jobs.config import Settings, StoreSettings, TraceSettings
from jobs.service.state import State
from pipeline.errors import BadInput
from tests.support.otlp import Received, Receiver, receiving
from tests.support.town import town

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    yield
    tracing.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


def one(receiver: Receiver, name: str) -> Received:
    [found] = [each for each in receiver.spans if each.name == name]
    return found


def test_a_span_arrives_with_its_attributes_its_times_and_its_process(receiver: Receiver) -> None:
    headers = {"X-Tenant": SecretStr("the-tenants-secret")}
    before = time.time_ns()
    with (
        tracing.during(TraceSettings(endpoint=f"{receiver.url}/", headers=headers), "learn"),
        tracing.span("work", {"cluster": "c1"}) as tell,
    ):
        tell({"rows": 7, "share": 0.5, "full": True})
    span = one(receiver, "work")
    assert span.attributes == {"cluster": "c1", "rows": 7, "share": 0.5, "full": True}
    assert before <= span.began <= span.ended <= time.time_ns()
    assert (span.about["service.name"], span.about["colocation.part"]) == ("colocation-advisor", "learn")
    assert not span.failed
    assert receiver.headers[0]["x-tenant"] == "the-tenants-secret"
    assert b"secret" not in b"".join(receiver.bodies)


def test_what_fails_is_told_by_its_class_and_not_by_what_it_says(receiver: Receiver) -> None:
    with (
        pytest.raises(ValueError, match="pass"),
        tracing.during(TraceSettings(endpoint=receiver.url), "learn"),
        tracing.span("work", {}),
    ):
        raise ValueError("pass-word")
    span = one(receiver, "work")
    assert (span.failed, span.attributes) == (True, {"error.type": "ValueError"})
    assert b"pass-word" not in b"".join(receiver.bodies)


def test_none_of_the_traces_is_kept_at_a_ratio_of_nothing(receiver: Receiver) -> None:
    with tracing.during(TraceSettings(endpoint=receiver.url, ratio=0), "learn"), tracing.span("work", {}):
        pass
    assert receiver.spans == []


def test_learning_and_taking_up_what_was_learned_are_spans(receiver: Receiver, tmp_path: Path) -> None:
    settings = Settings(store=StoreSettings(path=tmp_path / "h.duckdb", snapshot=tmp_path / "snapshot"))
    with tracing.during(TraceSettings(endpoint=receiver.url), "learn"):
        found = learn.run(settings, "c1", now=lambda: NOW)
    told = one(receiver, "learn").attributes
    assert (told["cluster"], told["full"], told["activations"], told["model"]) == ("c1", False, 0, found.model)

    with tracing.during(TraceSettings(endpoint=receiver.url), "serve"):
        State(settings.store.snapshot, "c1", lambda snapshot, cluster, at: None)
    assert one(receiver, "snapshot swap").attributes == {"snapshot": found.snapshot}


def test_a_command_sends_a_span_of_each_source(receiver: Receiver, tmp_path: Path) -> None:
    with town(tmp_path, records=10) as place:
        with (place.home / "colocate.toml").open("a") as settings:
            settings.write(f'\n[trace]\nendpoint = "{receiver.url}"\n')
        done = place.colocate("collect", "nodes", "activations")
    assert done.returncode == 0, done.stderr
    told = one(receiver, "collect activations").attributes
    assert (told["outcome"], told["rows"], told["refused"], told["reason"]) == ("ok", 10, 0, "")
    assert one(receiver, "collect nodes").about["colocation.part"] == "collect"


def test_a_receiver_that_takes_nothing_costs_its_time_limit_at_most(receiver: Receiver) -> None:
    receiver.refusing = True
    settings = TraceSettings(endpoint=receiver.url, timeout=timedelta(seconds=0.5))
    with tracing.during(settings, "learn"), tracing.span("work", {}):
        pass
    assert receiver.spans == []


def test_nothing_is_imported_unless_it_is_asked_for() -> None:
    program = (
        "import sys\nfrom jobs import collect, tracing\nfrom jobs.config import TraceSettings\n"
        "from jobs.service import app, traced\n"
        "tracing.start(TraceSettings(), 'serve')\n"
        "with tracing.span('work', {}) as tell:\n    tell({'rows': 1})\n"
        "tracing.past('swap', 1.0, {})\n"
        "decide = object()\nassert traced.deciding(decide) is decide and traced.layers([]) == []\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


@pytest.mark.parametrize("words", [["collect"], ["learn"], ["serve"]], ids=" ".join)
def test_a_missing_extra_is_one_line(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in sys.modules if name.startswith("opentelemetry.exporter")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter", None)
    monkeypatch.setenv("COLOCATE_TRACE__ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("COLOCATE_CLUSTERS", '[{"name": "c1", "prometheus": {"url": "http://127.0.0.1:9"}}]')
    assert main(words) == 2
    said = capsys.readouterr()
    assert (
        said.err.strip() == "colocate: trace.endpoint: needs the extra otel (in a checkout: pip install -e '.[otel]')"
    )
    assert list(tmp_path.iterdir()) == []


def test_certificates_that_are_not_there_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"trace\.ca_file: .*nowhere: no such file"):
        tracing.check(TraceSettings(endpoint="https://127.0.0.1:9", ca_file=tmp_path / "nowhere"))
