"""Every law on every family; what one does not keep, it says in the zoo, and says rightly."""

from __future__ import annotations

from pathlib import Path

import pytest

from families.laws import LAWS, applies
from families.table import markdown, said
from families.zoo import FAMILIES, model_of

PAGE = Path(__file__).parents[2] / "docs" / "families.md"


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_keeps_every_law_or_says_why_not(name: str, law: str) -> None:
    family, model = FAMILIES[name], model_of(name)
    if not applies(law, family, model):
        assert law not in family.breaks
    elif law in family.breaks:
        with pytest.raises(AssertionError):
            LAWS[law](family, model)
    else:
        LAWS[law](family, model)


def test_the_page_says_what_the_tests_find() -> None:
    assert PAGE.read_text(encoding="utf-8") == markdown({name: said(name) for name in FAMILIES}), "run `make docs`"


def test_there_are_many_families_and_their_exceptions_are_lines() -> None:
    assert len(FAMILIES) >= 28
    reasons = [why for family in FAMILIES.values() for why in (*family.lacks.values(), *family.breaks.values())]
    assert all(why and "\n" not in why for why in reasons)
    assert {law for family in FAMILIES.values() for law in family.breaks} <= set(LAWS)
