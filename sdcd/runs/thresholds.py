"""How SHD depends on the cut of a method's weights. Not in the paper.

Most compared methods learn weights and return the edges above some threshold, which nobody tuned
alike. Here the same weights are cut anew at every threshold t, as the method itself cuts:

``dag trim``
    SDCD and what is derived from it: edges with weight >= t in decreasing order of weight, except
    those that would close a cycle.
``cut``
    Every other method: the edges with weight > t. A method that searches its threshold (the
    smallest cut without a cycle, say) is cut in the same way, at thresholds of ours. DCD-FG cuts
    the roles of its variables, not the weights made from them, so no threshold gives its graph.

A method without weights has the graph that it returned, whatever the threshold.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sdcd.experiments.plan import Experiment
from sdcd.graphs import dag_trim, dag_trim_edges
from sdcd.methods import Graph
from sdcd.metrics import average_precision, n_edges, shd
from sdcd.runs.collect import fits_with_truth, shortened_in

GRID = tuple(float(f"{t:.4g}") for t in np.logspace(-3, 2, 76))
"""Thresholds of the curves: 15 in each factor of ten, from 0.001 to 100."""

COLUMNS = (
    *("experiment", "method", "d", "s", "fraction", "mechanism", "seed", "shortened"),
    *("rule", "point", "threshold", "shd", "n_edges", "average_precision"),
)
"""Columns of a table of thresholds; see :func:`collect_thresholds`."""


@dataclass(frozen=True)
class Steps:
    """SHD and number of edges as step functions of the threshold.

    Attributes
    ----------
    levels : float64 (k,)
        The distinct weights of the edges, decreasing.
    shd, n_edges : int64 (k + 1,)
        Entry i is for the graph of all edges with one of the i largest levels.
    inclusive : bool
        Whether an edge whose weight equals the threshold is in the graph.
    """

    levels: np.ndarray
    shd: np.ndarray
    n_edges: np.ndarray
    inclusive: bool

    def at(self, thresholds: np.ndarray) -> np.ndarray:
        """Index into :attr:`shd` for each threshold: int64, of their shape."""
        rising = self.levels[::-1]
        below = np.searchsorted(rising, thresholds, "left" if self.inclusive else "right")
        return len(rising) - below

    def best(self) -> tuple[float, int]:
        """A threshold with the lowest SHD, and its index; of several, the one with fewest edges.

        The threshold is the geometric mean of the two levels that it lies between. It is chosen
        with the truth at hand: what no user of the method can do.
        """
        index = int(np.argmin(self.shd))
        if not len(self.levels):
            return float("nan"), index
        upper = self.levels[index - 1] if index else 2 * self.levels[0]
        lower = self.levels[index] if index < len(self.levels) else self.levels[-1] / 2
        return float(np.sqrt(upper * lower)), index


def steps(weights: np.ndarray, truth: np.ndarray, rule: str) -> Steps:
    """SHD to the true graph at every threshold.

    Parameters
    ----------
    weights : float (d, d)
        Non-negative strength of each edge; the diagonal is ignored.
    truth : array (d, d)
        True graph.
    rule : "dag trim" or "cut"
        How weights become a graph; see the module.

    Notes
    -----
    A DAG trim takes the edges in decreasing order of weight, so the one at t is the one at 0, less
    the edges below t: one pass gives all of them. Each pair of variables changes at most twice:
    when the heavier and when the lighter of its two edges comes in.
    """
    W = np.array(weights, dtype=np.float64)
    np.fill_diagonal(W, 0.0)
    true = np.asarray(truth) != 0
    d = len(W)
    if rule == "dag trim":
        parents, children = np.nonzero(W > 0)
        kept = dag_trim_edges(parents, children, W[parents, children], d, threshold=0.0)
        W[parents[~kept], children[~kept]] = 0.0
    i, j = np.triu_indices(d, 1)
    forward = W[i, j] >= W[j, i]
    heavier, lighter = np.where(forward, (i, j), (j, i)), np.where(forward, (j, i), (i, j))
    wanted, reverse = true[tuple(heavier)], true[tuple(lighter)]
    without = wanted | reverse
    one = ~wanted | reverse
    both = ~(wanted & reverse)
    values = np.concatenate([W[tuple(heavier)], W[tuple(lighter)]])
    changes = np.concatenate([one.astype(int) - without, both.astype(int) - one])
    present = values > 0
    levels, level = np.unique(-values[present], return_inverse=True)
    per_level = np.bincount(level, weights=changes[present], minlength=len(levels))
    edges = np.bincount(level, minlength=len(levels))
    return Steps(
        levels=-levels,
        shd=np.concatenate([[0], np.cumsum(per_level)]).astype(np.int64) + int(without.sum()),
        n_edges=np.concatenate([[0], np.cumsum(edges)]).astype(np.int64),
        inclusive=rule == "dag trim",
    )


def rule_of(graph: Graph, record: Mapping[str, object]) -> str:
    """How a fit's weights became its graph: ``dag trim``, ``cut``, or ``none`` without weights."""
    if graph.weights is None:
        return "none"
    return "dag trim" if "tau_2" in record.get("params", {}) else "cut"


