"""NOBEARS' compiled steps against torch's generator, autograd and Adam."""

import numpy as np
import pytest
import torch

from sdcd.baselines import _nobears_kernels as kernels
from sdcd.baselines import nobears
from sdcd.graphs import is_acyclic
from sdcd.methods.registry import method

TILES = (0,) * kernels.WIDE, (0,) * kernels.NARROW


def data(seed, n, d):
    random = np.random.default_rng(seed)
    edges = np.triu(random.standard_normal((d, d)), 1)
    X = random.standard_normal((n, d)) @ (np.eye(d) + edges)
    return ((X - X.mean(axis=0)) / X.std(axis=0, ddof=1)).astype(np.float32)


def start(d, seed=0):
    W = 0.3 * np.random.default_rng(seed).standard_normal((d, d)).astype(np.float32)
    np.fill_diagonal(W, 0)
    return W


class Torch:
    """The same problem by autograd and torch.optim, in float32, drawing from torch's generator."""

    def __init__(self, X, W, seed):
        self.random = torch.Generator().manual_seed(seed)
        self.x = torch.tensor(X.T.copy())
        uniform = torch.rand(6, X.shape[1], generator=self.random)
        self.W = torch.tensor(W, requires_grad=True)
        self.b, self.s = (p.clone().requires_grad_() for p in (uniform[0], uniform[1:4]))
        self.u, self.v = uniform[4], uniform[5]

    def regression(self, noise_sd=0.1):
        y = self.x + torch.empty_like(self.x).normal_(0.0, noise_sd, generator=self.random)
        f = self.b[:, None] + sum(self.s[k][:, None] * y ** (k + 1) for k in range(3))
        return ((self.W.T @ f - self.x) ** 2).sum() / (2 * self.x.shape[1])

    def acyclicity(self):
        Q = self.W * self.W + 1e-6
        with torch.no_grad():
            for _ in range(5):
                self.v = torch.nn.functional.normalize(Q.T @ self.v, dim=0)
                self.u = torch.nn.functional.normalize(Q @ self.u, dim=0)
        return self.v @ Q @ self.u / (self.v @ self.u)

    def descend(self, steps, decay, rho, alpha):
        optimiser = torch.optim.Adam([self.W, self.b, self.s])
        for k in range(steps):
            for group in optimiser.param_groups:
                group["lr"] = 0.01 / np.sqrt(1 + decay * k)
            loss, h = self.regression(), self.acyclicity()
            objective = (
                loss
                + 0.05 * (0.25 * (self.W**2).sum() + 0.5 * self.W.abs().sum())
                + 0.001 * ((self.b**2).sum() + (self.s**2).sum())
                + 0.5 * rho * h**2
                + alpha * h
            )
            optimiser.zero_grad()
            objective.backward()
            self.W.grad.fill_diagonal_(0)
            optimiser.step()
        return loss.item(), h.item()


def descend(arranged, state, steps, decay, rho, alpha, moments=None, done=0):
    moments = moments or kernels.new_moments(state.parameters)
    return kernels.descend(
        *TILES, arranged, state, *moments, done, steps, 0.01, decay, rho, alpha, 0.05, 0.001, 0.1, 5
    )


# 17 is no multiple of any tile, 12 leaves a narrow one and padding; 1,007 rows fill no chunk.
@pytest.mark.parametrize(("n", "d"), [(1007, 6), (400, 12), (64, 17)])
def test_a_thousand_steps_of_torch(n, d):
    X, W = data(1, n, d), start(d)
    expected = Torch(X, W, 7)
    arranged = kernels.arrange(X)
    state = kernels.new_state(arranged, W, 7)
    for steps, decay, rho, alpha in [(200, 0.1, 0.0, 0.0), (400, 1.0, 1.0, 0.01), (400, 1, 50, 1)]:
        loss, h = expected.descend(steps, decay, rho, alpha)
        found = descend(arranged, state, steps, decay, rho, alpha)
        assert found == pytest.approx((loss, h), rel=1e-4)
        for ours, theirs in (
            *zip(state.parameters, (expected.W, expected.b, expected.s), strict=True),
            (state.u, expected.u),
            (state.v, expected.v),
        ):
            np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=0, atol=1e-4)


