"""DAGMA takes the steps of the package ``dagma`` and stops where it stops."""

import contextlib
import io

import numpy as np
import pytest
import torch
from scipy.special import expit

from sdcd.baselines import _dagma_kernels as kernels
from sdcd.baselines.dagma import edge_weights, initial_parameters, minimise
from sdcd.errors import MethodFailure
from sdcd.methods.registry import method

SHORT = {"warm_iterations": 300, "last_iterations": 300, "learning_rate": 0.01}
PENALTIES = {"lambda_1": 0.02, "lambda_2": 0.005}


def chain(n, d, seed=0):
    """Standardised float32 rows of a linear model with all edges i -> j, i < j."""
    random = np.random.default_rng(seed)
    edges = 0.5 * np.triu(random.standard_normal((d, d)), 1)
    X = random.standard_normal((n, d)) @ (np.eye(d) + edges)
    return ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)


def records(model):
    """Parameters of the package's model, in the order of ours."""
    inputs, biases, outputs, output_bias = (p.detach().numpy() for p in model.parameters())
    d = inputs.shape[1]
    inputs = inputs.reshape(d, -1, d).transpose(0, 2, 1).reshape(d, -1)
    parts = [inputs, biases.reshape(d, -1), outputs.reshape(d, -1), output_bias]
    return np.concatenate(parts, axis=1).ravel()


def package(X, hidden, seed, iterations, learning_rate, change=None):
    """Fit with the package: parameters at each evaluation of h, then those at the end."""
    before = torch.get_default_dtype()
    try:
        with torch.random.fork_rng(devices=[]):
            from dagma.nonlinear import DagmaMLP, DagmaNonlinear

            path = []

            class Recorded(DagmaMLP):
                def h_func(self, s=1.0):
                    path.append(records(self))
                    return super().h_func(s)

            torch.manual_seed(seed)
            model = Recorded([X.shape[1], hidden, 1], bias=True, dtype=torch.float64)
            if change:
                change(model)
            with contextlib.redirect_stderr(io.StringIO()):
                DagmaNonlinear(model, dtype=torch.float64).fit(
                    X.astype(np.float64),
                    lambda1=PENALTIES["lambda_1"],
                    lambda2=PENALTIES["lambda_2"],
                    T=len(iterations),
                    warm_iter=iterations[0],
                    max_iter=iterations[-1],
                    lr=learning_rate,
                )
            return np.array([*path, records(model)])
    finally:
        torch.set_default_dtype(before)


def ours(X, hidden, seed, iterations, learning_rate, theta=None):
    if theta is None:
        theta = initial_parameters(X.shape[1], hidden, seed)
    return minimise(
        X, theta, hidden=hidden, iterations=iterations, learning_rate=learning_rate, **PENALTIES
    )


def test_starts_where_the_package_starts():
    path = package(chain(20, 4), 7, 3, [1], 1e-3)
    np.testing.assert_array_equal(initial_parameters(4, 7, 3), path[0])


# 203 rows are no multiple of the vectors, 500 more than a block; 4, 10, 13 units fill registers
# differently.
@pytest.mark.parametrize(
    ("n", "d", "hidden", "steps"), [(500, 6, 10, 1001), (203, 5, 4, 200), (40, 3, 13, 200)]
)
def test_every_step_of_the_package(n, d, hidden, steps):
    X = chain(n, d)
    path = package(X, hidden, 5, [steps], 2e-4)
    state = kernels.new_state(initial_parameters(d, hidden, 5), d, hidden)
    data, units = kernels.panel(X), (0,) * hidden
    for k in range(steps):
        kernels.descend(units, data, state, k, 1, 2e-4, 0.1, 0.02, 0.005, 1.0)
        np.testing.assert_allclose(state.theta, path[k + 1], rtol=0, atol=1e-13)


def test_stages_of_the_package():
    X = chain(300, 5)
    path = package(X, 10, 5, [300, 300, 350], 0.01)
    result = ours(X, 10, 5, [300, 300, 350], 0.01)
    assert result.steps == [300, 300, 350]
    assert len(path) == 951
    np.testing.assert_allclose(result.theta, path[-1], rtol=0, atol=1e-8)


def test_a_stage_ends_where_the_objective_stays_as_in_the_package():
    X = chain(100, 3)
    path = package(X, 4, 5, [2500, 2600], 1e-11)
    result = ours(X, 4, 5, [2500, 2600], 1e-11)
    assert result.left_domain == 0
    assert len(path) == sum(result.steps) + 1
    assert result.steps == [1001, 1001]
    np.testing.assert_allclose(result.theta, path[-1], rtol=0, atol=1e-15)


def filled(value):
    def change(model):
        with torch.no_grad():
            model.fc1.weight.fill_(value)

    return change


