"""The augmented Lagrangian method as DCDI and DCD-FG use it: the controller and the two loops.

The problem is

    minimise  nll(theta) + lambda reg(theta)   subject to  h(theta) = 0,

and what RMSprop descends is ``nll + lambda reg + gamma h + mu h^2 / 2``. Now and then, when the
validation loss is taken to be stationary, ``gamma`` and perhaps ``mu`` grow.

Two versions of the rules exist. The *port* is the float32 re-implementation that came with DCD-FG
and that the SDCD authors ran; its test of stationarity is the reverse of the *original*'s. Numbers
of the controller are kept in the precision of the parameters, because that is where the port ends:
at d = 50 it needs a ``mu`` beyond the range of float32.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
import torch

from sdcd.baselines.dcdi_models.kernels import Data
from sdcd.baselines.dcdi_models.networks import Parameters, RMSprop
from sdcd.errors import InputError, MethodFailure

TOLERANCE = 1e-4
"""The validation loss is stationary if it moves by less than this per unit of ``WINDOW``."""

WINDOW = 100
"""What the change over the last three validations is divided by."""


@dataclass(frozen=True)
class Rules:
    """When the multipliers grow.

    Attributes
    ----------
    stationary_if : "not monotone" or "monotone"
        The pattern of the last three validation losses at which stationarity is tested at all.
    updates_before_doubling : int
        ``mu`` may double only after this many updates.
    """

    stationary_if: Literal["not monotone", "monotone"]
    updates_before_doubling: int


PORT = Rules(stationary_if="not monotone", updates_before_doubling=2)
ORIGINAL = Rules(stationary_if="monotone", updates_before_doubling=1)


@dataclass
class AugmentedLagrangian:
    """The multipliers, and the rules by which they grow.

    Attributes
    ----------
    regularisation : float
        lambda.
    gamma, mu : numpy scalar
        Multiplier and penalty weight, initially 0 and 1e-8.
    losses : list of numpy scalar
        Validation values of the augmented Lagrangian.
    constraints : list of numpy scalar
        h at the past updates; its length is the number of updates.
    reg, h : numpy scalar or None
        As last recorded.
    """

    rules: Rules
    dtype: np.dtype
    regularisation: float
    gamma: np.floating = field(init=False)
    mu: np.floating = field(init=False)
    losses: list[np.floating] = field(default_factory=list)
    constraints: list[np.floating] = field(default_factory=list)
    reg: np.floating | None = None
    h: np.floating | None = None

    def __post_init__(self):
        self.dtype = np.dtype(self.dtype)
        self.regularisation = self.dtype.type(self.regularisation)
        self.gamma = self.dtype.type(0)
        self.mu = self.dtype.type(1e-8)

    @property
    def updates(self) -> int:
        """How often the multipliers have grown."""
        return len(self.constraints)

    def penalty(self, reg: np.floating, h: np.floating) -> np.floating:
        """``lambda reg + gamma h + mu h^2 / 2``."""
        half = self.dtype.type(0.5)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            return self.regularisation * reg + self.gamma * h + half * self.mu * h * h

    def slope(self, h: np.floating) -> np.floating:
        """Derivative of :meth:`penalty` by h."""
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            return self.gamma + self.mu * h

    def record(self, nll: np.floating, reg: np.floating, h: np.floating) -> np.floating:
        """Note a validation; return its augmented Lagrangian."""
        self.reg, self.h = self.dtype.type(reg), self.dtype.type(h)
        self.losses.append(self.dtype.type(nll) + self.penalty(self.reg, self.h))
        return self.losses[-1]

    def change(self) -> float:
        """Change of the validation loss, or -inf where the rules do not look at it."""
        if len(self.losses) < 3:
            return -np.inf
        first, middle, last = self.losses[-3:]
        monotone = min(first, last) < middle < max(first, last)
        if monotone == (self.rules.stationary_if == "not monotone"):
            return -np.inf
        with np.errstate(invalid="ignore"):
            return (last - first) / WINDOW

    def update(self) -> bool:
        """Let the multipliers grow if the validation loss is stationary.

        Returns
        -------
        bool
            Whether they grew; the optimiser is then to be restarted.

        Raises
        ------
        MethodFailure
            If the growth lowers the last loss by more than 0.01 (``error``), or makes it ``nan``.
        """
        change = self.change()
        if not (abs(change) < TOLERANCE or change > 0):
            return False
        before = self.penalty(self.reg, self.h)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            self.gamma = self.gamma + self.mu * self.h
            enough = self.updates >= self.rules.updates_before_doubling
            if enough and self.h > self.dtype.type(0.9) * self.constraints[-1]:
                self.mu = self.mu * self.dtype.type(2)
            growth = self.penalty(self.reg, self.h) - before
        self.constraints.append(self.h)
        if not growth >= -0.01:
            raise MethodFailure(
                "nan" if np.isnan(growth) else "error",
                f"growing multipliers changed the loss by {growth:.3g}: {self.describe()}",
            )
        self.losses[-1] = self.losses[-1] + growth
        return True

    def summary(self) -> dict[str, float | int]:
        """Where the multipliers and the validation stand: facts for a fit's record."""
        return {
            "updates": self.updates,
            "gamma": float(self.gamma),
            "mu": float(self.mu),
            "h": float(self.h),
            "validation_loss": float(self.losses[-1]),
        }

    def describe(self) -> str:
        """The multipliers and the constraint in one line."""
        return (
            f"mu = {self.mu:.3g}, gamma = {self.gamma:.3g}, h = {self.h:.3g} in {self.dtype}"
            f" (largest finite value {np.finfo(self.dtype).max:.2g})"
        )


