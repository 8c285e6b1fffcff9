"""What perturbations say of a graph when nobody knows the true one.

Let x_j | do(i) be the values of j in the rows that perturb i and nothing else, and x_j those in the
unperturbed rows. A perturbed i *moves* j if the two differ by a Mann-Whitney test at the 5 % level;
how far is their Wasserstein distance, in standard deviations of j in the unperturbed rows. Two
statistics are used by benchmarks on single-cell perturbations (Chevalley et al. 2022):

* over the *edges* i -> j of a graph with a perturbed i: the mean distance, and the share that
  moves. A good graph has high ones;
* over the pairs *without a path* from i to j: the share that moves, the *false omission rate*. A
  good graph has a low one: 5 % by chance alone, if no other effect is there.

Neither says whether an edge is direct: every descendant moves. The complete graph has no pair
without a path, the empty one no edge, so that each of the two can be had for nothing, and they are
to be read together and beside graphs of the same size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import mannwhitneyu, wasserstein_distance

from sdcd.data.paths import reachable
from sdcd.errors import InputError

LEVEL = 0.05
"""Of the test of whether a variable moves, unadjusted."""

MOST_PAIRS = 20_000
"""Pairs that are looked at, a minute's work with 10,000 unperturbed rows; of a larger screen as
many perturbations are drawn as make so many."""

LEAST_ROWS = 5
"""A perturbation with fewer rows, or fewer unperturbed rows, is not looked at."""


@dataclass(frozen=True)
class Moves:
    """How perturbations move the variables.

    Attributes
    ----------
    distance : float64 (d, d)
        ``[i, j]``: Wasserstein distance between j where i alone is perturbed and where nothing is,
        in standard deviations of the latter. NaN where it could not be looked at, and for i = j.
    p_value : float64 (d, d)
        Of the Mann-Whitney test, two-sided; NaN likewise.
    left_out : int
        Perturbations with enough rows that were not drawn: see :data:`MOST_PAIRS`.
    """

    distance: np.ndarray
    p_value: np.ndarray
    left_out: int = 0

    @property
    def tested(self) -> np.ndarray:
        """Which pairs could be looked at: bool (d, d)."""
        return np.isfinite(self.p_value)

    @property
    def moved(self) -> np.ndarray:
        """Which of them move: bool (d, d)."""
        return self.tested & (self.p_value < LEVEL)


def moves(
    X: np.ndarray, intervened: np.ndarray, *, seed: int = 0, most_pairs: int = MOST_PAIRS
) -> Moves:
    """Look at every perturbed variable's effect on every other one.

    Parameters
    ----------
    X : float (n, d)
        Values.
    intervened : bool (n, d)
        Which of them an intervention set. Rows with several targets are passed over.
    seed : int, default 0
        Of the choice of perturbations, if there are too many.
    most_pairs : int
        As :data:`MOST_PAIRS`; one perturbation is always looked at.
    """
    X = np.asarray(X, dtype=np.float64)
    d = X.shape[1]
    targets = intervened.sum(axis=1)
    control = X[targets == 0]
    distance, p_value = (np.full((d, d), np.nan) for _ in range(2))
    if len(control) < LEAST_ROWS:
        return Moves(distance, p_value)
    scale = control.std(axis=0, ddof=1)
    alone = intervened & (targets == 1)[:, None]
    looked_at = np.flatnonzero(alone.sum(axis=0) >= LEAST_ROWS)
    most = max(1, most_pairs // max(d - 1, 1))
    left_out = max(0, len(looked_at) - most)
    if left_out:
        drawn = np.random.default_rng(seed).choice(looked_at, size=most, replace=False)
        looked_at = np.sort(drawn)
    for i in looked_at.tolist():
        perturbed = X[alone[:, i]]
        p_value[i] = mannwhitneyu(perturbed, control, axis=0).pvalue
        for j in np.flatnonzero(scale > 0).tolist():
            distance[i, j] = wasserstein_distance(perturbed[:, j], control[:, j]) / scale[j]
        p_value[i, (scale == 0) | ~np.isfinite(p_value[i])] = np.nan
        p_value[i, i] = distance[i, i] = np.nan
    return Moves(distance, p_value, left_out)


def why_untested(intervened: np.ndarray) -> str:
    """Why :func:`moves` finds no pair to look at in data with these interventions, in words."""
    targets = intervened.sum(axis=1)
    control = np.count_nonzero(targets == 0)
    if not targets.any():
        return "no row is perturbed, expected perturbations"
    if control < LEAST_ROWS:
        return f"{control} unperturbed rows, expected at least {LEAST_ROWS} to compare with"
    if not (intervened[targets == 1].sum(axis=0) >= LEAST_ROWS).any():
        return f"no variable is perturbed alone in at least {LEAST_ROWS} rows, expected one"
    return "no variable varies in the unperturbed rows, expected one"


def evaluate(adjacency: np.ndarray, found: Moves) -> dict[str, float | int | None]:
    """Both statistics of a graph.

    Parameters
    ----------
    adjacency : (d, d)
        ``adjacency[i, j] != 0`` is an edge i -> j; cycles are allowed.
    found : Moves
        From :func:`moves`.

    Returns
    -------
    dict
        ``n_edges`` of the graph; ``edges_tested``, ``edge_distance``, ``edges_moved``: how many of
        them have a perturbed parent, their mean distance, the share that moves; ``pairs_omitted``,
        ``false_omission_rate``: how many tested pairs have no path, the share of them that moves.
        None where there is no such pair.
    """
    A = np.asarray(adjacency) != 0
    edges = A & found.tested
    omitted = found.tested & ~reachable(A)
    return {
        "n_edges": int(A.sum()),
        "edges_tested": int(edges.sum()),
        "edge_distance": _mean(found.distance, edges),
        "edges_moved": _mean(found.moved, edges),
        "pairs_omitted": int(omitted.sum()),
        "false_omission_rate": _mean(found.moved, omitted),
    }


def beside(adjacency: np.ndarray, found: Moves, *, seed: int = 0, draws: int = 20) -> dict:
    """The statistics of a graph beside those of graphs that know less or more.

    Returns
    -------
    dict
        From names to what :func:`evaluate` returns: ``graph``; ``empty``; ``complete``, every edge
        in both directions; ``random``, the mean over ``draws`` random DAGs with as many edges; and
        ``mean difference``, as many edges, those with the smallest p values. The last is chosen on
        the rows that it is evaluated on, so its edges are the best that a graph can have there.
    """
    A = np.asarray(adjacency) != 0
    d, size = len(A), int(A.sum())
    rng = np.random.default_rng(seed)
    random = [evaluate(random_dag(d, size, rng), found) for _ in range(draws)]
    p = np.where(found.tested, found.p_value, np.inf)
    # Many p values are 0 in floating point: the distance decides between them.
    order = np.lexsort((-np.nan_to_num(found.distance).ravel(), p.ravel()))
    order = order[np.isfinite(p.ravel()[order])][:size]
    strongest = np.zeros(d * d, dtype=bool)
    strongest[order] = True
    return {
        "graph": evaluate(A, found),
        "empty": evaluate(np.zeros_like(A), found),
        "complete": evaluate(~np.eye(d, dtype=bool), found),
        "random": {key: _mean_of([each[key] for each in random]) for key in random[0]},
        "mean difference": evaluate(strongest.reshape(d, d), found),
    }


def by_perturbation(
    density: np.ndarray, intervened: np.ndarray, names: tuple[str, ...]
) -> Mapping[str, dict[str, float]]:
    """Mean log density of a row, for each set of perturbed variables.

    Parameters
    ----------
    density : float (n, d)
        Log densities of the values, NaN where an intervention set them.
    intervened : bool (n, d)
        Where it did.
    names : d str
        Of the variables.

    Returns
    -------
    dict
        From ``control`` or the targets' names, joined by ``+``, to ``rows`` and
        ``log_density_per_row``, the mean over these rows of the sum over the variables.
    """
    rows = np.nansum(density, axis=1)
    sets, group = np.unique(intervened, axis=0, return_inverse=True)
    group = group.reshape(-1)
    found = {}
    for k, targets in enumerate(sets):
        name = "+".join(names[j] for j in np.flatnonzero(targets)) or "control"
        here = rows[group == k]
        found[name] = {"rows": len(here), "log_density_per_row": float(here.mean())}
    return found


def hold_out(
    intervened: np.ndarray, which: float | Sequence[int], seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Whole perturbations to hold out, and as large a share of the unperturbed rows.

    Parameters
    ----------
    intervened : bool (n, d)
        Which values an intervention set.
    which : float or sequence of int
        The share of the perturbed variables, above 0 and below 1 (of them at least one, and not
        all), or the variables themselves.
    seed : int, default 0
        Of the choice.

    Returns
    -------
    rows : bool (n,)
        The rows to hold out: all that perturb a chosen variable, and the unperturbed ones.
    variables : int64
        The chosen variables.

    Raises
    ------
    InputError
        With fewer than two perturbed variables, or if none is left.
    """
    perturbed = np.flatnonzero(intervened.any(axis=0))
    if len(perturbed) < 2:
        raise InputError(
            f"{len(perturbed)} perturbed variables, expected at least 2 to hold some of them out"
        )
    rng = np.random.default_rng(seed)
    if isinstance(which, float):
        share = which
        number = min(max(1, round(share * len(perturbed))), len(perturbed) - 1)
        variables = np.sort(rng.choice(perturbed, size=number, replace=False))
    else:
        variables = np.unique(np.asarray(which, dtype=np.int64))
        share = np.isin(perturbed, variables).mean()
    rows = intervened[:, variables].any(axis=1)
    if not intervened[~rows].any():
        raise InputError(
            "all perturbed rows would be held out, expected some to be left for the fit"
        )
    control = np.flatnonzero(~intervened.any(axis=1))
    rows[rng.choice(control, size=round(share * len(control)), replace=False)] = True
    return rows, variables


def random_dag(d: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Up to ``size`` edges drawn uniformly from those along a random order: bool (d, d)."""
    order = rng.permutation(d)
    first, second = np.triu_indices(d, 1)
    chosen = rng.choice(len(first), size=min(size, len(first)), replace=False)
    A = np.zeros((d, d), dtype=bool)
    A[order[first[chosen]], order[second[chosen]]] = True
    return A


def _mean(values: np.ndarray, where: np.ndarray) -> float | None:
    return float(values[where].mean()) if where.any() else None


def _mean_of(values: list) -> float | None:
    numbers = [value for value in values if value is not None]
    return float(np.mean(numbers)) if numbers else None
