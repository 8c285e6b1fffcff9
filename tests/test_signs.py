"""Effects of edges: the mean derivative of the model's mean, by two other ways."""

import numpy as np
import pytest

from sdcd.estimator.fitting import initial_state
from sdcd.estimator.signs import mean_derivatives
from sdcd.estimator.state import PARAMETERS, Candidates

D, HIDDEN = 5, 4


@pytest.fixture
def state():
    """Some parents of each variable but the last, which has none; large weights."""
    parents = np.array([1, 2, 0, 3, 4, 0, 1, 2])
    children = np.array([0, 0, 1, 1, 2, 3, 3, 3])
    state = initial_state(Candidates.of_edges(D, parents, children), HIDDEN, 0, 2)
    random = np.random.default_rng(1)
    for name in PARAMETERS:
        array = getattr(state, name)
        array[:] = random.normal(size=array.shape)
    return state


def rows(n=40):
    return np.random.default_rng(2).normal(size=(n, D)).astype(np.float32)


def means(state, X):
    """The model's means, (n, d), and a leaf for their derivatives."""
    import torch

    from sdcd.estimator.model import predict

    theta = {name: torch.tensor(getattr(state, name)).double() for name in PARAMETERS}
    x = torch.tensor(X).double().requires_grad_()
    return predict(theta, state.candidates, x)[0], x


def test_effects_are_the_mean_derivatives_of_autograd(state):
    import torch

    mean, x = means(state, rows())
    jacobian = np.stack(
        [torch.autograd.grad(mean[:, j].sum(), x, retain_graph=True)[0].numpy() for j in range(D)]
    )
    found = mean_derivatives(state, rows())
    candidates = state.candidates
    expected = jacobian.mean(axis=1)[candidates.children, candidates.parents]
    assert found == pytest.approx(expected, rel=1e-9)
    assert np.sign(found).tolist() == np.sign(expected).tolist() and (found < 0).any()


def test_effects_are_finite_differences_of_the_means(state):
    X, step = rows().astype(np.float64), 1e-4
    found = state.candidates.dense(mean_derivatives(state, X))
    for i in range(D):
        up, down = X.copy(), X.copy()
        up[:, i] += step
        down[:, i] -= step
        slope = (means(state, up)[0] - means(state, down)[0]).detach().numpy() / (2 * step)
        assert found[i] == pytest.approx(slope.mean(axis=0), abs=1e-7)


def test_rows_that_set_the_child_do_not_count(state):
    X = rows()
    intervened = np.zeros(X.shape, dtype=bool)
    intervened[:30, 3] = True
    intervened[:, 1] = True
    found = state.candidates.dense(mean_derivatives(state, X, intervened))
    assert np.isnan(found[[0, 3], 1]).all()
    alone = state.candidates.dense(mean_derivatives(state, X[30:]))
    assert (found[:, 3] == alone[:, 3]).all()
    every = state.candidates.dense(mean_derivatives(state, X))
    assert (found[:, 0] == every[:, 0]).all()


def test_the_sign_of_a_fitted_edge_is_that_of_the_mechanism():
    from sdcd.estimator import SDCD
    from sdcd.estimator.fitting import Problem, Run

    random = np.random.default_rng(0)
    a = random.normal(size=1000)
    X = np.stack([a, 2 * a + random.normal(size=1000), -a + random.normal(size=1000)], axis=1)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    params = SDCD(epochs_2=60, eta_2=0.02, engine="torch")._checked()
    run = Run(params, Problem.of(X, None, params), "test")
    star = Candidates.of_edges(3, np.array([0, 0]), np.array([1, 2]))
    effects = star.dense(mean_derivatives(run.stage_2(star, None), X))
    # In standard deviations: the correlations, as each child has one parent.
    assert effects[0, 1] == pytest.approx(np.corrcoef(X.T)[0, 1], abs=0.1)
    assert effects[0, 2] == pytest.approx(np.corrcoef(X.T)[0, 2], abs=0.1)