@dataclass(frozen=True)
class Rows:
    """Rows of data, one column each.

    Attributes
    ----------
    x : (d, n), C-contiguous
    observed : (d, n), C-contiguous
        1 where the variable was not intervened on, else 0; in the dtype of x.
    """

    x: np.ndarray
    observed: np.ndarray

    @property
    def compiled(self) -> Data:
        """The same for the kernels."""
        return Data(self.x, self.observed)

    def batches(self, size: int) -> list[np.ndarray]:
        """Numbers of the rows in consecutive batches; the last may be smaller."""
        n = self.x.shape[1]
        return [np.arange(first, min(first + size, n)) for first in range(0, n, size)]


def split(
    X: np.ndarray, intervened: np.ndarray, dtype: str | np.dtype, generator: torch.Generator
) -> tuple[Rows, Rows]:
    """Split rows at random into 80 % for training and the rest for validation.

    Parameters
    ----------
    X : float (n, d)
    intervened : bool (n, d)

    Raises
    ------
    InputError
        If there are fewer than two variables or five rows.
    """
    n, d = X.shape
    if d < 2 or n < 5:
        raise InputError(f"{d} variables in {n} rows, expected at least 2 variables and 5 rows")
    order = torch.randperm(n, generator=generator).numpy()
    cut = int(0.8 * n)

    def take(rows):
        x, observed = X[rows].T.astype(dtype, order="C"), ~intervened[rows].T
        return Rows(x, observed.astype(dtype, order="C"))

    return take(order[:cut]), take(order[cut:])


class Problem(Protocol):
    """What the loops need of a model."""

    parameters: Parameters

    def descend(
        self,
        rows: Rows,
        order: np.ndarray,
        batch_size: int,
        lagrangian: AugmentedLagrangian,
        optimiser: RMSprop,
    ) -> None:
        """One step on each ``batch_size`` consecutive row numbers of ``order``."""

    def nll(self, rows: Rows, order: np.ndarray) -> float:
        """Negative log-likelihood of the rows with the numbers ``order``, masks drawn."""

    def penalties(self) -> tuple[np.floating, np.floating]:
        """Values of reg and h."""


Feasible = Callable[[AugmentedLagrangian], bool]


@dataclass(frozen=True)
class Outcome:
    """How a loop ended: passes or steps made, whether by its own rule or by the limit."""

    rounds: int
    stopped: Literal["converged", "limit"]


