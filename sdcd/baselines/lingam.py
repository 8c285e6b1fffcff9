"""DirectLiNGAM: the order of a linear model with non-Gaussian noise, source by source."""

import numpy as np

from sdcd.errors import MethodFailure
from sdcd.methods import Graph, register
from sdcd.parameters import number

PRELOAD = ("CausalDisco.baselines",)

K1, K2, GAMMA = 79.047, 7.4129, 0.37457
"""Constants of the approximation of entropy: Hyvärinen 1998."""

BLOCK = 2**20
"""Numbers of one array of residuals, at most: they are made some variables at a time."""


@register(
    name="LiNGAM",
    data="observational",
    defaults={"threshold": 0.0},
    ranges={"threshold": number(0)},
    source="not in the paper: Shimizu et al. 2011 (DirectLiNGAM) with the likelihood ratios of "
    "Hyvärinen and Smith 2013; every coefficient that the lasso keeps is an edge",
)
def lingam(
    X: np.ndarray, intervened: np.ndarray, names: tuple[str, ...], seed: int, *, threshold: float
) -> Graph:
    """Find the order by pairwise independence of residuals, then regress along it.

    The coefficients are those of :func:`sdcd.baselines._sort_regress.along_order`, and i -> k iff
    ``|W[i, k]| > threshold``.

    Parameters
    ----------
    X : float32 (n, d)
        Values, on any scale; the weights are in that of the data.
    intervened : bool (n, d)
        All false; not used.
    names : tuple of d str
        Used in messages.
    seed : int
        Not used: the method is deterministic.
    threshold : float
        Smallest absolute weight of an edge, exclusive; 0.

    Returns
    -------
    Graph
        A DAG by construction; ``weights`` is ``|W|``, before the threshold.

    Raises
    ------
    MethodFailure
        ``unavailable`` if CausalDisco is not installed; ``error`` if a variable is constant, or if
        there are no more rows than variables.

    References
    ----------
    S. Shimizu et al. DirectLiNGAM: a direct method for learning a linear non-Gaussian structural
    equation model. JMLR 12, 2011.
    A. Hyvärinen, S. Smith. Pairwise likelihood ratios for estimation of non-Gaussian structural
    equation models. JMLR 14, 2013.
    """
    from sdcd.baselines._sort_regress import along_order

    constant = np.flatnonzero(np.ptp(X, axis=0) == 0)
    if constant.size:
        raise MethodFailure("error", f"{names[constant[0]]!r} is constant")
    order = causal_order(X)
    weights = np.abs(along_order(X, order))
    return Graph(weights > threshold, weights, {"order": order.tolist(), "threshold": threshold})


def causal_order(X: np.ndarray) -> np.ndarray:
    """Take out the variable that looks most like a source, and go on with the others' residuals.

    Between two standardised variables with correlation c, the likelihood ratio for i -> j against
    j -> i is, in entropies H of standardised variables,

        R(i, j) = H(x_j) + H(r_i|j) - H(x_i) - H(r_j|i),    r_j|i = (x_j - c x_i) / sqrt(1 - c^2).

    A source has no negative ratio; so the variable with the least sum of the squared negative ones
    is taken.

    Parameters
    ----------
    X : float (n, d)
        No column constant.

    Returns
    -------
    int64 (d,)
        Sources first.
    """
    # One variable a row, so that a residual lies together in memory.
    values = np.ascontiguousarray(X.T, dtype=np.float64)
    remaining = list(range(len(values)))
    order = []
    while len(remaining) > 1:
        values = values - values.mean(axis=1, keepdims=True)
        values /= values.std(axis=1, keepdims=True)
        correlation = values @ values.T / values.shape[1]
        ratios = likelihood_ratios(values, correlation)
        source = int(np.argmin(np.sum(np.minimum(ratios, 0.0) ** 2, axis=1)))
        order.append(remaining.pop(source))
        values = values - np.outer(correlation[source], values[source])
        values = np.delete(values, source, axis=0)
    return np.array([*order, *remaining])


def likelihood_ratios(values: np.ndarray, correlation: np.ndarray) -> np.ndarray:
    """R(i, j) of :func:`causal_order` for all pairs, antisymmetric, from standardised rows.

    Variables that determine each other leave no residual; between them the ratio is 0.
    """
    d, n = values.shape
    residual_entropy = np.zeros((d, d))  # [i, j] of r_j|i
    left = np.maximum(1 - correlation**2, 0)
    size = max(1, BLOCK // n)
    for i in range(d):
        for first in range(0, d, size):
            of = slice(first, first + size)
            scale = np.sqrt(left[i, of, None])
            residual = values[of] - correlation[i, of, None] * values[i]
            with np.errstate(divide="ignore", invalid="ignore"):
                residual_entropy[i, of] = entropy(residual / scale)
    ratios = entropy(values)[None, :] + residual_entropy.T
    ratios = ratios - ratios.T
    return np.where(left > 1e-12, np.nan_to_num(ratios), 0.0)


def entropy(u: np.ndarray) -> np.ndarray:
    """Entropy of standardised rows by Hyvärinen's maximum entropy approximation.

        (1 + log 2 pi) / 2 - k1 (E log cosh u - gamma)^2 - k2 (E u exp(-u^2 / 2))^2

    Parameters
    ----------
    u : float64 (k, n)

    Returns
    -------
    float64 (k,)
        In nats; of a Gaussian row about 1.419.
    """
    magnitude = np.abs(u)
    # log cosh u, without overflow.
    log_cosh = magnitude + np.log1p(np.exp(-2 * magnitude)) - np.log(2)
    odd = u * np.exp(-0.5 * u * u)
    peaked = K1 * (log_cosh.mean(axis=1) - GAMMA) ** 2
    return (1 + np.log(2 * np.pi)) / 2 - peaked - K2 * odd.mean(axis=1) ** 2
