"""Sentences of success and failure."""

from __future__ import annotations

from covec.worlds.outcomes import TEMPLATES, outcomes


def test_every_template_is_a_pair_that_differs_in_its_end_alone() -> None:
    found = outcomes()
    assert len(found) == 2 * len(TEMPLATES) == 80
    assert found.inputs[:2] == ("The attempt succeeded.", "The attempt failed.")
    assert len(set(found.inputs)) == 80
    assert not any(sign in text for text in found.inputs for sign in "{|}")
    assert found.labels.tolist() == [kind == "success" for kind in found.extra["category"]]
    assert found.pairs is not None
    assert all(found.pairs[row] == found.pairs[row + 1] for row in range(0, 80, 2))