def minimise_by_epochs(
    problem: Problem,
    train: Rows,
    validation: Rows,
    lagrangian: AugmentedLagrangian,
    feasible: Feasible,
    *,
    max_epochs: int,
    rate: float = 1e-3,
    batch_size: int = 128,
    validation_batch_size: int = 256,
    patience: int = 5,
) -> Outcome:
    """The port's loop.

    An epoch is one pass over the training rows in an order that never changes, one step per batch,
    and one validation pass. At every second epoch the controller is asked; it sees the numbers of
    the epoch before, because the epoch's own are noted only afterwards (the order of callbacks in
    the framework that the authors used). Once ``feasible`` has held, the loop ends when the
    validation loss has not improved by more than 1e-4 for ``patience`` epochs in a row.

    Raises
    ------
    MethodFailure
        ``nan`` if parameters stop being finite.
    """

    def validate(batches):
        values = [problem.nll(validation, rows) for rows in batches]
        return np.mean(values, dtype=lagrangian.dtype), *problem.penalties()

    optimiser = RMSprop(problem.parameters, rate)
    batches = validation.batches(validation_batch_size)
    order = np.arange(train.x.shape[1])
    lagrangian.record(*validate(batches[:2]))  # the framework's sanity check before training
    satisfied, best, waited = False, np.inf, 0
    for epoch in range(max_epochs):
        problem.descend(train, order, batch_size, lagrangian, optimiser)
        _require_finite(problem, lagrangian, f"in epoch {epoch}")
        terms = validate(batches)
        nll, reg, h = terms
        if satisfied:
            loss = nll + lagrangian.penalty(reg, h)
            if best - loss > TOLERANCE:
                best, waited = loss, 0
            else:
                waited += 1
            if waited == patience:
                lagrangian.record(*terms)
                return Outcome(epoch + 1, "converged")
        if epoch % 2 == 0:
            if feasible(lagrangian):
                satisfied = True
            elif lagrangian.update():
                optimiser.restart()
        lagrangian.record(*terms)
    return Outcome(max_epochs, "limit")


def minimise_by_steps(
    problem: Problem,
    train: Rows,
    validation: Rows,
    lagrangian: AugmentedLagrangian,
    feasible: Feasible,
    *,
    max_steps: int,
    generator: torch.Generator,
    rate: float = 1e-3,
    batch_size: int = 64,
    validation_batch_size: int = 256,
    patience: int = 10,
) -> Outcome:
    """The original's loop.

    Every step takes ``batch_size`` rows drawn afresh without replacement. Every 100 steps the whole
    validation set is evaluated and noted, every 200 the controller is asked. Once ``feasible`` has
    held, the loop ends after ``patience`` checks, one every 1,000 steps, without a lower validation
    loss.

    Raises
    ------
    MethodFailure
        ``nan`` if parameters stop being finite.
    """
    optimiser = RMSprop(problem.parameters, rate)
    n = train.x.shape[1]
    n_validation = validation.x.shape[1]
    batches = validation.batches(validation_batch_size)
    batch_size = min(batch_size, n)
    satisfied, best, waited = False, np.inf, 0
    begin = 0
    while begin < max_steps:
        # All steps up to the next at which anything is looked at.
        step = min(begin + -begin % 100, max_steps - 1)
        order = [_distinct(n, batch_size, generator) for _ in range(begin, step + 1)]
        problem.descend(train, np.concatenate(order), batch_size, lagrangian, optimiser)
        begin = step + 1
        if step % 100 == 0:
            _require_finite(problem, lagrangian, f"by step {step}")
            total = sum(problem.nll(validation, rows) * len(rows) for rows in batches)
            loss = lagrangian.record(total / n_validation, *problem.penalties())
        if step % 200 == 0:
            if feasible(lagrangian):
                satisfied = True
            elif lagrangian.update():
                optimiser.restart()
        if step % 1000 == 0 and satisfied:
            if loss < best:
                best, waited = loss, 0
            else:
                waited += 1
            if waited == patience:
                return Outcome(step + 1, "converged")
    return Outcome(max_steps, "limit")


def _distinct(n: int, size: int, generator: torch.Generator) -> np.ndarray:
    """``size`` of n row numbers, uniform among the sets without repetition."""
    if size * size > n:
        return torch.randperm(n, generator=generator)[:size].numpy()
    while True:
        rows = torch.randint(n, (size,), generator=generator)
        if len(set(rows.tolist())) == size:
            return rows.numpy()


def _require_finite(problem: Problem, lagrangian: AugmentedLagrangian, when: str) -> None:
    if not np.isfinite(problem.parameters.flat).all():
        raise MethodFailure("nan", f"parameters not finite {when}: {lagrangian.describe()}")
