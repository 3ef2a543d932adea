"""Pictures and captions: what they show, and a transformer that tells from examples what is asked of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from covec.errors import ExamplesError
from covec.worlds import pictures
from covec.worlds.pictures import ATTRIBUTES, SEEN, TASKS

THING = (2, 1, 3, 1)  # a blue square in the southeast, on a striped ground


def test_a_caption_says_all_attributes_in_any_order() -> None:
    rng = np.random.default_rng(0)
    texts = {pictures.query(THING, "caption", rng) for _ in range(200)}
    assert len(texts) == 24
    assert {frozenset(text.split()) for text in texts} == {frozenset(("blue", "square", "southeast", "striped", ":"))}
    assert [pictures.answer(THING, task) for task in TASKS] == ["blue", "square", "southeast", "striped"]


def test_a_picture_shows_the_thing_in_its_place_on_its_ground() -> None:
    *codes, ask = pictures.query(THING, "picture", np.random.default_rng(0)).split()
    pixels = pictures.patches()[[int(code.removeprefix("patch")) for code in codes]].reshape(4, 6, 6, 3)
    blue = pixels[..., 2] - pixels[..., 0] > 0.4
    assert blue.sum((1, 2)).tolist() == [0, 0, 0, 16]
    assert ask == ":"
    ground = pixels[0].mean(-1)
    assert ground[1::2].mean() > ground[::2].mean() + 0.4  # stripes


def test_renderings_of_a_patch_are_alike_and_other_patches_are_not() -> None:
    found = pictures.patches()
    assert len(found) == SEEN * (4 + 64)
    distances = np.linalg.norm(found[:, None] - found[None], axis=-1)
    same = np.arange(len(found)) // SEEN
    alike = same[:, None] == same[None]
    assert distances[alike & (distances > 0)].min() > 0
    nearest = np.where(np.eye(len(found), dtype=bool), np.inf, distances).argmin(1)
    assert (same[nearest] == same).mean() > 0.9


def test_every_thing_is_trained_on_or_held_out() -> None:
    known, unseen = pictures.things()
    assert (len(known), len(unseen)) == (205, 51)
    assert len({*known, *unseen}) == np.prod([len(values) for values in ATTRIBUTES.values()])


def test_examples_show_a_task_or_none() -> None:
    found = pictures.examples("shape", "caption", 5)
    for text, positive, answer in zip(found.inputs, found.labels, found.extra["answer"], strict=True):
        words = text.split()
        answers = words[6::6]
        assert all(one in ATTRIBUTES["shape"] for one in answers) or not positive
        assert answer in words[-5:]
    with pytest.raises(ExamplesError, match="picture or caption, not 'sound'"):
        pictures.query(THING, "sound", np.random.default_rng(0))


def test_answers_are_what_training_predicts() -> None:
    ids, marks = pictures._draw(np.random.default_rng(0))
    words = ("<pad>", "<unknown>", *pictures.WORDS)
    answers = {value for values in ATTRIBUTES.values() for value in values}
    assert {words[index] for index in ids[marks].tolist()} <= answers
    assert (ids[:, 5::6] == words.index(":")).all()


def test_patches_are_read_by_a_map_of_their_pixels() -> None:
    table = torch.randn(len(pictures.WORDS) + 2, 8, generator=torch.Generator().manual_seed(0))
    pixels = torch.from_numpy(pictures.patches())
    found = pictures._Seeing()(table)
    torch.testing.assert_close(found[2 : 2 + len(pixels)], pixels @ table[2 : 2 + pixels.shape[1]])
    assert torch.equal(found[:2], table[:2])
    assert torch.equal(found[2 + len(pixels) :], table[2 + len(pixels) :])


def test_training_learns_and_folds_the_map_into_the_table() -> None:
    """Twenty steps are enough to answer with one of the values, and the same seed gives the same weights."""
    model, rng = pictures.trained(20), np.random.default_rng(0)
    assert model.fingerprint == pictures.trained(20).fingerprint
    table = model.module.get_input_embeddings().weight.detach()
    rank = torch.linalg.matrix_rank(table[2 : 2 + len(pictures.patches())].double(), rtol=1e-5)
    assert rank <= 64
    text = pictures.query(THING, "caption", rng)
    values = {value for listed in ATTRIBUTES.values() for value in listed}
    assert model.generate(f". {text}", max_new_tokens=1).strip() in values
