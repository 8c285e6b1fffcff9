import random

import numpy as np
import pytest
from scipy import stats

from sdcd.errors import InputError
from sdcd.graphs import is_acyclic
from sdcd.simulation import MECHANISMS, simulate_dcdi


def regimes(dataset):
    """(targets, rows) of each block of rows with the same targets."""
    change = np.flatnonzero((dataset.intervened[1:] != dataset.intervened[:-1]).any(axis=1)) + 1
    return [
        (np.flatnonzero(dataset.intervened[rows[0]]).tolist(), rows)
        for rows in np.split(np.arange(dataset.n), change)
    ]


class TestRegimes:
    def test_ten_variables(self):
        blocks = regimes(simulate_dcdi(10, 4, "L", 0))
        assert [len(rows) for _, rows in blocks] == [910] + 10 * [909]
        targets = [targets for targets, _ in blocks]
        assert targets[-1] == []
        assert sorted(targets[:-1]) == [[j] for j in range(10)]
        assert targets[:-1] != sorted(targets[:-1])

    def test_twenty_variables(self):
        # Neighbouring regimes with the same targets would merge: not so for this seed.
        blocks = regimes(simulate_dcdi(20, 1, "NL-NN", 2))
        assert [len(rows) for _, rows in blocks] == 4 * [477] + 17 * [476]
        assert blocks[-1][0] == []
        assert {len(targets) for targets, _ in blocks[:-1]} == {1, 2}

    def test_number_of_targets_is_uniform(self):
        counts = np.zeros(3)
        for seed in range(60):
            dataset = simulate_dcdi(20, 1, "L", seed, n=42)
            per_regime = dataset.intervened[::2].sum(axis=1)
            assert per_regime[-1] == 0
            counts += np.bincount(per_regime[:-1], minlength=3)
        assert counts[0] == 0
        assert stats.binomtest(int(counts[1]), int(counts.sum())).pvalue > 1e-3

    def test_coverage_of_targets(self):
        for seed in range(5):
            covered = simulate_dcdi(20, 1, "L", seed, n=42, cover_targets=True)
            assert covered.intervened.any(axis=0).all()
            assert set(covered.intervened[::2].sum(axis=1)) == {0, 1, 2}
        plain = [simulate_dcdi(20, 1, "L", seed, n=42) for seed in range(5)]
        assert not all(dataset.intervened.any(axis=0).all() for dataset in plain)

    def test_targets_are_drawn_from_the_shifted_normal(self):
        dataset = simulate_dcdi(10, 4, "NL-Add", 2, standardise=False)
        for j in range(10):
            x = dataset.X[dataset.intervened[:, j], j]
            assert stats.kstest(x, "norm", args=(2, 1)).pvalue > 1e-3
            others = np.corrcoef(dataset.X[dataset.intervened[:, j]].T)[j]
            parents = dataset.adjacency[:, j] == 1
            assert (abs(others[parents]) < 4 / np.sqrt(len(x))).all()
        moved = simulate_dcdi(
            10, 4, "L", 2, standardise=False, intervention_mean=-5, intervention_sd=0.1
        )
        x = moved.X[moved.intervened]
        assert x.mean() == pytest.approx(-5, abs=0.01)
        assert x.std() == pytest.approx(0.1, rel=0.05)


class TestGraph:
    @pytest.mark.parametrize(("d", "e"), [(10, 1), (10, 4), (20, 1), (20, 4), (9, 4)])
    def test_expected_number_of_edges(self, d, e):
        graphs = [simulate_dcdi(d, e, "L", seed, n=2 * (d + 1)).adjacency for seed in range(80)]
        assert all(is_acyclic(A) for A in graphs)
        p, pairs = 2 * e / (d - 1), d * (d - 1) / 2
        mean = np.mean([A.sum() for A in graphs])
        assert mean == pytest.approx(e * d, abs=4 * np.sqrt(pairs * p * (1 - p) / 80))
        # No direction is preferred among the indices.
        upward = sum(np.triu(A).sum() for A in graphs)
        assert upward / sum(A.sum() for A in graphs) == pytest.approx(0.5, abs=0.1)

    def test_same_graph_in_every_family(self):
        first, *others = [simulate_dcdi(10, 1, m, 3) for m in MECHANISMS]
        for other in others:
            np.testing.assert_array_equal(first.adjacency, other.adjacency)
            np.testing.assert_array_equal(first.intervened, other.intervened)


def observational(dataset):
    return dataset.X[~dataset.intervened.any(axis=1)].astype(np.float64)


