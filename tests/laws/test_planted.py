"""K-27: every method finds what was planted, and nothing where nothing was.

Each finder's own planted world and its control are laws of `covec.checks`; here the planting goes through the engine.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from covec import registry
from covec.checks.finders import finder_checks
from covec.concepts.packaged import neutral_texts
from covec.concepts.vector import ConceptVector
from covec.detect import aggregators
from covec.errors import ExamplesError
from covec.models.text import TextModel
from covec.statistics.auroc import auroc
from finding import OF_ROWS, columns
from laws.given import add

SITE = "resid.5"
PLANTED = {"easy direction found", "shuffled labels find nothing", "hard direction found"}


@pytest.mark.parametrize("name", OF_ROWS)
def test_every_finder_has_a_planted_world_and_a_control(name: str) -> None:
    assert {check.title for check in finder_checks(name)} >= PLANTED


def planted(model: TextModel, count: int = 18) -> tuple[torch.Tensor, np.ndarray, list[str], torch.Tensor]:
    """Rows of texts read as they are, and once more under an edit; the edit's shift is what there is to find."""
    texts, edit = list(neutral_texts()[:count]), add(model, "content", SITE, 0.7)
    plain = model.capture(texts, SITE, "mean")[SITE]
    with model.edit(edit):
        shifted = model.capture(texts, SITE, "mean")[SITE]
    labels = np.arange(2 * count) < count
    return torch.cat([shifted, plain]), labels, [f"pair {row % count}" for row in range(2 * count)], edit.shift


@pytest.fixture(scope="module")
def world(smol: TextModel) -> tuple[torch.Tensor, np.ndarray, list[str], torch.Tensor]:
    return planted(smol)


@pytest.mark.parametrize("name", OF_ROWS)
def test_a_direction_planted_in_the_embedded_model_is_found(world: tuple, name: str) -> None:
    """Methods of differences find the shift itself; those that weigh by noise find what tells the rows apart."""
    rows, labels, pairs, shift = world
    kind = registry.get("find", name)
    count = len(rows) // 2
    known = np.tile(np.arange(count) < count * 2 // 3, 2)
    required = columns(name, np.array(pairs)[known])
    fitted = kind().fit(rows[known], labels[known], **required)
    cosine = torch.nn.functional.cosine_similarity(fitted.direction_, shift, dim=0)
    area = auroc(fitted.decision_function(rows[~known]), labels[~known])
    assert area > 0.9
    if name in ("mean-difference", "pca-pairs"):
        assert cosine > 0.99
    else:
        assert cosine > 0.3
    # Swapped in half of the pairs, the labels say nothing of the shift, and nothing else tells the rows apart.
    swapped = labels[known] ^ (np.arange(int(known.sum())) % 2 == 0)
    with pytest.raises(ExamplesError, match="class means coincide"):
        kind().fit(rows[known], swapped, **required)


def test_where_nothing_was_planted_there_is_nothing_to_find(world: tuple) -> None:
    rows, labels, _, _ = world
    plain = rows[len(rows) // 2 :]
    with pytest.raises(ExamplesError, match="class means coincide"):
        registry.get("find", "mean-difference")().fit(torch.cat([plain, plain]), labels)


def test_every_aggregator_tells_planted_texts_apart(smol: TextModel, world: tuple) -> None:
    rows, _, _, shift = world
    half = len(rows) // 2
    concept = ConceptVector.from_direction("planted", SITE, shift, rows[:half].mean(0), rows[half:].mean(0))
    texts, edit = list(neutral_texts()[:6]), add(smol, "content", SITE, 0.7)
    for name in aggregators():
        one = replace(concept, aggregator=name)
        plain = [found.score for found in smol.detect(one, texts, tokens=False)]
        with smol.edit(edit):
            found = [found.score for found in smol.detect(one, texts, tokens=False)]
        assert auroc(np.array([*found, *plain]), np.arange(12) < 6) > 0.95, name
        assert np.allclose(np.subtract(found, plain), 1.0, atol=0.05), name
