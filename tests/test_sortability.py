"""Sortability and the sorting baselines against CausalDisco and hand-made cases."""

import sys

import numpy as np
import pandas as pd
import pytest
from support.exhibited import make

from sdcd.data.sortability import r2_given_others, r2_sortability, sortability, var_sortability
from sdcd.errors import InputError, MethodFailure
from sdcd.experiments.datasets import DatasetKey
from sdcd.graphs import is_acyclic
from sdcd.methods.registry import method
from sdcd.runs.sortability import COLUMNS, collect_sortability
from sdcd.simulation import simulate, simulate_dcdi, simulate_family
from sdcd.tables import layout


def linear(seed, d=8, n=500):
    random = np.random.default_rng(seed)
    A = np.triu(random.random((d, d)) < 0.4, 1)
    W = A * random.uniform(0.5, 2, (d, d))
    X = random.standard_normal((n, d)) @ np.linalg.inv(np.eye(d) - W)
    order = random.permutation(d)
    return X[:, order].astype(np.float32), A[np.ix_(order, order)]


@pytest.mark.parametrize("seed", range(4))
def test_sortabilities_are_those_of_causaldisco(seed):
    from CausalDisco import analytics

    X, A = linear(seed)
    assert var_sortability(X, A) == pytest.approx(analytics.var_sortability(X, A))
    assert r2_sortability(X, A) == pytest.approx(analytics.r2_sortability(X, A))
    np.testing.assert_allclose(r2_given_others(X), analytics.r2coeff(X.T), atol=1e-5)


def test_sortability_counts_pairs_by_the_lengths_of_their_paths():
    # 0 -> 1 -> 2 and 0 -> 2: four, as the pair (0, 2) has a path of one edge and one of two.
    A = np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]])
    assert sortability(np.array([1.0, 2.0, 3.0]), A) == 1
    assert sortability(np.array([3.0, 2.0, 1.0]), A) == 0
    assert sortability(np.array([1.0, 3.0, 2.0]), A) == 3 / 4
    assert sortability(np.array([1.0, 1.0, 1.0]), A) == 1 / 2
    assert np.isnan(sortability(np.zeros(3), np.zeros((3, 3))))
    with pytest.raises(InputError, match="has a cycle"):
        sortability(np.zeros(2), np.ones((2, 2)) - np.eye(2))


def test_r2_of_a_copied_variable_is_one():
    X = np.random.default_rng(0).standard_normal((200, 3))
    X = np.column_stack([X, X[:, 0]])
    np.testing.assert_allclose(r2_given_others(X)[[0, 3]], 1, atol=1e-9)
    assert (r2_given_others(X)[[1, 2]] < 0.1).all()


@pytest.mark.parametrize("seed", range(3))
def test_r2_sortnregress_is_causaldiscos(seed):
    from CausalDisco.baselines import r2_sort_regress

    X, _ = linear(seed)
    chosen = method("R2-sortnregress")
    graph = chosen.fit(X, None, None, 0, **chosen.parameters({}))
    np.testing.assert_allclose(graph.weights, np.abs(r2_sort_regress(X)), atol=1e-6)
    assert ((graph.weights > 0.3) == graph.adjacency).all() and is_acyclic(graph.adjacency)


def test_r2_sortnregress_does_not_see_the_scale_of_the_variables():
    X, _ = linear(5)
    chosen = method("R2-sortnregress")
    orders = [
        chosen.fit(x, None, None, 0, threshold=0.3).diagnostics["order"]
        for x in (X, X / X.std(axis=0), X * np.geomspace(1, 100, 8, dtype=np.float32))
    ]
    assert orders[0] == orders[1] == orders[2]


def test_random_sortnregress_is_causaldiscos_with_the_same_order():
    from CausalDisco.baselines import sort_regress

    X, _ = linear(1)
    chosen = method("random-sortnregress")
    first, again, other = (chosen.fit(X, None, None, seed, threshold=0.3) for seed in (7, 7, 8))
    np.testing.assert_array_equal(first.weights, again.weights)
    assert first.diagnostics["order"] != other.diagnostics["order"]
    position = np.argsort(first.diagnostics["order"])
    np.testing.assert_allclose(first.weights, np.abs(sort_regress(X, position)))
    # Every edge follows the order.
    i, j = np.nonzero(first.adjacency)
    assert (position[i] < position[j]).all() and len(i)


