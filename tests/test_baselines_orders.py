"""BOSS, GRaSP, FLOP and PC: against exhaustive search, the true class, and another package."""

import itertools
import random
import sys

import numpy as np
import pytest
import torch
from support.fits import fit, generators_untouched

from sdcd.baselines import _causal_learn
from sdcd.baselines._gaussian_score import bic
from sdcd.errors import MethodFailure
from sdcd.graphs import dag_to_cpdag, is_acyclic, pdag_to_cpdag

SEARCHES = ("BOSS", "GRaSP", "FLOP")
ALL = (*SEARCHES, "PC")


def linear(seed, d=8, n=20_000, share=0.35):
    generator = np.random.default_rng(seed)
    A = np.triu(generator.random((d, d)) < share, 1)
    W = A * generator.uniform(0.4, 0.9, (d, d)) * generator.choice([-1, 1], (d, d))
    X = generator.standard_normal((n, d)) @ np.linalg.inv(np.eye(d) - W)
    order = generator.permutation(d)
    X = X[:, order] / X.std(axis=0)[order]
    return X.astype(np.float32), A[np.ix_(order, order)]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("seed", [0, 2])
def test_the_true_class_is_found_in_linear_gaussian_data(name, seed):
    X, A = linear(seed, share=0.2)
    settings = {"alpha": 1e-4} if name == "PC" else {}
    graph = fit(name, X, **settings)
    np.testing.assert_array_equal(graph.adjacency, dag_to_cpdag(A))
    assert graph.weights is None
    # Directed and undirected edges both occur, so that the reading of both is tested.
    both = graph.adjacency & graph.adjacency.T
    assert both.any() and (graph.adjacency & ~both).any()


def every_dag(d):
    pairs = list(itertools.combinations(range(d), 2))
    for directions in itertools.product((0, 1, 2), repeat=len(pairs)):
        A = np.zeros((d, d), dtype=np.int8)
        for (i, j), direction in zip(pairs, directions, strict=True):
            if direction == 1:
                A[i, j] = 1
            if direction == 2:
                A[j, i] = 1
        if is_acyclic(A):
            yield A


@pytest.mark.parametrize("name", SEARCHES)
def test_the_best_score_is_that_of_exhaustive_search(name):
    for seed in range(3):
        # Few rows and a mild penalty, so that the best graph is not the true one.
        X = linear(seed, d=4, n=60, share=0.6)[0]
        S = np.cov(X.astype(np.float64), rowvar=False, ddof=0)
        best = max(every_dag(4), key=lambda dag: bic(dag, S, 60, 1.0))
        graph = fit(name, X, penalty_discount=1.0)
        assert graph.diagnostics["score"] == pytest.approx(bic(best, S, 60, 1.0))
        np.testing.assert_array_equal(graph.adjacency, dag_to_cpdag(best))


def test_the_score_is_the_gaussian_likelihood_with_its_penalty():
    from scipy.stats import norm

    X, A = linear(3, d=3, n=200, share=1)
    X = X.astype(np.float64) - X.mean(axis=0)
    S = X.T @ X / 200
    expected = 0.0
    for j in range(3):
        parents = np.flatnonzero(A[:, j])
        residual = X[:, j] - X[:, parents] @ np.linalg.lstsq(X[:, parents], X[:, j])[0]
        # Without the constant n/2 log(2 pi), which no graph changes.
        expected += norm.logpdf(residual, scale=residual.std()).sum() + 100 * np.log(2 * np.pi)
        expected -= 0.5 * 1.5 * np.log(200) * (len(parents) + 1)
    assert bic(A, S, 200, 1.5) == pytest.approx(expected)
    # All members of a class have one score; a graph that stands for no DAG has none.
    assert bic(pdag_to_cpdag(A), S, 200, 1.5) == pytest.approx(expected)
    assert bic(np.roll(np.eye(3), 1, axis=1), S, 200, 1.5) == -np.inf


