"""Local scores: how well a set of parents predicts a variable on rows that it was not fitted to.

For a variable j and a set Pa of others let p(x_j | x_Pa) be the network of
:mod:`sdcd.estimator.model` that minimises, over the *fitted* rows,

    -mean log p(x_j | x_Pa) + alpha sum|W| + beta sum theta^2.

Its local score is the mean log density of the *scored* rows, in nats:

    S(j, Pa) = mean over scored rows of  log p(x_j | x_Pa).

Rows that intervene on j count neither in fitting nor in scoring.

The networks are independent problems, so those of any children and sets are targets of one engine,
fitted together. A network starts from that of another set of the same child: weights of parents
that both have are copied, those of new parents are zero.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sdcd.errors import MethodFailure
from sdcd.estimator.engine import StageSettings
from sdcd.estimator.fitting import make_engine
from sdcd.estimator.state import PARAMETERS, Candidates, StageState

Family = tuple[int, tuple[int, ...]]
"""A child and its parents, ascending."""


@dataclass(frozen=True)
class Fitting:
    """How the networks are fitted.

    Attributes
    ----------
    alpha, beta : float
        Weights of sum|W| and of the sum of squares of all parameters.
    hidden : int
        Hidden units per network.
    batch_size : int
        Rows of a step; all fitted rows, if they are fewer.
    learning_rate : float
        Of Adam; the last quarter of the steps has a tenth of it, so that scores differ little for
        the order of the rows.
    first_steps : int
        Steps of a network from its random start.
    steps : int
        Steps of a network that starts from another one.
    rough_first_steps, rough_steps : int
        The same where a fit only has to tell what is worth a longer one.
    """

    alpha: float = 1e-4
    beta: float = 1e-4
    hidden: int = 30
    batch_size: int = 256
    learning_rate: float = 1e-2
    first_steps: int = 6000
    steps: int = 1000
    rough_first_steps: int = 2000
    rough_steps: int = 250


@dataclass(frozen=True)
class Network:
    """A fitted family.

    Attributes
    ----------
    child : int
    parents : tuple of int
        Ascending.
    theta : dict of str to float32 array
        The network's parameters, one target of a :class:`~sdcd.estimator.state.StageState`.
    rows : float32 (m,)
        Log density of each scored row, times m over the number of scored rows that do not intervene
        on the child; 0 in those that do. So the mean is the score, and sums over children can be
        formed row by row.
    rough : bool
        Whether it was fitted for the shorter times only.
    """

    child: int
    parents: tuple[int, ...]
    theta: dict[str, np.ndarray]
    rows: np.ndarray
    rough: bool = False

    @property
    def score(self) -> float:
        """The local score, in nats."""
        return float(self.rows.mean(dtype=np.float64))


class LocalScores:
    """Fits families to one part of the rows and scores them on another, and keeps them.

    Parameters
    ----------
    X : float32 (n, d)
        Values.
    intervened : bool (n, d) or None
        Whether an intervention set the value.
    fitted, scored, judged : int64
        Rows to fit to, to score on, and those for :meth:`judged` alone, by which nothing is chosen.
    fitting : Fitting
        How.
    seed : int
        Of the networks' start and the order of rows.
    engine, threads
        As :class:`~sdcd.estimator.SDCD` takes them; on the CPU.
    """

    def __init__(
        self, X, intervened, fitted, scored, judged, fitting, seed, engine="auto", threads=None
    ):
        self.fitting, self.seed = fitting, seed
        self.d = X.shape[1]
        self._engine, self._threads = engine, threads
        free = None
        if intervened is not None and intervened.any():
            free = ~intervened
        self._fitted, self._scored, self._judged = (
            _Rows(np.ascontiguousarray(X[rows]), None if free is None else free[rows])
            for rows in (fitted, scored, judged)
        )
        self._start = _initial(self.d, fitting.hidden, seed)
        self.networks: dict[Family, Network] = {}
        self.fits = 0
        """Networks fitted so far; also numbers the streams of random numbers."""
        self.calls = 0

    def fit(
        self,
        wanted: Iterable[tuple[Family, Family | None]],
        *,
        again: Sequence[Family] = (),
        anew: Sequence[Family] = (),
        rough: bool = False,
    ) -> None:
        """Fit and score families that are not there yet.

        Parameters
        ----------
        wanted : iterable of (family, family or None)
            What to fit, and the fitted family of the same child to start from (``None``: from the
            random start, for the longer time).
        again : sequence of families
            Fitted ones to go on with for as long as the others.
        anew : sequence of families
            To fit from the random start whether or not they are there.
        rough : bool
            Whether for the shorter times.
        """
        new: dict[Family, Network | None] = {family: self.networks[family] for family in again}
        new.update(dict.fromkeys(anew))
        for family, origin in wanted:
            if family not in self.networks and family not in new:
                new[family] = None if origin is None else self.networks[origin]
        # A shorter fit that goes on with a longer one leaves it no rougher.
        leave = {family for family in again if not (rough and self.networks[family].rough)}
        self.calls += 1
        first = [family for family, origin in new.items() if origin is None]
        rest = [family for family, origin in new.items() if origin is not None]
        f = self.fitting
        times = (f.rough_first_steps, f.rough_steps) if rough else (f.first_steps, f.steps)
        for number, (families, steps) in enumerate(zip((first, rest), times, strict=True)):
            starts = [self._theta(family, new[family]) for family in families]
            random = _stream(self.seed, _ORDER, self.calls, number)
            marks = [rough and family not in leave for family in families]
            self._fit_all(families, starts, steps, random, marks)

    def __getitem__(self, family: Family) -> Network:
        return self.networks[family]

    def keep(self, families: Iterable[Family]) -> None:
        """Forget all networks but these."""
        self.networks = {family: self.networks[family] for family in families}

    def _theta(self, family: Family, origin: Network | None) -> dict[str, np.ndarray]:
        child, parents = family
        W = np.zeros((len(parents), self.fitting.hidden), dtype=np.float32)
        if origin is None:
            return {"W": W, **{name: array[child] for name, array in self._start.items()}}
        place = {parent: k for k, parent in enumerate(origin.parents)}
        for k, parent in enumerate(parents):
            if parent in place:
                W[k] = origin.theta["W"][place[parent]]
        return {**origin.theta, "W": W}

    def _fit_all(self, families, starts, steps, random, marks) -> None:
        n, batch_size = len(self._fitted.X), self.fitting.batch_size
        per_epoch = -(-n // batch_size)
        epochs = max(2, round(steps / per_epoch))
        seeds = random.integers(2**63, size=epochs)
        for start in range(0, len(families), _MOST_NETWORKS):
            block = slice(start, start + _MOST_NETWORKS)
            # Every block sees the rows in the same order: the result does not depend on blocks.
            orders = (np.random.Generator(np.random.PCG64(s)).permutation(n) for s in seeds)
            self._fit_block(families[block], starts[block], orders, epochs, marks[block])
        self.fits += len(families)

    def _fit_block(self, families, starts, orders, epochs, marks) -> None:
        f = self.fitting
        children = np.array([child for child, _ in families])
        indptr = np.cumsum([0, *(len(parents) for _, parents in families)])
        parents = np.array([i for _, pa in families for i in pa], dtype=np.int64)
        theta = {name: [start[name] for start in starts] for name in PARAMETERS}
        theta = {
            name: np.concatenate(part) if name == "W" else np.stack(part)
            for name, part in theta.items()
        }
        zeros = {name: np.zeros_like(array) for name, array in theta.items()}
        unused = np.zeros(self.d, dtype=np.float32)
        candidates = Candidates(self.d, children, indptr, parents)
        state = StageState(
            candidates, **theta, first=zeros, second=zeros, step=0, left=unused, right=unused
        )
        X, free = self._fitted.X, self._fitted.free
        keep = None if free is None else free[:, children].astype(np.float32)
        data = X, keep, X[:1], None if keep is None else keep[:1]
        fine = max(1, epochs // 4)
        for rate, count in ((f.learning_rate, epochs - fine), (f.learning_rate / 10, fine)):
            settings = StageSettings(f.alpha, f.beta, rate, f.batch_size, hidden=f.hidden)
            engine = make_engine(self._engine, "cpu", False, self._threads, *data, state, settings)
            for _ in range(count):
                engine.epoch(next(orders), 0.0)
            state = engine.state()
        for k, family in enumerate(families):
            theta = {name: getattr(state, name)[k].copy() for name in PARAMETERS if name != "W"}
            theta["W"] = state.W[indptr[k] : indptr[k + 1]].copy()
            self._add(family, theta, marks[k])

    def _add(self, family: Family, theta: dict[str, np.ndarray], rough: bool) -> None:
        rows = _densities(family, theta, self._scored)
        if not np.isfinite(rows).all():
            raise MethodFailure("nan", f"the density of variable {family[0]} is not finite")
        self.networks[family] = Network(*family, theta, rows, rough)

    def judged(self, family: Family) -> np.ndarray:
        """Log densities as :attr:`Network.rows`, of the judged rows."""
        return _densities(family, self.networks[family].theta, self._judged)

    def tree(self) -> dict:
        """What :meth:`restore` needs to go on from here, for a checkpoint."""
        networks = self.networks.values()
        tree = {
            "children": np.array([network.child for network in networks], dtype=np.int64),
            "sizes": np.array([len(network.parents) for network in networks], dtype=np.int64),
            "rough": np.array([network.rough for network in networks], dtype=bool),
            "parents": np.array([i for x in networks for i in x.parents], dtype=np.int64),
            "fits": self.fits,
            "calls": self.calls,
        }
        for name in PARAMETERS if self.networks else ():
            parts = [network.theta[name] for network in networks]
            tree[name] = np.concatenate(parts) if name == "W" else np.stack(parts)
        return tree

    def restore(self, tree: dict) -> None:
        """Undo :meth:`tree`."""
        self.networks, self.fits, self.calls = {}, tree["fits"], tree["calls"]
        ends = np.cumsum(tree["sizes"])
        for k, child in enumerate(tree["children"].tolist()):
            part = slice(ends[k] - tree["sizes"][k], ends[k])
            theta = {name: tree[name][part if name == "W" else k] for name in PARAMETERS}
            family = child, tuple(tree["parents"][part].tolist())
            self._add(family, theta, bool(tree["rough"][k]))

    def losses_without(self, family: Family) -> np.ndarray:
        """Score lost by each parent if its weights are set to zero, the rest left as it is.

        Returns
        -------
        float64 (number of parents,)
            A fit without the parent can only lose less (up to the noise of fitting).
        """
        theta, (child, parents) = self.networks[family].theta, family
        rows = self._scored.of(child)
        values, x = rows[:, list(parents)], rows[:, child]
        if not len(rows):
            return np.zeros(len(parents))
        sums = values @ theta["W"] + theta["b"]
        whole = log_density(sums, theta, x).mean(dtype=np.float64)
        losses = np.empty(len(parents))
        for k in range(len(parents)):
            without = sums - np.outer(values[:, k], theta["W"][k])
            losses[k] = whole - log_density(without, theta, x).mean(dtype=np.float64)
        return losses


@dataclass(frozen=True)
class _Rows:
    """Some of the rows, and where no intervention set the value (None: nowhere)."""

    X: np.ndarray
    free: np.ndarray | None

    def of(self, child: int) -> np.ndarray:
        """Those that do not intervene on the variable."""
        return self.X if self.free is None else self.X[self.free[:, child]]


def _densities(family: Family, theta: dict[str, np.ndarray], rows: _Rows) -> np.ndarray:
    """Scaled as :attr:`Network.rows`."""
    child, parents = family
    X = rows.of(child)
    sums = X[:, list(parents)] @ theta["W"] + theta["b"]
    values = log_density(sums, theta, X[:, child])
    if rows.free is None:
        return values
    out = np.zeros(len(rows.X), dtype=np.float32)
    if len(X):
        out[rows.free[:, child]] = values * np.float32(len(out) / len(X))
    return out


def log_density(sums: np.ndarray, theta: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """Log density of ``x`` (m,) given the inputs (m, h) of the hidden units."""
    with np.errstate(over="ignore"):  # exp(-sums) is infinite where the sigmoid is 0
        hidden = 1 / (1 + np.exp(-sums))
    mean = hidden @ theta["u"] + theta["c"]
    variance = np.logaddexp(np.float32(0), hidden @ theta["v"] + theta["e"])
    return -0.5 * (np.log(np.float32(2 * np.pi) * variance) + (x - mean) ** 2 / variance)


def difference(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """Mean of a - b over rows, and its standard error."""
    rows = (a - b).astype(np.float64)
    return float(rows.mean()), float(rows.std(ddof=1) / np.sqrt(len(rows)))


_MOST_NETWORKS = 2000
"""Fitted together: bounds the memory of their masks of rows."""
_STAGE = 4
_INITIAL, _ORDER = 0, 1


def _initial(d: int, hidden: int, seed: int) -> dict[str, np.ndarray]:
    """All parameters but W of each variable's first network, uniform, as in SDCD."""
    random, limit = _stream(seed, _INITIAL), 1 / np.sqrt(hidden)
    return {
        name: random.uniform(-bound, bound, shape).astype(np.float32)
        for name, shape, bound in (
            ("b", (d, hidden), limit / d),
            ("u", (d, hidden), limit),
            ("v", (d, hidden), limit),
            ("c", (d,), limit),
            ("e", (d,), limit),
        )
    }


def _stream(seed: int, *key: int) -> np.random.Generator:
    # SDCD's own streams are those of stages 0 to 2, pruning's that of stage 3.
    sequence = np.random.SeedSequence(seed, spawn_key=(_STAGE, *key))
    return np.random.Generator(np.random.PCG64(sequence))