def test_leaving_the_domain_halves_the_learning_rate_and_makes_it_decay_as_in_the_package():
    X = chain(100, 3)
    # W o W has the eigenvalue 1.9, so that h = -log 0.9 decreases to 0 as it grows to 2. Steps are
    # too small for rounding errors to grow.
    path = package(X, 4, 5, [1100, 60], 2.6e-5, filled(np.sqrt(1.9 / 12)))
    result = ours(X, 4, 5, [1100, 60], 2.6e-5, path[0])
    assert result.left_domain >= 2
    assert result.learning_rate == 2.6e-5 / 2**result.left_domain
    # More evaluations of h than steps in the end: attempts that failed.
    assert len(path) > 1160 + 500
    np.testing.assert_allclose(result.theta, path[-1], rtol=0, atol=1e-12)


def test_a_stage_that_cannot_start_is_given_up_as_in_the_package():
    X = chain(50, 3)
    path = package(X, 2, 5, [5, 5], 2e-4, filled(3.0))
    result = ours(X, 2, 5, [5, 5], 2e-4, path[0])
    np.testing.assert_array_equal(result.theta, path[-1])
    assert result.left_domain == len(path) - 1
    assert result.learning_rate < 1e-10


def test_h_that_is_not_finite_is_a_failure():
    theta = initial_parameters(2, 1, 0)
    theta[0] = 1.0  # the regression of variable 0 on itself: I - W o W is singular
    with pytest.raises(MethodFailure, match="h is inf after 0 steps"):
        ours(chain(30, 2), 1, 0, [10], 1e-3, theta)
    theta[0] = np.nan
    with pytest.raises(MethodFailure, match="h is nan"):
        ours(chain(30, 2), 1, 0, [10], 1e-3, theta)


def test_sigmoids_are_right_to_the_last_bits_and_do_not_overflow():
    x = np.concatenate([np.linspace(-40, 40, 2001), [-1e300, -1e4, -700, 700, 1e4, 1e300]])
    data = kernels.panel(x[:, None])
    theta = np.array([1.0, 0.0, 1.0, 0.0])  # one unit: sigmoid(x) is to explain x
    state = kernels.new_state(theta, 1, 1)
    for start in range(0, len(data.weight) // kernels.CHUNK, kernels.BLOCK):
        rows = slice(start * kernels.CHUNK, (start + kernels.BLOCK) * kernels.CHUNK)
        values = x[rows]
        part = kernels.panel(values[:, None])
        kernels.squares_gradient(
            (0,), part, state.theta, state.scaled, state.s, state.r, state.total, state.gradient
        )
        fitted = state.r[: len(values)] + values
        inside = abs(values) < 50
        expected = expit(values[inside])
        np.testing.assert_allclose(fitted[inside], expected, rtol=0, atol=2e-14)
        assert np.isfinite(state.r).all()


def test_log_det_inverse_is_numpys():
    random = np.random.default_rng(0)
    for d in (1, 2, 7, 20):
        M = random.standard_normal((d, d))
        M[0, 0] = 0 if d > 1 else 2  # needs pivoting
        inverse = np.empty((d, d))
        log_det = kernels.log_det_inverse(M.copy(), inverse)
        assert log_det == pytest.approx(np.linalg.slogdet(M)[1], abs=1e-12)
        np.testing.assert_allclose(inverse @ M, np.eye(d), rtol=0, atol=1e-10)


def test_edge_weights_are_norms_from_parent_to_child():
    d, hidden = 3, 2
    theta = np.zeros((d, d * hidden + 2 * hidden + 1))
    theta[2, 0 * hidden : 1 * hidden] = [3.0, -4.0]  # variable 2 on variable 0
    expected = np.zeros((d, d))
    expected[0, 2] = 5.0
    np.testing.assert_array_equal(edge_weights(theta.ravel(), d, hidden), expected)


@pytest.fixture(scope="module")
def results():
    random = np.random.default_rng(0)
    a = random.standard_normal(400)
    b = 2 * np.tanh(a) + 0.2 * random.standard_normal(400)
    X = np.stack([a, b], axis=1)
    X = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)
    chosen = method("DAGMA")
    torch.manual_seed(3)
    expected = torch.rand(1).item()
    torch.manual_seed(3)
    fits = [chosen.fit(X, None, None, 0, **chosen.parameters(SHORT)) for _ in range(2)]
    return fits, expected, torch.rand(1).item()


def test_torch_defaults_and_generator_are_left_alone(results):
    _, expected, drawn = results
    assert torch.get_default_dtype() is torch.float32
    assert drawn == expected


def test_deterministic(results):
    (first, second), *_ = results
    np.testing.assert_array_equal(first.weights, second.weights)


def test_finds_that_the_two_are_connected(results):
    (first, _), *_ = results
    assert first.adjacency.sum() == 1
    assert ((first.weights > 0.3) == first.adjacency.astype(bool)).all()
    assert first.diagnostics["steps"] == [300] * 4
