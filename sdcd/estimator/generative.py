"""A learned graph as a generative model: density, samples, and what an intervention would do.

Not in the paper, which stops at the graph. For a DAG with parents Pa(j) the model of a row is

    p(x) = prod_j  Normal(x_j; mean_j(x_Pa(j)), var_j(x_Pa(j)))

with the networks of :mod:`sdcd.estimator.model`,

    h_j = sigmoid(sum_(i in Pa(j)) x_i W[i, j, :] + b_j),
    mean_j = u_j . h_j + c_j,   var_j = softplus(v_j . h_j + e_j);

a variable without parents is Normal with a mean and a variance of its own. A perfect intervention
do(x_i = value) replaces the factor of i, and leaves all others as they are.

The networks are fitted to the graph anew. Those that stage 2 of SDCD leaves behind predict from all
its candidates, also where the graph has no edge: with the other inputs they are no density of a DAG
at all; and with the inputs that are no parents held at their mean they predict badly. On the
paper's data set d = 10, s = 4, seed 0, every variable intervened on, the held-out log density of a
row along SDCD's graph is -31.4 nats so, 1.7 with networks fitted anew with stage 2's penalties, and
2.6 with those of :class:`Fitting` (-13.8 without any edge, 4.2 along the true graph).

The fit minimises, over the rows that it trains on and for all variables with parents together,

    - mean over rows of  sum_j [j not intervened on] log p(x_j | x_Pa(j))
    + alpha sum|W| + beta sum(theta^2)

by Adam, as SDCD's stages do, and stops early on other rows. Every column is given mean 0 and
standard deviation 1 (over all rows, ddof 1) for the fit; the model takes and gives values in the
units of the data. A root's mean and variance are those of all its rows without an intervention on
it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from sdcd.data.checks import dense_values, intervention_mask, scale_of, scaled
from sdcd.errors import CorruptFile, DataError, InputError
from sdcd.estimator.engine import StageSettings
from sdcd.estimator.fitting import initial_state, make_engine
from sdcd.estimator.stages import StageProgress, StageRules, run_stage
from sdcd.estimator.state import PARAMETERS, Candidates, StageState
from sdcd.files import read_npz, write_npz
from sdcd.graphs import is_acyclic, topological_order
from sdcd.parameters import checked, closest, integer

LEAST_VARIANCE = 1e-6
"""Of a root, in units of the column's variance over all rows: a root that varies only where it is
intervened on would have no density."""


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
        Rows of a step; all training rows, if they are fewer.
    learning_rate : float
        Of Adam; a second run, from the best of the first, has a tenth of it, so that the result
        depends little on the order of the rows.
    epochs : int
        Of each run, at most.
    check_every, patience : int
        As in :class:`~sdcd.estimator.SDCD`.
    validation_fraction : float
        Of the rows, drawn uniformly; not trained on.
    """

    alpha: float = 1e-4
    beta: float = 1e-4
    hidden: int = 30
    batch_size: int = 256
    learning_rate: float = 1e-2
    epochs: int = 500
    check_every: int = 5
    patience: int = 5
    validation_fraction: float = 0.2


@dataclass(frozen=True)
class Effects:
    """What single interventions do to the means.

    Attributes
    ----------
    values : float64 (d,)
        What each variable is set to, in its units; NaN for those that are not.
    shift : float64 (d, d)
        ``shift[i, j]`` is E[x_j | do(x_i = values[i])] - E[x_j], in the units of j; on the diagonal
        the value less the mean. NaN in rows of variables that are not set.
    shift_se : float64 (d, d)
        Its Monte Carlo standard error: how far the average over the draws is from the model's own
        shift. It says nothing about how far the model is from the truth. 0 where i is no ancestor
        of j.
    """

    values: np.ndarray
    shift: np.ndarray
    shift_se: np.ndarray


