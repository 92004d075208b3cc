"""What is not documented fails: README holds every setting and every command."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs import config, reference
from jobs.cli import described
from jobs.cli.main import app
from jobs.service import endpoints


def test_readme_holds_the_reference_of_every_setting(repository: Path) -> None:
    readme = (repository / "README.md").read_text(encoding="utf-8")
    held = readme.split("<!-- settings: python -m jobs.reference -->\n")[1].split("\n<!-- end of settings -->")[0]
    assert held == reference.markdown()


def test_every_setting_says_what_it_means() -> None:
    for line in reference.markdown().splitlines()[2:]:
        assert line.split("|")[3].strip(), line


def test_readme_names_every_command(repository: Path) -> None:
    readme = (repository / "README.md").read_text(encoding="utf-8")
    for command in app.registered_commands:
        name = command.name or (command.callback.__name__ if command.callback else "")
        assert re.search(rf"colocate {name}\b|`{name}`", readme), name


@pytest.mark.parametrize(
    ("page", "markdown"),
    [("commands", described.markdown), ("http", endpoints.markdown)],
    ids=["commands", "http"],
)
def test_a_page_of_the_reference_is_what_the_code_says(
    page: str, markdown: Callable[[], str], repository: Path
) -> None:
    assert (repository / "docs" / f"{page}.md").read_text(encoding="utf-8") == markdown()


def test_the_example_of_the_readme_is_a_valid_configuration(repository: Path, tmp_path: Path) -> None:
    [example] = re.findall(r"```toml\n(.*?)```", (repository / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    file = tmp_path / "colocate.toml"
    file.write_text(example, encoding="utf-8")
    assert [cluster.name for cluster in config.load(file).clusters] == [tomllib.loads(example)["clusters"][0]["name"]]
