import json
import random
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch

from sdcd.errors import InputError
from sdcd.graphs import is_acyclic, topological_order
from sdcd.simulation import kept_targets, simulate
from sdcd.simulation.paper import _mechanisms, _random_dag

PUBLISHED = json.loads(
    (Path(__file__).parent / "fixtures" / "published_datasets.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize(
    "published", PUBLISHED, ids=lambda f: f"d{f['d']}_s{f['s']}_seed{f['seed']}"
)
def test_replays_the_published_data(published):
    interventional = published["n_per_intervention"] > 0
    dataset = simulate(
        published["d"],
        published["s"],
        published["seed"],
        fraction=1.0 if interventional else None,
        standardise=False,
    )
    assert dataset.X.shape == (published["n_rows"], published["d"])
    assert dataset.adjacency.sum() == published["n_edges"]
    if published["edges"] is not None:
        assert np.argwhere(dataset.adjacency).tolist() == sorted(published["edges"])
    for row, values in published["raw_rows"].items():
        np.testing.assert_allclose(dataset.X[int(row), :10], values, rtol=0, atol=1e-4)
    X = dataset.X[:, :10].astype(np.float64)
    np.testing.assert_allclose(X.mean(axis=0), published["raw_column_mean"][:10], atol=1e-4)
    np.testing.assert_allclose(
        X.std(axis=0, ddof=1), published["raw_column_std_ddof1"][:10], atol=1e-4
    )


class TestModel:
    def test_values_follow_the_equations(self):
        # Residuals of every node given its parents, recomputed in float64, are its noise.
        d, seed = 12, 5
        dataset = simulate(d, 3, seed, fraction=1.0, standardise=False)
        X = dataset.X.astype(np.float64)
        observational = X[:10_000]
        mean, sd = observational.mean(axis=0), observational.std(axis=0, ddof=1)
        mechanisms = _mechanisms(_random_dag(d, 3, seed), seed)
        for node in range(d):
            free = ~dataset.intervened[:, node]
            location = np.zeros(len(X))
            parents = np.flatnonzero(dataset.adjacency[:, node])
            assert (node in mechanisms) == (len(parents) > 0)
            if len(parents):
                listed, V, u = mechanisms[node]
                assert listed == parents.tolist()
                V, u = V.double().numpy(), u.double().numpy()
                assert V.shape == (100, len(parents)) and u.shape == (1, 100)
                for weight in (V, u):
                    assert 0.5 <= abs(weight).min() <= abs(weight).max() <= 2
                    assert 0.3 < (weight > 0).mean() < 0.7
                Z = (X[:, parents] - mean[parents]) / sd[parents]
                location = (1 / (1 + np.exp(-Z @ V.T)) @ u.T)[:, 0]
            noise = (X[:, node] - location)[free]
            assert abs(noise.mean()) < 4 * 0.5 / np.sqrt(len(noise))
            assert noise.std() == pytest.approx(0.5, rel=0.03)
            assert X[~free, node].mean() == pytest.approx(0, abs=4 * 0.1 / np.sqrt(500))
            assert X[~free, node].std() == pytest.approx(0.1, rel=0.15)

    @pytest.mark.parametrize(("d", "s"), [(1, 0), (2, 0), (5, 2), (10, 4), (40, 8)])
    def test_exactly_sd_edges_in_a_dag(self, d, s):
        dataset = simulate(d, s, 3, n_observational=20)
        assert dataset.adjacency.sum() == s * d
        assert is_acyclic(dataset.adjacency)
        assert dataset.names == tuple(f"X{j}" for j in range(d))

    def test_order_is_random_not_the_index(self):
        orders = {tuple(topological_order(simulate(6, 2, k).adjacency)) for k in range(8)}
        assert len(orders) > 4

    def test_no_intervention_is_drawn_in_the_observational_family(self):
        dataset = simulate(10, 4, 0)
        assert dataset.X.shape == (10_000, 10)
        assert not dataset.intervened.any()


class TestRows:
    def test_standardised_over_all_rows_before_rows_are_dropped(self):
        raw = simulate(10, 2, 1, fraction=1.0, standardise=False)
        whole = simulate(10, 2, 1, fraction=1.0)
        X = raw.X.astype(np.float64)
        expected = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
        np.testing.assert_allclose(whole.X, expected, atol=1e-5)
        half = simulate(10, 2, 1, fraction=0.5)
        rows = np.isin(
            np.where(raw.intervened.any(axis=1), raw.intervened.argmax(axis=1), -1),
            [-1, *kept_targets(10, 0.5, 1)],
        )
        np.testing.assert_array_equal(half.X, whole.X[rows])
        np.testing.assert_array_equal(half.intervened, whole.intervened[rows])

    def test_fraction_zero_keeps_the_observational_rows(self):
        none = simulate(10, 2, 1, fraction=0.0)
        assert none.X.shape == (10_000, 10)
        assert not none.intervened.any()
        alone = simulate(10, 2, 1)
        assert abs(none.X.mean(axis=0)).max() > 0.01
        np.testing.assert_allclose(alone.X.mean(axis=0), 0, atol=1e-5)
        for column in range(10):
            assert np.corrcoef(none.X[:, column], alone.X[:, column])[0, 1] > 0.99999

    def test_order_of_rows(self):
        dataset = simulate(6, 1, 0, fraction=1.0, n_observational=30, n_per_intervention=4)
        expected = np.vstack([np.zeros((30, 6)), np.repeat(np.eye(6), 4, axis=0)])
        np.testing.assert_array_equal(dataset.intervened, expected)

    @pytest.mark.parametrize(
        ("d", "fraction", "kept"),
        [(20, 0.25, 5), (30, 0.25, 8), (30, 0.5, 15), (30, 0.75, 23), (40, 0, 0), (40, 1, 40)],
    )
    def test_number_of_interventions_kept(self, d, fraction, kept):
        targets = kept_targets(d, fraction, 3)
        assert len(targets) == kept
        assert targets == sorted(set(targets))
        assert set(targets) <= set(kept_targets(d, min(1, fraction + 0.25), 3))

    def test_targets_differ_between_seeds(self):
        assert len({tuple(kept_targets(20, 0.25, seed)) for seed in range(5)}) == 5


class TestGenerators:
    def states(self):
        return random.getstate(), np.random.get_state()[1].tobytes(), torch.get_rng_state().numpy()

    def same(self, a, b):
        return a[:2] == b[:2] and (a[2] == b[2]).all()

    def test_global_generators_are_not_moved(self):
        before = self.states()
        simulate(10, 2, 0, fraction=0.5)
        assert self.same(before, self.states())

    def test_nothing_global_matters(self):
        expected = simulate(10, 2, 7, fraction=0.5)
        random.seed(11)
        np.random.seed(11)
        torch.manual_seed(11)
        threads = torch.get_num_threads()
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(2)
        try:
            with torch.device("meta"):
                got = simulate(10, 2, 7, fraction=0.5)
            assert torch.get_num_threads() == 2
        finally:
            torch.set_default_dtype(torch.float32)
            torch.set_num_threads(threads)
        for array in ("X", "intervened", "adjacency"):
            assert getattr(got, array).tobytes() == getattr(expected, array).tobytes()

    @pytest.mark.parametrize("seed", [0, 1, 12345])
    def test_own_generators_give_the_streams_of_the_global_ones(self, seed):
        # The published runs seeded the global generators.
        saved = random.getstate(), np.random.get_state(), torch.get_rng_state()
        try:
            random.seed(seed)
            np.random.seed(seed)
            skeleton = nx.gnm_random_graph(15, 30)
            order = list(range(15))
            np.random.shuffle(order)
            graph = _random_dag(15, 2, seed)
            assert list(graph) == order
            assert {frozenset(e) for e in graph.edges} == {frozenset(e) for e in skeleton.edges}

            torch.manual_seed(seed)
            node, k = next((j, graph.in_degree(j)) for j in range(15) if graph.in_degree(j))
            layers = [
                torch.nn.Linear(k, 100, bias=False),
                torch.nn.Linear(100, 1, bias=False),
            ]
            for layer in layers:
                torch.nn.init.normal_(layer.weight)
            mechanism = _mechanisms(graph, seed)[node][1:]
            for layer, weight in zip(layers, mechanism, strict=True):
                sign = 2 * torch.randint(0, 2, layer.weight.shape) - 1
                assert torch.equal(sign * (0.5 + 1.5 * torch.rand(layer.weight.shape)), weight)

            torch.manual_seed(seed)
            assert kept_targets(20, 0.25, seed) == sorted(torch.randperm(20)[15:].tolist())
        finally:
            random.setstate(saved[0])
            np.random.set_state(saved[1])
            torch.set_rng_state(saved[2])

    def test_weaker_weights_change_the_mechanisms_and_not_the_graph(self):
        dataset = simulate(10, 2, 0, n_observational=200)
        weak = simulate(10, 2, 0, n_observational=200, weight_range=(0.1, 0.4))
        assert np.array_equal(weak.adjacency, dataset.adjacency)
        assert not np.allclose(weak.X, dataset.X)
        graph = _random_dag(10, 2, 0)
        for node, (_, *layers) in _mechanisms(graph, 0, (0.1, 0.4)).items():
            published = _mechanisms(graph, 0)[node][1:]
            for layer, of_published in zip(layers, published, strict=True):
                assert layer.abs().min() >= 0.1 and layer.abs().max() <= 0.4
                assert torch.equal(layer.sign(), of_published.sign())

    def test_seeds_differ(self):
        assert not np.array_equal(simulate(10, 2, 0).adjacency, simulate(10, 2, 1).adjacency)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"d": 0}, "d is 0, expected an integer of at least 1"),
        ({"d": 10.0}, "d is 10.0"),
        ({"s": -1}, "s is -1"),
        ({"s": 5}, "s = 5 edges per variable are 50 edges, but d = 10 variables have only 45"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**32}, "seed is 4294967296"),
        ({"seed": True}, "seed is True"),
        ({"fraction": 1.01}, "fraction is 1.01, expected a number from 0 to 1"),
        ({"fraction": -0.1}, "fraction is -0.1"),
        ({"fraction": float("nan")}, "fraction is nan"),
        ({"n_observational": 1}, "n_observational is 1"),
        ({"n_per_intervention": 0}, "n_per_intervention is 0"),
        ({"weight_range": (2.0, 0.5)}, "weight_range is"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(InputError, match=message):
        simulate(**{"d": 10, "s": 2, "seed": 0, **arguments})
