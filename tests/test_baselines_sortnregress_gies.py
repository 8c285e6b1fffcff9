"""sortnregress and GIES against hand-made cases and the published runs."""

import csv
import sys
from importlib import resources

import numpy as np
import pytest

from sdcd.baselines.gies import gies
from sdcd.baselines.sortnregress import sortnregress
from sdcd.errors import MethodFailure


def chain(n: int, rng: np.random.Generator) -> np.ndarray:
    """x0 -> x1 -> x2, variances growing along the order."""
    x0 = rng.normal(size=n)
    x1 = 2 * x0 + rng.normal(size=n)
    x2 = 2 * x1 + rng.normal(size=n)
    return np.stack([x2, x0, x1], axis=1).astype(np.float32)


def fit(method, X, intervened=None, **params):
    intervened = np.zeros(X.shape, dtype=bool) if intervened is None else intervened
    return method(X, intervened, tuple(f"x{j}" for j in range(X.shape[1])), 0, **params)


CHAIN = np.array([[0, 0, 0], [0, 0, 1], [1, 0, 0]])


def test_sortnregress_finds_a_chain_whose_variances_grow():
    graph = fit(sortnregress, chain(2000, np.random.default_rng(0)), threshold=0.3)
    np.testing.assert_array_equal(graph.adjacency, CHAIN)
    np.testing.assert_allclose(graph.weights[[1, 2], [2, 0]], 2, atol=0.1)
    assert graph.weights.dtype == np.float64 and not graph.weights[0].any()


def test_sortnregress_cuts_at_its_threshold():
    X = chain(2000, np.random.default_rng(0))
    weights = fit(sortnregress, X, threshold=0.3).weights
    between = (weights[1, 2] + weights[2, 0]) / 2
    assert fit(sortnregress, X, threshold=between).adjacency.sum() == 1


def test_gies_on_observations_returns_the_equivalence_class_of_a_chain():
    graph = fit(gies, chain(2000, np.random.default_rng(0)), extract_dag=False)
    np.testing.assert_array_equal(graph.adjacency, CHAIN | CHAIN.T)
    assert graph.weights is None
    assert graph.diagnostics["undirected_edges"] == 2 and graph.diagnostics["regimes"] == 1


def test_gies_extracts_one_dag_of_the_class():
    adjacency = fit(gies, chain(2000, np.random.default_rng(0)), extract_dag=True).adjacency
    np.testing.assert_array_equal(adjacency | adjacency.T, CHAIN | CHAIN.T)
    assert not (adjacency & adjacency.T).any()
    # No collider: that would be another class.
    assert adjacency[:, 2].sum() < 2


def test_gies_orients_a_chain_with_an_intervention_on_its_middle():
    rng = np.random.default_rng(1)
    observed, intervened = chain(2000, rng), chain(500, rng)
    intervened[:, 2] = rng.normal(size=500)
    intervened[:, 0] = 2 * intervened[:, 2] + rng.normal(size=500)
    X = np.concatenate([observed, intervened])
    mask = np.zeros(X.shape, dtype=bool)
    mask[2000:, 2] = True
    graph = fit(gies, X, mask, extract_dag=False)
    np.testing.assert_array_equal(graph.adjacency, CHAIN)
    assert graph.diagnostics["regimes"] == 2
    order = rng.permutation(len(X))
    np.testing.assert_array_equal(
        fit(gies, X[order], mask[order], extract_dag=False).adjacency, graph.adjacency
    )


def test_gies_refuses_a_variable_that_is_always_intervened_on():
    X = chain(100, np.random.default_rng(0))
    mask = np.zeros(X.shape, dtype=bool)
    mask[:, 1] = True
    with pytest.raises(MethodFailure, match="every row intervenes on 'x1'") as caught:
        fit(gies, X, mask, extract_dag=False)
    assert caught.value.status == "error"


@pytest.mark.parametrize(
    ("method", "package", "params"),
    [(sortnregress, "CausalDisco", {"threshold": 0.3}), (gies, "gies", {"extract_dag": False})],
)
def test_a_missing_package_is_unavailable(monkeypatch, method, package, params):
    for module in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MethodFailure, match=r"pip install 'sdcd\[baselines\]'") as caught:
        fit(method, chain(100, np.random.default_rng(0)), **params)
    assert caught.value.status == "unavailable"


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_gies_repeats_the_published_runs(seed):
    from sdcd.metrics import score
    from sdcd.simulation import simulate

    data = simulate(10, 4, seed)
    adjacency = fit(gies, data.X, data.intervened, extract_dag=False).adjacency
    found = score(adjacency, None, data.adjacency)
    text = (resources.files("sdcd.published") / "observational_runs.csv").read_text()
    (row,) = (
        row
        for row in csv.DictReader(text.splitlines())
        if (row["method"], row["d"], row["s"], row["seed"]) == ("GIES", "10", "4", str(seed))
    )
    assert found["shd"] == int(row["shd"])
    assert adjacency.sum() == int(row["n_edges_pred"])
    assert found["precision"] == pytest.approx(float(row["precision"]), abs=1e-5)
    assert found["recall"] == pytest.approx(float(row["recall"]), abs=1e-5)
