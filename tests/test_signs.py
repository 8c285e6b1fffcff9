"""Slopes of edges: the mean derivative of the model's mean, by two other ways."""

import numpy as np
import pytest

from sdcd.estimator.generative import GenerativeModel, fit_generative
from sdcd.estimator.signs import mean_slopes
from sdcd.estimator.state import PARAMETERS

D, HIDDEN = 5, 4
# Some parents of each variable but the last, which has none.
DAG = np.zeros((D, D), dtype=np.int8)
for child, parents in enumerate(((2, 3), (0, 4), (3, 4), (4,))):
    DAG[parents, child] = 1


@pytest.fixture
def model():
    """Large weights."""
    random = np.random.default_rng(1)
    shapes = {"W": (DAG.sum(), HIDDEN), **dict.fromkeys("buv", (D, HIDDEN))}
    shapes |= dict.fromkeys("ce", (D,))
    theta = {name: random.normal(size=shapes[name]).astype(np.float32) for name in PARAMETERS}
    scale = np.zeros(D), np.ones(D), np.full(D, np.nan)
    return GenerativeModel(tuple("abcde"), DAG, *scale, theta)


def rows(n=40):
    return np.random.default_rng(2).normal(size=(n, D)).astype(np.float32)


def means(model, X):
    """The networks' means, (n, d), and a leaf for their derivatives."""
    import torch

    from sdcd.estimator.model import predict

    theta = {name: torch.tensor(model.theta[name]).double() for name in PARAMETERS}
    x = torch.tensor(X).double().requires_grad_()
    return predict(theta, model.candidates, x)[0], x


def test_slopes_are_the_mean_derivatives_of_autograd(model):
    import torch

    mean, x = means(model, rows())
    jacobian = np.stack(
        [torch.autograd.grad(mean[:, j].sum(), x, retain_graph=True)[0].numpy() for j in range(D)]
    )
    found, expected = mean_slopes(model, rows()), jacobian.mean(axis=1).T
    assert (np.isfinite(found) == (DAG != 0)).all()
    assert found[DAG != 0] == pytest.approx(expected[DAG != 0], rel=1e-9)
    assert (found[DAG != 0] < 0).any() and (found[DAG != 0] > 0).any()


def test_slopes_are_finite_differences_of_the_means(model):
    X, step = rows().astype(np.float64), 1e-4
    found = mean_slopes(model, X)
    for i in range(D):
        up, down = X.copy(), X.copy()
        up[:, i] += step
        down[:, i] -= step
        slope = (means(model, up)[0] - means(model, down)[0]).detach().numpy() / (2 * step)
        assert np.nan_to_num(found[i]) == pytest.approx(slope.mean(axis=0), abs=1e-7)


def test_rows_that_set_the_child_do_not_count(model):
    X = rows()
    intervened = np.zeros(X.shape, dtype=bool)
    intervened[:30, 0] = True
    intervened[:, 1] = True
    found = mean_slopes(model, X, intervened)
    assert np.isnan(found[:, 1]).all()
    assert found[:, 0] == pytest.approx(mean_slopes(model, X[30:])[:, 0], nan_ok=True)
    assert found[:, 2] == pytest.approx(mean_slopes(model, X)[:, 2], nan_ok=True)


def test_slopes_do_not_depend_on_units(model):
    factor, shift = np.array([1.0, 100.0, 0.01, 3.0, 7.0]), np.arange(D)
    X = rows().astype(np.float64)
    found = mean_slopes(model.in_units(shift, factor), X * factor + shift)
    assert found == pytest.approx(mean_slopes(model, X), nan_ok=True)


def test_the_slope_of_a_fitted_edge_is_that_of_a_linear_mechanism():
    random = np.random.default_rng(0)
    a = random.normal(size=1000)
    X = np.stack([a, 2 * a + random.normal(size=1000), -a + random.normal(size=1000)], axis=1)
    star = np.array([[0, 1, 1], [0, 0, 0], [0, 0, 0]])
    found = mean_slopes(fit_generative(star, X), X)
    # In standard deviations: the correlations, as each child has one parent.
    assert found[0, 1:] == pytest.approx(np.corrcoef(X.T)[0, 1:], abs=0.05)
