"""Feature importance by boosted trees, one model a target, as gene-network tools do it."""

import numpy as np

from sdcd.errors import MethodFailure
from sdcd.methods import Graph, register
from sdcd.parameters import integer, number

PRELOAD = ("sklearn.ensemble",)

FEWEST_ROWS = 10
"""Rows of a target below which nothing is fitted: the held-out tenth would be empty."""


@register(
    name="tree-importance",
    data="interventional",
    defaults={
        "learning_rate": 0.01,
        "max_trees": 5000,
        "share_of_parents": 0.1,
        "share_of_rows": 0.9,
        "depth": 3,
        "window": 25,
        "threshold": 1.0,
    },
    ranges={
        "learning_rate": number(above=0),
        "max_trees": integer(1),
        "share_of_parents": number(above=0, most=1),
        "share_of_rows": number(above=0, most=1),
        "depth": integer(1),
        "window": integer(1),
        "threshold": number(0),
    },
    source="not in the paper: Moerman et al. 2019 (GRNBoost2) with its settings, by scikit-learn; "
    "the cut is ours",
)
def tree_importance(
    X: np.ndarray,
    intervened: np.ndarray,
    names: tuple[str, ...],
    seed: int,
    *,
    learning_rate: float,
    max_trees: int,
    share_of_parents: float,
    share_of_rows: float,
    depth: int,
    window: int,
    threshold: float,
) -> Graph:
    """Rank the parents of each variable by their importance in a model of boosted trees.

    Each variable is predicted from all others by stochastic gradient boosting, in the rows in which
    it is not intervened on. The importance of i for j is the share of the model's reduction of the
    squared error that falls to splits on i, times the share of the variance of j that the model
    explains there, times d - 1:

        weights[i, j] = (d - 1) share_i(j) R^2(j)

    So it is the explained variance in units of an equal share of all of it, and i -> j is an edge
    if it is above ``threshold``, 1 by default. The tools rank edges and leave the cut to their
    users. No direction comes out of this but by accident, and interventions only leave rows out.

    Parameters
    ----------
    X : float32 (n, d)
        Values, on any scale.
    intervened : bool (n, d)
        Each variable must be left alone in at least 10 rows.
    names : tuple of d str
        Used in messages.
    seed : int
        Of the rows and parents drawn for each tree and each split.
    learning_rate : float
        Factor of each tree, 0.01.
    max_trees : int
        5,000. Boosting ends with the first tree at which, over the last ``window`` (25) trees, the
        squared error of the rows that a tree was not fitted to grows on average; all trees stay.
    share_of_parents, share_of_rows : float
        Drawn for each split, 0.1 of the others, and without replacement for each tree, 0.9.
    depth : int
        Splits from a tree's root to a leaf, at most; 3.
    threshold : float
        Smallest weight of an edge, exclusive.

    Returns
    -------
    Graph
        Usually with cycles.

    Raises
    ------
    MethodFailure
        ``unavailable`` if scikit-learn is not installed; ``error`` if a variable is left alone in
        fewer than 10 rows.

    References
    ----------
    V. A. Huynh-Thu et al. Inferring regulatory networks from expression data using tree-based
    methods. PLoS ONE 5, 2010 (GENIE3: one model a target).
    T. Moerman et al. GRNBoost2 and Arboreto: efficient and scalable inference of gene regulatory
    networks. Bioinformatics 35, 2019.
    """
    try:
        from sklearn.ensemble import GradientBoostingRegressor
    except ImportError as error:
        raise MethodFailure(
            "unavailable", f"{error}; install with: pip install -e '.[baselines]'"
        ) from None
    d = X.shape[1]
    seeds = np.random.default_rng(seed).integers(2**31, size=d)
    weights, trees = np.zeros((d, d)), []

    def worse_out_of_bag(count, model, _) -> bool:
        recent = model.oob_improvement_[count + 1 - window : count + 1]
        return len(recent) == window and recent.mean() < 0

    for j in range(d):
        rows = ~intervened[:, j]
        if rows.sum() < FEWEST_ROWS:
            raise MethodFailure(
                "error",
                f"{names[j]!r} is left alone in {rows.sum()} rows, expected {FEWEST_ROWS} or more",
            )
        others = np.arange(d) != j
        model = GradientBoostingRegressor(
            learning_rate=learning_rate,
            n_estimators=max_trees,
            max_features=share_of_parents,
            subsample=share_of_rows,
            max_depth=depth,
            random_state=int(seeds[j]),
        )
        inputs, target = X[rows][:, others], X[rows, j].astype(np.float64)
        if np.ptp(target) > 0:
            model.fit(inputs, target, monitor=worse_out_of_bag)
            explained = max(0.0, model.score(inputs, target))
            weights[others, j] = (d - 1) * explained * model.feature_importances_
            trees.append(len(model.estimators_))
        else:
            trees.append(0)
    return Graph(weights > threshold, weights, {"trees": trees, "threshold": threshold})
