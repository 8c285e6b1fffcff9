"""The paper's simulated data, replayed seed for seed.

``simulate(d, s, seed)`` is the data set behind the published run with that d, s and seed: the same
edges, and the same values up to the last bits in which processors differ. So everything that draws
a random number follows what was run, draw by draw. Where a step looks roundabout, that is why.

The model: a uniformly random undirected graph with exactly ``s * d`` edges, directed along a
uniformly random order of the nodes. A node with parents is

    x_j = u_j . sigmoid(V_j z) + 0.5 eps,    z_i = (x_i - mean_i) / sd_i for each parent i,

100 hidden units without biases, weights of random sign and magnitude uniform on [0.5, 2]; mean_i
and sd_i are those of the observational sample, also under interventions. A node without parents is
0.5 eps. A perfect intervention replaces x_j by 0.1 eps. Everywhere eps ~ N(0, 1).

Only generators made here are used: the global ones of ``random``, numpy and torch are neither read
nor moved, and torch's default dtype, default device and number of threads have no influence.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from sdcd.data.dataset import Dataset
from sdcd.errors import InputError

HIDDEN_UNITS = 100
NOISE_SD = 0.5
INTERVENTION_SD = 0.1
WEIGHT_RANGE = (0.5, 2.0)
"""Magnitudes of the mechanisms' weights."""
SAMPLING_SEED = 0
"""Noise is drawn from this seed whatever the data set's seed, which names graph and mechanisms."""


def simulate(
    d: int,
    s: int,
    seed: int,
    *,
    fraction: float | None = None,
    n_observational: int = 10_000,
    n_per_intervention: int = 500,
    standardise: bool = True,
    weight_range: tuple[float, float] = WEIGHT_RANGE,
) -> Dataset:
    """One of the paper's data sets.

    Parameters
    ----------
    d : int
        Number of variables.
    s : int
        Edges per variable: the true graph has exactly ``s * d`` edges.
    seed : int
        Seed of graph, mechanisms and choice of interventions, 0 to 2**32 - 1.
    fraction : float or None
        ``None``: the observational family; no interventional row is drawn. A number F in [0, 1]:
        the interventional family with the fraction F of the variables intervened on, see
        :func:`kept_targets`. For one (d, s, seed) the fractions are subsets of the same rows.
    n_observational : int
        Observational rows, at least 2. The published runs have 10,000.
    n_per_intervention : int
        Rows for each intervened variable, at least 1. The published runs have 500.
    standardise : bool
        Give every column mean 0 and standard deviation 1 (n - 1 in the denominator). As run, this
        comes before rows are dropped: moments are over the observational rows and the rows of
        *all* d interventions, whatever the fraction. So the columns of an interventional data set
        with ``fraction < 1`` have other moments than 0 and 1, and its values at ``fraction=0``
        differ from those of the observational family by an affine map of each column.
    weight_range : (float, float)
        Least and largest magnitude of the weights of both layers of every mechanism; as published
        by default. Smaller ones make weaker edges in the same graphs.

    Returns
    -------
    Dataset
        Observational rows first, then the kept interventions in increasing order of their target.
        Variables are called ``X0``, ``X1``, ...

    Raises
    ------
    InputError
        If an argument is outside its range, or ``s * d`` edges do not fit on d nodes.

    Notes
    -----
    Source: the paper's section on simulated data and its appendix; the order of random draws is
    that of the published runs. With seeds and numbers of rows as published, edges are equal and
    values before standardisation agree with those runs to 1e-4.

    Moments are accumulated in float64. The published runs took them with pandas in float32, which
    shifts a column by at most 1e-5 of its standard deviation.
    """
    _check(d, s, seed, fraction, n_observational, n_per_intervention)
    if not 0 <= weight_range[0] <= weight_range[1]:
        raise InputError(f"weight_range is {weight_range!r}, expected (least, largest) from 0 on")
    graph = _random_dag(d, s, seed)
    targets = [] if fraction is None else list(range(d))
    n = n_observational + n_per_intervention * len(targets)
    with _single_threaded_cpu():
        mechanisms = _mechanisms(graph, seed, weight_range)
        values = _sample(graph, mechanisms, n_observational, n, targets)
    if standardise:
        for column in values:
            mean, sd = column.mean(dtype=np.float64), column.std(dtype=np.float64, ddof=1)
            column[:] = (column.astype(np.float64) - mean) / sd

    target_of_row = np.repeat(
        [-1, *targets], [n_observational, *[n_per_intervention] * len(targets)]
    )
    X = values.T
    if fraction is not None and fraction < 1:
        rows = np.isin(target_of_row, [-1, *kept_targets(d, fraction, seed)])
        X, target_of_row = X[rows], target_of_row[rows]
    adjacency = np.zeros((d, d), dtype=np.int8)
    adjacency[tuple(np.array(graph.edges, dtype=int).reshape(-1, 2).T)] = 1
    intervened = np.zeros(X.shape, dtype=bool)
    interventional = np.flatnonzero(target_of_row >= 0)
    intervened[interventional, target_of_row[interventional]] = True
    return Dataset(
        X=np.ascontiguousarray(X),
        intervened=intervened,
        names=tuple(f"X{j}" for j in range(d)),
        adjacency=adjacency,
    )