@pytest.mark.parametrize("name", ["R2-sortnregress", "random-sortnregress"])
def test_failures_of_the_sorting_baselines(name, monkeypatch):
    chosen = method(name)
    X, _ = linear(0)
    with pytest.raises(MethodFailure, match="8 rows, expected more than the 8 variables"):
        chosen.fit(X[:8], None, None, 0, threshold=0.3)
    for module in [m for m in sys.modules if m.partition(".")[0] == "CausalDisco"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "CausalDisco", None)
    with pytest.raises(MethodFailure, match=r"pip install -e '\.\[baselines\]'") as caught:
        chosen.fit(X, None, None, 0, threshold=0.3)
    assert caught.value.status == "unavailable"


ROWS = {"n_observational": 300, "n_per_intervention": 20}


def test_the_table_measures_each_data_set_before_standardisation():
    names = [
        *("observational/d6_s2_seed1", "observational/d6_s2_seed0"),
        *("interventional/d6_s2_f0.5_seed0", "interventional/d6_s2_f1_seed0"),
        *("dcdi/L_d6_s1_seed0", "observational/d6_s2_seed0"),
    ]
    table = collect_sortability(map(DatasetKey.parse, names), **ROWS)
    assert list(table) == list(COLUMNS)
    assert table[["family", "seed"]].values.tolist() == [
        ["dcdi", 0],
        ["interventional", 0],
        ["observational", 0],
        ["observational", 1],
    ]
    data = simulate(6, 2, 1, n_observational=300, standardise=False)
    assert table.loc[3, "var_sortability"] == var_sortability(data.X, data.adjacency)
    data = simulate_dcdi(6, 1, "L", 0, n=300, standardise=False)
    X = data.X[~data.intervened.any(axis=1)]
    assert table.loc[0, "n"] == len(X) == 300 // 7
    assert table.loc[0, "var_sortability"] == var_sortability(X, data.adjacency)
    # What methods are given is standardised, which R² does not see, whatever fraction is kept.
    for fraction in (0.5, 1.0):
        data = simulate_family("interventional", 6, 2, 0, fraction=fraction, **ROWS)
        X = data.X[~data.intervened.any(axis=1)]
        assert table.loc[1, "r2_sortability"] == pytest.approx(r2_sortability(X, data.adjacency))
        assert table.loc[1, "n"] == len(X) == 300


def test_the_papers_data_give_the_order_away_by_variance_and_the_reverse_by_r2():
    keys = [DatasetKey("observational", 20, 4, seed) for seed in range(3)]
    table = collect_sortability(keys, n_observational=2000, n_per_intervention=1)
    assert (table["var_sortability"] > 0.6).all() and (table["r2_sortability"] < 0.4).all()


def test_the_printed_table_has_means_and_ranges_of_each_kind(tmp_path):
    rows = [
        ("dcdi", "L", 5, 1, 0, 50, float("nan"), float("nan")),
        ("interventional", "", 5, 2, 0, 300, 0.7, 0.2),
        ("observational", "", 5, 2, 0, 300, 0.5, 0.25),
        ("observational", "", 5, 2, 1, 300, 0.9, 0.35),
    ]
    cells, shown = make("sortability", pd.DataFrame(rows, columns=list(COLUMNS)))
    texts = [[keys[0], *(entry[""] for entry in entries)] for keys, entries in shown.rows]
    assert texts == [
        ["observational, d = 5, s = 2", "2", "0.70 [0.50, 0.90]", "0.30 [0.25, 0.35]"],
        ["interventional, d = 5, s = 2", "1", "0.70", "0.20"],
        ["DCDI L, d = 5, s = 1", "1", "–", "–"],
    ]
    for path in layout.write(cells, shown, tmp_path / "sortability"):
        assert path.stat().st_size
    assert make("sortability", pd.DataFrame(columns=list(COLUMNS)))[1].rows == []
