"""How ObsProp's claim measures."""

import numpy as np
import pytest
import torch

from covec.claims import obsprop
from covec.edits.algebra import Ablate
from covec.models.positions import Position
from covec.models.sites import Site


@pytest.fixture(scope="module")
def task(smol):
    return obsprop._Task(smol, obsprop.REDUCED)


def test_taking_away_what_a_head_wrote_is_ablating_it(task):
    """At the last token, where nothing but the head's own slice is set to zero."""
    site = Site("head", 28, 4)
    rows = task.model.capture(task.prompts, site, "last")[site]
    batches = task.encoded(Site("attn", 28), "last")
    found = task.values(batches, obsprop._without(obsprop._write(task.model, site, rows)))
    edit = Ablate(site=site, directions=torch.eye(64), targets=torch.zeros(64), position=Position("last"))
    with task.model.edit(edit):
        wanted = task.values(task.encoded(Site("embed"), "last"))
    np.testing.assert_allclose(found, wanted, atol=1e-3)
    assert np.abs(found - task.values(batches)).max() > 1e-2


def test_values_are_differences_of_logits(task):
    ids = torch.tensor([task.model.tokenizer(task.prompts[0])["input_ids"]])
    with torch.no_grad():
        logits = task.model.module(input_ids=ids).logits[0, -1]
    she, he = task.ids
    found = task.values(task.encoded(Site("resid", 28), "content"))
    assert found[0] == pytest.approx(float(logits[she] - logits[he]), abs=1e-3)


def test_agreement_is_of_signed_ranks_a_prompt():
    scores = np.array([[1.0, 3.0], [2.0, 2.0], [3.0, 1.0]])
    assert obsprop._agreement(scores, scores[:, :1].repeat(2, 1)) == pytest.approx([1.0, -1.0])
