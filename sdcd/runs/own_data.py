"""What the methods made of a person's own table: how far they agree, and on which edges.

A method *has* an edge i -> j if more than half of its graphs on all rows (one for each seed) have
it in this direction. Edges without a direction, which some methods return, count for neither.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sdcd.errors import InputError
from sdcd.files import read_npz
from sdcd.fits.record import load_fit

MOST = 0.5
"""An edge that more than this share of the methods have is one that most of them share."""


@dataclass
class MethodFits:
    """The fits of one method that ended well, and the records of all.

    Attributes
    ----------
    adjacency : int8 (d, d) or None
        The graph of the first seed with one.
    weights : float64 (d, d) or None
        Its weights.
    directed : list of bool (d, d)
        The directed edges of each seed's graph.
    joined : list of bool (d, d)
        Symmetric: the pairs that each seed's graph joins.
    share, frequency : float64 (d, d) or None
        Of the seeds' graphs, and of the resamples', with i -> j.
    resamples : int
        How many of these graphs there are.
    records : dict of str to dict
        By run.
    """

    adjacency: np.ndarray | None = None
    weights: np.ndarray | None = None
    directed: list[np.ndarray] = field(default_factory=list)
    joined: list[np.ndarray] = field(default_factory=list)
    share: np.ndarray | None = None
    frequency: np.ndarray | None = None
    resamples: int = 0
    records: dict[str, dict] = field(default_factory=dict)


def read_fits(
    results: Path, study: Mapping[str, object]
) -> tuple[list[str], dict[str, MethodFits]]:
    """The names of the variables, and each method's fits.

    Parameters
    ----------
    results : path
        The folder with ``data/`` and ``fits/``.
    study : mapping
        As :meth:`sdcd.experiments.own_data.OwnStudy.to_json` writes it.

    Raises
    ------
    InputError
        If a fit is missing, or of other variables.
    """
    names = read_npz(results / "data" / f"{study['name']}.npz")["names"].tolist()
    found = {}
    for method in study["methods"]:
        fits = found[method] = MethodFits()
        for k in study["seeds"]:
            graph = _read(results, study, f"seed{k}", method, names, fits)
            if graph is None:
                continue
            there = graph.adjacency != 0
            fits.directed.append(there & ~there.T)
            fits.joined.append(there | there.T)
            if fits.adjacency is None:
                fits.adjacency, fits.weights = graph.adjacency, graph.weights
        if fits.directed:
            fits.share = np.mean(fits.directed, axis=0)
        total = np.zeros((len(names), len(names)))
        for k in range(1, study["resamples"] + 1):
            graph = _read(results, study, f"resample{k}", method, names, fits)
            if graph is not None:
                there = graph.adjacency != 0
                total += there & ~there.T
                fits.resamples += 1
        if fits.resamples:
            fits.frequency = total / fits.resamples
    return names, found


def _read(results, study, run, method, names, fits):
    path = results / "fits" / study["name"] / run / f"{method}.npz"
    graph, fits.records[run] = load_fit(path)
    if graph is not None and graph.arrays["names"].tolist() != names:
        raise InputError(f"{path}: a fit of other variables than the table has")
    return graph


def agreement(fits: Mapping[str, MethodFits], *, directed: bool = True) -> np.ndarray:
    """How far methods agree: the edges in both graphs over those in either.

    Parameters
    ----------
    fits : mapping of str to MethodFits
        By method.
    directed : bool
        Whether an edge must have the same direction; else whether the pair is joined.

    Returns
    -------
    float64 (m, m)
        Symmetric, in the order of the mapping: the mean over the pairs of their seeds' graphs; on
        the diagonal over the pairs of different seeds. NaN where there is no such pair, or all
        graphs are empty.
    """
    graphs = [each.directed if directed else each.joined for each in fits.values()]
    found = np.full((len(graphs), len(graphs)), np.nan)
    for a, one in enumerate(graphs):
        for b, other in enumerate(graphs):
            pairs = [
                (one[s], other[t])
                for s in range(len(one))
                for t in range(len(other))
                if a != b or s < t
            ]
            shares = [(x & y).sum() / (x | y).sum() for x, y in pairs if (x | y).any()]
            if shares:
                found[a, b] = np.mean(shares)
    return found


@dataclass(frozen=True)
class SharedEdges:
    """Every directed edge that some method has, those of the most methods first.

    Attributes
    ----------
    parents, children : int64 (e,)
        Equals come by ``support``, then in order of parent and child.
    methods, against : int64 (e,)
        How many methods have the edge, and how many have it the other way round.
    support : float64 (e,)
        Mean over the methods of the frequency over resamples, or without resamples of the share of
        the seeds' graphs.
    n_methods : int
        With a graph.
    """

    parents: np.ndarray
    children: np.ndarray
    methods: np.ndarray
    against: np.ndarray
    support: np.ndarray
    n_methods: int

    def by_most(self) -> np.ndarray:
        """Which of them most methods have: bool (e,)."""
        return self.methods > MOST * self.n_methods


def shared_edges(fits: Mapping[str, MethodFits], d: int) -> SharedEdges:
    """The edges of all methods; see :class:`SharedEdges`."""
    there = [each for each in fits.values() if each.share is not None]
    count = np.zeros((d, d), dtype=np.int64)
    support = np.zeros((d, d))
    for each in there:
        count += each.share > MOST
        support += (each.share if each.frequency is None else each.frequency) / len(there)
    parents, children = np.nonzero(count)
    order = np.lexsort((children, parents, -support[parents, children], -count[parents, children]))
    i, j = parents[order], children[order]
    return SharedEdges(i, j, count[i, j], count[j, i], support[i, j], len(there))


def as_graph(edges: SharedEdges, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The edges that most methods have: int8 (d, d), and their support, float64 (d, d)."""
    adjacency = np.zeros((len(names), len(names)), dtype=np.int8)
    weights = np.zeros(adjacency.shape)
    kept = edges.by_most()
    ends = edges.parents[kept], edges.children[kept]
    adjacency[ends] = 1
    weights[ends] = edges.support[kept]
    return adjacency, weights


