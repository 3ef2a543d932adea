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


def test_what_is_lost_is_what_goes_with_a_head_that_gives_nothing(task):
    """At the last token, where nothing but the head's own slice is set to zero."""
    site = Site("head", 28, 4)
    found = task.lost([site], task.model.capture(task.prompts, site, "last"))
    batches = task.encoded(Site("embed"), "last")
    edit = Ablate(site=site, directions=torch.eye(64), targets=torch.zeros(64), position=Position("last"))
    plain = task.values(batches)
    with task.model.edit(edit):
        wanted = plain - task.values(batches)
    np.testing.assert_allclose(found, wanted[None], atol=1e-3)
    assert np.abs(found).max() > 1e-2


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
