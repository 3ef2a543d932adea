"""Prints docs/json.md."""

from covec.cli.schemas import markdown

print(markdown(), end="")
