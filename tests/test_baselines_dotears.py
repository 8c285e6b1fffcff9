"""dotears: its loss from the formula, its answer in closed form, and what NOTEARS gets wrong."""

import itertools

import numpy as np
import pytest

from sdcd.baselines import dotears
from sdcd.data.sortability import sortability
from sdcd.errors import MethodFailure
from sdcd.methods.registry import method

NAMES = ("a", "b", "c", "e")


def interventions(W, sd, n=400, seed=0, targets=None):
    """A linear model: observed, then with each variable cut from its parents, its noise halved."""
    random = np.random.default_rng(seed)
    d = len(W)
    X, mask = [], []
    for target in [None, *(range(d) if targets is None else targets)]:
        kept, scale = W.copy(), np.array(sd, dtype=float)
        if target is not None:
            kept[:, target] = 0
            scale[target] /= 2
        X.append(random.standard_normal((n, d)) * scale @ np.linalg.inv(np.eye(d) - kept) + 3)
        mask.append(np.tile(np.arange(d) == target, (n, 1)))
    return np.concatenate(X).astype(np.float32), np.concatenate(mask)


# a -> b and a -> c, the effects with less variance than their cause.
FORK = np.array([[0, 0.5, 0.6], [0, 0, 0], [0, 0, 0]])
FORK_SD = (2.0, 0.4, 0.5)


def fit(name, X, intervened, **settings):
    chosen = method(name)
    return chosen.fit(X, intervened, NAMES, 0, **chosen.parameters(settings))


def test_loss_is_the_formula_regime_by_regime():
    random = np.random.default_rng(1)
    X, intervened = interventions(FORK, FORK_SD, n=30)
    noise = dotears.noise_variances(X, intervened, NAMES)
    W = random.standard_normal((3, 3))
    np.fill_diagonal(W, 0)
    expected = 0.0
    for k in range(4):
        x = X[30 * k : 30 * (k + 1)].astype(np.float64)
        x -= x.mean(axis=0)
        for j in range(3):
            if j != k - 1:
                expected += np.sum((x[:, j] - x @ W[:, j]) ** 2) / noise[j] / (2 * 30) / 4
    M = dotears.regime_moments(X, intervened) / noise[:, None, None]
    loss, gradient = dotears.loss_and_gradient(W, M)
    assert loss == pytest.approx(expected)
    for i, j in np.ndindex(3, 3):
        step = np.zeros((3, 3))
        step[i, j] = 1e-5
        slope = (
            dotears.loss_and_gradient(W + step, M)[0] - dotears.loss_and_gradient(W - step, M)[0]
        )
        assert gradient[i, j] == pytest.approx(slope / 2e-5, rel=1e-5, abs=1e-8)


def test_noise_is_the_variance_where_a_variable_is_set():
    X, intervened = interventions(FORK, FORK_SD, n=4000)
    noise = dotears.noise_variances(X, intervened, NAMES)
    np.testing.assert_allclose(noise, (np.array(FORK_SD) / 2) ** 2, rtol=0.1)
    assert noise[1] == pytest.approx(X[intervened[:, 1], 1].astype(float).var())


def test_small_noise_does_not_pass_for_a_cause():
    X, intervened = interventions(FORK, FORK_SD)
    graph = fit("dotears", X, intervened, lambda_1=0.01)
    np.testing.assert_array_equal(graph.adjacency, FORK != 0)
    np.testing.assert_allclose(graph.weights[0, 1:], [0.5, 0.6], atol=0.05)
    np.testing.assert_allclose(graph.arrays["noise_variance"], [1, 0.04, 0.0625], rtol=0.2)
    # On the observations alone, least squares turns the edge to the quieter child round.
    assert fit("NOTEARS", X[:400], intervened[:400]).adjacency[1, 0]


