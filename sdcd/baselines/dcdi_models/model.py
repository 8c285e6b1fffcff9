"""DCDI: Brouillard et al., "Differentiable Causal Discovery from Interventional Data", 2020.

One network per child reads all other variables through a random mask, drawn afresh for every row,
and gives the parameters of the child's density. With P = sigmoid(L) the probabilities of the edges,
DCDI solves

    minimise    -(1/d) sum_j E_{mask ~ P} E_rows [ observed_j log p_j(x_j | mask_j * x) ]
                + lambda sum(P) / d^2
    subject to  h(P) = (tr exp(P) - d) / C = 0,    C = tr exp(J - I) - d,

with J all ones. Density p_j: Gaussian with a network for the mean and one free standard deviation
(DCDI-G), or a deep sigmoidal flow whose parameters are the network's outputs (DCDI-DSF).

The hard masks are those of a relaxed (Gumbel-softmax) variable at temperature 1, and the gradient
by a hard mask is taken to be that by the relaxed one. With u uniform on (0, 1),
``log u - log(1 - u)`` is a standard logistic, so with p = sigmoid(l) and q = 1 - p the relaxed edge
is the rational function of u

    sigmoid(l + log u - log(1 - u)) = p u / (p u + q (1 - u)),   above 1/2 where u > q.

So no logarithm is ever taken, and a draw costs one uniform.

Inside, edges are stored as [child, parent]. What is computed for a batch, and its gradient, is in
:mod:`sdcd.baselines.dcdi_models.kernels`.
"""

from typing import Protocol

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
)
from sdcd.errors import MethodFailure

INITIAL_LOGIT = 5.0
"""Every edge starts with probability 0.9933."""


class Density(Protocol):
    """A family of densities of a scalar, one density per child and row."""

    outputs: int
    """Numbers that a child's network has to give."""
    flow_numbers: int
    """Length of the kernels' ``Work.flow``."""

    def shapes(self, d: int) -> dict[str, tuple[int, ...]]:
        """Free parameters by name."""

    def compiled(self, parameters: Parameters) -> kernels.Gaussian | kernels.Flow:
        """What the kernels need to know."""


class Gaussian:
    """DCDI-G: ``N(x; out, exp(log_sd)^2)``, one free ``log_sd`` per child, initially 0."""

    outputs = 1
    flow_numbers = 0

    def shapes(self, d):
        """``log_sd``."""
        return {"log_sd": (d,)}

    def compiled(self, parameters):
        """See :class:`Density`."""
        return kernels.Gaussian(parameters.starts["log_sd"])


