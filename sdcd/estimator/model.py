"""SDCD's model and loss in plain torch, written to be read; autograd does the rest.

Each variable j is predicted from its candidate parents by a network of its own,

    h_j    = sigmoid(sum_i x_i W[i, j, :] + b_j)
    x_j    ~ Normal(mean_j, var_j),   mean_j = u_j . h_j + c_j,   var_j = softplus(v_j . h_j + e_j)

and ``A[i, j] = ||W[i, j, :]||_2`` says how much j depends on i. Both stages minimise, over
minibatches and with Adam,

    -score + alpha * sum|W| + beta * sum(theta^2) + gamma * h(A)

where the score is the log density of the values that were not set by an intervention. Stage 1 has
gamma = 0 and may use every variable as a parent of every other; stage 2 may use only the edges
that stage 1 selected, and its gamma rises until A is acyclic. Source: the paper's section "The SDCD
method" and its appendix "Methods".

The fast engines must compute exactly this: the tests hold their gradients, and the course of their
first epochs, against :class:`ModelEngine`.
"""

import math
from dataclasses import replace

import numpy as np
import torch
from torch.nn.functional import softplus

from sdcd.estimator.engine import StageSettings
from sdcd.estimator.state import PARAMETERS, Candidates, StageState


def predict(
    theta: dict[str, torch.Tensor], candidates: Candidates, x: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and variance of each target given the other values of its row.

    Parameters
    ----------
    theta : dict of tensors
        The trainable arrays, shaped as in :class:`~sdcd.estimator.state.StageState`.
    candidates : Candidates
        Which variables are parents of which target.
    x : float (n, d)

    Returns
    -------
    mean, variance : float (n, t)
    """
    # Weights of pairs that are no candidates are zero, and no parameters.
    where = torch.from_numpy(candidates.parents), torch.from_numpy(candidates.positions)
    shape = (candidates.d, *theta["b"].shape)
    W = torch.zeros(shape, dtype=x.dtype).index_put(where, theta["W"])
    hidden = torch.sigmoid(torch.einsum("ni,ijh->njh", x, W) + theta["b"])
    mean = (hidden * theta["u"]).sum(dim=2) + theta["c"]
    variance = softplus((hidden * theta["v"]).sum(dim=2) + theta["e"])
    return mean, variance


def score(
    mean: torch.Tensor, variance: torch.Tensor, x: torch.Tensor, keep: torch.Tensor | None
) -> torch.Tensor:
    """Gaussian log density, summed over targets, averaged over rows: a scalar.

    ``x`` and ``keep`` are (n, t); ``keep`` is 0 where the row intervenes on the target, so that a
    value set from outside is not explained.
    """
    log_density = -0.5 * (math.log(2 * math.pi) + variance.log() + (x - mean) ** 2 / variance)
    if keep is not None:
        log_density = log_density * keep
    return log_density.sum(dim=1).mean()


def adjacency(W: torch.Tensor) -> torch.Tensor:
    """``A[i, j] = ||W[i, j, :]||_2`` of each candidate edge: (E,)."""
    return torch.linalg.vector_norm(W, dim=1)


def h_rho(
    A: torch.Tensor, left: torch.Tensor, right: torch.Tensor, power_iterations: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Spectral radius of A (d, d) by power iteration, and the vectors to start from next time.

    The vectors converge to the leading left and right eigenvectors of A + 1e-6 over the steps of
    the optimisation: each step moves A a little and continues from the last step's vectors. The
    gradient, outer(left, right) / (left . right), is held constant in the backward pass.

    Returns
    -------
    h : scalar
        ``<gradient, A>``: differentiable, its gradient in A is ``gradient``.
    left, right : (d,)
        The vectors after this step's iterations, of unit length.
    """
    with torch.no_grad():
        for _ in range(power_iterations):
            left = (A + 1e-6).T @ left
            right = (A + 1e-6) @ right
            left = left / torch.linalg.vector_norm(left)
            right = right / torch.linalg.vector_norm(right)
        gradient = torch.outer(left, right) / (torch.dot(left, right) + 1e-6)
    return (gradient * A).sum(), left, right


def h_exp(A: torch.Tensor) -> torch.Tensor:
    """``tr exp(A) - d``: NOTEARS' constraint on A itself."""
    return torch.matrix_exp(A).trace() - len(A)


def h_log(A: torch.Tensor) -> torch.Tensor:
    """``-log det(I - A)``: DAGMA's constraint, defined where the spectral radius is below 1."""
    return -torch.linalg.slogdet(torch.eye(len(A), dtype=A.dtype) - A).logabsdet


def log_domain_scale(A: torch.Tensor) -> float:
    """Factor c <= 1 for which c A lies in the domain of :func:`h_log`: 1 if A does.

    Outside the domain h_log has no value, and the gradient of ``-log|det(I - A)|`` pushes away
    from the domain as readily as into it. There, the penalty is taken at the multiple of A whose
    spectral radius is 0.99, so that its gradient leads back.
    """
    radius = torch.linalg.eigvals(A.double()).abs().max().item()
    return 1.0 if radius < 1 else 0.99 / radius


class ModelEngine:
    """The reference engine: see :class:`~sdcd.estimator.engine.Engine`.

    A penalty needs a block that predicts all variables. ``escapes`` counts the steps at which A
    was outside the domain of h_log.
    """

    def __init__(
        self,
        X_train: np.ndarray,
        keep_train: np.ndarray | None,
        X_validation: np.ndarray,
        keep_validation: np.ndarray | None,
        state: StageState,
        settings: StageSettings,
    ):
        self.settings = settings
        self.candidates = state.candidates
        self.train = _tensor(X_train), _tensor(keep_train)
        self.validation = _tensor(X_validation), _tensor(keep_validation)
        self.theta = {
            name: torch.tensor(getattr(state, name), requires_grad=True) for name in PARAMETERS
        }
        self.left, self.right = torch.tensor(state.left), torch.tensor(state.right)
        self.escapes = 0
        self.optimizer = torch.optim.Adam(self.theta.values(), lr=settings.learning_rate)
        for name, parameter in self.theta.items():
            self.optimizer.state[parameter] = {
                "step": torch.tensor(float(state.step)),
                "exp_avg": torch.tensor(state.first[name]),
                "exp_avg_sq": torch.tensor(state.second[name]),
            }

    def loss(self, rows: np.ndarray, gamma: float) -> torch.Tensor:
        """Loss of the minibatch of these training rows; moves the power iteration's vectors."""
        settings, W = self.settings, self.theta["W"]
        loss = -self._score(*self.train, torch.as_tensor(rows))
        loss = loss + settings.alpha * W.abs().sum()
        loss = loss + settings.beta * sum((array**2).sum() for array in self.theta.values())
        if settings.penalty != "none":
            loss = loss + gamma * self._penalty(adjacency(W))
        return loss

    def epoch(self, order: np.ndarray, gamma: float) -> None:
        """One pass over the training rows: see the protocol."""
        for start in range(0, len(order), self.settings.batch_size):
            self.optimizer.zero_grad()
            self.loss(order[start : start + self.settings.batch_size], gamma).backward()
            self.optimizer.step()

    @torch.no_grad()
    def validation_loss(self) -> float:
        """Sum over batches of batch means of -score: see the protocol."""
        rows = torch.arange(len(self.validation[0])).split(self.settings.batch_size)
        return float(sum(-self._score(*self.validation, batch) for batch in rows))

    @torch.no_grad()
    def edge_weights(self) -> np.ndarray:
        """Current A of each candidate edge."""
        return adjacency(self.theta["W"]).numpy()

    def state(self) -> StageState:
        """A copy of everything needed to go on from here."""
        moments = {name: self.optimizer.state[theta] for name, theta in self.theta.items()}
        return replace(
            self.parameters(),
            first={name: moment["exp_avg"].numpy().copy() for name, moment in moments.items()},
            second={name: moment["exp_avg_sq"].numpy().copy() for name, moment in moments.items()},
        )

    def parameters(self) -> StageState:
        """A copy of the state without Adam's moments."""
        return StageState(
            candidates=self.candidates,
            **{name: theta.detach().numpy().copy() for name, theta in self.theta.items()},
            first={},
            second={},
            step=int(self.optimizer.state[self.theta["W"]]["step"]),
            left=self.left.numpy().copy(),
            right=self.right.numpy().copy(),
        )

    def _score(self, X, keep, rows: torch.Tensor) -> torch.Tensor:
        x = X[rows]
        mean, variance = predict(self.theta, self.candidates, x)
        targets = x[:, torch.from_numpy(self.candidates.targets)]
        return score(mean, variance, targets, None if keep is None else keep[rows])

    def _penalty(self, weights: torch.Tensor) -> torch.Tensor:
        candidates, settings = self.candidates, self.settings
        where = torch.from_numpy(candidates.parents), torch.from_numpy(candidates.children)
        A = torch.zeros((candidates.d, candidates.d)).index_put(where, weights)
        if settings.penalty == "spectral":
            h, self.left, self.right = h_rho(A, self.left, self.right, settings.power_iterations)
            return h
        if settings.penalty.endswith("_squared"):
            A = A**2
        if settings.penalty.startswith("exp"):
            return h_exp(A)
        scale = log_domain_scale(A.detach())
        self.escapes += scale < 1
        return h_log(scale * A)


def _tensor(array: np.ndarray | None) -> torch.Tensor | None:
    return None if array is None else torch.from_numpy(np.ascontiguousarray(array))