class TestMechanisms:
    def residual_variances(self, dataset):
        """Per (node with parents, regime in which it is no target): least-squares residual."""
        for _, rows in regimes(dataset):
            for j in range(dataset.d):
                parents = np.flatnonzero(dataset.adjacency[:, j])
                if len(parents) and not dataset.intervened[rows[0], j]:
                    X = dataset.X[rows].astype(np.float64)
                    P = np.column_stack((X[:, parents], np.ones(len(rows))))
                    w, squares, *_ = np.linalg.lstsq(P, X[:, j])
                    yield j, w[:-1], squares[0] / (len(rows) - P.shape[1])

    def test_linear(self):
        dataset = simulate_dcdi(10, 2, "L", 4, n=110_000, standardise=False)
        found = list(self.residual_variances(dataset))
        variances = np.array([v for *_, v in found])
        # 0.4^2 sigma^2, sigma^2 uniform on [1, 2] and redrawn in every regime.
        assert 0.16 * 0.95 < variances.min() < 0.20 < 0.28 < variances.max() < 0.32 * 1.05
        assert stats.kstest(variances / 0.16, "uniform", args=(1, 1)).pvalue > 1e-3
        for j in {j for j, *_ in found}:
            weights = np.array([w for node, w, _ in found if node == j])
            assert np.ptp(weights, axis=0).max() < 0.1
            assert (abs(weights) > 0.23).all() and (abs(weights) < 1.02).all()
        assert len({bool(w > 0) for _, ws, _ in found for w in ws}) == 2

    def test_noise_drawn_once_per_node(self):
        dataset = simulate_dcdi(10, 2, "L", 4, n=110_000, standardise=False, redraw_noise_sd=False)
        found = list(self.residual_variances(dataset))
        for node in {j for j, *_ in found}:
            variances = [v for j, _, v in found if j == node]
            assert max(variances) / min(variances) < 1.15

    def test_additive_network(self):
        # PReLU networks are piecewise linear: among near neighbours of one point the mechanism is
        # linear, and what is left is the additive noise, the same everywhere.
        dataset = simulate_dcdi(2, 0.5, "NL-Add", 1, n=300_000, standardise=False)
        assert dataset.adjacency.sum() == 1
        (i,), (j,) = np.nonzero(dataset.adjacency)
        X = observational(dataset)
        x, y = X[:, i], X[:, j]
        variances, slopes = [], []
        for centre in np.linspace(-1.5, 1.5, 13):
            near = abs(x - centre) < 0.05
            slope, _ = np.polyfit(x[near], y[near], 1)
            slopes.append(slope)
            variances.append((y - np.polyval(np.polyfit(x[near], y[near], 1), x))[near].var())
        assert max(variances) / min(variances) < 1.25
        assert 0.16 * 0.95 < np.mean(variances) < 0.32 * 1.05
        assert np.ptp(slopes) > 0.2

    def test_network_of_parents_and_noise(self):
        # The noise goes through the network: its spread depends on the parent's value.
        dataset = simulate_dcdi(2, 0.5, "NL-NN", 1, n=300_000, standardise=False)
        (i,), (j,) = np.nonzero(dataset.adjacency)
        X = observational(dataset)
        centres = np.linspace(-1.5, 1.5, 13)
        variances = [X[abs(X[:, i] - c) < 0.05, j].var() for c in centres]
        assert max(variances) / min(variances) > 1.5

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_values_are_the_equation_of_parents_and_noise(self, mechanism):
        # Same streams, so the mechanism and the noise can be drawn again outside.
        from sdcd.simulation import dcdi

        d, e, seed = 6, 2, 9
        dataset = simulate_dcdi(
            d, e, mechanism, seed, n=14, standardise=False, redraw_noise_sd=False
        )
        graph_rng, mechanism_rng, _, noise_rng = np.random.default_rng(seed).spawn(4)
        A, order = dcdi._graph(d, e, graph_rng)
        np.testing.assert_array_equal(A, dataset.adjacency)
        sd = np.sqrt(noise_rng.uniform(1, 2, size=d))
        functions = []
        for k in A.sum(axis=0):
            if mechanism == "L":
                w = mechanism_rng.uniform(0.25, 1, size=k) * mechanism_rng.choice([-1, 1], size=k)
                functions.append(
                    lambda p, noise, w=w: sum(w[i] * p[i] for i in range(len(w))) + noise
                )
                continue
            n_in, n_hidden = (k, 10) if mechanism == "NL-Add" else (k + 1, 20)
            V = mechanism_rng.standard_normal((n_in, n_hidden))
            b = mechanism_rng.uniform(-1, 1, size=n_hidden) / np.sqrt(max(n_in, 1))
            u = mechanism_rng.standard_normal(n_hidden)
            c = mechanism_rng.uniform(-1, 1) / np.sqrt(n_hidden)
            if mechanism == "NL-Add":

                def f(p, noise, V=V, b=b, u=u, c=c):
                    h = p @ V + b
                    return np.maximum(h, 0.25 * h) @ u + c + noise
            else:

                def f(p, noise, V=V, b=b, u=u, c=c):
                    return np.tanh(np.append(p, noise) @ V + b) @ u + c

            functions.append(f)
        for block in np.split(np.arange(14), 7):
            for node in order:
                z = noise_rng.standard_normal(2)
                for row, z_row in zip(block, z, strict=True):
                    x = dataset.X[row].astype(np.float64)
                    parents = x[np.flatnonzero(A[:, node])]
                    noise = sd[node] * z_row
                    if dataset.intervened[row, node]:
                        expected = 2 + z_row
                    elif len(parents):
                        expected = functions[node](parents, 0.4 * noise)
                    else:
                        expected = noise
                    assert x[node] == pytest.approx(expected, rel=1e-5, abs=1e-5)

    def test_roots(self):
        for roots, low, high in [("gaussian", 1.0, 2.0), ("uniform", 1 / 3, 1 / 3)]:
            dataset = simulate_dcdi(10, 1, "L", 6, n=110_000, standardise=False, roots=roots)
            X = observational(dataset)
            variances = X.var(axis=0)[dataset.adjacency.sum(axis=0) == 0]
            assert len(variances)
            assert (variances > 0.95 * low).all() and (variances < 1.05 * high).all()
            if roots == "uniform":
                root = np.flatnonzero(dataset.adjacency.sum(axis=0) == 0)[0]
                assert abs(X[:, root]).max() <= 1


