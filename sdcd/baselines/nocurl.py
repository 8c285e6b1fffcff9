"""NOCURL, linear, two steps: Yu, Gao, Yin and Ji, "DAGs with No Curl", ICML 2021."""

import numpy as np

from sdcd.methods import Graph, register
from sdcd.parameters import number


@register(
    name="NOCURL",
    data="observational",
    defaults={"lambda_1": 10.0, "lambda_2": 1000.0, "tolerance": 1e-8, "threshold": 0.3},
    ranges={
        "lambda_1": number(0),
        "lambda_2": number(0),
        "tolerance": number(above=0),
        "threshold": number(0),
    },
    source="Yu et al. 2021, linear, recommended case; what the SDCD authors ran is not recorded",
)
def fit(X, intervened, names, seed, *, lambda_1, lambda_2, tolerance, threshold) -> Graph:
    """Fit NOCURL; deterministic, so ``seed`` has no effect.

    1. Minimise ``F(W) + lambda h(W)``, ``F(W) = (1/2n) ||X - X W||_F^2``, diag(W) = 0, for
       ``lambda_1`` (10) from 0, then for ``lambda_2`` (1000) from there; cut at ``threshold`` 0.3.
    2. Take the potential phi that fits the order of that graph best (:func:`potential`).
    3. Minimise F over ``W[i, j] = w[i, j] relu(phi_j - phi_i)``, w symmetric: acyclic, since phi
       rises along every edge. Cut at ``threshold`` again.

    ``tolerance`` (1e-8) is L-BFGS-B's relative decrease at which it stops.
    """
    from sdcd.baselines._linear import second_moments

    S = second_moments(X)
    W = np.zeros_like(S)
    for weight in (lambda_1, lambda_2):
        W = _minimise_penalised(W, S, weight, tolerance)
    cyclic = np.abs(W) >= threshold
    phi = potential(cyclic)
    weights = np.abs(_minimise_on_potential(phi, S, tolerance))
    diagnostics = {"edges_before_projection": int(cyclic.sum()), "threshold": threshold}
    return Graph(weights >= threshold, weights, diagnostics)


def acyclicity(W: np.ndarray) -> tuple[float, np.ndarray]:
    """``h(W) = tr (I + W o W / d)^d - d`` and its gradient ``((I + W o W / d)^(d-1))^T o 2W``."""
    d = len(W)
    base = np.eye(d) + W * W / d
    power = np.linalg.matrix_power(base, d - 1)
    return float(np.sum(power * base.T)) - d, power.T * (2 * W)


def potential(adjacency: np.ndarray) -> np.ndarray:
    """Node potential of a directed graph, cycles allowed: ancestors low, descendants high.

    The gradient part of the Hodge decomposition of the reachability relation: with R[i, j] = 1 if
    j can be reached from i along edges, phi solves the least squares problem
    ``phi_j - phi_i ~ (R - R^T)[i, j]`` over all pairs i != j, with the last phi fixed at 0.

    Parameters
    ----------
    adjacency : bool (d, d)

    Returns
    -------
    float64 (d,)
    """
    from scipy.sparse.csgraph import shortest_path

    d = len(adjacency)
    distance = shortest_path(adjacency.astype(float), unweighted=True)
    reach = np.isfinite(distance) & ~np.eye(d, dtype=bool)
    divergence = (reach.astype(float) - reach.T.astype(float)).sum(axis=1)
    laplacian = np.ones((d - 1, d - 1)) - d * np.eye(d - 1)
    return np.append(np.linalg.solve(laplacian, divergence[:-1]), 0.0)


def _minimise_penalised(W, S, weight, tolerance):
    from scipy.optimize import minimize

    from sdcd.baselines._linear import least_squares

    d = len(S)

    def objective(flat):
        W = flat.reshape(d, d)
        loss, loss_gradient = least_squares(W, S)
        h, h_gradient = acyclicity(W)
        return loss + weight * h, (loss_gradient + weight * h_gradient).ravel()

    free = np.where(np.eye(d, dtype=bool), 0.0, np.inf).ravel()
    solution = minimize(
        objective,
        W.ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=np.stack([-free, free], axis=1),
        options={"ftol": tolerance},
    )
    return solution.x.reshape(d, d)


def _minimise_on_potential(phi, S, tolerance):
    from scipy.optimize import minimize

    from sdcd.baselines._linear import least_squares

    d = len(S)
    rise = np.maximum(phi[None, :] - phi[:, None], 0.0)
    lower = np.tril_indices(d, -1)

    def unpack(w):
        symmetric = np.zeros((d, d))
        symmetric[lower] = w
        return (symmetric + symmetric.T) * rise

    def objective(w):
        loss, gradient = least_squares(unpack(w), S)
        gradient = gradient * rise
        return loss, (gradient + gradient.T)[lower]

    start = np.zeros(len(lower[0]))
    solution = minimize(objective, start, jac=True, method="L-BFGS-B", options={"ftol": tolerance})
    return unpack(solution.x)
