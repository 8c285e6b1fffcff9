"""DirectLiNGAM: its order and weights against causal-learn's, its entropies against known ones."""

import numpy as np
import pytest
from support.fits import fit

from sdcd.baselines.lingam import causal_order, entropy, likelihood_ratios
from sdcd.errors import MethodFailure
from sdcd.graphs import is_acyclic


def uniform_noise(seed, d=7, n=1500):
    random = np.random.default_rng(seed)
    A = np.triu(random.random((d, d)) < 0.5, 1)
    W = A * random.uniform(0.5, 1.2, (d, d)) * random.choice([-1, 1], (d, d))
    X = random.uniform(-1, 1, (n, d)) @ np.linalg.inv(np.eye(d) - W)
    order = random.permutation(d)
    return (X / X.std(axis=0))[:, order].astype(np.float32), A[np.ix_(order, order)]


@pytest.mark.parametrize("seed", range(4))
def test_order_and_weights_are_causal_learns(seed):
    from causallearn.search.FCMBased.lingam import DirectLiNGAM

    X, _ = uniform_noise(seed)
    theirs = DirectLiNGAM()
    theirs.fit(X.astype(np.float64))
    graph = fit("LiNGAM", X)
    assert graph.diagnostics["order"] == [int(j) for j in theirs.causal_order_]
    # Its matrix has effects in rows.
    np.testing.assert_allclose(graph.weights, np.abs(theirs.adjacency_matrix_.T), atol=1e-5)


def test_the_true_order_and_graph_with_many_rows():
    X, A = uniform_noise(11, n=20_000)
    graph = fit("LiNGAM", X, threshold=0.05)
    np.testing.assert_array_equal(graph.adjacency, A)
    assert is_acyclic(graph.adjacency)


def test_gaussian_data_have_no_direction():
    random = np.random.default_rng(1)
    x = random.standard_normal(50_000)
    X = np.stack([x, 0.8 * x + random.standard_normal(50_000)])
    X -= X.mean(axis=1, keepdims=True)
    X /= X.std(axis=1, keepdims=True)
    ratios = likelihood_ratios(X, X @ X.T / 50_000)
    assert abs(ratios[0, 1]) < 0.002
    np.testing.assert_allclose(ratios, -ratios.T)


def test_entropy_is_right_for_the_gaussian_and_lower_for_all_else():
    from scipy.integrate import quad

    random = np.random.default_rng(2)
    edge = np.sqrt(3)
    gaussian = random.standard_normal(400_000)
    uniform = random.uniform(-edge, edge, 400_000)
    skewed = random.exponential(size=400_000) - 1
    found = entropy(np.stack([gaussian, uniform, skewed]))
    highest = (1 + np.log(2 * np.pi)) / 2
    assert found[0] == pytest.approx(highest, abs=1e-3)
    # The approximation's own value, by quadrature: its odd term vanishes.
    mean = quad(lambda u: np.log(np.cosh(u)), 0, edge)[0] / edge
    assert found[1] == pytest.approx(highest - 79.047 * (mean - 0.37457) ** 2, abs=2e-3)
    assert found[1] < highest - 0.04 and found[2] < highest - 0.1
    assert np.isfinite(entropy(np.array([[1e4, -1e4]]))).all()


def test_an_order_in_blocks_is_the_same(monkeypatch):
    X, _ = uniform_noise(3)
    whole = causal_order(X)
    monkeypatch.setattr("sdcd.baselines.lingam.BLOCK", 2000)
    np.testing.assert_array_equal(causal_order(X), whole)


def test_degenerate_data():
    X, _ = uniform_noise(4, d=3, n=100)
    with pytest.raises(MethodFailure, match="'x1' is constant"):
        fit("LiNGAM", np.where(np.arange(3) == 1, np.float32(2), X))
    with pytest.raises(MethodFailure, match="3 rows, expected more than the 3 variables"):
        fit("LiNGAM", X[:3])
    copied = fit("LiNGAM", np.column_stack([X, X[:, 0]]))
    assert np.isfinite(copied.weights).all()
