"""sortnregress against a hand-made case."""

import sys

import numpy as np
import pytest

from sdcd.baselines.sortnregress import sortnregress
from sdcd.errors import MethodFailure

CHAIN = np.array([[0, 0, 0], [0, 0, 1], [1, 0, 0]])


def chain(n: int, rng: np.random.Generator) -> np.ndarray:
    """x0 -> x1 -> x2, variances growing along the order."""
    x0 = rng.normal(size=n)
    x1 = 2 * x0 + rng.normal(size=n)
    x2 = 2 * x1 + rng.normal(size=n)
    return np.stack([x2, x0, x1], axis=1).astype(np.float32)


def fit(X, **params):
    names = tuple(f"x{j}" for j in range(X.shape[1]))
    return sortnregress(X, np.zeros(X.shape, dtype=bool), names, 0, **params)


def test_finds_a_chain_whose_variances_grow():
    graph = fit(chain(2000, np.random.default_rng(0)), threshold=0.3)
    np.testing.assert_array_equal(graph.adjacency, CHAIN)
    np.testing.assert_allclose(graph.weights[[1, 2], [2, 0]], 2, atol=0.1)
    assert graph.weights.dtype == np.float64 and not graph.weights[0].any()


def test_cuts_at_its_threshold():
    X = chain(2000, np.random.default_rng(0))
    weights = fit(X, threshold=0.3).weights
    between = (weights[1, 2] + weights[2, 0]) / 2
    assert fit(X, threshold=between).adjacency.sum() == 1


def test_a_missing_package_is_unavailable(monkeypatch):
    for module in [name for name in sys.modules if name.partition(".")[0] == "CausalDisco"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "CausalDisco", None)
    with pytest.raises(MethodFailure, match=r"pip install -e '\.\[baselines\]'") as caught:
        fit(chain(100, np.random.default_rng(0)), threshold=0.3)
    assert caught.value.status == "unavailable"
