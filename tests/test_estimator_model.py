"""The plain model against closed forms."""

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
import torch

from sdcd.estimator.fitting import initial_state
from sdcd.estimator.model import h_exp, h_log, h_rho, log_domain_scale, predict, score
from sdcd.estimator.state import PARAMETERS, Candidates

RANDOM = np.random.default_rng(0)


def test_predict_is_the_formula_written_out():
    d, h, n = 4, 3, 5
    candidates = Candidates(d, np.array([1, 3]), np.array([0, 2, 3]), np.array([0, 2, 1]))
    theta = {
        name: torch.from_numpy(RANDOM.normal(size=shape))
        for name, shape in zip(
            PARAMETERS, ((3, h), (2, h), (2, h), (2, h), (2,), (2,)), strict=True
        )
    }
    x = RANDOM.normal(size=(n, d))
    mean, variance = predict(theta, candidates, torch.from_numpy(x))
    W, b, u, v, c, e = (theta[name].numpy() for name in PARAMETERS)
    for row in range(n):
        # Target 1 has parents 0 and 2, by the edges 0 and 1; target 3 has parent 1, by edge 2.
        inputs = (x[row, 0] * W[0] + x[row, 2] * W[1], x[row, 1] * W[2])
        for k in range(2):
            hidden = 1 / (1 + np.exp(-(inputs[k] + b[k])))
            assert mean[row, k].item() == pytest.approx(u[k] @ hidden + c[k])
            assert variance[row, k].item() == pytest.approx(np.log1p(np.exp(v[k] @ hidden + e[k])))


def test_score_is_the_log_density_of_what_was_not_set():
    mean, x = RANDOM.normal(size=(2, 6, 3))
    variance = RANDOM.uniform(0.5, 2, size=(6, 3))
    keep = RANDOM.integers(0, 2, size=(6, 3)).astype(float)
    density = scipy.stats.norm.logpdf(x, mean, np.sqrt(variance))
    tensors = [torch.from_numpy(array) for array in (mean, variance, x)]
    assert score(*tensors, None).item() == pytest.approx(density.sum(1).mean())
    masked = score(*tensors, torch.from_numpy(keep)).item()
    assert masked == pytest.approx((density * keep).sum(1).mean())


def test_h_rho_converges_over_the_steps_to_the_spectral_radius_and_its_gradient():
    A = torch.from_numpy(RANDOM.random((8, 8))).requires_grad_()
    left = right = torch.full((8,), 8**-0.5, dtype=A.dtype)
    for _ in range(5):
        h, left, right = h_rho(A, left, right, 15)
    values, lefts, rights = scipy.linalg.eig(A.detach().numpy(), left=True)
    k = np.abs(values).argmax()
    assert h.item() == pytest.approx(values[k].real, rel=1e-5)
    gradient = np.outer(lefts[:, k].conj(), rights[:, k]) / (lefts[:, k].conj() @ rights[:, k])
    h.backward()
    np.testing.assert_allclose(A.grad, gradient.real, rtol=1e-4)


def test_h_rho_is_zero_at_zero_with_a_finite_gradient():
    A = torch.zeros((5, 5), requires_grad=True)
    start = torch.full((5,), 5**-0.5)
    h, left, right = h_rho(A, start, start, 15)
    h.backward()
    assert h.item() == 0
    assert (
        torch.isfinite(A.grad).all() and torch.isfinite(left).all() and torch.isfinite(right).all()
    )


def test_h_exp_and_h_log_of_a_cycle():
    a, b = 0.6, 0.9
    A = torch.tensor([[0, a], [b, 0]], dtype=torch.float64)
    assert h_exp(A).item() == pytest.approx(2 * np.cosh(np.sqrt(a * b)) - 2)
    assert h_log(A).item() == pytest.approx(-np.log(1 - a * b))


def test_log_domain_scale_tests_the_radius_not_the_determinant():
    # Two cycles with weight 2: det(I - A) = (1 - 4)^2 > 0, yet the spectral radius is 2.
    cycle = torch.tensor([[0.0, 2.0], [2.0, 0.0]])
    A = torch.block_diag(cycle, cycle)
    assert torch.linalg.det(torch.eye(4) - A) > 0
    assert log_domain_scale(A) == pytest.approx(0.495)
    assert log_domain_scale(A / 2.1) == 1


def test_initial_state_has_the_published_ranges_and_is_the_same_for_a_part_of_the_targets():
    d, h = 50, 10
    whole = initial_state(Candidates.all(d), h, seed=1, stage=1)
    assert not whole.W.any()
    assert np.abs(whole.b).max() <= 1 / (d * np.sqrt(h))
    assert np.abs(whole.b).max() > 0.95 / (d * np.sqrt(h))
    for name in "uvce":
        largest = np.abs(getattr(whole, name)).max()
        assert 0.9 / np.sqrt(h) < largest <= 1 / np.sqrt(h)
    np.testing.assert_array_equal(whole.left, np.float32(50**-0.5))
    part = initial_state(Candidates.all(d, np.arange(7, 11)), h, seed=1, stage=1)
    other = initial_state(Candidates.all(d), h, seed=1, stage=2)
    for name in PARAMETERS[1:]:
        np.testing.assert_array_equal(getattr(part, name), getattr(whole, name)[7:11])
        assert not np.array_equal(getattr(other, name), getattr(whole, name))


def test_candidates_of_all_and_of_edges_agree():
    d = 6
    parents, children = np.nonzero(~np.eye(d, dtype=bool))
    a, b = Candidates.all(d), Candidates.of_edges(d, parents, children)
    for name in ("targets", "indptr", "parents", "children", "positions"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    matrix = RANDOM.random((d, d)) * ~np.eye(d, dtype=bool)
    np.testing.assert_array_equal(a.dense(matrix[a.parents, a.children]), matrix)
    part = Candidates.all(d, [1, 4])
    np.testing.assert_array_equal(part.dense(np.ones(10)), 1 - np.eye(d)[:, [1, 4]])
