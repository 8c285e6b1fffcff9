"""SCORE's estimates against closed forms, its pruning against refitted models."""

import numpy as np
import pytest

from sdcd.baselines import score
from sdcd.baselines._additive_pruning import centred_splines, prune
from sdcd.graphs import is_acyclic
from sdcd.methods.registry import method


def test_stein_estimates_against_a_gaussians_closed_form():
    random = np.random.default_rng(0)
    covariance = np.array([[1.0, 0.6], [0.6, 1.0]])
    X = random.multivariate_normal([0, 0], covariance, size=3000)
    gradient, hessian = score.stein_score(X, 0.001, 0.001)
    precision = np.linalg.inv(covariance)
    centre = np.abs(X).max(axis=1) < 1
    expected = -X @ precision
    error = gradient[centre] - expected[centre]
    assert np.sqrt(np.mean(error**2)) < 0.25
    assert np.corrcoef(gradient[centre].ravel(), expected[centre].ravel())[0, 1] > 0.98
    # The Hessian's diagonal is the constant -precision_jj.
    np.testing.assert_allclose(np.median(hessian[centre], axis=0), -np.diag(precision), rtol=0.25)


def test_kernel_sums_are_the_derivatives_of_the_kernel():
    X = np.random.default_rng(1).standard_normal((40, 3))
    distance = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
    s = np.median(distance)
    K = np.exp(-(distance**2) / (2 * s**2)) / s
    difference = X[:, None] - X[None]
    first = -(difference * K[:, :, None]).sum(axis=1) / s**2
    second = ((-1 / s**2 + difference**2 / s**4) * K[:, :, None]).sum(axis=1)
    G = np.linalg.solve(K + 0.01 * np.eye(40), first)
    H = -(G**2) + np.linalg.solve(K + 0.02 * np.eye(40), second)
    gradient, hessian = score.stein_score(X, 0.01, 0.02)
    np.testing.assert_allclose(gradient, G, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(hessian, H, rtol=1e-6, atol=1e-6)


def test_one_and_two_factorisations_agree():
    X = np.random.default_rng(2).standard_normal((60, 2))
    one = score.stein_score(X, 0.01, 0.01)
    two = score.stein_score(X, 0.01, 0.01 + 1e-12)
    np.testing.assert_allclose(one[0], two[0], rtol=1e-6)
    np.testing.assert_allclose(one[1], two[1], rtol=1e-4, atol=1e-4)


def chain(n=800):
    random = np.random.default_rng(3)
    a = random.standard_normal(n)
    b = np.sin(2 * a) + a + 0.3 * random.standard_normal(n)
    c = b**2 + 0.3 * random.standard_normal(n)
    X = np.stack([c, a, b], axis=1)
    return ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)


def test_order_of_a_nonlinear_chain():
    assert score.causal_order(chain().astype(float), 0.001, 0.001).tolist() == [1, 2, 0]


def test_partial_f_test_equals_dropping_the_block_and_refitting():
    from scipy.stats import f as f_distribution

    X = chain().astype(np.float64)
    n = len(X)
    order = np.array([1, 2, 0])
    weights = prune(X, order, 10, 0.001)

    def residual_square(parents):
        design = np.hstack([np.ones((n, 1)), *(centred_splines(X[:, p], 10) for p in parents)])
        fitted = design @ np.linalg.lstsq(design, X[:, 0], rcond=None)[0]
        return np.sum((X[:, 0] - fitted) ** 2)

    full, without = residual_square([1, 2]), residual_square([2])
    statistic = (without - full) / 9 / (full / (n - 19))
    expected = statistic / f_distribution.isf(0.001, 9, n - 19)
    assert weights[1, 0] == pytest.approx(expected, rel=1e-4)


def test_edges_follow_the_order_and_the_cut():
    chosen = method("SCORE")
    X = chain()
    result = chosen.fit(X, None, ("c", "a", "b"), 0, **chosen.parameters({}))
    assert result.adjacency.tolist() == [[0, 0, 0], [0, 0, 1], [1, 0, 0]]
    assert is_acyclic(result.adjacency)
    assert ((result.weights > 1) == result.adjacency.astype(bool)).all()


def test_splines_span_cubics():
    x = np.random.default_rng(4).standard_normal(500)
    basis = centred_splines(x, 10)
    assert basis.shape == (500, 9)
    target = x**3 - x
    target -= target.mean()
    fitted = basis @ np.linalg.lstsq(basis, target, rcond=None)[0]
    np.testing.assert_allclose(fitted, target, atol=1e-8)
    np.testing.assert_allclose(basis.mean(axis=0), 0, atol=1e-12)


def test_row_limit_is_seeded():
    chosen = method("SCORE")
    # Which of independent variables comes last depends on the rows.
    X = np.random.default_rng(0).standard_normal((1000, 6))
    settings = chosen.parameters({"max_rows": 200})
    first, again, other = (chosen.fit(X, None, None, seed, **settings) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.weights, again.weights)
    assert not np.array_equal(first.diagnostics["order"], other.diagnostics["order"])
    assert first.diagnostics["rows_for_order"] == 200
    assert other.diagnostics["rows_for_order"] == 200


def test_overwhelming_evidence_stays_finite():
    x = np.random.default_rng(5).standard_normal(10_000)
    X = np.stack([x, x + 1e-3 * np.random.default_rng(6).standard_normal(10_000)], axis=1)
    weights = prune(X, np.array([0, 1]), 10, 0.001)
    assert np.isfinite(weights).all()
    assert weights[0, 1] > 1000