@pytest.mark.parametrize("name", SEARCHES)
def test_a_larger_penalty_keeps_fewer_edges(name):
    X, _ = linear(4, n=300)
    edges = [
        np.triu(A | A.T).sum()
        for A in (fit(name, X, penalty_discount=c).adjacency for c in (0.5, 30.0))
    ]
    assert edges[0] > edges[1]


# Where the two packages happen to try the same sets of conditions; they take them from the
# neighbours of one end or of both.
@pytest.mark.parametrize("seed", [2, 3, 6])
def test_pc_is_gcastles_pc(seed):
    dtype = torch.get_default_dtype()
    from castle.algorithms import PC

    torch.set_default_dtype(dtype)

    X, _ = linear(seed, n=500, share=0.2)
    other = PC(variant="stable", alpha=0.05, ci_test="fisherz")
    other.learn(X.astype(np.float64))
    ours = fit("PC", X).adjacency
    np.testing.assert_array_equal(ours, np.asarray(other.causal_matrix))
    assert ours.any()


def test_pc_conditions_on_as_many_variables_as_it_may():
    X, _ = linear(5, n=500)
    found = [fit("PC", X, max_conditions=k).adjacency for k in (0, 1, -1)]
    edges = [int(np.triu(A | A.T).sum()) for A in found]
    assert edges[0] > edges[1] > edges[2]


@pytest.mark.parametrize("name", ["BOSS", "GRaSP", "PC"])
def test_the_package_leaves_nothing_behind_and_repeats_by_seed(name, capsys):
    X, _ = linear(6, n=300)
    with generators_untouched():
        first, again = fit(name, X, seed=3), fit(name, X, seed=3)
    np.testing.assert_array_equal(first.adjacency, again.adjacency)
    assert capsys.readouterr() == ("", "")


def test_the_seed_reaches_the_package():
    with _causal_learn.contained(1):
        first = random.random(), np.random.random()
    with _causal_learn.contained(1):
        assert (random.random(), np.random.random()) == first
    with _causal_learn.contained(2):
        assert random.random() != first[0] and np.random.random() != first[1]


def test_flop_says_how_much_its_repeats_differ():
    X, _ = linear(7)
    facts = fit("FLOP", X, repeats=4).diagnostics
    assert facts["seeded"] is False and len(facts["scores"]) == 4
    assert facts["score"] == max(facts["scores"]) and facts["distinct_graphs"] == 1


def test_edges_of_causal_learn_become_entries():
    marks = np.zeros((4, 4), dtype=int)
    marks[0, 1], marks[1, 0] = -1, 1  # 0 -> 1
    marks[1, 2], marks[2, 1] = -1, -1  # 1 - 2
    marks[2, 3], marks[3, 2] = 1, 1  # 2 <-> 3
    expected = [[0, 1, 0, 0], [0, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]]
    assert _causal_learn.adjacency(marks).astype(int).tolist() == expected


@pytest.mark.parametrize("name", ALL)
def test_data_without_an_inverse_covariance_are_refused(name):
    X, _ = linear(8, d=4, n=100)
    with pytest.raises(MethodFailure, match=f"{name}: 'x2' is constant"):
        fit(name, np.where(np.arange(4) == 2, np.float32(1), X))
    with pytest.raises(MethodFailure, match="is singular"):
        fit(name, np.column_stack([X, X[:, 0]]))
    with pytest.raises(MethodFailure, match="4 variables in 4 rows is singular"):
        fit(name, X[:4])


@pytest.mark.parametrize("name", ALL)
def test_a_missing_package_is_unavailable(name, monkeypatch):
    package = "flopsearch" if name == "FLOP" else "causallearn"
    for module in [m for m in sys.modules if m.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MethodFailure, match=r"pip install -e '\.\[baselines\]'") as caught:
        fit(name, linear(0, d=3, n=50)[0])
    assert caught.value.status == "unavailable"
