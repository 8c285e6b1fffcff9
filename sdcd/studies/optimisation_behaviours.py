"""What each constraint does to an optimisation (app:fig:constraint-optimization-behaviors).

The problem: the closest acyclic matrix to a given one,

    minimise ||A - M||_F^2   over A >= 0   subject to h(A) = 0,

from the start A = M, by projected gradient descent, ``A <- max(0, A - step * gradient)``, on

* *penalty*: ``||A - M||_F^2 + weight * h(A)``;
* *augmented Lagrangian*: ``||A - M||_F^2 + gamma * h(A) + mu / 2 * h(A)^2``, where every 100 epochs
  gamma and mu are raised if the descent has come to rest.

How far A is from a DAG is told by its *threshold to DAG*, the smallest t for which ``{A > t}`` is
acyclic. It depends on the graph alone, and so compares constraints of whatever scale.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from threadpoolctl import threadpool_limits

from sdcd.acyclicity import CONSTRAINTS, DomainEscape, PowerIteration
from sdcd.acyclicity.walks import exponential
from sdcd.errors import InputError
from sdcd.graphs import smallest_dag_threshold

OPTIMISED_CONSTRAINTS = ("h_exp", "h_log", "h_inv", "h_rho", "h_rho+")
"""The constraints of the figure. h_rho+ is h_rho with the diagonal of A fixed at 0, as in SDCD."""

RECORD_EVERY = 100
"""Epochs between two records, and between two looks of the augmented Lagrangian at its progress."""

Oracle = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""Value and gradient of a constraint at A, in A's layout; raises DomainEscape."""


def optimisation_behaviours(
    *,
    modes: Sequence[str] = ("penalty", "augmented_lagrangian"),
    constraints: Sequence[str] = OPTIMISED_CONSTRAINTS,
    penalty_epochs: int = 8_000,
    lagrangian_epochs: int = 200_000,
    d: int = 100,
    density: float = 0.3,
    scale: float = 5.0,
    stop_threshold: float = 1e-4,
    seed: int = 0,
) -> list[dict]:
    """Optimise one target with each constraint in each mode.

    Parameters
    ----------
    modes : sequence of str
        "penalty", "augmented_lagrangian".
    constraints : sequence of str
        Among :data:`OPTIMISED_CONSTRAINTS`.
    penalty_epochs, lagrangian_epochs : int
        At most so many epochs in each mode.
    d, density, scale, seed
        Of the target: see :func:`target_matrix`.
    stop_threshold : float
        Stop once the threshold to DAG is below this.

    Returns
    -------
    list of dict
        The records of :func:`optimise`, each with ``mode`` and ``constraint`` besides.

    Notes
    -----
    At the paper's size, on one core: 0.5 to 0.7 ms an epoch for h_exp, h_log and h_inv, 0.1 ms for
    h_rho and h_rho+; 20 s for the penalty, and 4 min for the augmented Lagrangian, which reaches a
    DAG after 49,000 epochs (h_rho+) to 159,000 (h_exp).
    """
    M = target_matrix(d, density=density, scale=scale, seed=seed)
    epochs = {"penalty": penalty_epochs, "augmented_lagrangian": lagrangian_epochs}
    return [
        {"mode": mode, "constraint": constraint, **record}
        for mode in modes
        for constraint in constraints
        for record in optimise(
            M, constraint, mode, epochs=epochs[mode], stop_threshold=stop_threshold
        )
    ]


def target_matrix(
    d: int = 100, *, density: float = 0.3, scale: float = 5.0, seed: int = 0
) -> np.ndarray:
    """The matrix M to be approximated: entries uniform on [0, scale / d], most of them removed.

    Parameters
    ----------
    d : int
        Number of nodes.
    density : float
        Probability with which an entry is kept, the diagonal's too.
    scale : float
        The largest possible entry is ``scale / d``.
    seed : int

    Returns
    -------
    float64 (d, d)
        At the defaults the spectral radius is 0.75, inside the domain of all constraints.
    """
    rng = np.random.RandomState(seed)
    values = rng.random_sample((d, d)) / d
    return scale * values * (rng.random_sample((d, d)) < density)


