"""The constraints against closed forms, autograd, each other, and theorems 1 and 3 of the paper."""

import pickle
import warnings
from fractions import Fraction
from math import comb, factorial, inf, log1p

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sdcd.acyclicity import CONSTRAINTS, DomainEscape, cycle, spectral_radius
from sdcd.acyclicity.walks import LEAF, all_walks, exponential, power, product
from sdcd.errors import InputError
from sdcd.graphs import is_acyclic

POWER_SERIES = ("h_exp", "h_log", "h_inv", "h_binom")
BOUNDED = ("h_log", "h_inv")


def inside(A, name, radius=0.8):
    """A scaled into the domain of a constraint, with every spectral radius below ``radius``."""
    return A * radius / max(1, A.sum(axis=1).max()) if name in BOUNDED else A


def torch_value(name, A):
    d = len(A)
    identity = torch.eye(d, dtype=A.dtype)
    match name:
        case "h_exp":
            return torch.trace(torch.matrix_exp(A)) - d
        case "h_log":
            return -torch.logdet(identity - A)
        case "h_inv":
            return torch.trace(torch.linalg.inv(identity - A)) - d
        case "h_binom":
            return torch.trace(torch.linalg.matrix_power(identity + A, d)) - d
        case "h_rho":
            return torch.linalg.eigvals(A).abs().max()


weights = st.one_of(st.just(0.0), st.floats(0.01, 2))


@st.composite
def matrices(draw, min_d=1, dags=True):
    """Sparse and dense non-negative matrices, or DAGs in a random order too."""
    d = draw(st.integers(min_d, 7))
    A = draw(arrays(float, (d, d), elements=weights))
    if dags and draw(st.booleans()):
        order = draw(st.permutations(range(d)))
        A = np.triu(A, 1)[np.ix_(order, order)]
    return A


@pytest.mark.parametrize("name", CONSTRAINTS)
@given(A=matrices())
@settings(max_examples=60, deadline=None)
def test_zero_if_and_only_if_acyclic_and_never_negative(name, A):
    constraint = CONSTRAINTS[name]
    A = inside(A, name)
    value = constraint.value(A)
    assert value >= 0
    assert (value == 0) == is_acyclic(A)
    value, gradient = constraint.value_and_gradient(A)
    assert (value == 0) == is_acyclic(A)
    assert (gradient >= 0).all()


@pytest.mark.parametrize("name", POWER_SERIES)
@given(A=matrices())
@settings(max_examples=40, deadline=None)
def test_theorem_1_value_and_gradient_are_power_series(name, A):
    constraint, d = CONSTRAINTS[name], len(A)
    A = inside(A, name, radius=0.5) / (1 if name in BOUNDED else 3)
    value, gradient, walks = 0.0, np.zeros_like(A), np.eye(d)  # walks = (A^T)^(k - 1)
    for k in range(1, 90):
        gradient += k * constraint.coefficient(k, d) * walks
        walks = walks @ A.T
        value += constraint.coefficient(k, d) * np.trace(walks)
    np.testing.assert_allclose(constraint.gradient(A), gradient, rtol=1e-11, atol=1e-300)
    np.testing.assert_allclose(constraint.value(A), value, rtol=1e-11, atol=1e-300)


@pytest.mark.parametrize("name", CONSTRAINTS)
@pytest.mark.parametrize("d", [1, 2, 5, LEAF + 1, 80])
def test_agrees_with_autograd(name, d):
    rng = np.random.default_rng(d)
    A = rng.uniform(size=(d, d)) * (rng.uniform(size=(d, d)) < 0.5) + 0.01
    A *= 0.9 / spectral_radius(A)
    leaf = torch.tensor(A, requires_grad=True)
    expected = torch_value(name, leaf)
    expected.backward()
    value, gradient = CONSTRAINTS[name].value_and_gradient(A)
    np.testing.assert_allclose(value, expected.item(), rtol=1e-11)
    np.testing.assert_allclose(CONSTRAINTS[name].value(A), expected.item(), rtol=1e-11)
    np.testing.assert_allclose(gradient, leaf.grad, rtol=1e-9, atol=1e-13)


def test_gradient_is_in_the_layout_of_the_weights():
    # 0 -> 1 has a weight: what closes a cycle with it is 1 -> 0, so that is what costs.
    A = np.array([[0.0, 0.5], [0.0, 0.0]])
    for name in POWER_SERIES:
        gradient = CONSTRAINTS[name].gradient(A)
        assert gradient[1, 0] > 0
        assert gradient[0, 1] == 0


