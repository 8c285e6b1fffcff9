"""dotears: a linear DAG from interventions that show each variable's own noise."""

from collections.abc import Iterator

import numpy as np

from sdcd.errors import MethodFailure
from sdcd.methods import Graph, register
from sdcd.parameters import integer, number

FEWEST_ROWS = 2
"""Rows of an intervention from which its variance can be estimated at all."""


@register(
    name="dotears",
    data="interventional",
    defaults={
        "lambda_1": 0.1,
        "max_iterations": 100,
        "h_tolerance": 1e-8,
        "rho_max": 1e16,
        "threshold": 0.3,
    },
    ranges={
        "lambda_1": number(0),
        "max_iterations": integer(1),
        "h_tolerance": number(above=0),
        "rho_max": number(above=0),
        "threshold": number(0),
    },
    source="not in the paper: Xue et al. 2023, lasso 0.1 as its program's default; cut 0.3 and "
    "largest DAG as for NOTEARS",
)
def dotears(
    X: np.ndarray,
    intervened: np.ndarray,
    names: tuple[str, ...],
    seed: int,
    *,
    lambda_1: float,
    max_iterations: int,
    h_tolerance: float,
    rho_max: float,
    threshold: float,
) -> Graph:
    """Fit a linear model whose residuals are weighed by the noise that interventions show.

    Rows with the same targets form a regime k with n_k rows, centred each on its own. A variable
    that is set has lost its parents, and what is left of its variance is taken as that of its noise
    up to a factor that all variables share: w_j, the variance of j in the rows that intervene on
    it. With K regimes,

        min_W  1/K sum_k 1/(2 n_k) sum_{j not set in k} 1/w_j |X^k_j - X^k W_j|^2 + lambda_1 |W|_1
        subject to  tr exp(W o W) = d,

    solved as NOTEARS is. So a small noise does not pass for a cause, as it does in NOTEARS.

    Parameters
    ----------
    X : float32 (n, d)
        Values; of each variable on one scale in all regimes.
    intervened : bool (n, d)
        Every variable must be intervened on in two rows, and left alone in others.
    names : tuple of d str
        Used in messages.
    seed : int
        Not used: the method is deterministic.
    lambda_1 : float
        Weight of the L1 norm, 0.1.
    max_iterations : int
        Updates of the multiplier, at most; 100.
    h_tolerance, rho_max : float
        The solver ends at a constraint below 1e-8 or a penalty above 1e16.
    threshold : float
        Smallest absolute weight of an edge, exclusive, 0.3; more is cut until no cycle is left.

    Returns
    -------
    Graph
        A DAG; ``weights`` is ``|W|``, before the threshold. ``arrays``: ``noise_variance``,
        float64 (d,), the w_j.

    Raises
    ------
    MethodFailure
        ``error`` if a variable is not intervened on in two rows, does not vary there, or is set in
        every row; ``nan`` if the solver leaves the finite numbers.

    Notes
    -----
    The paper has one target a regime, and an observational regime. Regimes with several targets,
    which the formula above allows for, give their rows to the noise of each of them.

    References
    ----------
    A. Xue, J. Rao, S. Sankararaman, H. Pimentel. dotears: scalable, consistent DAG estimation using
    observational and interventional data. arXiv 2305.19215, 2023.
    """
    from sdcd.baselines._linear import largest_dag

    noise = noise_variances(X, intervened, names)
    always = np.flatnonzero(intervened.all(axis=0))
    if always.size:
        raise MethodFailure("error", f"every row intervenes on {names[always[0]]!r}")
    M = regime_moments(X, intervened) / noise[:, None, None]
    W, trace = solve(M, lambda_1, max_iterations, h_tolerance, rho_max)
    weights = np.abs(W)
    adjacency, acyclic_from = largest_dag(np.where(weights > threshold, weights, 0.0))
    return Graph(
        adjacency,
        weights,
        {**trace, "threshold": max(threshold, acyclic_from)},
        {"noise_variance": noise},
    )