def optimise(
    M: np.ndarray,
    constraint: str,
    mode: Literal["penalty", "augmented_lagrangian"],
    *,
    epochs: int,
    step: float = 1e-3,
    weight: float = 10.0,
    stop_threshold: float = 1e-4,
    at_rest: float = 1e-5,
    growth: float = 2.0,
    decrease: float = 0.9,
) -> list[dict]:
    """Projected gradient descent from A = M (see the module's docstring for the problem).

    Parameters
    ----------
    M : float64 (d, d)
        The target, non-negative.
    constraint : str
        One of :data:`OPTIMISED_CONSTRAINTS`.
    mode : "penalty" or "augmented_lagrangian"
    epochs : int
        At most so many gradient steps.
    step : float
        Step size of the descent.
    weight : float
        Of the penalty (ignored by the augmented Lagrangian, whose gamma starts at 0 and mu at 1).
    stop_threshold : float
        Stop once the threshold to DAG is below this; looked at every 100 epochs.
    at_rest : float
        The augmented Lagrangian is at rest when the whole loss of the last 100 epochs stayed within
        a range smaller than this. Then ``gamma += mu * h``, and mu is multiplied by ``growth`` if h
        is more than ``decrease`` times its value 100 epochs before.
    growth, decrease : float

    Returns
    -------
    list of dict
        One every 100 epochs, the start included, and one at the end of the run. Keys: ``epoch``;
        ``threshold``, the threshold to DAG; ``value``, h(A); ``loss``, ``||A - M||_F^2``;
        ``gamma``, the weight of h (after this epoch's update); ``mu`` (NaN for a penalty);
        ``n_edges``, the number of positive entries; ``escaped``, true in the last record of a run
        that left the constraint's domain; ``spectral_radius``, then of the matrix that was outside,
        else NaN; ``end``, in the last record why the run ended ("dag", "epochs" or "escape"), else
        an empty string.

    Notes
    -----
    A step may carry A out of the domain of h_log or h_inv. Nothing pulls it back: the run ends
    there, and says so.

    h_rho is taken by 5 power iterations per step, on vectors kept from step to step
    (:class:`~sdcd.acyclicity.PowerIteration`).
    """
    if mode not in ("penalty", "augmented_lagrangian"):
        raise InputError(f"mode is {mode!r}, expected 'penalty' or 'augmented_lagrangian'")
    M = np.asarray(M, dtype=np.float64).copy()
    if constraint == "h_rho+":
        np.fill_diagonal(M, 0)
    h = oracle(constraint, len(M))
    lagrangian = mode == "augmented_lagrangian"
    gamma, mu = (0.0, 1.0) if lagrangian else (weight, 0.0)

    A = M.copy()
    records: list[dict] = []
    losses = np.full(RECORD_EVERY, np.inf)  # of the last 100 epochs
    # Matrices this small are slower on several threads, and their last bits depend on how many.
    with threadpool_limits(1, "blas"):
        for epoch in range(epochs + 1):
            difference = A - M
            loss = float(np.vdot(difference, difference))
            value, gradient, radius, end = np.nan, None, np.nan, ""
            try:
                value, gradient = h(A)
            except DomainEscape as escape:
                radius, end = escape.spectral_radius, "escape"
            losses[epoch % RECORD_EVERY] = loss + gamma * value + mu / 2 * value**2

            if epoch % RECORD_EVERY == 0 or epoch == epochs or end:
                if lagrangian and records and np.ptp(losses) < at_rest:
                    gamma += mu * value
                    if value > decrease * records[-1]["value"]:
                        mu *= growth
                threshold = smallest_dag_threshold(A)
                if not end and threshold < stop_threshold:
                    end = "dag"
                elif not end and epoch == epochs:
                    end = "epochs"
                records.append(
                    {
                        "epoch": epoch,
                        "threshold": threshold,
                        "value": value,
                        "loss": loss,
                        "gamma": gamma,
                        "mu": mu if lagrangian else np.nan,
                        "n_edges": int(np.count_nonzero(A)),
                        "escaped": end == "escape",
                        "spectral_radius": radius,
                        "end": end,
                    }
                )
            if end:
                break

            gradient *= gamma + mu * value
            difference *= 2
            gradient += difference
            gradient *= step
            A -= gradient
            np.maximum(A, 0, out=A)
            if constraint == "h_rho+":
                np.fill_diagonal(A, 0)
    return records


def oracle(constraint: str, d: int) -> Oracle:
    """A constraint's value and gradient, for use in each step of a descent.

    Parameters
    ----------
    constraint : str
        One of :data:`OPTIMISED_CONSTRAINTS`.
    d : int
        Number of nodes.

    Returns
    -------
    callable
        ``oracle(A) -> (value, gradient)``; the gradient is the caller's to overwrite. That of h_rho
        and h_rho+ keeps its power iteration from call to call.
    """
    if constraint == "h_exp":
        identity = np.eye(d)

        def h_exp(A):
            E = exponential(A, every_entry=False)
            return float(np.trace(E)), E.T + identity

        return h_exp
    if constraint in ("h_log", "h_inv"):
        return CONSTRAINTS[constraint].value_and_gradient
    if constraint in ("h_rho", "h_rho+"):
        state = PowerIteration.start(d)

        def h_rho(A):
            nonlocal state
            state = state.update(A, iterations=5)
            return state.value, state.gradient()

        return h_rho
    known = ", ".join(OPTIMISED_CONSTRAINTS)
    raise InputError(f"constraint is {constraint!r}, expected one of {known}")
