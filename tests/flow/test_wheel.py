"""The built wheel, installed in a fresh environment outside the checkout: what users get is what is tested."""

import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from importlib import metadata
from importlib.metadata import Distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytestmark = pytest.mark.wheel

PACKAGES = ("pipeline", "featurestore", "rules", "jobs")


def run(*command: str | Path, cwd: Path, code: int = 0) -> str:
    """Run *command* without anything of this checkout or environment in reach; return what it printed."""
    ours = ("PYTHON", "VIRTUAL_ENV", "COLOCATE")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", out, repository, cwd=out)
    [built] = out.glob("*.whl")
    return built


def asked_for(distribution: str, found: dict[str, Distribution]) -> None:
    """Add to *found* what *distribution* asks for here, without extras, and what that asks for."""
    for line in metadata.distribution(distribution).requires or ():
        wanted = Requirement(line)
        name = canonicalize_name(wanted.name)
        if name not in found and (wanted.marker is None or wanted.marker.evaluate({"extra": ""})):
            found[name] = metadata.distribution(name)
            assert wanted.specifier.contains(found[name].version, prereleases=True), line
            asked_for(name, found)


@pytest.fixture(scope="module")
def installed(repository: Path, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of the scripts of a fresh environment that holds the wheel and what it asks for.

    What it asks for is linked from this environment, and nothing else of it: a dependency that is not declared is
    not there, and nothing is downloaded twice.
    """
    home = tmp_path_factory.mktemp("fresh")
    venv.create(home / "env", with_pip=True)
    scripts = home / "env" / "bin"
    [packages] = (home / "env" / "lib").glob("*/site-packages")
    found: dict[str, Distribution] = {}
    asked_for("colocation-advisor", found)
    for distribution in found.values():
        for file in distribution.files or ():
            top = file.parts[0]
            if top != ".." and not (packages / top).exists():
                (packages / top).symlink_to(distribution.locate_file(top))
    run(scripts / "python", "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=home)
    run(scripts / "python", "-m", "pip", "check", cwd=home)
    hand_over_machine_code(repository, packages)
    return scripts


def hand_over_machine_code(checkout: Path, packages: Path) -> None:
    """Spare the installed kernels a minute's compilation, where the very same source was compiled in *checkout*.

    numba knows a source by its size and its time of change, and keeps machine code beside it.
    """
    for index in checkout.glob("featurestore/**/__pycache__/*.nbi"):
        source = index.parent.with_name(f"{index.name.partition('.')[0]}.py")
        same = packages / source.relative_to(checkout)
        if same.exists() and same.read_bytes() == source.read_bytes():
            os.utime(same, ns=(source.stat().st_atime_ns, source.stat().st_mtime_ns))
            kept = packages / index.parent.relative_to(checkout)
            kept.mkdir(exist_ok=True)
            for file in index.parent.glob(f"{index.stem}*.nb?"):
                shutil.copy2(file, kept)


def test_the_wheel_holds_the_four_packages_and_their_data_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == set(PACKAGES)
    assert any(name.startswith("featurestore/schema/") and name.endswith(".sql") for name in names)
    assert any(name.startswith("jobs/demo/recording/") for name in names)
    assert {"jobs/service/page/static/index.html", "jobs/service/page/static/page.css"} <= set(names)


def test_no_other_distribution_ships_our_packages(installed: Path, tmp_path: Path) -> None:
    ask = (
        "import importlib.metadata as m, json;"
        f"d = m.packages_distributions(); print(json.dumps({{p: sorted(set(d[p])) for p in {PACKAGES!r}}}))"
    )
    assert json.loads(run(installed / "python", "-c", ask, cwd=tmp_path)) == {
        package: ["colocation-advisor"] for package in PACKAGES
    }


def test_the_installed_command_runs_the_demo_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    said = run(installed / "colocate", "demo", cwd=tmp_path)
    assert "podAntiAffinity" in said
    assert list(tmp_path.iterdir()) == [], "the demo leaves nothing behind where it was started"


def test_a_wrong_setting_is_one_line_and_exit_2(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "colocate.toml").write_text('[store]\npaht = "x"\n')
    done = subprocess.run([installed / "colocate", "nodes"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "colocate.toml" in done.stderr
    assert "store.paht" in done.stderr
