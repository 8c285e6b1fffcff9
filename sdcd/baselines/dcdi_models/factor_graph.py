"""DCD-FG: Lopez et al., "Large-Scale Differentiable Causal Discovery of Factor Graphs", 2022.

Variables reach each other through m modules: a variable feeds a module, or is fed by it, or
neither, drawn afresh for every row from three probabilities ``pi`` per pair. A module's value is a
network of the variables that feed it; a variable's mean is a linear function of the modules that
feed it, its variance a free scalar. With ``P = pi_in pi_out^T`` off the diagonal, the probability
that i feeds some module that feeds j (summed over modules), DCD-FG solves

    minimise    -(1/d) sum_j E_{roles ~ pi} E_rows [ observed_j log N(x_j; mean_j, var_j) ]
                + lambda (sum pi_in + sum pi_out) / (2 d m)
    subject to  h(P) = tr exp(P / rho_0) - d = 0,

with rho_0 the spectral radius of P at the start.

Inside, roles are stored as [module, variable, role], role 0 feeding, 1 being fed, 2 neither.
"""

import numpy as np
import torch

from sdcd.baselines.dcdi_models import kernels
from sdcd.baselines.dcdi_models.augmented_lagrangian import AugmentedLagrangian, Rows
from sdcd.baselines.dcdi_models.networks import (
    Networks,
    Parameters,
    RMSprop,
    generator_state,
    workspace,
    xavier_uniform,
)
from sdcd.graphs import is_acyclic


class DCDFG:
    """The model and its gradients; the loop of ``augmented_lagrangian`` trains it.

    Parameters
    ----------
    d, modules : int
    dtype : "float32" or "float64"
    seed : int
    hidden, layers : int
        Units per hidden layer, and hidden layers, of each module's network.
    largest_batch : int
        Most rows that it is ever given at once.

    Notes
    -----
    As run, the weights of the linear decoder start at random for the first ``modules`` variables
    only, and at zero for the others.
    """

    def __init__(
        self,
        d: int,
        modules: int,
        *,
        dtype: str,
        seed: int,
        hidden: int = 16,
        layers: int = 2,
        largest_batch: int = 256,
    ):
        self.d, self.modules = d, modules
        networks = Networks(modules, d, hidden, layers, outputs=1)
        self.parameters = Parameters(
            {
                "logits": (modules, d, 3),
                **networks.shapes(),
                "decoder": (d, modules),
                "offsets": (d,),
                "log_variances": (d,),
            },
            dtype,
        )
        values, starts = self.parameters.values, self.parameters.starts
        self.logits = values["logits"]
        generator = torch.Generator().manual_seed(seed)
        networks.initialise(self.parameters, generator)
        xavier_uniform(values["decoder"][: min(modules, d), None], generator)
        self.logits[:] = 1
        self.noise = generator_state(seed, stream=0)
        # All entries of P are modules / 9 off the diagonal at the start.
        self.radius = self.logits.dtype.type((d - 1) * modules / 9)
        self._model = kernels.DCDFG(
            networks.compiled(self.parameters),
            starts["decoder"],
            starts["offsets"],
            starts["log_variances"],
            self.radius,
        )
        height = networks.height
        self._work = workspace(
            d, largest_batch, modules * height, modules + height, self.logits.dtype
        )
        R = len(self._work.u)
        roles = np.zeros((3, modules * d * R), self.logits.dtype)
        self._roles = kernels.Roles(*roles, np.zeros(d * R, self.logits.dtype))

    def role_probabilities(self) -> np.ndarray:
        """The probabilities pi, (m, d, 3)."""
        return kernels.role_probabilities(self.logits)

    def edge_probabilities(self) -> np.ndarray:
        """Soft edges P, (d, d), parent by child; entries may exceed 1."""
        return _edges(self.role_probabilities())

    def penalties(self) -> tuple[np.floating, np.floating]:
        """``(sum pi_in + sum pi_out) / (2 d m)`` and h."""
        pi = self.role_probabilities()
        real = pi.dtype.type
        h, _ = kernels.exponential_constraint(_edges(pi) / self.radius)
        return pi[:, :, :2].sum() / real(2 * self.d * self.modules), real(h)

    def _multipliers(self, lagrangian: AugmentedLagrangian) -> kernels.Multipliers:
        return kernels.Multipliers(
            lagrangian.regularisation, lagrangian.gamma, lagrangian.mu, self.logits.dtype.type(1)
        )

    def nll(self, rows: Rows, order: np.ndarray) -> float:
        """The likelihood's part of the objective for the rows with the numbers ``order``."""
        return kernels.dcdfg_nll(
            self._model, rows.compiled, order, self.parameters.flat, self.noise, self._work,
            self._roles, self.modules,
        )  # fmt: skip

    def gradient(self, rows: Rows, order: np.ndarray, lagrangian: AugmentedLagrangian) -> None:
        """Set the gradients of the augmented Lagrangian for the rows with the numbers ``order``."""
        kernels.dcdfg_gradient(
            self._model, rows.compiled, order, self.parameters.flat,
            self.parameters.flat_gradient, self.noise, self._multipliers(lagrangian), self._work,
            self._roles, self.modules,
        )  # fmt: skip

    def descend(
        self,
        rows: Rows,
        order: np.ndarray,
        batch_size: int,
        lagrangian: AugmentedLagrangian,
        optimiser: RMSprop,
    ) -> None:
        """One step of RMSprop on each ``batch_size`` consecutive row numbers of ``order``."""
        kernels.dcdfg_descend(
            self._model, rows.compiled, order, batch_size, self.parameters.flat,
            self.parameters.flat_gradient, optimiser.squares, optimiser.rate, self.noise,
            self._multipliers(lagrangian), self._work, self._roles, self.modules,
        )  # fmt: skip


def _edges(pi: np.ndarray) -> np.ndarray:
    P = pi[:, :, 0].T @ pi[:, :, 1]
    np.fill_diagonal(P, 0)
    return P


def largest_confident_dag(pi: np.ndarray, steps: int = 20) -> tuple[np.ndarray, float]:
    """The graph at (nearly) the smallest cut of confidence that leaves no cycle.

    At cut t, a pair of variable and module is kept if ``pi_in + pi_out >= t``, in the likelier of
    its two directions; the graph has i -> j where i feeds a module that feeds j. Not monotone in t
    strictly, so the cut is what ``steps`` halvings of [0, 1] find, upper end.

    Parameters
    ----------
    pi : float (m, d, 3)

    Returns
    -------
    adjacency : bool (d, d)
    threshold : float
        Above 1 where even the surest pairs form a cycle and the graph is empty.
    """
    kept = pi[:, :, 0] + pi[:, :, 1]
    feeds = pi[:, :, 0] > pi[:, :, 1]

    def graph(cut):
        into = (feeds & (kept >= cut)).astype(np.int64)
        out = (~feeds & (kept >= cut)).astype(np.int64)
        return into.T @ out > 0

    low, high = 0.0, 1.0
    if not is_acyclic(graph(high)):
        return graph(np.inf), float(np.nextafter(max(1.0, kept.max()), np.inf))
    for _ in range(steps):
        middle = (low + high) / 2
        if is_acyclic(graph(middle)):
            high = middle
        else:
            low = middle
    return graph(high), high
