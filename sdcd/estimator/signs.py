"""Signs of edges: how the mean of a child moves with each of its parents.

Not in the paper. In SDCD's model (:mod:`sdcd.estimator.model`) with ``z = sum_i x_i W[i, j, :] +
b_j``, the mean of j is ``u_j . sigmoid(z) + c_j``, so that

    d mean_j / d x_i = sum_h u_jh sigmoid'(z_h) W[i, j, h],

whose average over the rows is the edge's *effect*: positive where the child rises with the parent,
in standard deviations of the child per standard deviation of the parent if the data are
standardised. It is not the effect of an intervention, which goes along every path; and it can be
near zero for a strong edge whose mean rises and falls again.
"""

import numpy as np

from sdcd.estimator.state import StageState


def mean_derivatives(
    state: StageState, X: np.ndarray, intervened: np.ndarray | None = None
) -> np.ndarray:
    """The effect of each candidate edge.

    Parameters
    ----------
    state : StageState
        The parameters, as at the end of a stage.
    X : float (n, d)
        Rows, in the units in which the state was fitted.
    intervened : bool (n, d) or None
        Where an intervention set the value: a child's rows without one count, since in the others
        it does not follow its parents.

    Returns
    -------
    float64 (E,)
        In the order of ``state.candidates``; ``state.candidates.dense`` makes a matrix of it. NaN
        where an intervention set the child in every row.
    """
    X = np.asarray(X, dtype=np.float64)
    candidates = state.candidates
    effects = np.full(len(candidates.parents), np.nan)
    for k, child in enumerate(candidates.targets):
        edges = slice(candidates.indptr[k], candidates.indptr[k + 1])
        rows = X if intervened is None else X[~intervened[:, child]]
        if edges.start == edges.stop or not len(rows):
            continue
        W = state.W[edges].astype(np.float64)
        z = rows[:, candidates.parents[edges]] @ W + state.b[k]
        slopes = np.mean(0.25 / np.cosh(0.5 * np.clip(z, -500, 500)) ** 2, axis=0)
        effects[edges] = W @ (slopes * state.u[k])
    return effects
