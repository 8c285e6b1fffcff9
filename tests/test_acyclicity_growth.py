"""Theorems 2 and 4: how fast each constraint vanishes and explodes, measured."""

import numpy as np
import pytest

from sdcd.acyclicity import CONSTRAINTS, cycle, growth_exponents
from sdcd.errors import InputError

# Where float64 can tell h of a cycle of 1000 apart from 0 and infinity (to save evaluations).
SCALES_1000 = {
    "h_exp": (130, 1050),
    "h_log": (0.6, 1.05),
    "h_inv": (0.6, 1.05),
    "h_binom": (0.5, 2),
    "h_rho": (1e-302, 1e302),
}


@pytest.fixture(scope="module", params=CONSTRAINTS)
def name(request):
    return request.param


def check(name, d, growth):
    if name == "h_rho":
        assert growth.vanishing == pytest.approx(1, abs=1e-9)
        assert growth.exploding == pytest.approx(1, abs=1e-9)
        assert growth.stable
        return
    assert growth.vanishing == pytest.approx(d, rel=1e-9)
    assert growth.exploding > d * (1 - 1e-9)
    assert not growth.v_stable
    assert not growth.e_stable
    if name in ("h_log", "h_inv"):
        assert growth.domain_end == pytest.approx(1, rel=2e-4)
    else:
        assert growth.d_stable
    if name == "h_binom":
        assert growth.exploding == pytest.approx(d, rel=1e-9)


@pytest.mark.parametrize("d", [2, 3, 10, 100])
def test_exponents_on_a_cycle(name, d):
    check(name, d, growth_exponents(CONSTRAINTS[name].value, cycle(d)))


@pytest.mark.slow
def test_exponents_on_a_cycle_of_1000(name):
    value = CONSTRAINTS[name].value
    check(name, 1000, growth_exponents(value, cycle(1000), scales=SCALES_1000[name]))


def test_exponents_on_noise(name):
    A = np.random.default_rng(0).uniform(size=(20, 20))
    growth = growth_exponents(CONSTRAINTS[name].value, A)
    assert growth.vanishing == pytest.approx(1, abs=1e-6)  # self-loops
    assert growth.e_stable == (name == "h_rho")
    rho = CONSTRAINTS["h_rho"].value(A)
    if name in ("h_log", "h_inv"):
        assert growth.domain_end == pytest.approx(1 / rho, rel=2e-4)


def test_any_function_can_be_measured():
    growth = growth_exponents(
        lambda A: float(A[0, 1] * A[1, 2] * A[2, 0]), cycle(3), scales=(1e-90, 1e90)
    )
    assert growth.vanishing == pytest.approx(3)
    assert growth.exploding == pytest.approx(3)
    assert growth.d_stable


def test_an_acyclic_matrix_has_no_exponents(name):
    with pytest.raises(InputError, match="expected a matrix with a cycle"):
        growth_exponents(CONSTRAINTS[name].value, np.triu(np.ones((4, 4)), 1))


def test_cycle():
    np.testing.assert_array_equal(
        cycle(4, 3, 0.5), [[0, 0.5, 0, 0], [0, 0, 0.5, 0], [0.5, 0, 0, 0], [0, 0, 0, 0]]
    )
    np.testing.assert_array_equal(cycle(2, 1), [[1, 0], [0, 0]])
    with pytest.raises(InputError, match="length of 1 to 3"):
        cycle(3, 4)