def exact_cycle_value(name, d, length, weight):
    """h of a cycle: ``length * sum_l a_(l * length) weight^(l * length)``, in exact arithmetic."""
    w = Fraction(weight) ** length
    match name:
        case "h_exp":
            terms = range(1, max(2, 100 // length))
            coefficients = [Fraction(1, factorial(k * length)) for k in terms]
        case "h_log":
            return log1p(-float(w)) * -1
        case "h_inv":
            return float(length * w / (1 - w))
        case "h_binom":
            coefficients = [comb(d, k * length) for k in range(1, d // length + 1)]
        case "h_rho":
            return weight
    return float(length * sum(a * w**k for k, a in enumerate(coefficients, start=1)))


@pytest.mark.parametrize("name", CONSTRAINTS)
@pytest.mark.parametrize(
    ("d", "length", "weight"),
    [(2, 1, 0.5), (2, 2, 0.9), (10, 10, 0.01), (30, 15, 0.1), (30, 15, 0.7), (75, 50, 0.5)],
)
def test_closed_form_on_cycles_down_to_the_smallest_values(name, d, length, weight):
    A = cycle(d, length, weight)
    expected = exact_cycle_value(name, d, length, weight)
    assert CONSTRAINTS[name].value(A) == pytest.approx(expected, rel=1e-12)
    assert CONSTRAINTS[name].value_and_gradient(A)[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_closed_form_on_a_cycle_of_500_in_1000(name):
    A = cycle(1000, 500, 0.5)
    expected = exact_cycle_value(name, 1000, 500, 0.5)
    assert CONSTRAINTS[name].value(A) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_closed_form_on_constant_matrices(name):
    # All entries c: one eigenvalue c d, the others 0.
    d, c = 40, 0.02
    rho = c * d
    expected = {
        "h_exp": np.expm1(rho),
        "h_log": -np.log1p(-rho),
        "h_inv": rho / (1 - rho),
        "h_binom": np.expm1(d * np.log1p(rho)),
        "h_rho": rho,
    }[name]
    assert CONSTRAINTS[name].value(np.full((d, d), c)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", CONSTRAINTS)
@pytest.mark.parametrize("d", [3, 100])
def test_from_eigenvalues_agrees_with_value(name, d):
    A = np.random.default_rng(d).uniform(size=(d, d)) * 1.6 / d
    constraint = CONSTRAINTS[name]
    assert constraint.from_eigenvalues(np.linalg.eigvals(A)) == pytest.approx(
        constraint.value(A), rel=1e-10
    )


@given(A=matrices(min_d=2, dags=False), radius=st.floats(0.3, 3))
@settings(max_examples=80, deadline=None)
def test_escapes_if_and_only_if_the_spectral_radius_is_not_below_one(A, radius):
    rho = spectral_radius(A)
    if rho == 0 or abs(radius - 1) < 1e-6:
        return
    A = A * (radius / rho)
    for name in BOUNDED:
        for evaluate in (CONSTRAINTS[name].value, CONSTRAINTS[name].gradient):
            if radius < 1:
                evaluate(A)
            else:
                with pytest.raises(DomainEscape) as escape:
                    evaluate(A)
                assert escape.value.constraint == name
                assert escape.value.spectral_radius == pytest.approx(radius, rel=1e-6)


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize(
    "A",
    [np.diag([2.0, 2.0]), np.array([[3.0, 1.0], [1.0, 3.0]]), np.kron(np.eye(2), cycle(3) * 1.5)],
)
def test_a_positive_determinant_outside_the_domain_is_an_escape(name, A):
    assert np.linalg.det(np.eye(len(A)) - A) > 0
    constraint = CONSTRAINTS[name]
    for evaluate in (constraint.value, constraint.gradient):
        with pytest.raises(DomainEscape):
            evaluate(A)
    with pytest.raises(DomainEscape):
        constraint.from_eigenvalues(np.linalg.eigvals(A))


def test_the_border_of_the_domain_is_outside():
    for name in BOUNDED:
        with pytest.raises(DomainEscape, match=f"{name} is not defined at spectral radius 1,"):
            CONSTRAINTS[name].value(np.eye(3))


def test_a_domain_escape_survives_pickling():
    escape = pickle.loads(pickle.dumps(DomainEscape("h_log", 1.5)))
    assert (escape.constraint, escape.spectral_radius) == ("h_log", 1.5)
    assert isinstance(escape, ArithmeticError)


@pytest.mark.parametrize("name", ["h_exp", "h_binom"])
def test_overflow_is_inf_without_warnings(name):
    d = 130
    A = np.full((d, d), 1e3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value, gradient = CONSTRAINTS[name].value_and_gradient(A)
        assert CONSTRAINTS[name].value(A) == inf
        assert CONSTRAINTS[name].from_eigenvalues(np.linalg.eigvals(A)) == inf
    assert value == inf
    assert (gradient == inf).all()


@pytest.mark.parametrize("name", POWER_SERIES)
def test_overflow_in_an_acyclic_part_leaves_the_value_alone(name):
    A = np.zeros((4, 4))
    A[0, 1] = A[1, 2] = 1e200  # the walk 0 -> 1 -> 2 is too heavy for float64
    A[3, 3] = 0.25
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value, gradient = CONSTRAINTS[name].value_and_gradient(A)
    assert value == pytest.approx(CONSTRAINTS[name].value(A), rel=1e-14)
    assert 0 < value < 2
    assert gradient[2, 0] == inf
    assert np.isfinite(gradient).sum() == 15
    assert gradient[0, 2] == 0


def test_spectral_radius_of_a_large_dag_is_zero():
    rng = np.random.default_rng(0)
    order = rng.permutation(200)
    A = np.triu(rng.uniform(size=(200, 200)), 1)[np.ix_(order, order)]
    assert spectral_radius(A) == 0
    # An acyclic part between two cycles: a general solver returns its rounding errors.
    B = np.zeros((202, 202))
    B[1:201, 1:201] = np.triu(rng.uniform(size=(200, 200)), 1)
    B[0, 0] = B[201, 201] = 1e-9
    B[0, 1:] = B[:-1, 201] = 1.0
    assert spectral_radius(B) == 1e-9


def test_spectral_radius_at_extreme_scales():
    for weight in (1e-200, 1e200):
        assert spectral_radius(cycle(50, weight=weight)) == pytest.approx(weight, rel=1e-12)


def test_spectral_gradient_of_a_reducible_matrix():
    # A cycle of radius 1 between nodes that lead into it and out of it, and a smaller cycle.
    rng = np.random.default_rng(1)
    A = np.zeros((9, 9))
    A[np.ix_([0, 1, 2], [0, 1, 2])] = rng.uniform(size=(3, 3))
    A[np.ix_([3, 4], [3, 4])] = 0.01
    A[[3, 4, 5], [0, 1, 3]] = rng.uniform(size=3)
    A[[2, 6, 1], [6, 7, 8]] = rng.uniform(size=3)
    gradient = CONSTRAINTS["h_rho"].gradient(A)
    step = 1e-6
    for i, j in np.ndindex(A.shape):
        plus, minus = A.copy(), A.copy()
        plus[i, j] += step
        minus[i, j] = max(0, minus[i, j] - step)
        slope = (spectral_radius(plus) - spectral_radius(minus)) / (plus[i, j] - minus[i, j])
        assert gradient[i, j] == pytest.approx(slope, abs=1e-4)


def test_spectral_gradient_where_there_is_none():
    assert (CONSTRAINTS["h_rho"].gradient(np.triu(np.ones((4, 4)), 1)) == 0).all()
    tie = CONSTRAINTS["h_rho"].gradient(np.array([[1.0, 1.0], [0.0, 1.0]]))
    assert np.isfinite(tie).all()
    assert np.trace(tie) == pytest.approx(1)


@pytest.mark.parametrize("d", [1, 2, LEAF, 2 * LEAF + 3, 150])
def test_walks_agree_with_linear_algebra(d):
    rng = np.random.default_rng(d)
    A = rng.uniform(size=(d, d))
    A *= 0.95 / spectral_radius(A)
    walks, pivots = all_walks(A)
    np.testing.assert_allclose(walks, np.linalg.inv(np.eye(d) - A) - np.eye(d), rtol=1e-10)
    assert np.prod(1 - pivots) == pytest.approx(np.linalg.det(np.eye(d) - A), rel=1e-10)
    np.testing.assert_allclose(
        exponential(5 * A), torch.matrix_exp(torch.tensor(5 * A)).numpy() - np.eye(d), rtol=1e-10
    )
    np.testing.assert_allclose(
        exponential(5 * A, every_entry=False), exponential(5 * A), rtol=1e-12
    )
    for exponent in (0, 1, 2, 5, 8):
        expected = np.linalg.matrix_power(np.eye(d) + A, exponent) - np.eye(d)
        np.testing.assert_allclose(power(A, exponent), expected, rtol=1e-12, atol=1e-15)


def test_every_entry_of_the_exponential_is_accurate():
    # exp of the path 0 -> 1 -> ... has the entries w^k / k!, here from 1 to 1e-170.
    d, w = 90, 0.1
    A = np.diag(np.full(d - 1, w), 1)
    expected = [float(Fraction(w) ** k / factorial(k)) for k in range(1, d)]
    np.testing.assert_allclose(exponential(A)[0, 1:], expected, rtol=1e-12)


def test_product_takes_inf_times_zero_for_zero():
    X = np.array([[inf, 0.0], [1e200, 1.0]])
    Y = np.array([[0.0, 1.0], [1e200, 0.0]])
    np.testing.assert_array_equal(product(X, Y), [[0.0, inf], [1e200, 1e200]])


@pytest.mark.parametrize(
    ("A", "message"),
    [
        (np.zeros((2, 3)), r"shape \(2, 3\), expected a square matrix"),
        (np.array([[0.0, -1.0], [0.0, 0.0]]), r"weight \(0, 1\) is -1.0"),
        (np.array([[0.0, 0.0], [np.nan, 0.0]]), r"weight \(1, 0\) is nan"),
        (np.array([[inf]]), r"weight \(0, 0\) is inf"),
    ],
)
def test_bad_weights_are_refused(A, message):
    for constraint in CONSTRAINTS.values():
        with pytest.raises(InputError, match=message):
            constraint.value(A)
        with pytest.raises(InputError, match=message):
            constraint.gradient(A)


def test_no_nodes():
    for constraint in CONSTRAINTS.values():
        assert constraint.value(np.zeros((0, 0))) == 0
