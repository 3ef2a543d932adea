"""How the claim of linear relational concepts measures."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from covec.claims import linear_relational_concepts as claim
from covec.models.sites import Site


@pytest.fixture(scope="module")
def facts(smol):
    return claim._Answered.of(smol, "kind of food", 5)


def test_splits_are_by_object_and_share_nothing(facts):
    for seed in range(2):
        train, validation, test = facts.split(seed)
        assert sorted([*train, *validation, *test]) == list(range(len(facts.labels)))
        assert {*facts.labels[train]} == {*range(len(facts.objects))}
        assert len(validation) <= len(test) <= len(train)
    assert facts.split(0) != facts.split(1)


def test_likelihoods_are_those_of_plain_passes(facts, smol):
    """Without an edit, and of an object in several tokens by the least likely of them."""
    answers = (smol.tokenizer(" South America", add_special_tokens=False)["input_ids"], facts.facts.asked.answers[1])
    other = replace(facts.facts.asked, answers=(tuple(answers[0]), *facts.facts.asked.answers[1:]))
    changed = replace(facts.facts, asked=other, objects=("South America", *facts.facts.objects[1:]))
    found = claim._likely(changed, 1, ["South America", facts.facts.objects[1]], [[]])[0]
    item = facts.facts.asked.tokens[1]
    for value, answer in zip(found, answers, strict=True):
        ids = [*item.ids[: item.layout.last + 1], *answer]
        with torch.no_grad():
            said = smol.module(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
        wanted = min(float(said[item.layout.last + place, token].detach()) for place, token in enumerate(answer))
        assert float(value) == pytest.approx(wanted, abs=1e-3)


def test_a_swap_moves_the_subject_s_last_token_by_a_share_of_its_norm(facts):
    vectors = torch.eye(576)[: len(facts.objects)]
    seen = []

    def likely(whole, row, objects, edits):
        seen.extend(edits)
        return torch.zeros(len(edits), len(objects))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(claim, "_likely", likely)
        facts.swapped(0, {"one": vectors}, [0.1], [2])
    ((first, *_),) = seen
    h = torch.randn(1, 1, 576)
    own = int(facts.labels[0])
    torch.testing.assert_close(first.apply(h, None) - h, 0.1 * h.norm() * (vectors[2] - vectors[own])[None, None])
    assert first.site == Site("resid", 0)
    assert len(seen[0]) == 30


def test_accuracy_is_the_share_whose_own_vector_is_furthest(facts):
    rows = list(range(len(facts.labels)))
    means = torch.stack([facts.subjects[np.flatnonzero(facts.labels == label)].mean(0) for label in range(4)])
    assert facts.accuracy(torch.nn.functional.normalize(means - means.mean(0), dim=1), rows) > 0.8
