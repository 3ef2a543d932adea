"""How the claims on bias, context and fine-tuning measure."""

import pytest
import torch

from covec.claims import biaslens, delta_activations, truth_vector_context
from covec.worlds import leanings, records


@pytest.fixture(scope="module")
def small():
    return leanings.model()


def test_vectors_in_their_own_span_keep_all_their_products():
    vectors = torch.randn(5, 400, generator=torch.Generator().manual_seed(0))
    found = delta_activations._coordinates(vectors)
    assert found.shape == (5, 5)
    torch.testing.assert_close(found @ found.T, (vectors @ vectors.T).double(), atol=1e-3, rtol=1e-4)


def test_splits_share_no_text():
    setting = delta_activations._Setting()
    splits = delta_activations._splits("code", setting)
    assert [len(split) for split in splits] == [setting.texts] * setting.splits
    assert len({text for split in splits for text in split}) == setting.splits * setting.texts


def test_what_is_said_is_the_chance_of_praise_without_that_of_blame(small):
    for thing, share in leanings.PRAISE.items():
        said = biaslens._said(small, f"the {thing} is", leanings.GOOD, leanings.BAD)
        assert said == pytest.approx(2 * share - 1, abs=0.2)
    one, other = (
        biaslens._said(small, "the basket is", *words) for words in ((("good",), ("bad",)), (("bad",), ("good",)))
    )
    assert one == pytest.approx(-other)
    assert one > 1  # of one word the difference of log-probabilities


def test_scores_are_means_over_blocks_before_their_sign_is_dropped():
    def lens(lean):
        from covec.measure.biaslens import Bias, BiasLens
        from covec.statistics.figure import Figure

        figure = Figure(lean)
        return BiasLens({"a": Bias(figure, figure, 1.0, (0.0, 0.0), ())}, {}, figure)

    assert biaslens._scores([lens(0.5), lens(-0.3)], ("a",)) == pytest.approx([0.1])


def test_what_is_right_is_read_from_the_small_model():
    model = records.model()
    assert truth_vector_context._readable(model, truth_vector_context.LAST).value > 0.9
