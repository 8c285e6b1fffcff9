"""h_rho by power iteration: where it is exact, where it is not, and what it costs."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sdcd.acyclicity import CONSTRAINTS, PowerIteration, cycle, edge_matrix, spectral_radius


def noise(d, seed=0, density=1.0):
    rng = np.random.default_rng(seed)
    return rng.uniform(size=(d, d)) * (rng.uniform(size=(d, d)) < density)


@given(d=st.integers(2, 30), seed=st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_converges_to_value_and_gradient_on_dense_matrices(d, seed):
    A = noise(d, seed) + 0.05
    estimate = PowerIteration.start(d).update(A, iterations=200)
    value, gradient = CONSTRAINTS["h_rho"].value_and_gradient(A)
    assert estimate.value == pytest.approx(value, rel=1e-4)
    np.testing.assert_allclose(estimate.gradient(), gradient, rtol=1e-3, atol=1e-6)


def test_exact_without_the_shift():
    A = noise(20) + 0.05
    estimate = PowerIteration.start(20, shift=0.0).update(A, iterations=300)
    value, gradient = CONSTRAINTS["h_rho"].value_and_gradient(A)
    assert estimate.value == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(estimate.gradient(), gradient, rtol=1e-9)


def test_one_update_by_hand():
    A = np.array([[0.0, 2.0], [1.0, 0.5]])
    shifted = A + 1e-6
    right = shifted @ np.ones(2)
    left = shifted.T @ np.ones(2)
    right, left = right / np.linalg.norm(right), left / np.linalg.norm(left)
    G = np.outer(left, right) / (left @ right + 1e-6)
    estimate = PowerIteration.start(2).update(A, iterations=1)
    np.testing.assert_allclose(estimate.right, right, rtol=1e-14)
    np.testing.assert_allclose(estimate.left, left, rtol=1e-14)
    np.testing.assert_allclose(estimate.gradient(), G, rtol=1e-14)
    assert estimate.value == pytest.approx((G * A).sum(), rel=1e-14)


def test_vectors_are_kept_from_step_to_step():
    A = noise(12, density=0.4)
    start = PowerIteration.start(12)
    twice = start.update(A, iterations=7).update(A, iterations=8)
    np.testing.assert_allclose(twice.right, start.update(A).right, rtol=1e-13)
    assert np.isnan(start.value)
    np.testing.assert_allclose(start.left, np.full(12, 12**-0.5), rtol=1e-15)


@given(d=st.integers(1, 25), seed=st.integers(0, 1000), density=st.floats(0, 1))
@settings(max_examples=40, deadline=None)
def test_dense_sparse_and_edges_agree(d, seed, density):
    A = noise(d, seed, density)
    parents, children = np.nonzero(A)
    edges = edge_matrix(parents, children, A[parents, children], d)
    dense = PowerIteration.start(d).update(A)
    for other in (sp.csr_array(A), sp.csc_array(A), edges):
        sparse = PowerIteration.start(d).update(other)
        assert sparse.value == pytest.approx(dense.value, rel=1e-12, abs=1e-300)
        np.testing.assert_allclose(sparse.gradient(), dense.gradient(), rtol=1e-12)
    np.testing.assert_allclose(
        dense.edge_gradient(parents, children), dense.gradient()[parents, children], rtol=1e-14
    )


def test_a_sparse_graph_that_no_matrix_could_hold():
    # (d, d) in float64 would take 320 GB.
    rng = np.random.default_rng(0)
    d, edges = 200_000, 800_000
    parents, children = rng.integers(d, size=(2, edges))
    weights = rng.uniform(size=edges)
    estimate = PowerIteration.start(d).update(edge_matrix(parents, children, weights, d))
    gradient = estimate.edge_gradient(parents, children)
    assert gradient.shape == (edges,)
    assert gradient @ weights == pytest.approx(estimate.value, rel=1e-10)
    # Mean degree 4, mean weight 1/2.
    assert estimate.value == pytest.approx(2, rel=0.2)


def test_on_a_dag_small_but_not_zero():
    for weight in (1.0, 0.1):
        path = np.diag(np.full(2, weight), 1)  # 0 -> 1 -> 2
        estimate = PowerIteration.start(3).update(path, iterations=300)
        closed = (1e-6 * weight**2) ** (1 / 3)
        assert 0.3 * closed < estimate.value < closed
        assert spectral_radius(path) == 0
    assert PowerIteration.start(3).update(np.zeros((3, 3))).value == 0
    # The vectors stay finite and positive although A^3 = 0.
    assert (estimate.left > 0).all()
    assert (estimate.right > 0).all()


def test_falls_with_the_weights_of_a_dag():
    A = np.triu(noise(10), 1)
    values = [
        PowerIteration.start(10).update(s * A, iterations=300).value for s in (1, 0.1, 0.01, 0.001)
    ]
    assert all(np.diff(values) < 0)


def test_on_a_cycle_of_equal_weights_exact_at_once():
    estimate = PowerIteration.start(7).update(cycle(7, weight=0.6), iterations=1)
    assert estimate.value == pytest.approx(0.6, rel=1e-5)
    np.testing.assert_allclose(
        estimate.gradient(), CONSTRAINTS["h_rho"].gradient(cycle(7, weight=0.6)), rtol=1e-5
    )


def test_on_a_cycle_of_unequal_weights_it_goes_round():
    A = np.array([[0.0, 1.0], [0.5, 0.0]])
    estimate = PowerIteration.start(2)
    for _ in range(20):
        estimate = estimate.update(A)
        assert estimate.value == pytest.approx(0.75, rel=1e-3)
    assert spectral_radius(A) == pytest.approx(0.5**0.5, rel=1e-14)
    A[0, 0] = 0.5
    settled = PowerIteration.start(2).update(A, iterations=100)
    assert settled.value == pytest.approx(spectral_radius(A), rel=1e-5)


def test_on_several_components_the_largest_radius_wins():
    A = np.zeros((10, 10))
    A[:5, :5] = cycle(5, weight=0.5)
    A[5:, 5:] = cycle(5, weight=0.4)
    early = PowerIteration.start(10).update(A, iterations=1)
    late = PowerIteration.start(10).update(A, iterations=100)
    assert 0.4 < early.value < 0.49
    assert late.value == pytest.approx(0.5, rel=1e-4)
    assert late.gradient()[5:, 5:].max() < 1e-6
