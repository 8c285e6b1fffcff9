"""SCORE with CAM pruning: Rolland et al., "Score matching enables causal discovery", ICML 2022."""

import numpy as np

from sdcd.baselines._additive_pruning import prune
from sdcd.errors import MethodFailure
from sdcd.methods import Graph, register
from sdcd.parameters import integer, number


@register(
    name="SCORE",
    data="observational",
    defaults={
        "eta_gradient": 0.001,
        "eta_hessian": 0.001,
        "p_value": 0.001,
        "splines": 10,
        "max_rows": 10_000,
    },
    ranges={
        "eta_gradient": number(above=0),
        "eta_hessian": number(above=0),
        "p_value": number(above=0, below=1),
        "splines": integer(4),
        "max_rows": integer(2),
    },
    source="Rolland et al. 2022, public defaults; pruning by exact partial F-tests in place of "
    "mgcv's; what the SDCD authors ran is not recorded",
)
def fit(
    X, intervened, names, seed, *, eta_gradient, eta_hessian, p_value, splines, max_rows
) -> Graph:
    """Order the variables by score matching, then prune the complete graph of that order.

    ``max_rows`` (10,000) rows at most, drawn without replacement by ``seed``, enter the ordering
    (its memory is quadratic in them); all rows enter the pruning. An edge is kept if the p-value of
    its block in an additive model of the child is below ``p_value`` (0.001); its weight is the
    block's F statistic as a multiple of the critical value for that p-value. ``splines`` (10) basis
    functions per parent, before centring.

    Raises
    ------
    MethodFailure
        ``oom`` if the kernel matrix does not fit in memory; ``error``, with a column, if one takes
        so few values that no spline can be fitted to it.
    """
    rows = np.arange(len(X))
    if len(X) > max_rows:
        rows = np.sort(np.random.default_rng(seed).choice(len(X), max_rows, replace=False))
    try:
        order = causal_order(X[rows], eta_gradient, eta_hessian)
    except MemoryError:
        n = len(rows)
        raise MethodFailure("oom", f"no memory for the {n} x {n} kernel matrix") from None
    except np.linalg.LinAlgError:
        raise _too_few_values(X[rows], names) from None
    try:
        weights = prune(X, order, splines, p_value)
    except np.linalg.LinAlgError:
        raise _too_few_values(X, names) from None
    diagnostics = {"order": [int(j) for j in order], "rows_for_order": len(rows)}
    return Graph(weights > 1, weights, {**diagnostics, "threshold": 1.0})


def _too_few_values(X: np.ndarray, names: tuple[str, ...]) -> MethodFailure:
    distinct = [len(np.unique(column)) for column in X.T]
    fewest = int(np.argmin(distinct))
    return MethodFailure(
        "error",
        f"SCORE's equations have no solution: column {names[fewest]!r} takes only "
        f"{distinct[fewest]} different values in {len(X)} rows, and SCORE fits smooth curves to "
        "values that are continuous",
    )


def causal_order(X: np.ndarray, eta_gradient: float, eta_hessian: float) -> np.ndarray:
    """Topological order by repeatedly removing the leaf.

    For an additive noise model with Gaussian noise, variable j is a leaf if and only if the j-th
    diagonal entry of the Hessian of log p has zero variance (Rolland et al., Lemma 1).

    Returns
    -------
    int64 (d,)
        Sources first.
    """
    remaining = list(range(X.shape[1]))
    leaves = []
    while len(remaining) > 1:
        _, hessian = stein_score(X[:, remaining], eta_gradient, eta_hessian)
        leaves.append(remaining.pop(int(np.argmin(hessian.var(axis=0, ddof=1)))))
    return np.array([*remaining, *reversed(leaves)])


def stein_score(
    X: np.ndarray, eta_gradient: float, eta_hessian: float
) -> tuple[np.ndarray, np.ndarray]:
    """Stein estimates of the gradient of log p and of the diagonal of its Hessian, at the rows.

    With the kernel ``K[a, b] = exp(-|x_a - x_b|^2 / (2 s^2)) / s``, s the median distance:
    ``G = (K + eta_G I)^-1 K1`` and ``H = -G o G + (K + eta_H I)^-1 K2``, where K1 and K2 are the
    kernel's first and second derivatives summed over its second argument.

    Parameters
    ----------
    X : float (n, k)

    Returns
    -------
    gradient, hessian : float64 (n, k)
    """
    from scipy.linalg import cho_factor, cho_solve

    X = X.astype(np.float64)
    n, k = X.shape
    K, s = _kernel(X)
    k1 = K.sum(axis=1, keepdims=True)
    KX = K @ X
    first = -(X * k1 - KX) / s**2
    second = -k1 / s**2 + (X * X * k1 - 2 * X * KX + K @ (X * X)) / s**4
    diagonal = np.diag_indices(n)
    K[diagonal] += eta_gradient
    if eta_gradient == eta_hessian:
        factor = cho_factor(K, lower=True, overwrite_a=True, check_finite=False)
        solution = cho_solve(factor, np.hstack([first, second]), check_finite=False)
        gradient, second_solution = solution[:, :k], solution[:, k:]
    else:
        factor = cho_factor(K, lower=True, check_finite=False)
        gradient = cho_solve(factor, first, check_finite=False)
        K[diagonal] += eta_hessian - eta_gradient
        factor = cho_factor(K, lower=True, overwrite_a=True, check_finite=False)
        second_solution = cho_solve(factor, second, check_finite=False)
    return gradient, second_solution - gradient**2


def _kernel(X: np.ndarray) -> tuple[np.ndarray, float]:
    """The kernel matrix, and the median over all n^2 distances (zeros included)."""
    n = len(X)
    squares = np.einsum("nk,nk->n", X, X)
    K = X @ X.T
    K *= -2
    K += squares[:, None]
    K += squares[None, :]
    np.maximum(K, 0, out=K)
    K[np.diag_indices(n)] = 0
    s = float(np.sqrt(_median(K)))
    K *= -0.5 / s**2
    np.exp(K, out=K)
    K /= s
    return K, s


def _median(squared: np.ndarray) -> float:
    """Median of the squared distances; the two middle ones are averaged as distances."""
    flat = squared.ravel()
    middle = len(flat) // 2
    if len(flat) % 2:
        return float(np.partition(flat, middle)[middle])
    low, high = np.partition(flat, [middle - 1, middle])[[middle - 1, middle]]
    return float(((np.sqrt(low) + np.sqrt(high)) / 2) ** 2)
