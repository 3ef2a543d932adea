"""The schemas are sound, and docs/json.md is made from them."""

from pathlib import Path

import jsonschema
import pytest

from covec import cli
from covec.cli import schemas
from covec.statistics.figure import Figure

PAGE = Path(__file__).parents[2] / "docs" / "json.md"


@pytest.mark.parametrize("command", schemas.commands())
def test_schemas_are_schemas(command):
    jsonschema.Draft202012Validator.check_schema(schemas.load(command))


def test_every_command_with_json_has_a_schema():
    commands = {command.callback for command in cli.app.registered_commands}
    assert {command.__name__ for command in commands if "json" in command.__annotations__} == set(schemas.commands())


def test_a_figure_is_what_the_schema_says():
    schema = schemas.load("study")
    validator = jsonschema.Draft202012Validator(schema["$defs"]["figure"])
    assert validator.is_valid(Figure(0.5).to_json())
    assert validator.is_valid(Figure(float("nan"), 0.1, 0.9, 0.5, 10, "Wilson").to_json())
    assert not validator.is_valid({"value": 0.5})


def test_the_page_is_not_stale():
    assert PAGE.read_text(encoding="utf-8") == schemas.markdown(), "run `make docs`"
