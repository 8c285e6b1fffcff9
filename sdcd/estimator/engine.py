"""What every engine computes: one stage's epochs, in its own way, to the same result."""

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from sdcd.estimator.state import StageState


@dataclass(frozen=True)
class StageSettings:
    """One stage's optimisation problem and step sizes (symbols and defaults as in the paper).

    The loss of a minibatch is

        -score + alpha * sum|W| + beta * sum(theta^2) + gamma * h(A),   A[i, j] = ||W[i, j, :]||_2

    where the score is the Gaussian log density, summed over the block's targets that are not
    intervened in that row, averaged over the rows of the minibatch; theta is every trainable
    parameter; h is the acyclicity penalty.
    """

    alpha: float
    beta: float
    learning_rate: float
    batch_size: int = 256
    penalty: Literal["none", "spectral", "exp", "exp_squared", "log", "log_squared"] = "none"
    power_iterations: int = 15
    hidden: int = 10


class Engine(Protocol):
    """Runs the optimisation of one stage on one block of targets.

    Built from ``(X_train, keep_train, X_validation, keep_validation, state, settings)``: values
    float32 (n, d), ``keep`` float32 (n, t) (0 where the row intervenes on the target, else 1) or
    ``None`` when nothing is intervened, and the :class:`~sdcd.estimator.state.StageState` to start
    from, which is copied. Given the same inputs, an engine returns the same bytes, whatever the
    number of threads.
    """

    def epoch(self, order: np.ndarray, gamma: float) -> None:
        """One pass: batches of ``order`` (int64, a permutation of the training rows), last one
        short, one Adam step (beta1 0.9, beta2 0.999, eps 1e-8) each.
        """

    def validation_loss(self) -> float:
        """Sum over batches of the validation rows, in order, of the batch mean of -score."""

    def edge_weights(self) -> np.ndarray:
        """Current ``A`` of each candidate edge, in the candidates' order: float32 (E,)."""

    def parameters(self) -> StageState:
        """A copy of the state without Adam's moments: all that a result needs."""

    def state(self) -> StageState:
        """A copy of everything needed to go on from here."""