def kept_targets(d: int, fraction: float, seed: int) -> list[int]:
    """The variables whose interventions a data set with this fraction has.

    Parameters
    ----------
    d : int
        Number of variables.
    fraction : float
        Fraction of the variables intervened on, in [0, 1].
    seed : int
        Seed of the data set.

    Returns
    -------
    list of int
        Increasing. As run, ``int((1 - fraction) * d)`` of the d interventions are dropped, so that
        d = 30 and fraction 0.25 keep 8; for one seed a smaller fraction keeps a subset.

    Raises
    ------
    InputError
        If an argument is outside its range.
    """
    _check(d, 0, seed, fraction)
    import torch

    with _single_threaded_cpu():
        order = torch.randperm(d, generator=torch.Generator().manual_seed(seed)).tolist()
    return sorted(order[int((1 - fraction) * d) :])


def _check(
    d: int,
    s: int,
    seed: int,
    fraction: float | None,
    n_observational: int = 2,
    n_per_intervention: int = 1,
) -> None:
    for name, value, least in [
        ("d", d, 1),
        ("s", s, 0),
        ("seed", seed, 0),
        ("n_observational", n_observational, 2),
        ("n_per_intervention", n_per_intervention, 1),
    ]:
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise InputError(f"{name} is {value!r}, expected an integer of at least {least}")
    if seed >= 2**32:
        raise InputError(f"seed is {seed}, expected at most {2**32 - 1}")
    if s * d > d * (d - 1) // 2:
        raise InputError(
            f"s = {s} edges per variable are {s * d} edges, but d = {d} variables have only "
            f"{d * (d - 1) // 2} pairs"
        )
    if fraction is not None and not 0 <= fraction <= 1:
        raise InputError(f"fraction is {fraction!r}, expected a number from 0 to 1")


@contextmanager
def _single_threaded_cpu() -> Iterator[None]:
    # How a matrix product is shared out among threads can change its last bits.
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.device("cpu"), torch.inference_mode():
            yield
    finally:
        torch.set_num_threads(threads)


def _random_dag(d: int, s: int, seed: int):
    """A networkx DiGraph; the order of its nodes and edges fixes the order of sampling."""
    import random

    import networkx as nx

    skeleton = nx.gnm_random_graph(d, s * d, seed=random.Random(seed))
    order = list(skeleton)
    np.random.RandomState(seed).shuffle(order)
    rank = {node: position for position, node in enumerate(order)}
    graph = nx.DiGraph()
    graph.add_nodes_from(order)
    graph.add_edges_from((i, j) if rank[i] < rank[j] else (j, i) for i, j in skeleton.edges)
    return graph


def _mechanisms(graph, seed: int, weight_range: tuple[float, float] = WEIGHT_RANGE) -> dict:
    """``{node: (parents, V, u)}`` of nodes with parents; V float32 (100, k), u float32 (1, 100)."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    least, largest = weight_range
    mechanisms = {}
    for node in range(len(graph)):
        parents = sorted(graph.predecessors(node))
        if not parents:
            continue
        shapes = [(HIDDEN_UNITS, len(parents)), (1, HIDDEN_UNITS)]
        # The layers' default and then a second initialisation were drawn and not used.
        for draw in (torch.Tensor.uniform_, torch.Tensor.normal_):
            for shape in shapes:
                draw(torch.empty(shape, dtype=torch.float32), generator=generator)
        weights = []
        for shape in shapes:
            sign = 2 * torch.randint(0, 2, shape, generator=generator, dtype=torch.int64) - 1
            magnitude = torch.rand(shape, generator=generator, dtype=torch.float32)
            weights.append(sign * (least + (largest - least) * magnitude))
        mechanisms[node] = (parents, *weights)
    return mechanisms


def _sample(
    graph, mechanisms: dict, n_observational: int, n: int, targets: list[int]
) -> np.ndarray:
    """Values before standardisation, float32 (d, n): observational columns, then each target's."""
    import networkx as nx
    import torch

    generator = torch.Generator().manual_seed(SAMPLING_SEED)
    order = list(nx.topological_sort(graph))
    values = torch.empty((len(graph), n), dtype=torch.float32)
    mean = torch.empty(len(graph), dtype=torch.float32)
    sd = torch.empty(len(graph), dtype=torch.float32)

    def draw(block: torch.Tensor, target: int | None) -> None:
        zeros = torch.zeros(block.shape[1], dtype=torch.float32)
        for node in order:
            if node == target:
                block[node] = torch.normal(zeros, INTERVENTION_SD, generator=generator)
                continue
            location = zeros
            if node in mechanisms:
                parents, V, u = mechanisms[node]
                inputs = (block[parents].T.contiguous() - mean[parents]) / sd[parents]
                location = (torch.sigmoid(inputs @ V.T) @ u.T)[:, 0]
            block[node] = torch.normal(location, NOISE_SD, generator=generator)
            if target is None:
                mean[node], sd[node] = block[node].mean(), block[node].std()

    draw(values[:, :n_observational], None)
    if targets:
        for target, block in zip(
            targets, values[:, n_observational:].chunk(len(targets), dim=1), strict=True
        ):
            draw(block, target)
    return values.numpy()