# What the perturbations say of a direction

SAYS = ("agrees", "opposite", "both ways", "no move", "not tested")
"""Of an edge i -> j: whether perturbing i moves j, perturbing j moves i, both, or neither."""


def perturbations_say(X: np.ndarray, intervened: np.ndarray) -> tuple[np.ndarray, float] | None:
    """What the perturbations of i and of j say of an edge i -> j.

    A variable moves if its mean differs from that of the unperturbed rows, as
    :mod:`sdcd.baselines.mean_difference` tests it, at a false discovery rate of 5 %. That j moves
    says that i acts on j, perhaps by way of others.

    Parameters
    ----------
    X : float32 (n, d)
        Values.
    intervened : bool (n, d)
        Which of them an intervention set.

    Returns
    -------
    says : int8 (d, d)
        Positions in :data:`SAYS`, at ``[i, j]`` of i -> j.
    rate : float
        The share of all tested pairs that move: what edges drawn at random would have.

        None without two unperturbed rows, or two rows that perturb some variable.
    """
    from sdcd.baselines.mean_difference import mean_difference
    from sdcd.errors import MethodFailure

    try:
        found = mean_difference(X, intervened, (), 0, false_discovery_rate=0.05)
    except MethodFailure:
        return None
    moved, tested = found.adjacency != 0, np.isfinite(found.arrays["p_value"])
    says = np.full(moved.shape, SAYS.index("not tested"), dtype=np.int8)
    says[tested | tested.T] = SAYS.index("no move")
    says[moved & ~moved.T] = SAYS.index("agrees")
    says[moved.T & ~moved] = SAYS.index("opposite")
    says[moved & moved.T] = SAYS.index("both ways")
    return says, float(moved.sum() / tested.sum())