def test_steps_in_two_calls_are_the_same_as_in_one():
    X, W = data(2, 100, 4), start(4)
    arranged = kernels.arrange(X)
    one, two = (kernels.new_state(arranged, W, 0) for _ in range(2))
    descend(arranged, one, 30, 0.1, 1.0, 0.1)
    moments = kernels.new_moments(two.parameters)
    descend(arranged, two, 10, 0.1, 1.0, 0.1, moments)
    descend(arranged, two, 20, 0.1, 1.0, 0.1, moments, 10)
    for a, b in zip(one.parameters, two.parameters, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("seed", [0, 5, 2**32 + 5, 2**40 + 1])
def test_random_numbers_are_torchs(seed):
    generator, twister = torch.Generator().manual_seed(seed), kernels.new_twister(seed)
    for n in (7, 624, 1601):
        ours = np.empty(n, dtype=np.float32)
        kernels.fill_uniform(twister, ours)
        np.testing.assert_array_equal(ours, torch.rand(n, generator=generator).numpy())
    for n in (16, 37, 10_000):
        ours = np.empty(n, dtype=np.float32)
        kernels.fill_normal(twister, ours, 0.1)
        expected = torch.empty(n).normal_(0.0, 0.1, generator=generator).numpy()
        np.testing.assert_allclose(ours, expected, rtol=0, atol=3e-7)


def test_acyclicity_converges_to_the_spectral_radius():
    W = start(5)
    u, v = np.ones((2, 5), dtype=np.float32)
    h, overlap = kernels.acyclicity(W, u, v, np.empty((2, 5), dtype=np.float32), 200)
    Q = W.astype(np.float64) ** 2 + 1e-6
    assert h == pytest.approx(abs(np.linalg.eigvals(Q)).max(), rel=1e-5)
    assert overlap == pytest.approx(v @ u, rel=1e-5)
    np.testing.assert_allclose(Q @ u, h * u, rtol=0, atol=1e-5)
    np.testing.assert_allclose(v @ Q, h * v, rtol=0, atol=1e-5)


def test_weights_are_the_average_of_w_not_of_its_magnitude():
    X = data(3, 200, 4)
    result = method("NOBEARS").fit(
        X, None, None, 0, **method("NOBEARS").parameters({"rounds": 3, "steps_per_round": 40})
    )
    problem = Torch(X, nobears.initial_weights(X, 30, 0), 0)
    problem.descend(200, 0.1, 0.0, 0.0)
    average, alpha, rho = 0, 0.01, 1.0
    for _ in range(3):
        _, h = problem.descend(40, 1.0, rho, alpha)
        average = 0.975 * average + 0.025 * problem.W.detach().numpy()
        alpha, rho = alpha + rho * h, 1.1 * rho
    np.testing.assert_allclose(result.weights, np.abs(average), rtol=0, atol=1e-5)
    assert result.diagnostics["alpha"] == pytest.approx(alpha, rel=1e-4)


def test_initial_fit_includes_the_variable_itself():
    X = data(9, 1000, 6)
    small = nobears.initial_weights(X, 30, 0)
    assert np.abs(small).max() < 0.05
    few = nobears.initial_weights(X, 2, 0)
    assert np.abs(few).max() > 0.3
    assert (np.count_nonzero(few, axis=0) <= 2).all()


def test_deterministic_and_acyclic():
    X = data(10, 500, 6)
    parameters = method("NOBEARS").parameters({"rounds": 5})
    first, second = (method("NOBEARS").fit(X, None, None, 0, **parameters) for _ in range(2))
    np.testing.assert_array_equal(first.weights, second.weights)
    assert is_acyclic(first.adjacency)
