"""Simulated data in the manner of the DCDI benchmark (Brouillard et al. 2020).

The benchmark's files cannot be replayed: its random streams are not known. These data follow its
generator's distributions; what is not certain about the released files is a parameter, and its
default is the likeliest reading.

With eps the noise of a node, of standard deviation sigma, sigma^2 uniform on [1, 2]:

=========  =====================================================================================
``L``      x = sum_i w_i x_i + 0.4 eps; w_i uniform on [0.25, 1] with a random sign
``NL-Add`` x = f(parents) + 0.4 eps; f: 10 hidden units, PReLU of slope 0.25
``NL-NN``  x = f(parents, 0.4 eps); f: 20 hidden units, tanh
=========  =====================================================================================

Both networks have one hidden layer and a linear output, weights N(0, 1), and biases uniform on
+-1 / sqrt(fan-in). A node without parents is eps itself.
"""

import numpy as np

from sdcd.data.dataset import Dataset
from sdcd.errors import InputError

MECHANISMS = ("L", "NL-Add", "NL-NN")
"""The benchmark's families: linear, nonlinear with additive noise, nonlinear in parents and noise
(``linear``, ``nnadd`` and ``nn`` in the names of its files)."""

NOISE_COEFFICIENT = 0.4
NOISE_VARIANCE = (1.0, 2.0)


def simulate_dcdi(
    d: int,
    e: float,
    mechanism: str,
    seed: int,
    *,
    n: int = 10_000,
    max_targets: int | None = None,
    cover_targets: bool = False,
    intervention_mean: float = 2.0,
    intervention_sd: float = 1.0,
    roots: str = "gaussian",
    redraw_noise_sd: bool = True,
    standardise_regimes: bool = False,
    standardise: bool = True,
) -> Dataset:
    """One interventional data set like those of the DCDI benchmark (perfect, known targets).

    Parameters
    ----------
    d : int
        Number of variables, at least 2 (10 and 20 in the benchmark).
    e : float
        Expected edges per variable, at most ``(d - 1) / 2`` (1 and 4 in the benchmark).
    mechanism : {"L", "NL-Add", "NL-NN"}
        Family, see the module's docstring.
    seed : int
        Non-negative. Graph, mechanisms, targets and noise have streams of their own, so that for
        one seed the graph does not depend on the family, nor the targets on the noise.
    n : int
        Rows, at least 2 for each of the d + 1 regimes.
    max_targets : int or None
        A regime has 1 to ``max_targets`` targets (number uniform). ``None``: 1 if d <= 10, else 2,
        as in the benchmark's files. With 1, every variable is the target of one regime.
    cover_targets : bool
        Whether every variable must be a target where regimes have several: regime r then has one
        variable of a random permutation, and the rest of its targets are drawn from the others.
        Not known for the released files.
    intervention_mean, intervention_sd : float
        A target is cut from its parents and drawn from this normal distribution. The generator's
        "shifted normal" option; not known for the released files.
    roots : {"gaussian", "uniform"}
        Variables without parents: N(0, sigma^2), or uniform on [-1, 1], the generator's own
        default. Not known for the released files.
    redraw_noise_sd : bool
        Draw sigma anew whenever a node is sampled, so that it differs between regimes, as the
        generator does; ``False`` draws it once per node.
    standardise_regimes : bool
        Standardise each variable within each regime before it feeds its children, an option of the
        generator. Not known for the released files.
    standardise : bool
        Give every column, over all rows together, mean 0 and standard deviation 1 (n - 1 in the
        denominator). Not known for the SDCD paper's runs on these data.

    Returns
    -------
    Dataset
        d interventional regimes in order, then the observational one; the rows are split evenly,
        the first regimes taking one more where they do not divide. Variables are called ``X0``,
        ``X1``, ...

    Raises
    ------
    InputError
        If an argument is outside its range.

    Notes
    -----
    The graph: in a random order of the nodes, each takes Binomial(number of later nodes,
    2 e / (d - 1)) parents among the later ones, uniformly. So the number of edges is random, with
    mean ``e * d``.

    Source: Brouillard et al. 2020, appendix on synthetic data, and its public generator.
    """
    _check(d, e, mechanism, seed, n, max_targets, intervention_sd, roots)
    graph_rng, mechanism_rng, target_rng, noise_rng = np.random.default_rng(seed).spawn(4)
    A, order = _graph(d, e, graph_rng)
    mechanisms = [_mechanism(mechanism, int(k), mechanism_rng) for k in A.sum(axis=0)]
    if max_targets is None:
        max_targets = 1 if d <= 10 else 2
    regimes = [*_targets(d, max_targets, cover_targets, target_rng), []]
    node_sd = np.sqrt(noise_rng.uniform(*NOISE_VARIANCE, size=d))

    X = np.empty((n, d))
    intervened = np.zeros((n, d), dtype=bool)
    for rows, targets in zip(np.array_split(np.arange(n), d + 1), regimes, strict=True):
        intervened[np.ix_(rows, targets)] = True
        for node in order:
            z = noise_rng.standard_normal(len(rows))
            sd = np.sqrt(noise_rng.uniform(*NOISE_VARIANCE)) if redraw_noise_sd else node_sd[node]
            parents = np.flatnonzero(A[:, node])
            if node in targets:
                x = intervention_mean + intervention_sd * z
            elif len(parents):
                x = mechanisms[node](X[np.ix_(rows, parents)], NOISE_COEFFICIENT * sd * z)
            elif roots == "gaussian":
                x = sd * z
            else:
                x = noise_rng.uniform(-1, 1, size=len(rows))
            if standardise_regimes:
                x = (x - x.mean()) / x.std(ddof=1)
            X[rows, node] = x
    if standardise:
        X = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    return Dataset(X=X, intervened=intervened, names=tuple(f"X{j}" for j in range(d)), adjacency=A)


