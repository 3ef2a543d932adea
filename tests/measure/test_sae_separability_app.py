"""How well units tell concepts apart."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covec.measure.sae_separability_app import sae_separability_app


def coded(n=120, k=3, noise=0.0, seed=0):
    """A unit a concept that fires for it alone, and as many that never fire."""
    rng = np.random.default_rng(seed)
    concepts = np.arange(n) % k
    values = np.zeros((n, 2 * k))
    values[np.arange(n), concepts] = 1 + rng.random(n)
    return values + noise * rng.standard_normal(values.shape), concepts.tolist()


def test_exact():
    values, concepts = coded()
    found = sae_separability_app(values, concepts, top=1)
    assert found.figure.value == pytest.approx(1, abs=1e-3)
    assert found.overlap.value == 0
    assert found.units[:, 0].tolist() == [0, 1, 2]
    alone = (np.log2(3) - 2 / 3) / np.log2(3)  # one concept fires and two do not
    assert found.top.value == pytest.approx(alone**0.5, abs=0.01)
    assert found.active.value == pytest.approx(found.top.value)
    assert found.every.value == pytest.approx(found.top.value / 2, abs=0.01)
    assert found.figure.null < 0.5


def test_mixed_units_tell_less_than_units_of_one_concept():
    values, concepts = coded(noise=0.05)
    turned = values @ np.linalg.qr(np.random.default_rng(1).standard_normal((6, 6)))[0]
    pure, mixed = (sae_separability_app(table, concepts, top=1) for table in (values, turned))
    assert pure.figure.value > mixed.figure.value


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_names_and_the_order_of_units_do_not_matter(seed):
    values, concepts = coded(noise=0.5, seed=seed)
    order = np.random.default_rng(seed).permutation(6)
    plain = sae_separability_app(values, concepts, top=1, nulls=0)
    moved = sae_separability_app(values[:, order], [f"c{one}" for one in concepts], top=1, nulls=0)
    assert moved.figure.value == pytest.approx(plain.figure.value)
    assert order[moved.units].tolist() == plain.units.tolist()


def test_as_many_rows_of_each_concept_count():
    values, concepts = coded(noise=0.2)
    found = sae_separability_app(values[:100], concepts[:100], top=1)
    assert found.figure.n == 99
