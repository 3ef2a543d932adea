"""Units that are attenuated where they speak for a concept."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from covec.concepts.dictionary import Dictionary, Gated
from covec.edits.attenuation import attenuate, mask_range, mask_units
from covec.errors import CovecError
from covec.models.plan import Pass, Plan
from covec.statistics.densities import Densities


def applied(edit, h):
    h = torch.as_tensor(h, dtype=torch.float32)[None]
    return edit.apply(h, Pass(Plan(()), 1, 0, h.shape[1], h.device))[0]


def two_groups():
    """One unit that lies about 2 in concept 0 and about 8 in concept 1, and one that tells nothing."""
    rng = np.random.default_rng(0)
    groups = np.arange(400) % 2
    return np.stack([2 + 6 * groups + 0.3 * rng.standard_normal(400), rng.standard_normal(400)], 1), groups


def test_exact():
    """The value of the concept goes, the other's stays, and beyond both nothing but the prior is known."""
    values, groups = two_groups()
    edit = attenuate("resid.0", Densities.of(values, groups), 0, [0], width=2)
    found = applied(edit, [[2.0, 5.0], [8.0, 5.0], [-50.0, 5.0], [99.0, 5.0]])
    torch.testing.assert_close(
        found, torch.tensor([[0.0, 5.0], [8.0, 5.0], [-25.0, 5.0], [49.5, 5.0]]), rtol=0, atol=0.02
    )


def test_a_unit_that_tells_nothing_is_halved():
    values, groups = two_groups()
    edit = attenuate("resid.0", Densities.of(values, groups), 0, [1], width=2)
    found = applied(edit, np.stack([np.zeros(9), np.linspace(-1, 1, 9)], 1))[:, 1]
    torch.testing.assert_close(found, torch.linspace(-1, 1, 9) / 2, rtol=0, atol=0.25)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), concept=st.integers(0, 2))
def test_units_shrink_and_keep_their_sign_and_the_rest_stays(seed, concept):
    rng = np.random.default_rng(seed)
    values, groups = rng.standard_normal((60, 6)) * 3, np.arange(60) % 3
    edit = attenuate("resid.0", Densities.of(values, groups), concept, [1, 4], width=6)
    h = torch.from_numpy(rng.standard_normal((20, 6)) * 5).float()
    found = applied(edit, h)
    assert torch.equal(found[:, [0, 2, 3, 5]], h[:, [0, 2, 3, 5]])
    ratio = found[:, [1, 4]] / h[:, [1, 4]]
    assert ((ratio >= -1e-6) & (ratio <= 1 + 1e-6)).all()


def test_masks():
    h = torch.tensor([[0.0, 1.0, 7.0], [3.0, 9.0, 7.0]])
    assert applied(mask_units("resid.0", [1], width=3), h).tolist() == [[0, 0, 7], [3, 0, 7]]
    values = np.array([[0.0, 0.5, 0], [0.0, 1.5, 0]])
    assert applied(mask_range("resid.0", values, [1], width=3), h).tolist() == [[0, 0, 7], [3, 9, 7]]


def test_what_a_dictionary_does_not_explain_stays():
    directions = torch.tensor([[1.0, 0, 0], [0, 2.0, 0]])
    made = Dictionary(directions, Gated(torch.tensor([[1.0, 0], [0, 0.5], [0, 0]]), torch.zeros(2)))
    found = applied(mask_units("resid.0", [1], width=3, dictionary=made), [[5.0, 4.0, 6.0], [5.0, -4.0, 6.0]])
    torch.testing.assert_close(found, torch.tensor([[5.0, 0.0, 6.0], [5.0, -4.0, 6.0]]))


def test_it_edits_a_model(tiny):
    values = np.random.default_rng(0).standard_normal((40, tiny.width))
    edit = attenuate("resid.1", Densities.of(values, np.arange(40) % 2), 0, [0, 3], width=tiny.width)
    plain = tiny.capture(["A good day"], "resid.1", "last")["resid.1"]
    with tiny.edit(edit):
        found = tiny.capture(["A good day"], "resid.1", "last")["resid.1"]
    changed = (found != plain)[0].nonzero()[:, 0].tolist()
    assert changed == [0, 3]


def test_bad_input():
    values, groups = two_groups()
    for units in ([], [2], [-1]):
        with pytest.raises(CovecError, match="units are numbers from 0 to 1"):
            attenuate("resid.0", Densities.of(values, groups), 0, units, width=2)
