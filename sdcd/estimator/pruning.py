"""Held-out pruning: which edges of a DAG help to predict their child, given its other parents?

A third stage after SDCD, or after any method that returns a DAG. It is not in the paper.

For a variable j and a set S of its parents let p(x_j | x_S) be the network of
:mod:`sdcd.estimator.model` that minimises, over the *fitted* rows,

    -mean log p(x_j | x_S) + alpha sum|W| + beta sum theta^2,

stage 2's problem for one variable, without the acyclicity penalty. The gain of an edge i -> j is
what the other rows, the *scored* ones, say about it:

    gain(i -> j) = mean over scored rows of  log p(x_j | x_S) - log p(x_j | x_(S without i))

in nats per row, with S all parents that j has at that point. It estimates the conditional mutual
information of x_i and x_j given j's other parents. Rows that intervene on j count neither in
fitting nor in scoring. The standard error is that of the mean of the differences, row by row.

An edge stays if its gain is neither small nor within reach of chance:

    gain >= min_gain   and   gain > min_z * standard error.

*One-shot* judges every edge once, given all parents; of two parents that stand in for each other it
can drop both. *Backward* drops, for each child, only the failing parent with the smallest gain,
judges the child's other parents anew, and goes on until none fails.

The children's problems are independent, and so are those with one parent left out: all of them are
targets of one engine, fitted together. A network without parent i starts from the network with it,
less i's weights, and both then run the same further steps on the same batches.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from sdcd.data.checks import dense_values, intervention_mask
from sdcd.errors import InputError, MethodFailure
from sdcd.estimator.engine import StageSettings
from sdcd.estimator.fitting import make_engine
from sdcd.estimator.state import PARAMETERS, Candidates, StageState
from sdcd.graphs import is_acyclic
from sdcd.parameters import checked, flag, integer, number

DEFAULTS = MappingProxyType(
    {"min_gain": 0.02, "min_z": 2.0, "backward": True, "scored_fraction": 0.2}
)
"""Settings of :func:`prune`; how they were chosen is in ``docs/pruning-protocol.md``."""

RANGES = MappingProxyType(
    {
        "min_gain": number(0),
        "min_z": number(0),
        "backward": flag(),
        "scored_fraction": number(above=0, below=1),
    }
)
"""What each of the settings may be."""


@dataclass(frozen=True)
class Fitting:
    """How the networks are fitted.

    Attributes
    ----------
    alpha, beta : float
        Weights of sum|W| (stage 2's) and of the sum of squares of all parameters (a fifth of it).
    hidden : int
        Hidden units per network.
    batch_size : int
        Rows of a step; all fitted rows, if they are fewer.
    learning_rate : float
        Of Adam.
    first_steps : int
        Steps on the networks with all parents, from their random start.
    steps : int
        Further steps of each round on every network.
    """

    alpha: float = 5e-4
    beta: float = 1e-3
    hidden: int = 10
    batch_size: int = 256
    learning_rate: float = 3e-3
    first_steps: int = 4000
    steps: int = 700


@dataclass(frozen=True)
class Pruned:
    """What :func:`prune` found.

    Attributes
    ----------
    adjacency : int8 (d, d)
        The edges that stay.
    gain, gain_se : float64 (d, d)
        Held-out gain of every edge of the DAG in nats per row, and its standard error; NaN for
        other pairs. Of an edge that was dropped, when it was dropped; of one that stayed, given the
        parents that stayed.
    rounds : int
        Rounds of judging: 1 if one-shot, else one more than any child lost edges, at most.
    """

    adjacency: np.ndarray
    gain: np.ndarray
    gain_se: np.ndarray
    rounds: int


def prune(
    adjacency: np.ndarray,
    X: np.ndarray,
    intervened: np.ndarray | None = None,
    *,
    seed: int = 0,
    min_gain: float = DEFAULTS["min_gain"],
    min_z: float = DEFAULTS["min_z"],
    backward: bool = DEFAULTS["backward"],
    scored_fraction: float = DEFAULTS["scored_fraction"],
    fitting: Fitting | None = None,
    engine: str = "auto",
    threads: int | None = None,
    keep: np.ndarray | None = None,
) -> Pruned:
    """Drop the edges of a DAG that do not help to predict their child: see the module.

    Parameters
    ----------
    adjacency : (d, d)
        A DAG: ``adjacency[i, j] != 0`` is an edge i -> j.
    X : float (n, d)
        Values, one row per sample, standardised.
    intervened : bool (n, d) or None
        Whether the sample's value of the variable was set by a (perfect) intervention.
    seed : int, default 0
        Of the choice of scored rows, the networks' start and the order of rows.
    min_gain : float
        Nats per row below which an edge is dropped.
    min_z : float
        Standard errors by which a gain must exceed zero.
    backward : bool
        Whether edges are dropped one at a time per child, the others then being judged anew.
    scored_fraction : float
        Of the rows, drawn uniformly once; no network is fitted to them.
    fitting : Fitting, optional
        How the networks are fitted.
    engine : str, default "auto"
        As :class:`~sdcd.estimator.SDCD` takes it; on the CPU.
    threads : int or None
        As :class:`~sdcd.estimator.SDCD` takes it. The result does not depend on it.
    keep : bool (d, d), optional
        Edges that stay whatever their gain.

    Returns
    -------
    Pruned

    Raises
    ------
    InputError
        If the graph is not a DAG, shapes differ, a value is not finite, a setting is out of range,
        or there are not enough rows.
    MethodFailure
        ``nan`` if a network's density is not finite.

    Notes
    -----
    A child with fewer than two scored rows that do not intervene on it has no evidence for its
    parents: their gains are 0, the standard errors NaN, the edges dropped.

    A network's random start goes by its child's position, and one with several parents takes them
    in the order of the columns: the same data with their columns in another order are another
    random draw, as with another seed.
    """
    given = {
        "min_gain": min_gain,
        "min_z": min_z,
        "backward": backward,
        "scored_fraction": scored_fraction,
    }
    given = {name: checked("pruning", name, value, RANGES[name]) for name, value in given.items()}
    min_gain, min_z, backward, scored_fraction = given.values()
    seed = checked("pruning", "seed", seed, integer(0))
    A, X, free = _checked(adjacency, X, intervened, scored_fraction)
    fitting = fitting or Fitting()
    fitting = replace(fitting, batch_size=min(fitting.batch_size, _n_fitted(X, scored_fraction)))
    n, d = X.shape
    order = _stream(seed, _SPLIT).permutation(n)
    n_scored = int(scored_fraction * n)
    scored, fitted = np.sort(order[:n_scored]), np.sort(order[n_scored:])
    fitter = _Fitter(X[fitted], None if free is None else free[fitted], fitting, engine, threads)
    X_scored = X[scored].astype(np.float64)

    def densities(network: _Network) -> np.ndarray:
        j = network.child
        rows = X_scored if free is None else X_scored[free[scored, j]]
        return _log_density(network, rows)

    gain, gain_se = np.full((d, d), np.nan), np.full((d, d), np.nan)
    networks = _initial_networks(A, fitting.hidden, seed)
    networks = fitter.fit(networks, fitting.first_steps, _stream(seed, _ORDER, 0))
    rounds = 0
    while networks:
        rounds += 1
        groups = [[network, *map(network.without, network.parents)] for network in networks]
        random = _stream(seed, _ORDER, rounds)
        refitted = iter(fitter.fit([x for group in groups for x in group], fitting.steps, random))
        networks = []
        for whole, *_ in groups:
            parents, child = np.array(whole.parents), whole.child
            whole = next(refitted)
            reduced = [next(refitted) for _ in parents]
            gains, errors = _gains(densities(whole), [densities(network) for network in reduced])
            if not np.isfinite(gains).all():
                raise MethodFailure(
                    "nan", f"pruning, round {rounds}: the density of variable {child} is not finite"
                )
            gain[parents, child], gain_se[parents, child] = gains, errors
            fails = ~((gains >= min_gain) & (gains > min_z * errors))
            if keep is not None:
                fails &= ~keep[parents, child]
            if not fails.any():
                continue
            if not backward:
                A[parents[fails], child] = 0
                continue
            weakest = int(np.argmin(np.where(fails, gains, np.inf)))
            A[parents[weakest], child] = 0
            if len(parents) > 1:
                networks.append(reduced[weakest])
    return Pruned(A, gain, gain_se, rounds)


_SPLIT, _INITIAL, _ORDER = 0, 1, 2
_STAGE = 3
_MOST_NETWORKS = 2000
"""Fitted together: bounds the memory of their masks of rows."""


@dataclass(frozen=True)
class _Network:
    """Predicts ``child`` from ``parents`` (ascending); ``theta`` is one target of a StageState."""

    child: int
    parents: tuple[int, ...]
    theta: dict[str, np.ndarray]

    def without(self, parent: int) -> "_Network":
        at = self.parents.index(parent)
        theta = {**self.theta, "W": np.delete(self.theta["W"], at, axis=0)}
        return _Network(self.child, self.parents[:at] + self.parents[at + 1 :], theta)


@dataclass(frozen=True)
class _Fitter:
    """The fitted rows, and how networks are fitted to them."""

    X: np.ndarray
    free: np.ndarray | None
    fitting: Fitting
    engine: str
    threads: int | None

    def fit(
        self, networks: list[_Network], steps: int, random: np.random.Generator
    ) -> list[_Network]:
        """Run at least ``steps`` steps, in whole epochs, on each network."""
        n, batch_size = len(self.X), self.fitting.batch_size
        epochs = -(-steps // -(-n // batch_size))
        seeds = random.integers(2**63, size=epochs)
        out = []
        for start in range(0, len(networks), _MOST_NETWORKS):
            # Every block sees the rows in the same order: the result does not depend on blocks.
            orders = (np.random.Generator(np.random.PCG64(s)).permutation(n) for s in seeds)
            out += self._fit_block(networks[start : start + _MOST_NETWORKS], orders)
        return out

    def _fit_block(self, networks: list[_Network], orders: Iterable[np.ndarray]) -> list[_Network]:
        f, d = self.fitting, self.X.shape[1]
        children = np.array([network.child for network in networks])
        indptr = np.cumsum([0, *(len(network.parents) for network in networks)])
        parents = np.array([i for network in networks for i in network.parents], dtype=np.int64)
        theta = {name: [network.theta[name] for network in networks] for name in PARAMETERS}
        theta = {
            name: np.concatenate(part) if name == "W" else np.stack(part)
            for name, part in theta.items()
        }
        zeros = {name: np.zeros_like(array) for name, array in theta.items()}
        unused = np.zeros(d, dtype=np.float32)
        state = StageState(
            *(Candidates(d, children, indptr, parents),),
            **theta,
            first=zeros,
            second=zeros,
            step=0,
            left=unused,
            right=unused,
        )
        keep = None if self.free is None else self.free[:, children].astype(np.float32)
        settings = StageSettings(f.alpha, f.beta, f.learning_rate, f.batch_size, hidden=f.hidden)
        data = self.X, keep, self.X[:1], None if keep is None else keep[:1]
        engine = make_engine(self.engine, "cpu", False, self.threads, *data, state, settings)
        for order in orders:
            engine.epoch(order, 0.0)
        state = engine.state()
        out = []
        for k, network in enumerate(networks):
            own = {name: getattr(state, name)[k] for name in PARAMETERS if name != "W"}
            own["W"] = state.W[indptr[k] : indptr[k + 1]]
            out.append(_Network(network.child, network.parents, own))
        return out


def _initial_networks(A: np.ndarray, hidden: int, seed: int) -> list[_Network]:
    """One network for each variable that has parents: W at zero, the rest uniform, as in SDCD."""
    d, random = len(A), _stream(seed, _INITIAL)
    limit = 1 / np.sqrt(hidden)
    draws = {
        name: random.uniform(-bound, bound, shape).astype(np.float32)
        for name, shape, bound in (
            ("b", (d, hidden), limit / d),
            ("u", (d, hidden), limit),
            ("v", (d, hidden), limit),
            ("c", (d,), limit),
            ("e", (d,), limit),
        )
    }
    networks = []
    for j in range(d):
        parents = tuple(np.flatnonzero(A[:, j]).tolist())
        if parents:
            W = np.zeros((len(parents), hidden), dtype=np.float32)
            own = {name: array[j] for name, array in draws.items()}
            networks.append(_Network(j, parents, {"W": W, **own}))
    return networks


def _log_density(network: _Network, rows: np.ndarray) -> np.ndarray:
    """Log density p(x_child | x_parents) of each row, in float64."""
    theta = {name: array.astype(np.float64) for name, array in network.theta.items()}
    sums = rows[:, list(network.parents)] @ theta["W"] + theta["b"]
    hidden = 0.5 * (1 + np.tanh(0.5 * sums))
    mean = hidden @ theta["u"] + theta["c"]
    variance = np.logaddexp(0.0, hidden @ theta["v"] + theta["e"])
    error = rows[:, network.child] - mean
    return -0.5 * (np.log(2 * np.pi * variance) + error**2 / variance)


def _gains(whole: np.ndarray, reduced: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard errors of the rows' differences."""
    m = len(whole)
    if m < 2:
        return np.zeros(len(reduced)), np.full(len(reduced), np.nan)
    differences = whole - np.stack(reduced)
    return differences.mean(axis=1), differences.std(axis=1, ddof=1) / np.sqrt(m)


def _checked(adjacency, X, intervened, scored_fraction):
    A, X = np.asarray(adjacency), dense_values(X)
    if A.shape != (X.shape[1],) * 2:
        raise InputError(f"the graph has shape {A.shape} and X {X.shape}, expected (d, d), (n, d)")
    if not is_acyclic(A):
        raise InputError("the graph has a cycle, expected a directed acyclic graph")
    mask = intervention_mask(intervened, X.shape)
    n, n_fitted = len(X), _n_fitted(X, scored_fraction)
    if n - n_fitted < 2 or n_fitted < 2:
        raise InputError(
            f"X has {n} rows, {n_fitted} of them to fit: expected at least two to fit and two to "
            f"score with scored_fraction = {scored_fraction:g}"
        )
    return (A != 0).astype(np.int8), X, None if mask is None else ~mask


def _n_fitted(X: np.ndarray, scored_fraction: float) -> int:
    return len(X) - int(scored_fraction * len(X))


def _stream(seed: int, *key: int) -> np.random.Generator:
    # SDCD's own streams are those of stages 0 to 2.
    sequence = np.random.SeedSequence(seed, spawn_key=(_STAGE, *key))
    return np.random.Generator(np.random.PCG64(sequence))