def own_threshold(record: Mapping[str, object]) -> float:
    """The threshold at which a fit cut its weights, from its record; NaN where it has none."""
    found = [
        record.get("diagnostics", {}).get("threshold"),
        record.get("params", {}).get("threshold"),
        record.get("params", {}).get("tau_2"),
    ]
    return next((float(t) for t in found if isinstance(t, int | float)), float("nan"))


def fit_rows(graph: Graph, record: Mapping[str, object], truth: np.ndarray) -> list[dict]:
    """One fit's rows of a table of thresholds, without its keys."""
    rule = rule_of(graph, record)
    threshold = own_threshold(record)
    if rule == "none" or not _gives(graph, threshold, rule):
        threshold = float("nan")
    own = {
        "rule": rule,
        "point": "own",
        "threshold": threshold,
        "shd": shd(graph.adjacency, truth),
        "n_edges": n_edges(graph.adjacency),
        "average_precision": average_precision(graph.weights, truth),
    }
    if rule == "none":
        return [own]
    curve = steps(graph.weights, truth, rule)
    threshold, index = curve.best()
    points = [("best", threshold, index)]
    points += [("grid", t, k) for t, k in zip(GRID, curve.at(np.array(GRID)), strict=True)]
    found = [own]
    for point, t, k in points:
        cut = {"shd": int(curve.shd[k]), "n_edges": int(curve.n_edges[k])}
        found.append({"rule": rule, "point": point, "threshold": t, **cut})
    return found


def _gives(graph: Graph, threshold: float, rule: str) -> bool:
    """Whether the weights cut at the threshold are the graph that the method returned."""
    if np.isnan(threshold):
        return False
    weights = np.array(graph.weights)
    np.fill_diagonal(weights, 0.0)
    cut = dag_trim(weights, threshold) if rule == "dag trim" else weights > threshold
    return np.array_equal(cut != 0, graph.adjacency != 0)


def collect_thresholds(experiment: Experiment, results: str | Path):
    """Cut the weights of every finished fit of an experiment at every threshold.

    Parameters and errors as for :func:`sdcd.runs.collect.collect`.

    Returns
    -------
    pandas.DataFrame
        Columns :data:`COLUMNS`; for each fit a row with ``point`` ``own`` (the graph as returned,
        with the threshold that gives it, if one does, and the average precision of its weights),
        one with ``best`` (:meth:`Steps.best`) and one with ``grid`` for each of :data:`GRID`. A
        method without weights has the first only, a failed fit none.
    """
    import pandas as pd

    rows = []
    for key, graph, record, truth in fits_with_truth(experiment, results):
        if graph is None:
            continue
        method = record["method"]
        keys = {
            "experiment": experiment.name,
            "method": method,
            **{name: getattr(key, name) for name in ("d", "s", "fraction", "mechanism", "seed")},
            "shortened": shortened_in(experiment.methods[method]["shortened"], record),
        }
        rows += [{**keys, **row} for row in fit_rows(graph, record, truth)]
    return pd.DataFrame(rows, columns=list(COLUMNS))
