"""Every law on every family; what one does not keep, it says in the zoo, and says rightly."""

from __future__ import annotations

import pytest

from families.laws import LAWS, applies
from families.zoo import FAMILIES, model_of


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
