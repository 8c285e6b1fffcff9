"""CAM's greedy search against refitting every model, its graphs on additive data."""

import itertools

import numpy as np
import pytest
from support.fits import fit

from sdcd.baselines._additive_pruning import centred_splines
from sdcd.baselines.cam import causal_order
from sdcd.errors import MethodFailure
from sdcd.graphs import is_acyclic


def additive(seed, d=6, n=1500):
    """An additive model whose functions are not linear, with Gaussian noise."""
    random = np.random.default_rng(seed)
    A = np.triu(random.random((d, d)) < 0.4, 1)
    X = np.zeros((n, d))
    for j in range(d):
        X[:, j] = random.uniform(0.3, 0.6) * random.standard_normal(n)
        X[:, j] += 0 if A[:, j].any() else 0.8 * random.standard_normal(n)
        for i in np.flatnonzero(A[:, j]):
            shift = random.uniform(0.5, 1.5)
            X[:, j] += random.choice([-1, 1]) * np.sin(1.5 * X[:, i] + shift) * 1.2
        X[:, j] /= X[:, j].std()
    order = random.permutation(d)
    return X[:, order].astype(np.float32), A[np.ix_(order, order)]


def greedy_by_refitting(X, splines):
    """The same search, every additive model fitted anew by least squares."""
    d = X.shape[1]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    bases = [centred_splines(X[:, j], splines) for j in range(d)]

    def log_sd(child, parents):
        if not parents:
            return 0.0
        design = np.hstack([bases[p] for p in parents])
        residual = X[:, child] - design @ np.linalg.lstsq(design, X[:, child], rcond=None)[0]
        return np.log(residual.std())

    A, gains = np.zeros((d, d), dtype=int), []
    while True:
        best = None
        for i, j in itertools.permutations(range(d), 2):
            A[i, j] += 1
            if A[i, j] == 1 and is_acyclic(A):
                before = [p for p in range(d) if A[p, j] and p != i]
                gain = log_sd(j, before) - log_sd(j, [*before, i])
                best = max(best or (-1.0,), (gain, i, j))
            A[i, j] -= 1
        if best is None:
            return A, gains
        gains.append(best[0])
        A[best[1], best[2]] = 1


@pytest.mark.parametrize("seed", [0, 1])
def test_the_search_is_that_of_refitting_every_model(seed):
    X, _ = additive(seed, d=5, n=400)
    A, gains = greedy_by_refitting(X.astype(np.float64), 7)
    order, ours = causal_order(X, 7)
    np.testing.assert_allclose(ours, gains, atol=1e-7)
    # All pairs are connected, so that there is one order.
    assert (
        A.sum() == 10 and A[np.ix_(order, order)].tolist() == np.triu(np.ones((5, 5)), 1).tolist()
    )


@pytest.mark.parametrize("seed", range(4))
def test_additive_models_are_found(seed):
    X, A = additive(seed)
    graph = fit("CAM", X)
    assert A.sum() >= 4
    assert np.sum(graph.adjacency != A) <= 1
    assert is_acyclic(graph.adjacency)
    assert ((graph.weights > 1) == graph.adjacency).all()


def test_the_variables_scales_do_not_matter():
    X, _ = additive(5)
    scaled = X * np.float32(2) ** np.arange(6, dtype=np.float32) + 1
    first, second = fit("CAM", X), fit("CAM", scaled)
    assert first.diagnostics["order"] == second.diagnostics["order"]
    np.testing.assert_array_equal(first.adjacency, second.adjacency)


def test_few_rows_bound_the_number_of_parents():
    X, _ = additive(6, d=6, n=60)
    graph = fit("CAM", X)
    # Three parents at 60 rows: 0 + 1 + 2 + 3 + 3 + 3 edges at most.
    assert graph.diagnostics["edges_of_the_search"] <= 12
    assert np.isfinite(graph.weights).all()


def test_copies_and_constants():
    X, _ = additive(7, d=4, n=400)
    copied = fit("CAM", np.column_stack([X, X[:, 0]]))
    assert np.isfinite(copied.weights).all() and is_acyclic(copied.adjacency)
    with pytest.raises(MethodFailure, match="'x3' is constant"):
        fit("CAM", np.where(np.arange(4) == 3, np.float32(1), X))