@dataclass(frozen=True, eq=False)
class GenerativeModel:
    """A DAG with a fitted network for each variable; :func:`fit_generative` makes it.

    Attributes
    ----------
    names : tuple of d str
    adjacency : int8 (d, d)
        The DAG: ``adjacency[i, j] == 1`` is an edge i -> j.
    mean, sd : float64 (d,)
        ``(x - mean) / sd`` is what the networks take and predict.
    perturbed : float64 (d,)
        Mean of each variable over the rows that intervened on it, in its units; NaN if none did.
    theta : dict of str to float32 array
        ``W`` (E, h), in the order of ``candidates``; ``b``, ``u``, ``v`` (d, h), ``c``, ``e`` (d,).
        Of a root only ``c`` and ``e`` are not zero.
    """

    names: tuple[str, ...]
    adjacency: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    perturbed: np.ndarray
    theta: dict[str, np.ndarray]

    @property
    def d(self) -> int:
        """Number of variables."""
        return len(self.names)

    @cached_property
    def candidates(self) -> Candidates:
        """The edges, by child, then parent."""
        return Candidates.of_edges(self.d, *np.nonzero(self.adjacency))

    def log_density(self, X: np.ndarray, intervened: np.ndarray | None = None) -> np.ndarray:
        """Log density of each value given the parents' values in its row.

        Parameters
        ----------
        X : float (n, d)
            Values, in the units of the data.
        intervened : bool (n, d) or None
            Whether an intervention set the value.

        Returns
        -------
        float64 (n, d)
            In nats, of densities in the units of the data (a column in units k times as large has
            densities k times as large). NaN where an intervention set the value, which the model
            does not explain. The sum over a row, without NaN, is the log density of what was left
            free given what was set.

        Raises
        ------
        DataError
            If X or intervened is not as said.
        """
        X = self._values(X)
        mask = intervention_mask(intervened, X.shape)
        Z = (X - self.mean) / self.sd
        out = np.empty(Z.shape)
        for j in range(self.d):
            mean, variance = self._moments(j, Z)
            out[:, j] = -0.5 * (np.log(2 * np.pi * variance) + (Z[:, j] - mean) ** 2 / variance)
        out -= np.log(self.sd)
        if mask is not None:
            out[mask] = np.nan
        return out

    def sample(
        self, n: int, do: Mapping[str | int, float] | None = None, seed: int = 0
    ) -> np.ndarray:
        """Draw rows, parents before children.

        Parameters
        ----------
        n : int
            How many.
        do : mapping, optional
            What is set from outside: names (or columns) to values, in the units of the data.
        seed : int, default 0
            Of the draws. Column j takes the same noise whatever is set.

        Returns
        -------
        float64 (n, d)
            In the units of the data.

        Raises
        ------
        InputError
            If a variable is unknown, a value not finite, or n or seed not an integer in range.
        """
        n = checked("sample", "n", n, integer(1))
        do = do or {}
        values = self._do(do)
        rows = self._draw(self._noise(n, seed), values) * self.sd + self.mean
        for key, value in do.items():
            rows[:, self._column(key)] = value
        return rows

    def effects(
        self,
        values: Mapping[str | int, float] | np.ndarray | None = None,
        *,
        n: int = 4000,
        seed: int = 0,
    ) -> Effects:
        """How the mean of each variable moves if another one is set, one at a time.

        Both means are taken over the same ``n`` draws of the noise.

        Parameters
        ----------
        values : mapping or float (d,), optional
            What each variable is set to, in the units of the data; NaN, or not named: not set.
            Default: one standard deviation (``sd``) above ``mean``.
        n : int, default 4000
            Draws.
        seed : int, default 0
            Of the draws.

        Returns
        -------
        Effects

        Raises
        ------
        InputError
            As :meth:`sample`.
        """
        n = checked("effects", "n", n, integer(2))
        wanted = self._wanted(values)
        noise = self._noise(n, seed)
        free = self._draw(noise, {})
        shift, error = (np.full((self.d, self.d), np.nan) for _ in range(2))
        for i in np.flatnonzero(np.isfinite(wanted)).tolist():
            value = (wanted[i] - self.mean[i]) / self.sd[i]
            difference = self._draw(noise, {i: value}, free) - free
            shift[i] = difference.mean(axis=0) * self.sd
            error[i] = difference.std(axis=0, ddof=1) / np.sqrt(n) * self.sd
        return Effects(wanted, shift, error)

    def in_units(self, mean: np.ndarray, sd: np.ndarray) -> "GenerativeModel":
        """The model of ``x * sd + mean``, where this one is of x: undoes a standardisation."""
        return replace(
            self,
            mean=self.mean * sd + mean,
            sd=self.sd * sd,
            perturbed=self.perturbed * sd + mean,
        )

    def save(self, path: str | Path) -> None:
        """Write as ``.npz``; the bytes depend on the model alone."""
        parents, children = np.nonzero(self.adjacency)
        write_npz(
            path,
            format=np.array(_FORMAT),
            names=np.array(self.names, dtype=np.str_),
            parents=parents.astype(np.int32),
            children=children.astype(np.int32),
            mean=self.mean,
            sd=self.sd,
            perturbed=self.perturbed,
            **self.theta,
        )

    @classmethod
    def load(cls, path: str | Path) -> "GenerativeModel":
        """Read what :meth:`save` wrote; :class:`InputError` if it is something else."""
        arrays = read_npz(path)
        if arrays.get("format", np.array("")).tolist() != _FORMAT:
            raise InputError(f"{path}: not a model as 'sdcd fit' writes it beside a fit")
        try:
            names = tuple(arrays["names"].tolist())
            d, hidden = len(names), arrays["b"].shape[1]
            adjacency = np.zeros((d, d), dtype=np.int8)
            adjacency[arrays["parents"], arrays["children"]] = 1
            shapes = {
                **dict.fromkeys(("mean", "sd", "perturbed", "c", "e"), (d,)),
                **dict.fromkeys(("b", "u", "v"), (d, hidden)),
                "W": (len(arrays["parents"]), hidden),
            }
            wrong = [name for name, shape in shapes.items() if arrays[name].shape != shape]
        except (KeyError, IndexError) as error:
            raise CorruptFile(f"{path}: not a complete model ({error})") from None
        if wrong or not is_acyclic(adjacency):
            raise CorruptFile(f"{path}: not a model of a DAG ({', '.join(wrong) or 'a cycle'})")
        theta = {name: arrays[name] for name in PARAMETERS}
        return cls(names, adjacency, arrays["mean"], arrays["sd"], arrays["perturbed"], theta)

    @cached_property
    def _order(self) -> list[int]:
        return topological_order(self.adjacency).tolist()

    def _values(self, X: np.ndarray) -> np.ndarray:
        dense_values(X)
        X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
        if X.shape[1] != self.d:
            raise DataError(f"X has {X.shape[1]} columns, expected those of the fit, {self.d}")
        return X

    def _moments(self, j: int, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of j given the row, in the networks' units: float64 (n,), (n,)."""
        candidates = self.candidates
        edges = slice(candidates.indptr[j], candidates.indptr[j + 1])
        theta = {name: self.theta[name][j].astype(np.float64) for name in PARAMETERS if name != "W"}
        sums = Z[:, candidates.parents[edges]] @ self.theta["W"][edges].astype(np.float64)
        hidden = 0.5 * (1 + np.tanh(0.5 * (sums + theta["b"])))
        mean = hidden @ theta["u"] + theta["c"]
        return mean, np.logaddexp(0.0, hidden @ theta["v"] + theta["e"])

    def _noise(self, n: int, seed: int) -> np.ndarray:
        seed = checked("sample", "seed", seed, integer(0))
        # A stream for each column: its draws are a prefix of those of a larger n.
        draws = [_stream(seed, _NOISE, j).standard_normal(n) for j in range(self.d)]
        return np.stack(draws, axis=1)

    def _draw(
        self, noise: np.ndarray, do: Mapping[int, float], free: np.ndarray | None = None
    ) -> np.ndarray:
        """Rows in the networks' units; those without ``do`` save work where they are given."""
        Z = np.zeros(noise.shape) if free is None else free.copy()
        moved = np.full(self.d, free is None)
        for j in self._order:
            if j in do:
                Z[:, j], moved[j] = do[j], True
                continue
            moved[j] |= moved[self.adjacency[:, j] != 0].any()
            if moved[j]:
                mean, variance = self._moments(j, Z)
                Z[:, j] = mean + np.sqrt(variance) * noise[:, j]
        return Z

    def _do(self, do: Mapping[str | int, float]) -> dict[int, float]:
        """Columns to values, in the networks' units."""
        if not isinstance(do, Mapping):
            raise InputError(f"do is {do!r}, expected a mapping of names to values")
        found = {}
        for key, value in do.items():
            j = self._column(key)
            if j in found:
                raise InputError(f"do: {self.names[j]!r} is set twice")
            try:
                value = float(value)
            except (TypeError, ValueError):
                value = np.nan
            if not np.isfinite(value):
                raise InputError(f"do: {self.names[j]!r} is {do[key]!r}, expected a finite number")
            found[j] = (value - self.mean[j]) / self.sd[j]
        return found

    def _column(self, key: str | int) -> int:
        if isinstance(key, str) and key in self.names:
            return self.names.index(key)
        if isinstance(key, int | np.integer) and not isinstance(key, bool) and 0 <= key < self.d:
            return int(key)
        hint = closest(key, self.names) if isinstance(key, str) else ""
        raise InputError(f"do: no variable {key!r}{hint}, expected one of the {self.d} of the fit")

    def _wanted(self, values) -> np.ndarray:
        if values is None:
            return self.mean + self.sd
        wanted = np.full(self.d, np.nan)
        if isinstance(values, Mapping):
            for j, value in self._do(values).items():
                wanted[j] = value * self.sd[j] + self.mean[j]
            return wanted
        values = np.asarray(values, dtype=np.float64)
        if values.shape != (self.d,) or np.isinf(values).any():
            raise InputError(
                f"values has shape {values.shape}, expected ({self.d},), none infinite"
            )
        return values


def fit_generative(
    adjacency: np.ndarray,
    X: np.ndarray,
    intervened: np.ndarray | None = None,
    *,
    names: Sequence[str] | None = None,
    seed: int = 0,
    fitting: Fitting | None = None,
    engine: str = "auto",
    threads: int | None = None,
) -> GenerativeModel:
    """Fit the model of a DAG: see the module.

    Parameters
    ----------
    adjacency : (d, d)
        A DAG: ``adjacency[i, j] != 0`` is an edge i -> j.
    X : float (n, d)
        Values, one row per sample, in any units.
    intervened : bool (n, d) or None
        Whether an intervention set the value.
    names : sequence of d str, optional
        Of the variables; ``X0``, ``X1``, ... by default.
    seed : int, default 0
        Of the split, the networks' start and the order of rows.
    fitting : Fitting, optional
        How the networks are fitted.
    engine, threads
        As :class:`~sdcd.estimator.SDCD` takes them; on the CPU.

    Returns
    -------
    GenerativeModel

    Raises
    ------
    InputError
        If the graph is not a DAG over the columns of X, the data are not as they must be, or a
        variable is intervened on in all rows but one.
    MethodFailure
        ``nan`` if the optimisation diverges.
    """
    X = dense_values(X)
    A = np.asarray(adjacency)
    d = X.shape[1]
    if A.shape != (d, d):
        raise InputError(f"the graph has shape {A.shape} and X {X.shape}, expected (d, d), (n, d)")
    if not is_acyclic(A):
        raise InputError("the graph has a cycle, expected a directed acyclic graph")
    names = tuple(names) if names is not None else tuple(f"X{j}" for j in range(d))
    if len(names) != d:
        raise InputError(f"{len(names)} names for {d} variables")
    seed = checked("generative model", "seed", seed, integer(0))
    intervened = intervention_mask(intervened, X.shape)
    free = np.ones(X.shape, dtype=bool) if intervened is None else ~intervened
    few = np.flatnonzero(free.sum(axis=0) < 2)
    if few.size:
        raise DataError(
            f"variable {names[few[0]]!r} has {free[:, few[0]].sum()} rows without an intervention "
            "on it, expected at least 2"
        )
    mean, sd = scale_of(X)
    if not sd.all():
        raise DataError(f"variable {names[int((sd == 0).argmax())]!r} is constant")
    Z = scaled(X, mean, sd)
    fitting = fitting or Fitting()
    A = (A != 0).astype(np.int8)
    theta = _fit_networks(
        A, Z, None if intervened is None else free, seed, fitting, engine, threads
    )
    for j in np.flatnonzero(A.sum(axis=0) == 0).tolist():
        values = Z[free[:, j], j].astype(np.float64)
        theta["c"][j] = values.mean()
        variance = max(values.var(), LEAST_VARIANCE)
        # The inverse of softplus.
        theta["e"][j] = variance + np.log(-np.expm1(-variance))
    counts = np.count_nonzero(~free, axis=0)
    sums = np.where(free, 0.0, X).sum(axis=0, dtype=np.float64)
    perturbed = np.divide(sums, counts, out=np.full(d, np.nan), where=counts > 0)
    return GenerativeModel(names, A, mean, sd, perturbed, theta)


_FORMAT = "sdcd generative model 1"
_STAGE = 5
_SPLIT, _ORDER, _NOISE = 0, 2, 3
# The purpose in between, 1, is the networks' start, drawn as SDCD's own.


def _fit_networks(A, Z, free, seed, fitting: Fitting, engine, threads) -> dict[str, np.ndarray]:
    """Parameters of all variables; those of roots are zero."""
    n, d = Z.shape
    h = fitting.hidden
    shapes = {"b": (d, h), "u": (d, h), "v": (d, h), "c": (d,), "e": (d,)}
    theta = {name: np.zeros(shape, dtype=np.float32) for name, shape in shapes.items()}
    theta["W"] = np.zeros((0, h), dtype=np.float32)
    whole = Candidates.of_edges(d, *np.nonzero(A))
    targets = np.flatnonzero(A.sum(axis=0))
    if not len(targets):
        return theta
    sizes = np.diff(whole.indptr)[targets]
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    candidates = Candidates(d, targets, indptr, whole.parents)
    order = _stream(seed, _SPLIT).permutation(n)
    n_validation = max(1, int(fitting.validation_fraction * n))
    validation, train = np.sort(order[:n_validation]), np.sort(order[n_validation:])
    keep = [
        None if free is None else free[rows][:, targets].astype(np.float32)
        for rows in (train, validation)
    ]
    data = np.ascontiguousarray(Z[train]), keep[0], np.ascontiguousarray(Z[validation]), keep[1]
    rules = StageRules(1, fitting.epochs, fitting.check_every, fitting.patience, 0.0)
    random = _stream(seed, _ORDER)
    state = initial_state(candidates, h, seed, _STAGE)
    for rate in (fitting.learning_rate, fitting.learning_rate / 10):
        settings = StageSettings(
            *(fitting.alpha, fitting.beta, rate, min(fitting.batch_size, len(train))), hidden=h
        )
        state = run_stage(
            make_engine(engine, "cpu", False, threads, *data, _from_rest(state), settings),
            candidates,
            rules,
            StageProgress(),
            lambda: random.permutation(len(train)),
            lambda: None,
        )
    for name in shapes:
        theta[name][targets] = getattr(state, name)
    theta["W"] = state.W
    return theta


def _from_rest(state: StageState) -> StageState:
    """The parameters, for Adam to start from without momentum."""
    zeros = {name: np.zeros_like(getattr(state, name)) for name in PARAMETERS}
    return replace(state, first=zeros, second=zeros, step=0)


def _stream(seed: int, *key: int) -> np.random.Generator:
    # SDCD's own streams are those of stages 0 to 2, pruning's of stage 3, the order search's of 4.
    sequence = np.random.SeedSequence(seed, spawn_key=(_STAGE, *key))
    return np.random.Generator(np.random.PCG64(sequence))
