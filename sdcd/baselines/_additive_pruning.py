"""Pruning of an order by additive regressions, as SCORE and CAM do it."""

import numpy as np


def prune(X: np.ndarray, order: np.ndarray, splines: int, p_value: float) -> np.ndarray:
    """Test every edge of the complete graph of ``order`` by an exact partial F-test.

    Child j is regressed on an additive model of its predecessors, ``x_j = c + sum_i f_i(x_i)``,
    each f_i in the span of centred cubic B-splines on quantile knots. The statistic for dropping
    block i follows from the full fit alone: ``beta_i^T ((G^-1)_ii)^-1 beta_i / (k s^2)`` with G the
    Gram matrix and s^2 the residual variance, F-distributed with (k, n - p) degrees of freedom.

    A child with fewer than 30 rows per predecessor gets ``n / (3 predecessors)`` basis functions
    each, rounded up, 5 at least (a deviation: CAM's rule has no such bound). Where even so there
    are no more rows than coefficients, nothing can be tested, and the child keeps no parent: so
    late variables of an order have none if n is below about 4 d.

    Returns
    -------
    float64 (d, d)
        F statistic of each edge i -> j over the critical value at ``p_value``: above 1 where its
        p-value is smaller (p-values themselves underflow); 0 where i does not precede j, and where
        nothing could be tested. Huge or infinite where a child is an exact function of others.
    """
    from scipy.linalg import cho_factor, cho_solve, pinvh
    from scipy.stats import f as f_distribution

    n, d = X.shape
    X = X.astype(np.float64)
    weights = np.zeros((d, d))
    bases: dict[int, tuple] = {}
    for position in range(1, d):
        child, parents = order[position], order[:position]
        size = splines if n / position >= 30 else max(5, -(-n // (3 * position)))
        if size not in bases:
            basis = np.hstack([centred_splines(X[:, j], size) for j in range(d)])
            centred = X - X.mean(axis=0)
            bases[size] = (basis.T @ basis, basis.T @ centred, np.sum(centred**2, axis=0))
        gram, moments, total = bases[size]
        k = size - 1
        columns = (parents[:, None] * k + np.arange(k)).ravel()
        G = gram[np.ix_(columns, columns)]
        right = moments[columns, child]
        try:
            inverse = cho_solve(cho_factor(G, lower=True), np.eye(len(columns)))
        except np.linalg.LinAlgError:
            inverse = pinvh(G)
        beta = inverse @ right
        degrees = n - len(columns) - 1
        if degrees <= 0:
            continue
        variance = max(total[child] - beta @ right, np.finfo(float).tiny) / degrees
        critical = f_distribution.isf(p_value, k, degrees)
        for index, parent in enumerate(parents):
            block = slice(index * k, (index + 1) * k)
            explained = beta[block] @ np.linalg.solve(inverse[block, block], beta[block])
            weights[parent, child] = explained / (k * variance) / critical
    return weights


def centred_splines(x: np.ndarray, size: int) -> np.ndarray:
    """Centred cubic B-splines (n, size - 1); the last, which the others determine, is left out."""
    from scipy.interpolate import BSpline

    knots = np.quantile(x, np.linspace(0, 1, size - 2))
    knots = np.concatenate([np.repeat(knots[0], 3), knots, np.repeat(knots[-1], 3)])
    basis = BSpline.design_matrix(np.clip(x, knots[0], knots[-1]), knots, 3).toarray()[:, :-1]
    return basis - basis.mean(axis=0)
