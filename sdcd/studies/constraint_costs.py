"""How long one evaluation of each acyclicity constraint takes, by the number of variables.

What is timed is what an optimiser needs in each step: the value and the gradient at a dense matrix
inside all domains, each by the usual dense routine, on one thread. h_rho is taken as SDCD takes it,
by 15 power iterations that go on from the last step's vectors.
"""

from collections.abc import Callable, Sequence
from time import perf_counter

import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_limits

from sdcd.acyclicity import PowerIteration
from sdcd.errors import InputError

SIZES = (200, 252, 317, 400, 504, 635, 800, 1008, 1270, 1600)
"""The default numbers of variables: a third of an octave apart."""

LONG_ENOUGH_S = 1.0
"""Seconds after which a constraint is not evaluated again at the same size."""

Evaluation = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""Value and gradient at a matrix."""


def constraint_costs(
    *, sizes: Sequence[int] = SIZES, repeats: int = 10, seed: int = 0
) -> list[dict]:
    """Time value and gradient of each constraint.

    Parameters
    ----------
    sizes : sequence of int
        Numbers of variables d. Below about 200 the time is that of calling the routines.
    repeats : int
        Evaluations, of which the fastest counts; fewer if they take more than
        :data:`LONG_ENOUGH_S` together.
    seed : int
        Of the matrices, uniform on [0, 1 / 5d]: spectral radius about 0.1.

    Returns
    -------
    list of dict
        Keys ``constraint``, ``d``, ``seconds``. The seconds depend on the machine; at the defaults
        all together take half a minute on one core.
    """
    if repeats < 1:
        raise InputError(f"repeats is {repeats}, expected at least 1")
    records = []
    with threadpool_limits(1):
        for d in sizes:
            A = np.random.default_rng([seed, d]).uniform(size=(d, d)) / (5 * d)
            for name, evaluation in evaluations(d).items():
                seconds = _fastest(evaluation, A, repeats)
                records.append({"constraint": name, "d": int(d), "seconds": seconds})
    return records


def evaluations(d: int) -> dict[str, Evaluation]:
    """The evaluation of each constraint at matrices of size d that is timed."""
    identity = np.eye(d)
    state = PowerIteration.start(d)

    def h_exp(A):
        E = scipy.linalg.expm(A)
        return float(np.trace(E)) - d, E.T

    def h_log(A):
        difference = identity - A
        return -float(np.linalg.slogdet(difference)[1]), np.linalg.inv(difference).T

    def h_inv(A):
        inverse = np.linalg.inv(identity - A)
        return float(np.trace(inverse)) - d, (inverse @ inverse).T

    def h_binom(A):
        power = np.linalg.matrix_power(identity + A, d - 1)
        return float(np.vdot(power.T, identity + A)) - d, d * power.T

    def h_rho(A):
        nonlocal state
        state = state.update(A, iterations=15)
        return state.value, state.gradient()

    return {"h_exp": h_exp, "h_log": h_log, "h_inv": h_inv, "h_binom": h_binom, "h_rho": h_rho}


def _fastest(evaluation: Evaluation, A: np.ndarray, repeats: int) -> float:
    times: list[float] = []
    while len(times) < repeats and sum(times) < LONG_ENOUGH_S:
        start = perf_counter()
        evaluation(A)
        times.append(perf_counter() - start)
    return min(times)