def test_without_a_penalty_it_is_least_squares_over_the_regimes():
    X, intervened = interventions(np.array([[0, 0.5], [0, 0]]), (2.0, 0.4))
    graph = fit("dotears", X, intervened, lambda_1=0.0)
    cross = squares = 0.0
    for rows in (~intervened.any(axis=1), intervened[:, 0]):
        x = X[rows].astype(np.float64) - X[rows].mean(axis=0, dtype=np.float64)
        cross += np.mean(x[:, 0] * x[:, 1])
        squares += np.mean(x[:, 0] ** 2)
    assert graph.adjacency.tolist() == [[0, 1], [0, 0]]
    assert graph.weights[0, 1] == pytest.approx(cross / squares, rel=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_it_finds_the_best_graph_of_all_orders(seed):
    from sklearn.linear_model import Lasso

    random = np.random.default_rng(seed)
    W = np.triu(random.uniform(0.4, 0.9, (4, 4)) * random.choice([-1, 0, 1], (4, 4)), 1)
    order = random.permutation(4)
    X, intervened = interventions(W[np.ix_(order, order)], random.uniform(0.5, 1.5, 4), 200, seed)
    regimes = [X[200 * k : 200 * (k + 1)].astype(np.float64) for k in range(5)]
    regimes = [x - x.mean(axis=0) for x in regimes]

    def least(order):
        """Objective and weights of the complete graph of an order, child by child."""
        objective, found = 0.0, np.zeros((4, 4))
        for k, child in enumerate(order):
            # Rows of the regimes that leave the child alone, by their weights in the loss.
            x = np.concatenate([x for target, x in enumerate(regimes, -1) if target != child])
            x /= np.sqrt(5 * 200) * regimes[child + 1][:, child].std()
            parents = list(order[:k])
            if parents:
                model = Lasso(0.1 / len(x), fit_intercept=False, tol=1e-10, max_iter=10_000)
                found[parents, child] = model.fit(x[:, parents], x[:, child]).coef_
            left = x[:, child] - x @ found[:, child]
            objective += 0.5 * left @ left + 0.1 * np.abs(found[:, child]).sum()
        return objective, found

    results = [least(order) for order in itertools.permutations(range(4))]
    best = min(results, key=lambda result: result[0])[1]
    weights = fit("dotears", X, intervened).weights
    np.testing.assert_allclose(weights, np.abs(best), atol=0.02)


def test_the_order_of_rows_does_not_matter():
    X, intervened = interventions(FORK, FORK_SD, n=50)
    order = np.random.default_rng(2).permutation(len(X))
    first = dotears.regime_moments(X, intervened)
    np.testing.assert_allclose(dotears.regime_moments(X[order], intervened[order]), first)


def test_every_variable_must_be_intervened_on():
    X, intervened = interventions(FORK, FORK_SD, n=20, targets=(0, 2))
    with pytest.raises(MethodFailure, match="0 rows intervene on 'b', expected 2 or more"):
        fit("dotears", X, intervened)
    with pytest.raises(MethodFailure, match="0 rows intervene on 'a'"):
        fit("dotears", X[:20], intervened[:20])
    X, intervened = interventions(FORK, FORK_SD, n=20)
    X[intervened[:, 1], 1] = 1
    with pytest.raises(MethodFailure, match="'b' does not vary where it is intervened on"):
        fit("dotears", X, intervened)
    X, intervened = interventions(FORK, FORK_SD, n=20)
    intervened[:, 2] = True
    with pytest.raises(MethodFailure, match="every row intervenes on 'c'"):
        fit("dotears", X, intervened)


def test_equal_interventions_give_back_the_scales_that_standardising_takes():
    from sdcd.simulation import simulate

    data, raw = (simulate(20, 2, 1, fraction=1.0, standardise=yes) for yes in (True, False))
    told = 0.1**2 / dotears.noise_variances(data.X, data.intervened, data.names)
    variance = raw.X.var(axis=0, ddof=1)
    assert (np.abs(told / variance - 1) < 0.2).all()
    assert sortability(told, raw.adjacency) == pytest.approx(0.864, abs=0.001)
