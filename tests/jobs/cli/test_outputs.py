"""Every command answers as JSON and says what it holds, or says why it answers nothing."""

import typer

from jobs.cli import described
from jobs.cli.examples import commands
from jobs.cli.fields import FIELDS, UNTOLD
from jobs.cli.main import app

COMMANDS = dict(commands(typer.main.get_command(app)))


def test_every_command_has_a_form_for_programs_or_a_reason_to_have_none() -> None:
    forms = {
        name: each.type_descriptor.choices
        for name, command in COMMANDS.items()
        for each in command.params
        if each.name == "output"
    }
    assert set(forms) == set(FIELDS) == set(COMMANDS) - set(UNTOLD)
    assert [name for name, choices in forms.items() if "json" not in map(str, choices)] == []
    assert not set(FIELDS) & set(UNTOLD)


def test_the_reference_says_what_each_answer_holds() -> None:
    parts = dict(part.split("\n", 1) for part in described.markdown().split("\n## colocate ")[1:])
    assert set(parts) == set(COMMANDS)
    for name, forms in FIELDS.items():
        for fields in forms.values():
            assert fields in parts[name] if isinstance(fields, str) else f"`{'`, `'.join(fields)}`" in parts[name]
    for name, why in UNTOLD.items():
        assert why in parts[name]