class SigmoidalFlow:
    """DCDI-DSF: a deep sigmoidal flow (Huang et al. 2018) that maps x to a Gaussian, variance e.

    Each of ``layers`` layers maps z to ``logit(q)``, ``q = sum_k w_k sigmoid(a_k z + b_k)``, with q
    squeezed by ``SQUEEZE`` away from 0 and 1. ``out`` holds, layer after layer, ``units`` values
    each of the raw a (a = softplus + ``SQUEEZE``), of b, and of the raw w (w = softmax).

    As published, the log density is that of the transformed value plus the logarithms of the
    layers' derivatives, less 2 ``SQUEEZE`` per layer.
    """

    def __init__(self, layers: int = 2, units: int = 16):
        self.layers, self.units = layers, units
        self.outputs = 3 * layers * units
        self.flow_numbers = kernels.flow_numbers(layers, units)

    def shapes(self, d):
        """No free parameters."""
        return {}

    def compiled(self, parameters):
        """See :class:`Density`."""
        return kernels.Flow(self.layers, self.units)

    def log_density(self, out: np.ndarray, x: np.ndarray) -> np.ndarray:
        """``log p(x)``, float64 (B,), under flows with the parameters ``out`` (outputs, B)."""
        B = len(x)
        rows = -(-B // kernels.LANES) * kernels.LANES
        units = np.zeros((self.outputs, rows), out.dtype)
        values, result = np.zeros(rows, out.dtype), np.empty(rows)
        units[:, :B], values[:B] = out, x
        kernels.flow_rows(
            self.compiled(None), values, np.zeros_like(values), units.ravel(), 0, rows,
            np.zeros(self.flow_numbers), result, False,
        )  # fmt: skip
        return result[:B]


class DCDI:
    """The model and its gradients; the loops of ``augmented_lagrangian`` train it.

    Parameters
    ----------
    d : int
    density : Density
    dtype : "float32" or "float64"
    normalise_constraint : bool
        Divide h by C, as published. If false, C is taken to be 1.
    seed : int
    hidden, layers : int
        Units per hidden layer, and hidden layers, of each child's network.
    largest_batch : int
        Most rows that it is ever given at once.

    Raises
    ------
    MethodFailure
        ``overflow`` if C is not finite in ``dtype``: in float32 from d = 90 on.
    """

    def __init__(
        self,
        d: int,
        density: Density,
        *,
        dtype: str,
        normalise_constraint: bool,
        seed: int,
        hidden: int = 16,
        layers: int = 2,
        largest_batch: int = 256,
    ):
        self.d = d
        networks = Networks(d, d, hidden, layers, density.outputs)
        self.parameters = Parameters(
            {"logits": (d, d), **networks.shapes(), **density.shapes(d)}, dtype
        )
        self.logits = self.parameters.values["logits"]
        self.constant = self._constant() if normalise_constraint else self.logits.dtype.type(1)
        networks.initialise(self.parameters, torch.Generator().manual_seed(seed))
        self.logits[:] = INITIAL_LOGIT
        self.noise = generator_state(seed, stream=0)
        self._model = kernels.DCDI(
            networks.compiled(self.parameters), density.compiled(self.parameters)
        )
        self._work = workspace(
            d, largest_batch, networks.height, networks.height, self.logits.dtype,
            density.flow_numbers,
        )  # fmt: skip

    def _constant(self) -> np.floating:
        complete = np.ones_like(self.logits)
        np.fill_diagonal(complete, 0)
        with np.errstate(over="ignore", invalid="ignore"):
            constant = self.logits.dtype.type(kernels.exponential_constraint(complete)[0])
        if not np.isfinite(constant):
            raise MethodFailure(
                "overflow",
                f"the constraint's constant tr exp(J - I) - d is {constant} at d = {self.d}: "
                f"beyond {np.finfo(constant.dtype).max:.2g}, the range of {constant.dtype}",
            )
        return constant

    def edge_probabilities(self) -> np.ndarray:
        """Probabilities P, (d, d), parent by child."""
        p, q = np.empty_like(self.logits), np.empty_like(self.logits)
        kernels.edge_probabilities(self.logits, p, q)
        return p.T.copy()

    def penalties(self) -> tuple[np.floating, np.floating]:
        """``sum(P) / d^2`` and h."""
        P = self.edge_probabilities()
        real = P.dtype.type
        with np.errstate(over="ignore", invalid="ignore"):
            h = real(kernels.exponential_constraint(P)[0])
        return P.sum() / real(self.d**2), h / self.constant

    def _multipliers(self, lagrangian: AugmentedLagrangian) -> kernels.Multipliers:
        return kernels.Multipliers(
            lagrangian.regularisation, lagrangian.gamma, lagrangian.mu, self.constant
        )

    def nll(self, rows: Rows, order: np.ndarray) -> float:
        """The likelihood's part of the objective for the rows with the numbers ``order``."""
        return kernels.dcdi_nll(
            self._model, rows.compiled, order, self.parameters.flat, self.noise, self._work
        )

    def gradient(self, rows: Rows, order: np.ndarray, lagrangian: AugmentedLagrangian) -> None:
        """Set the gradients of the augmented Lagrangian for the rows with the numbers ``order``."""
        kernels.dcdi_gradient(
            self._model, rows.compiled, order, self.parameters.flat,
            self.parameters.flat_gradient, self.noise, self._multipliers(lagrangian), self._work,
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
        kernels.dcdi_descend(
            self._model, rows.compiled, order, batch_size, self.parameters.flat,
            self.parameters.flat_gradient, optimiser.squares, optimiser.rate, self.noise,
            self._multipliers(lagrangian), self._work,
        )  # fmt: skip