def noise_variances(X: np.ndarray, intervened: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    """Variance of each variable in the rows that intervene on it, about the mean of its regime.

    Returns
    -------
    float64 (d,)

    Raises
    ------
    MethodFailure
        ``error`` if one has fewer than two such rows, or does not vary in them.
    """
    d = X.shape[1]
    squares, rows = np.zeros(d), np.zeros(d, dtype=int)
    for targets, values in _regimes(X, intervened):
        squares[targets] += np.sum(values[:, targets] ** 2, axis=0)
        rows[targets] += len(values)
    if (rows < FEWEST_ROWS).any():
        j = int(np.argmin(rows))
        raise MethodFailure(
            "error",
            f"{rows[j]} rows intervene on {names[j]!r}, expected {FEWEST_ROWS} or more for every "
            "variable: its noise is estimated from them",
        )
    if (squares == 0).any():
        raise MethodFailure(
            "error", f"{names[int(np.argmin(squares))]!r} does not vary where it is intervened on"
        )
    return squares / rows


def regime_moments(X: np.ndarray, intervened: np.ndarray) -> np.ndarray:
    """For each variable, covariances summed over the regimes that leave it alone, over all K.

    Returns
    -------
    float64 (d, d, d)
        ``[j]``: the covariances of all variables in the regimes that do not target j.
    """
    d = X.shape[1]
    M, total, regimes = np.zeros((d, d, d)), np.zeros((d, d)), 0
    for targets, values in _regimes(X, intervened):
        covariance = values.T @ values / len(values)
        total += covariance
        M[targets] -= covariance
        regimes += 1
    return (M + total) / regimes


def _regimes(X: np.ndarray, intervened: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The targets of each regime and its rows, float64 and centred."""
    patterns, membership = np.unique(intervened, axis=0, return_inverse=True)
    membership = membership.ravel()
    for g, pattern in enumerate(patterns):
        values = X[membership == g].astype(np.float64)
        yield np.flatnonzero(pattern), values - values.mean(axis=0)


def loss_and_gradient(W: np.ndarray, M: np.ndarray) -> tuple[float, np.ndarray]:
    """``1/2 sum_j (e_j - W_j)^T M_j (e_j - W_j)`` and its gradient by W.

    Parameters
    ----------
    W : float64 (d, d)
    M : float64 (d, d, d)
        Symmetric for each child j.
    """
    residual = np.eye(len(W)) - W
    gradient = -np.matmul(M, residual.T[:, :, None])[:, :, 0].T
    return -0.5 * float(np.sum(residual * gradient)), gradient


def solve(
    M: np.ndarray, lambda_1: float, max_iterations: int, h_tolerance: float, rho_max: float
) -> tuple[np.ndarray, dict]:
    """Minimise the loss and the L1 norm under the acyclicity constraint.

    By the augmented Lagrangian method of NOTEARS, with ``W = W+ - W-``, both non-negative.

    Parameters
    ----------
    M : float64 (d, d, d)
        As :func:`loss_and_gradient` takes it.

    Returns
    -------
    W : float64 (d, d)
    trace : dict
        ``h``, ``rho``, ``alpha`` at the end and the number of ``updates`` of the multiplier.

    Raises
    ------
    MethodFailure
        ``nan`` if the objective stops being finite.
    """
    d = len(M)
    W, h, rho, alpha = np.zeros((d, d)), np.inf, 1.0, 0.0
    for update in range(1, max_iterations + 1):
        while rho < rho_max:
            candidate, h_candidate = _minimise(W, M, lambda_1, rho, alpha)
            if h_candidate <= 0.25 * h:
                break
            rho *= 10
        W, h = candidate, h_candidate
        if not np.isfinite(h):
            raise MethodFailure("nan", f"h is {h} after {update} updates, at rho = {rho:.3g}")
        alpha += rho * h
        if h <= h_tolerance or rho >= rho_max:
            break
    return W, {"h": h, "rho": rho, "alpha": alpha, "updates": update}


def _minimise(
    W: np.ndarray, M: np.ndarray, lambda_1: float, rho: float, alpha: float
) -> tuple[np.ndarray, float]:
    from scipy.optimize import minimize

    d = len(M)

    def objective(halves):
        plus, minus = halves.reshape(2, d, d)
        loss, loss_gradient = loss_and_gradient(plus - minus, M)
        h, h_gradient = _acyclicity(plus - minus)
        value = loss + lambda_1 * halves.sum() + alpha * h + 0.5 * rho * h * h
        gradient = loss_gradient + (alpha + rho * h) * h_gradient
        return value, np.concatenate([gradient + lambda_1, lambda_1 - gradient], axis=None)

    upper = np.full((2, d, d), np.inf)
    upper[:, np.arange(d), np.arange(d)] = 0
    bounds = np.stack([np.zeros(2 * d * d), upper.ravel()], axis=1)
    start = np.concatenate([np.maximum(W, 0), np.maximum(-W, 0)], axis=None)
    solution = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    plus, minus = solution.reshape(2, d, d)
    return plus - minus, _acyclicity(plus - minus)[0]


def _acyclicity(W: np.ndarray) -> tuple[float, np.ndarray]:
    """``h(W) = tr exp(W o W) - d`` and its gradient ``exp(W o W)^T o 2W``."""
    from scipy.linalg import expm

    E = expm(W * W)
    return float(np.trace(E)) - len(W), E.T * (2 * W)