def _check(
    d: int,
    e: float,
    mechanism: str,
    seed: int,
    n: int,
    max_targets: int | None,
    intervention_sd: float,
    roots: str,
) -> None:
    integers = [("d", d, 2), ("seed", seed, 0)]
    if max_targets is not None:
        integers.append(("max_targets", max_targets, 1))
    for name, value, least in integers:
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise InputError(f"{name} is {value!r}, expected an integer of at least {least}")
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 2 * (d + 1):
        raise InputError(
            f"n is {n!r}, expected an integer of at least {2 * (d + 1)}: 2 rows for each of "
            f"{d + 1} regimes"
        )
    if max_targets is not None and max_targets > d:
        raise InputError(f"max_targets is {max_targets}, expected at most d = {d}")
    if not 0 <= e <= (d - 1) / 2:
        raise InputError(f"e is {e!r}, expected a number from 0 to (d - 1) / 2 = {(d - 1) / 2}")
    if mechanism not in MECHANISMS:
        raise InputError(f"mechanism is {mechanism!r}, expected one of {', '.join(MECHANISMS)}")
    if roots not in ("gaussian", "uniform"):
        raise InputError(f"roots is {roots!r}, expected 'gaussian' or 'uniform'")
    if not intervention_sd > 0:
        raise InputError(f"intervention_sd is {intervention_sd!r}, expected a positive number")


def _graph(d: int, e: float, rng: np.random.Generator) -> tuple[np.ndarray, list[int]]:
    """Adjacency matrix, and the nodes with parents before children."""
    backwards = rng.permutation(d).tolist()
    A = np.zeros((d, d), dtype=np.int8)
    for position, node in enumerate(backwards):
        later = backwards[position + 1 :]
        parents = rng.choice(later, size=rng.binomial(len(later), 2 * e / (d - 1)), replace=False)
        A[parents.astype(int), node] = 1
    return A, backwards[::-1]


def _targets(d: int, max_targets: int, cover: bool, rng: np.random.Generator) -> list[list[int]]:
    """Targets of the d interventional regimes."""
    first = rng.permutation(d)
    counts = rng.integers(1, max_targets + 1, size=d)
    if max_targets == 1 or cover:
        others = [np.delete(np.arange(d), node) for node in first]
        return [
            sorted([int(node), *rng.choice(rest, count - 1, replace=False).tolist()])
            for node, rest, count in zip(first, others, counts, strict=True)
        ]
    return [sorted(rng.choice(d, count, replace=False).tolist()) for count in counts]


def _mechanism(family: str, k: int, rng: np.random.Generator):
    """A function of the parents' values (n, k) and the scaled noise (n,)."""
    if family == "L":
        w = rng.uniform(0.25, 1, size=k) * rng.choice([-1, 1], size=k)
        return lambda parents, noise: parents @ w + noise
    if family == "NL-Add":
        f = _network(k, 10, lambda h: np.where(h > 0, h, 0.25 * h), rng)
        return lambda parents, noise: f(parents) + noise
    f = _network(k + 1, 20, np.tanh, rng)
    return lambda parents, noise: f(np.column_stack((parents, noise)))


def _network(n_inputs: int, n_hidden: int, activation, rng: np.random.Generator):
    V = rng.standard_normal((n_inputs, n_hidden))
    b = rng.uniform(-1, 1, size=n_hidden) / np.sqrt(max(n_inputs, 1))
    u = rng.standard_normal(n_hidden)
    c = rng.uniform(-1, 1) / np.sqrt(n_hidden)
    return lambda inputs: activation(inputs @ V + b) @ u + c
