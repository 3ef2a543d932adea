"""The toys: the planted direction is decodable in both, and *used* tells which of them reads it."""

from collections import Counter

import numpy as np
import pytest
import torch

from covec.concepts.vector import ConceptVector
from covec.find.mean_difference import MeanDifference
from covec.measure._readout import Continuation
from covec.measure.used import NullVectors, Used, used
from covec.statistics.auroc import auroc
from covec.statistics.permutation import p_test, permuted_labels
from covec.worlds.toys import BAD, GOOD, Toy, toy

SEEDS, INPUTS, NULLS = 100, 6, 19
SITE = "resid.0"


def found(one: Toy) -> tuple[ConceptVector, torch.Tensor, np.ndarray, np.ndarray]:
    """The difference of means at the first block on every other text, its training rows and labels, and the rest."""
    labels, train = one.examples.labels, np.arange(len(one.examples)) % 2 == 0
    rows = one.model.capture(one.examples.inputs, SITE, "last")[SITE]
    finder = MeanDifference().fit(rows[train], labels[train])
    vector = ConceptVector.from_direction(
        "good words", SITE, finder.direction_, finder.mean_positive_, finder.mean_negative_
    )
    return vector, rows, labels, train


def judged(one: Toy, seed: int, confirmed: int = 1) -> Used:
    vector, rows, labels, train = found(one)
    shuffled = permuted_labels(labels[train], NULLS, rng=np.random.default_rng(seed))
    held_out = one.examples.subset(np.flatnonzero(~train))
    texts = {True: held_out.positive, False: held_out.negative}
    return used(
        one.model,
        vector,
        prompts=one.neutral[:INPUTS],
        neutral=one.neutral[INPUTS : 2 * INPUTS],
        positives=texts[True][:INPUTS],
        negatives=texts[False][:INPUTS],
        continuations=[Continuation(" " + text, sign) for sign in texts for text in texts[sign][INPUTS : 2 * INPUTS]],
        nulls=NullVectors.of_labels(rows[train], shuffled, labels[train], float(vector.write.norm())),
        confirmed=confirmed,
    )


@pytest.mark.parametrize(("read", "expected"), [(True, "used"), (False, "not-shown")])
def test_used_tells_what_is_read_from_what_is_only_there(read: bool, expected: str) -> None:
    verdicts = Counter(judged(toy(seed, read=read), seed).verdict for seed in range(SEEDS))
    assert verdicts[expected] >= 95, verdicts


@pytest.mark.parametrize("read", [True, False])
def test_the_concept_is_decodable_either_way(read: bool) -> None:
    one = toy(3, read=read)
    vector, rows, labels, train = found(one)
    scores = vector.score(rows[~train]).numpy()
    assert p_test(scores, labels[~train]) <= 0.001
    assert auroc(scores, labels[~train]) > 0.85
    assert float(vector.direction @ one.direction) > 0.8


def test_the_toys_of_a_seed_differ_in_what_one_value_reads_and_writes() -> None:
    one, other = (toy(5, read=read) for read in (True, False))
    assert one.examples.inputs == other.examples.inputs
    pairs = zip(one.model.module.named_parameters(), other.model.module.parameters(), strict=True)
    changed = {name: int((ours != theirs).sum()) for (name, ours), theirs in pairs if not torch.equal(ours, theirs)}
    width = one.model.width
    assert changed == {f"model.layers.1.self_attn.{name}_proj.weight": width for name in ("v", "o")}


def test_nothing_above_the_first_block_reads_the_direction() -> None:
    one = toy(7, read=False)
    module, embedding = one.model.module, one.model.module.get_input_embeddings().weight
    readers = [module.lm_head.weight, module.model.layers[1].mlp.gate_proj.weight]
    readers += [getattr(module.model.layers[1].self_attn, f"{name}_proj").weight for name in "qkv"]
    assert all(float((weight.detach() @ one.direction).abs().max()) < 1e-5 for weight in readers)
    good, bad = (embedding[one.model.tokenizer.convert_tokens_to_ids(list(words))] for words in (GOOD, BAD))
    assert torch.allclose(good - bad, 2 * one.direction.expand_as(good), atol=1e-6)


def test_the_same_seed_gives_the_same_bits_and_leaves_the_global_generator_alone() -> None:
    state = torch.get_rng_state()
    one, other = toy(1, read=True), toy(1, read=True)
    assert torch.equal(torch.get_rng_state(), state)
    assert one.neutral == other.neutral
    assert one.model.fingerprint == other.model.fingerprint
    assert len(set(one.neutral)) == len(one.neutral)
