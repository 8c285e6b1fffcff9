"""The loop over a stage's epochs: validation, early stopping, the rise and freeze of gamma.

The loop asks an :class:`~sdcd.estimator.engine.Engine` for the arithmetic and owns every decision,
so that all engines make the same ones.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from sdcd.errors import MethodFailure
from sdcd.estimator.engine import Engine
from sdcd.estimator.state import Candidates, StageState
from sdcd.graphs import edges_acyclic


@dataclass(frozen=True)
class StageRules:
    """When a stage ends, and how its gamma moves.

    Attributes
    ----------
    stage : 1 or 2
        For the history and for messages.
    epochs : int
        At most.
    check_every : int
        Validation (and in stage 2 the test for cycles) after epochs 1, 1 + check_every, ....
    patience : int
        Checks in a row without a new minimum of the validation loss after which the stage stops.
    gamma_increment : float
        gamma is ``k * gamma_increment * epochs / (epochs - 1)`` after k epochs in which it was not
        frozen: it rises linearly from 0 in the first epoch to ``epochs * gamma_increment`` in the
        last, as in the published runs.
    freeze_threshold, thaw_threshold : float or None
        gamma stops rising when {A > freeze_threshold} is acyclic, and goes on when
        {A > thaw_threshold} (the paper's tau_2) has a cycle. Both ``None`` (stage 1): no gamma,
        and early stopping counts throughout; otherwise it counts while gamma is frozen.
    count_threshold : float
        The history counts the edges whose weight is above it.
    """

    stage: int
    epochs: int
    check_every: int
    patience: int
    count_threshold: float
    gamma_increment: float = 0.0
    freeze_threshold: float | None = None
    thaw_threshold: float | None = None


@dataclass
class StageProgress:
    """Where the loop stands after ``epoch`` epochs; with the engine's state, all it needs."""

    epoch: int = 0
    risen: int = 0
    frozen: bool = False
    stopped: bool = False
    best_loss: float = math.inf
    checks_since_best: int = 0
    best: StageState | None = None
    history: list[dict] = field(default_factory=list)


def run_stage(
    engine: Engine,
    candidates: Candidates,
    rules: StageRules,
    progress: StageProgress,
    order: Callable[[], np.ndarray],
    after_epoch: Callable[[], None],
) -> StageState:
    """Run the epochs that are left of a stage, updating ``progress`` in place.

    Parameters
    ----------
    engine : Engine
        At the point that ``progress`` describes.
    candidates : Candidates
        The edges whose weights the engine gives.
    order : callable
        Gives the next epoch's permutation of the training rows.
    after_epoch : callable
        Called after each epoch, when ``engine`` and ``progress`` agree (to save or to report).

    Returns
    -------
    StageState
        The best parameters on the validation rows if the stage stopped early, else the last ones.

    Raises
    ------
    MethodFailure
        ``nan`` if the validation loss or an edge weight is no longer finite.
    """
    while progress.epoch < rules.epochs and not progress.stopped:
        gamma = _gamma(rules, progress)
        engine.epoch(order(), gamma)
        if progress.epoch % rules.check_every == 0:
            _check(engine, candidates, rules, progress, gamma)
        progress.epoch += 1
        progress.risen += not progress.frozen
        after_epoch()
    return progress.best if progress.stopped else engine.parameters()


def _gamma(rules: StageRules, progress: StageProgress) -> float:
    return progress.risen * rules.gamma_increment * rules.epochs / max(rules.epochs - 1, 1)


def _check(
    engine: Engine,
    candidates: Candidates,
    rules: StageRules,
    progress: StageProgress,
    gamma: float,
) -> None:
    A = engine.edge_weights()
    loss = engine.validation_loss()
    if not (math.isfinite(loss) and np.isfinite(A).all()):
        raise MethodFailure(
            "nan",
            f"stage {rules.stage}, epoch {progress.epoch + 1}, gamma {gamma:.4g}: "
            f"validation loss {loss}, {np.count_nonzero(~np.isfinite(A))} weights not finite",
        )
    has_gamma = rules.freeze_threshold is not None
    if has_gamma and progress.epoch > 0:
        if not progress.frozen:
            progress.frozen = acyclic_above(candidates, A, rules.freeze_threshold)
        elif not acyclic_above(candidates, A, rules.thaw_threshold):
            progress.frozen = False
            progress.best_loss, progress.checks_since_best, progress.best = math.inf, 0, None
    if progress.frozen or not has_gamma:
        if loss < progress.best_loss:
            progress.best_loss, progress.checks_since_best = loss, 0
            progress.best = engine.parameters()
        else:
            progress.checks_since_best += 1
            progress.stopped = progress.checks_since_best >= rules.patience
    progress.history.append(
        {
            "stage": rules.stage,
            "epoch": progress.epoch + 1,
            "validation_loss": loss,
            "gamma": gamma,
            "frozen": progress.frozen,
            "n_edges": int(np.count_nonzero(rules.count_threshold < A)),
        }
    )


def acyclic_above(candidates: Candidates, A: np.ndarray, threshold: float) -> bool:
    """Whether the candidate edges with weight above ``threshold`` form no cycle: O(E + d)."""
    above = threshold < A
    return edges_acyclic(candidates.parents[above], candidates.children[above], candidates.d)