class TestStandardisation:
    def test_joint_by_default(self):
        dataset = simulate_dcdi(10, 4, "NL-Add", 0)
        np.testing.assert_allclose(dataset.X.mean(axis=0), 0, atol=1e-5)
        np.testing.assert_allclose(dataset.X.std(axis=0, ddof=1), 1, rtol=1e-5)
        raw = simulate_dcdi(10, 4, "NL-Add", 0, standardise=False).X.astype(np.float64)
        np.testing.assert_allclose(
            dataset.X, (raw - raw.mean(axis=0)) / raw.std(axis=0, ddof=1), atol=1e-5
        )

    def test_within_regimes(self):
        dataset = simulate_dcdi(10, 4, "L", 0, standardise_regimes=True, standardise=False)
        for _, rows in regimes(dataset):
            np.testing.assert_allclose(dataset.X[rows].mean(axis=0), 0, atol=1e-5)
            np.testing.assert_allclose(dataset.X[rows].std(axis=0, ddof=1), 1, rtol=1e-5)


def test_deterministic_and_apart_from_the_global_generators():
    random.seed(1)
    np.random.seed(1)
    states = random.getstate(), np.random.get_state()[1].tobytes()
    first = simulate_dcdi(10, 4, "NL-NN", 5)
    assert (random.getstate(), np.random.get_state()[1].tobytes()) == states
    np.random.seed(2)
    second = simulate_dcdi(10, 4, "NL-NN", 5)
    assert first.X.tobytes() == second.X.tobytes()
    assert first.X.tobytes() != simulate_dcdi(10, 4, "NL-NN", 6).X.tobytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"d": 1}, "d is 1, expected an integer of at least 2"),
        ({"e": 4.6}, r"e is 4.6, expected a number from 0 to \(d - 1\) / 2 = 4.5"),
        ({"e": -1}, "e is -1"),
        ({"mechanism": "linear"}, "mechanism is 'linear', expected one of L, NL-Add, NL-NN"),
        ({"seed": -1}, "seed is -1"),
        ({"n": 21}, "n is 21, expected an integer of at least 22"),
        ({"max_targets": 0}, "max_targets is 0"),
        ({"max_targets": 11}, "max_targets is 11, expected at most d = 10"),
        ({"roots": "laplace"}, "roots is 'laplace'"),
        ({"intervention_sd": 0}, "intervention_sd is 0"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(InputError, match=message):
        simulate_dcdi(**{"d": 10, "e": 1, "mechanism": "L", "seed": 0, **arguments})
