"""The shared solver against scikit-learn, problem by problem, and the laws of the factorisation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from covec.checks.planted import draw
from covec.find._rows import Rows
from covec.find._solvers import LOGISTIC, SQUARED_HINGE, Loss, Problem, Spectrum, areas, best, minimise

SHAPES = [(120, 30), (60, 90)]


@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_spectrum_is_the_standardised_matrix(n: int, d: int) -> None:
    X = draw(n, d, effect=1, seed=0).X
    spectrum, Z = Spectrum.of(X), StandardScaler().fit_transform(X.double())
    np.testing.assert_allclose(spectrum.standardised, Z, atol=1e-9)
    assert spectrum.coordinates.shape == (n, min(n - 1, d))
    gram = spectrum.coordinates @ spectrum.coordinates.T
    np.testing.assert_allclose(gram, Z @ Z.T, atol=1e-7)
    np.testing.assert_allclose(spectrum.variances.sum(), d)
    scatter = spectrum.coordinates.T @ spectrum.coordinates / n
    np.testing.assert_allclose(scatter, np.diag(spectrum.variances), atol=1e-9)


@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_a_direction_projects_rows_as_its_weights_do(n: int, d: int) -> None:
    X = draw(n, d, effect=1, seed=1).X
    spectrum = Spectrum.of(X)
    weights = torch.from_numpy(np.random.default_rng(0).standard_normal(len(spectrum.variances)))
    projected = (X.double() - X.double().mean(0)) @ spectrum.direction(weights)
    torch.testing.assert_close(projected, spectrum.coordinates @ weights)


def test_features_that_do_not_vary_have_no_weight() -> None:
    X = draw(40, 6, effect=1, seed=2).X
    X[:, 2] = 7.1
    spectrum = Spectrum.of(X)
    assert len(spectrum.variances) == 5
    assert spectrum.direction(torch.ones(5))[2] == 0
    assert len(Spectrum.of(torch.ones(4, 3)).variances) == 0


@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED_HINGE], ids=["logistic", "squared hinge"])
def test_slopes_are_derivatives(loss: Loss) -> None:
    margin = torch.linspace(-3, 3, 24, dtype=torch.float64, requires_grad=True)  # off the kink at 1
    (slope,) = torch.autograd.grad(loss.value(margin).sum(), margin, create_graph=True)
    (curvature,) = torch.autograd.grad(slope.sum(), margin)
    found = loss.slopes(margin.detach())
    torch.testing.assert_close(found[0], slope.detach())
    torch.testing.assert_close(found[1], curvature)


@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED_HINGE], ids=["logistic", "squared hinge"])
@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_every_problem_is_solved_as_by_scikit_learn(loss: Loss, n: int, d: int) -> None:
    rows = Rows(*(lambda world: (world.X, world.y))(draw(n, d, effect=1, seed=3)))
    Z, y = rows.spectrum.standardised.numpy(), rows.positive.numpy()
    ridges, masks = (0.01, 1.0, 30.0), [np.arange(n) % 3 != 0, np.ones(n, dtype=bool)]
    trained = torch.from_numpy(np.stack([mask for mask in masks for _ in ridges]))
    problem = Problem.of(rows, loss, trained, torch.tensor(ridges * 2), torch.float64)
    solution = minimise(problem, 1e-8)
    for one, (mask, ridge) in enumerate((mask, ridge) for mask in masks for ridge in ridges):
        if loss is LOGISTIC:
            peer = LogisticRegression(C=1 / (n * ridge), tol=1e-10, max_iter=10_000)
        else:
            peer = LinearSVC(C=1 / (n * ridge), dual=False, tol=1e-10, max_iter=100_000, intercept_scaling=300)
        peer.fit(Z[mask], y[mask])
        wanted = Z @ peer.coef_[0] + peer.intercept_[0]
        outputs = problem.margins(solution)[one] * rows.signs
        np.testing.assert_allclose(outputs, wanted, atol=2e-3 * np.abs(wanted).max())


def test_problems_do_not_touch_one_another() -> None:
    world = draw(80, 20, effect=1, seed=4)
    rows, ridges = Rows(world.X, world.y), torch.tensor([1e-3, 0.1, 10.0, 1e3])
    together = minimise(Problem.of(rows, LOGISTIC, torch.ones(4, 80), ridges, torch.float64), 1e-9)
    for one, ridge in enumerate(ridges):
        alone = minimise(Problem.of(rows, LOGISTIC, torch.ones(1, 80), ridge[None], torch.float64), 1e-9)
        torch.testing.assert_close(together[one], alone[0], rtol=1e-5, atol=1e-7)


def test_a_start_does_not_change_the_solution() -> None:
    world = draw(80, 20, effect=1, seed=5)
    problem = Problem.of(Rows(world.X, world.y), LOGISTIC, torch.ones(1, 80), torch.tensor([0.1]), torch.float64)
    cold, warm = minimise(problem, 1e-9), minimise(problem, 1e-9, torch.ones(1, 21))
    torch.testing.assert_close(cold, warm, rtol=1e-6, atol=1e-8)


def test_separable_rows_and_a_weak_ridge_still_converge() -> None:
    world = draw(60, 90, effect=20, seed=6)
    for loss in (LOGISTIC, SQUARED_HINGE):
        problem = Problem.of(Rows(world.X, world.y), loss, torch.ones(1, 60), torch.tensor([1e-6]), torch.float64)
        weights = minimise(problem, 1e-6)
        gradient, _ = problem.slopes(weights, problem.margins(weights))
        start, _ = problem.slopes(torch.zeros_like(weights), torch.zeros(1, 60, dtype=torch.float64))
        assert gradient.norm() < 1e-6 * start.norm()


def test_best_prefers_the_larger_ridge_among_equals() -> None:
    assert best(torch.tensor([0.9, 0.9, 0.5]), (0.1, 1.0, 10.0)) == 1
    assert best(torch.tensor([0.9, 0.9, 0.5]), (1.0, 0.1, 10.0)) == 0
    assert best(torch.tensor([0.1, 0.2, 0.3]), (0.1, 1.0, 10.0)) == 2


def test_areas_are_those_of_each_ridge() -> None:
    outputs = torch.tensor([[3.0, 2.0, 1.0, 0.0], [0.0, 1.0, 2.0, 3.0], [1.0, 1.0, 1.0, 1.0]])
    assert areas(outputs, torch.tensor([True, True, False, False])).tolist() == [1, 0, 0.5]
