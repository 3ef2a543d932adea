"""What every finder gets from the contract, shown on small finders of the test's own."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from covec import registry
from covec.checks.planted import draw
from covec.errors import ExamplesError
from covec.find import Finder, Fits, fit_together
from covec.find._rows import Labels
from covec.find.logistic import Logistic
from covec.find.mean_difference import MeanDifference
from covec.find.ridge import Ridge, held_out
from covec.models.text import TextModel
from covec.statistics.auroc import auroc
from finding import OF_ROWS, columns
from laws import fresh


class Backwards(Finder):
    """Sets a direction of any norm, and of the wrong sign."""

    details = ("steps",)

    def fit_rows(self, rows: Any) -> Self:
        self.direction_ = -7 * (rows.mean(True) - rows.mean(False))
        self.steps_ = 3
        return self


class Axis(Finder):
    """Does everything itself."""

    def fit(self, X: Any, y: Any, *, groups: Any = None, pairs: Any = None) -> Self:
        self.direction_ = torch.eye(X.shape[1])[0]
        self.intercept_, self.scale_ = 0.25, 2.0
        self.mean_positive_ = self.mean_negative_ = torch.zeros(X.shape[1])
        return self


class Sites(Finder):
    """Finds all sites at once."""

    details = ("site",)

    def fit_many(self, X: Any, y: Any, *, groups: Any = None, pairs: Any = None) -> Fits:
        number, _, d = X.shape
        zeros, ones = torch.zeros(number, d), torch.ones(number)
        return Fits(torch.eye(d)[:number], 0.5 * ones, 4 * ones, zeros, zeros, {"site": torch.arange(number) + 1.0})


def test_norm_sign_intercept_and_scale_are_completed() -> None:
    X = torch.tensor([[3.0, 4.0], [3.0, 4.0], [0.0, 0.0], [0.0, 0.0]])
    found = Backwards().fit(X, [1, 1, 0, 0])
    torch.testing.assert_close(found.direction_, torch.tensor([0.6, 0.8]))
    assert (found.intercept_, found.scale_) == pytest.approx((-2.5, 5.0))
    assert found.decision_function(X) == pytest.approx([0.5, 0.5, -0.5, -0.5])
    assert found.mean_positive_.tolist() == [3, 4]
    assert found.mean_negative_.tolist() == [0, 0]


def test_details_are_gathered_a_site() -> None:
    world = draw(20, 4, effect=3, seed=0)
    fits = Backwards().fit_many(torch.stack([world.X, world.X]), world.y)
    assert len(fits) == 2
    assert fits.details["steps"].tolist() == [3, 3]


def test_a_finder_may_do_everything_itself() -> None:
    world = draw(20, 4, effect=3, seed=1)
    fits = Axis().fit_many(torch.stack([world.X, world.X]), world.y)
    assert fits.directions.tolist() == [[1, 0, 0, 0]] * 2
    np.testing.assert_allclose(fits.score(world.X[None].repeat(2, 1, 1))[0], (world.X[:, 0] + 0.25) / 2, atol=1e-6)


def test_a_finder_may_do_all_sites_at_once() -> None:
    world = draw(20, 4, effect=3, seed=1)
    fits = fit_together({"sites": Sites(), "ridge": Ridge()}, torch.stack([world.X, world.X]), world.y)["sites"]
    assert fits.directions.tolist() == torch.eye(4)[:2].tolist()
    found = Sites().fit(world.X, world.y)
    assert found.direction_.tolist() == [1, 0, 0, 0]
    assert (found.intercept_, found.scale_, found.site_) == (0.5, 4, 1)


def test_fit_together_equals_each_alone_and_leaves_the_finders() -> None:
    X = torch.stack([draw(40, 12, effect=2, seed=seed).X for seed in range(2)])
    y, groups = np.arange(40) % 2 == 0, [f"group {row // 4}" for row in range(40)]
    finders = {"ridge": Ridge(), "logistic": Logistic(), "axis": Axis()}
    together = fit_together(finders, X, y, groups=groups)
    for name, finder in finders.items():
        alone = finder.fit_many(X, y, groups=groups)
        assert torch.equal(together[name].directions, alone.directions)
        assert torch.equal(together[name].scales, alone.scales)
        assert not hasattr(finder, "direction_")


def test_a_finder_reads_its_rows_from_a_model_where_it_is_given_one(tiny: TextModel) -> None:
    examples = fresh.examples(10)
    X = tiny.capture(examples.inputs, "resid.1", "mean")["resid.1"]
    found = MeanDifference().fit_model(tiny, examples, "resid.1", "mean")
    assert torch.equal(found.direction_, MeanDifference().fit(X, examples.labels).direction_)


def test_what_a_finder_does_not_require_it_does_not_take() -> None:
    world = draw(20, 4, effect=3, seed=2)
    with pytest.raises(TypeError, match="MeanDifference.fit takes no 'category'"):
        MeanDifference().fit(world.X, world.y, category=["a"] * 20)


def test_a_finder_of_rows_refuses_moments() -> None:
    with pytest.raises(ExamplesError, match="Ridge needs the rows themselves"):
        Ridge().fit_moments(None)


def test_means_that_coincide_are_refused_and_neutral_in_a_sweep() -> None:
    same, world = torch.ones(20, 4), draw(20, 4, effect=3, seed=2)
    with pytest.raises(ExamplesError, match="class means coincide"):
        Ridge().fit(same, world.y)
    for name in OF_ROWS:
        required = columns(name, world.pairs)
        fits = registry.get("find", name)().fit_many(torch.stack([same, world.X]), world.y, **required)
        assert fits.directions[0].tolist() == [1, 0, 0, 0]
        assert fits.score(torch.stack([same, world.X]))[0].tolist() == [0] * 20
        assert torch.isfinite(fits.directions).all()


def test_scores_need_a_fit_and_rows_of_its_width() -> None:
    world = draw(20, 4, effect=3, seed=3)
    with pytest.raises(NotFittedError):
        MeanDifference().decision_function(world.X)
    with pytest.raises(ExamplesError, match="3 features, but MeanDifference is expecting 4"):
        MeanDifference().fit(world.X, world.y).decision_function(world.X[:, :3])


@pytest.mark.parametrize("labels", [(False, True), (0, 1), ("casual", "formal")])
def test_predictions_are_labels_of_the_given_kind(labels: tuple[Any, Any]) -> None:
    world = draw(60, 4, effect=9, seed=4)
    y = np.array(labels)[world.y.astype(int)]
    predicted = MeanDifference().fit(world.X, y).predict(world.X)
    assert predicted.dtype == y.dtype
    assert (predicted == y).mean() > 0.95


def test_one_row_a_class_is_enough_for_a_direction() -> None:
    X = torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    for finder in (MeanDifference(), Ridge(), Logistic()):
        torch.testing.assert_close(finder.fit(X, [1, 0]).direction_, torch.tensor([1.0, 0.0]))


def test_groups_reach_the_folds() -> None:
    """Every text stands five times; only folds that keep the copies together see that nothing is to be learned."""
    rng = np.random.default_rng(0)
    X = torch.from_numpy(rng.standard_normal((24, 40)).repeat(5, 0) + 0.01 * rng.standard_normal((120, 40)))
    y, groups = np.arange(24).repeat(5) % 2 == 0, np.arange(24).repeat(5).tolist()
    areas = []
    for units in (None, groups):
        rows = Labels.of(y, 120, units, None).rows(X.float())
        outputs = held_out(rows.spectrum, rows.signs, rows.folds(), (0.1,))[0]
        areas.append(auroc(outputs.numpy(), rows.positive.numpy()))
    assert areas[0] > 0.95
    assert 0.2 < areas[1] < 0.8
    assert Ridge().fit(X, y).ridge_ != Ridge().fit(X, y, groups=groups).ridge_


def test_pairs_stand_in_for_groups() -> None:
    world = draw(60, 30, effect=1, seed=5)
    by_pairs = Logistic().fit(world.X, world.y, pairs=world.pairs)
    by_groups = Logistic().fit(world.X, world.y, groups=world.pairs)
    assert torch.equal(by_pairs.direction_, by_groups.direction_)


def test_scikit_learns_searches_take_finders() -> None:
    world = draw(80, 10, effect=3, seed=6)
    X = world.X.numpy()
    pipeline = make_pipeline(StandardScaler(), clone(Logistic()))
    assert cross_val_score(pipeline, X, world.y, cv=3).mean() > 0.85
    search = GridSearchCV(Ridge(), {"ridges": [(0.1,), (10.0,)]}, cv=3, scoring="roc_auc").fit(X, world.y)
    assert search.best_estimator_.ridge_ in (0.1, 10.0)
    assert search.best_score_ > 0.9
    assert "ridges=(1.0,)" in repr(Ridge(ridges=(1.0,)))


def test_numpy_and_torch_rows_agree() -> None:
    world = draw(40, 6, effect=2, seed=7)
    for X in (world.X.numpy(), world.X.numpy().astype(np.float64), world.X.tolist(), world.X.requires_grad_()):
        assert torch.equal(Ridge().fit(X, world.y).direction_, Ridge().fit(world.X, world.y).direction_)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), d=st.integers(1, 12), half=st.integers(3, 15), shift=st.floats(-100, 100))
def test_a_shift_of_all_rows_changes_no_direction(seed: int, d: int, half: int, shift: float) -> None:
    world = draw(2 * half, d, effect=2, seed=seed)
    for finder in (MeanDifference, Ridge):
        plain = finder().fit(world.X, world.y)
        moved = finder().fit(world.X + shift, world.y)
        assert moved.direction_ @ plain.direction_ > 0.999
        np.testing.assert_allclose(
            moved.decision_function(world.X + shift), plain.decision_function(world.X), atol=0.05
        )
