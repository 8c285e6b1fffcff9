"""Signs of edges: how the mean of a child moves with each of its parents.

Not in the paper. In the model of a graph (:mod:`sdcd.estimator.generative`), with all values in
standard deviations and ``z = sum_i x_i W[i, j, :] + b_j``, the mean of j is
``u_j . sigmoid(z) + c_j``, so that

    d mean_j / d x_i = sum_h u_jh sigmoid'(z_h) W[i, j, h],

whose average over the rows is the edge's *slope*: positive where the child rises with the parent,
in standard deviations of the child per standard deviation of the parent. It is not the effect of an
intervention, which goes along every path; and it can be near zero for a strong edge whose mean
rises and falls again.
"""

import numpy as np

from sdcd.estimator.generative import GenerativeModel


def mean_slopes(
    model: GenerativeModel, X: np.ndarray, intervened: np.ndarray | None = None
) -> np.ndarray:
    """The slope of each edge.

    Parameters
    ----------
    model : GenerativeModel
        Of the graph.
    X : float (n, d)
        Rows to average over, in the units of the model.
    intervened : bool (n, d) or None
        Where an intervention set the value: a child's rows without one count, since in the others
        it does not follow its parents.

    Returns
    -------
    float64 (d, d)
        ``[i, j]`` for i -> j, in standard deviations (``model.sd``) of j per one of i. NaN where
        there is no edge, and where an intervention set the child in every row.
    """
    X = np.asarray(X)
    candidates = model.candidates
    slopes = np.full((model.d, model.d), np.nan)
    for j in range(model.d):
        edges = slice(candidates.indptr[j], candidates.indptr[j + 1])
        parents = candidates.parents[edges]
        values = X[:, parents]
        if intervened is not None:
            values = values[~intervened[:, j]]
        if not values.size:
            continue
        Z = (values.astype(np.float64) - model.mean[parents]) / model.sd[parents]
        W = model.theta["W"][edges].astype(np.float64)
        z = Z @ W + model.theta["b"][j]
        steepness = np.mean(0.25 / np.cosh(0.5 * np.clip(z, -500, 500)) ** 2, axis=0)
        slopes[parents, j] = W @ (steepness * model.theta["u"][j])
    return slopes
