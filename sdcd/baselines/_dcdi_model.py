"""DCDI: Brouillard et al., "Differentiable Causal Discovery from Interventional Data", 2020.

One network per child reads all other variables through a random mask, drawn afresh for every row,
and gives the parameters of the child's density. With P = sigmoid(L) the probabilities of the edges,
DCDI solves

    minimise    -(1/d) sum_j E_{mask ~ P} E_rows [ observed_j log p_j(x_j | mask_j * x) ]
                + lambda sum(P) / d^2
    subject to  h(P) = (tr exp(P) - d) / C = 0,    C = tr exp(J - I) - d,

with J all ones. Density p_j: Gaussian with a network for the mean and one free standard deviation
(DCDI-G), or a deep sigmoidal flow whose parameters are the network's outputs (DCDI-DSF).

Inside, edges are stored as [child, parent].
"""

import math
from functools import cache
from typing import Protocol

import numpy as np
import torch
from numba import njit

from sdcd.baselines._augmented_lagrangian import AugmentedLagrangian, Rows
from sdcd.baselines._exponential import exponential_constraint
from sdcd.baselines._masks import FASTMATH, draw_edges, edge_probabilities, generator_state
from sdcd.baselines._networks import Networks, Parameters
from sdcd.errors import MethodFailure

INITIAL_LOGIT = 5.0
"""Every edge starts with probability 0.9933."""


class Density(Protocol):
    """A family of densities of a scalar, for d children at once.

    ``out``, (d, outputs, B), belongs to the rows ``first`` to ``first + B``. The loss is
    ``-(1/d) sum_j (1/B) sum_b observed log p``.
    """

    outputs: int

    def shapes(self, d: int) -> dict[str, tuple[int, ...]]:
        """Free parameters by name."""

    def bind(self, parameters: Parameters) -> None:
        """Use, and write the gradients of, the free parameters."""

    def gradient(self, out: torch.Tensor, rows: Rows, first: int) -> torch.Tensor:
        """Gradient of the loss by ``out``; sets that of the free parameters."""

    def nll(self, out: torch.Tensor, rows: Rows, first: int) -> float:
        """The loss."""


class DCDI:
    """The model and its gradients; the loops of ``_augmented_lagrangian`` train it.

    Parameters
    ----------
    d : int
    density : Density
    dtype : torch.float32 or torch.float64
    normalise_constraint : bool
        Divide h by C, as published. If false, C is taken to be 1.
    seed : int
    hidden, layers : int
        Units per hidden layer, and hidden layers, of each child's network.

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
        dtype: torch.dtype,
        normalise_constraint: bool,
        seed: int,
        hidden: int = 16,
        layers: int = 2,
    ):
        self.d, self.density, self.dtype = d, density, dtype
        self.networks = Networks(d, d, hidden, layers, density.outputs)
        self.parameters = Parameters(
            {"logits": (d, d), **self.networks.shapes(), **density.shapes(d)}, dtype
        )
        self.logits = self.parameters.values["logits"].numpy()
        self.constant = self._constant() if normalise_constraint else self.logits.dtype.type(1)
        self.networks.bind(self.parameters)
        self.networks.initialise(torch.Generator().manual_seed(seed))
        density.bind(self.parameters)
        self.logits[:] = INITIAL_LOGIT
        self._noise = generator_state(seed, stream=0)
        self._p, self._q = np.empty_like(self.logits), np.empty_like(self.logits)
        self._workspace = cache(self._new_workspace)

    def _constant(self) -> np.floating:
        complete = np.ones_like(self.logits)
        np.fill_diagonal(complete, 0)
        with np.errstate(over="ignore", invalid="ignore"):
            constant, _ = exponential_constraint(complete)
        if not np.isfinite(constant):
            raise MethodFailure(
                "overflow",
                f"the constraint's constant tr exp(J - I) - d is {constant} at d = {self.d}: "
                f"beyond {np.finfo(constant.dtype).max:.2g}, the range of {constant.dtype}",
            )
        return constant

    def _new_workspace(self, B: int):
        w = self.networks.workspace(B)
        slopes = torch.empty(self.d, self.d, B, dtype=self.dtype)
        return w, w.entering[0].numpy(), slopes, slopes.numpy()

    def edge_probabilities(self) -> np.ndarray:
        """Probabilities P, (d, d), parent by child."""
        edge_probabilities(self.logits, self._p, self._q)
        return self._p.T.copy()

    def penalties(self) -> tuple[np.floating, np.floating]:
        """``sum(P) / d^2`` and h."""
        P = self.edge_probabilities()
        with np.errstate(over="ignore", invalid="ignore"):
            h, _ = exponential_constraint(P)
        return P.sum() / P.dtype.type(self.d**2), h / self.constant

    def _forward(self, rows: Rows, first: int, B: int) -> torch.Tensor:
        w, inputs, _, slopes = self._workspace(B)
        edge_probabilities(self.logits, self._p, self._q)
        draw_edges(self._noise, self._p, self._q, rows.x.numpy(), first, inputs, slopes)
        return self.networks.forward(w)

    def nll(self, rows: Rows, first: int, B: int) -> float:
        """The likelihood's part of the objective for rows ``first`` to ``first + B``."""
        return self.density.nll(self._forward(rows, first, B), rows, first)

    def gradient(self, rows: Rows, first: int, B: int, lagrangian: AugmentedLagrangian) -> None:
        """Set the gradients of the augmented Lagrangian for rows ``first`` to ``first + B``."""
        out = self._forward(rows, first, B)
        w, _, slopes, _ = self._workspace(B)
        upstream = self.networks.backward(w, self.density.gradient(out, rows, first))[:, : self.d]
        logits_gradient = self.parameters.gradients["logits"]
        torch.sum(torch.mul(upstream, slopes, out=slopes), 2, out=logits_gradient)

        p = self._p
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            h, h_gradient = exponential_constraint(p)
            slope = lagrangian.slope(h / self.constant) / self.constant
            by_p = slope * h_gradient + lagrangian.regularisation / p.dtype.type(self.d**2)
            logits_gradient.numpy()[:] += by_p * (p * self._q)


class Gaussian:
    """``N(x; out, exp(log_sd)^2)``, one free ``log_sd`` per child, initially 0."""

    outputs = 1

    def shapes(self, d):
        """``log_sd``."""
        return {"log_sd": (d,)}

    def bind(self, parameters):
        """See :class:`Density`."""
        self._log_sd = parameters.values["log_sd"].numpy()
        self._gradient = parameters.gradients["log_sd"].numpy()

    def gradient(self, out, rows, first):
        """See :class:`Density`."""
        delta = torch.empty_like(out)
        _gaussian_gradient(
            out.numpy(),
            self._log_sd,
            rows.x.numpy(),
            rows.observed.numpy(),
            first,
            delta.numpy(),
            self._gradient,
        )
        return delta

    def nll(self, out, rows, first):
        """See :class:`Density`."""
        return _gaussian_nll(
            out.numpy(), self._log_sd, rows.x.numpy(), rows.observed.numpy(), first
        )


@njit(cache=True, error_model="numpy", fastmath=FASTMATH)
def _gaussian_gradient(mean, log_sd, x, observed, first, delta, log_sd_gradient):
    d, _, B = mean.shape
    real = mean.dtype.type
    one, share = real(1), real(1 / (d * B))
    for t in range(d):
        precision = real(np.exp(real(-2) * log_sd[t]))
        means, deltas = mean[t, 0], delta[t, 0]
        values, weights = x[t, first : first + B], observed[t, first : first + B]
        total = real(0)
        for b in range(B):
            r = values[b] - means[b]
            m = weights[b] * share
            deltas[b] = -m * r * precision
            total += m * (one - r * r * precision)
        log_sd_gradient[t] = total


@njit(cache=True, error_model="numpy", fastmath=FASTMATH)
def _gaussian_nll(mean, log_sd, x, observed, first):
    d, _, B = mean.shape
    total = 0.0
    for t in range(d):
        precision = math.exp(-2.0 * log_sd[t])
        constant = log_sd[t] + 0.5 * math.log(2 * math.pi)
        for b in range(B):
            r = x[t, first + b] - mean[t, 0, b]
            total += observed[t, first + b] * (constant + 0.5 * r * r * precision)
    return total / (d * B)


class SigmoidalFlow:
    """A deep sigmoidal flow (Huang et al. 2018) that maps x to a Gaussian with variance e.

    Each of ``layers`` layers maps z to ``logit(q)``, ``q = sum_k w_k sigmoid(a_k z + b_k)``, with q
    squeezed by ``SQUEEZE`` away from 0 and 1. ``out`` holds, layer after layer, ``units`` values
    each of the raw a (a = softplus + ``SQUEEZE``), of b, and of the raw w (w = softmax).

    As published, the log density is that of the transformed value plus the logarithms of the
    layers' derivatives, less 2 ``SQUEEZE`` per layer.
    """

    def __init__(self, layers: int = 2, units: int = 16):
        self.layers, self.units = layers, units
        self.outputs = 3 * layers * units

    def shapes(self, d):
        """No free parameters."""
        return {}

    def bind(self, parameters):
        """See :class:`Density`."""

    def log_density(self, out: torch.Tensor, rows: Rows, first: int) -> torch.Tensor:
        """``log p(x)``, float64 (d, B)."""
        return torch.from_numpy(self._run(out, rows, first, False)[0])

    def nll(self, out, rows, first):
        """See :class:`Density`."""
        observed = rows.observed[:, first : first + out.shape[-1]]
        return float(-(observed * self.log_density(out, rows, first)).mean())

    def gradient(self, out, rows, first):
        """See :class:`Density`."""
        return torch.from_numpy(self._run(out, rows, first, True)[1])

    def _run(self, out, rows, first, with_gradient):
        d, _, B = out.shape
        raw = out.numpy().reshape(d, self.layers, 3, self.units, B)
        log_density = np.empty((d, B))
        delta = np.empty_like(raw) if with_gradient else raw
        _flow(raw, rows.x.numpy(), rows.observed.numpy(), first, log_density, delta, with_gradient)
        return log_density, delta.reshape(out.shape)


SQUEEZE = 1e-6
_SPREAD = 2 * math.e + 1e-5  # twice the variance of the flow's target
_TARGET_CONSTANT = -0.5 - 0.5 * math.log(2 * math.pi)
_LAYER_CONSTANT = math.log1p(-SQUEEZE) - 2 * SQUEEZE
_TINY = 1e-300


@njit(cache=True, error_model="numpy", fastmath=FASTMATH)
def _flow(raw, x, observed, first, log_density, delta, with_gradient):
    """Log densities under a sigmoidal flow, and the gradient of the loss by its parameters.

    In float64 throughout, whatever the parameters' dtype.

    Parameters
    ----------
    raw : (d, layers, 3, units, B)
    x, observed : (d, n)
    first : int
    log_density : float64 (d, B), changed
    delta : like raw, changed if ``with_gradient``
    """
    d, layers, _, units, B = raw.shape
    # What the way back needs: slopes and weights of the units, their values, the softplus'
    # derivative, each unit's part of the layer's derivative; sums over units and inputs by layer.
    a, w, s, bend, part = np.empty((5, layers, units, B))
    q, whole = np.empty((2, layers, B))
    z = np.empty((layers + 1, B))
    top, total, g_z, g_q = np.empty((4, B))
    for t in range(d):
        density = log_density[t]
        density[:] = 0
        z[0] = x[t, first : first + B]
        for layer in range(layers):
            raw_a, raw_b, raw_w = raw[t, layer, 0], raw[t, layer, 1], raw[t, layer, 2]
            top[:] = raw_w[0]
            total[:] = 0
            q[layer] = 0
            whole[layer] = 0
            for k in range(1, units):
                for b in range(B):
                    top[b] = max(top[b], raw_w[k, b])
            for k in range(units):
                for b in range(B):
                    w[layer, k, b] = np.exp(raw_w[k, b] - top[b])
                    total[b] += w[layer, k, b]
            for k in range(units):
                for b in range(B):
                    w[layer, k, b] /= total[b]
                    e = np.exp(-abs(np.float64(raw_a[k, b])))
                    bend[layer, k, b] = (1.0 if raw_a[k, b] >= 0 else e) / (1 + e)
                    a[layer, k, b] = max(raw_a[k, b], 0.0) + np.log1p(e) + SQUEEZE
                    y = a[layer, k, b] * z[layer, b] + raw_b[k, b]
                    e = np.exp(-abs(y))
                    s[layer, k, b] = (1.0 if y >= 0 else e) / (1 + e)
                    part[layer, k, b] = w[layer, k, b] * a[layer, k, b] * e / ((1 + e) * (1 + e))
                    q[layer, b] += w[layer, k, b] * s[layer, k, b]
                    whole[layer, b] += part[layer, k, b]
            for b in range(B):
                q[layer, b] = q[layer, b] * (1 - SQUEEZE) + SQUEEZE / 2
                whole[layer, b] += _TINY
                log_q, log_rest = np.log(q[layer, b]), np.log(1 - q[layer, b])
                density[b] += np.log(whole[layer, b]) + _LAYER_CONSTANT - log_q - log_rest
                z[layer + 1, b] = log_q - log_rest
        for b in range(B):
            density[b] += _TARGET_CONSTANT - z[layers, b] * z[layers, b] / _SPREAD
        if not with_gradient:
            continue

        # g is the loss' gradient by a row's log density, and so by each layer's part of it.
        g = total
        for b in range(B):
            g[b] = -observed[t, first + b] / (d * B)
            g_z[b] = g[b] * z[layers, b] * (-2 / _SPREAD)
        for layer in range(layers - 1, -1, -1):
            to_a, to_b, to_w = delta[t, layer, 0], delta[t, layer, 1], delta[t, layer, 2]
            for b in range(B):
                p = q[layer, b]
                g_q[b] = (1 - SQUEEZE) * (g_z[b] + g[b] * (2 * p - 1)) / (p * (1 - p))
                q[layer, b] = g[b] + g_q[b] * (p - SQUEEZE / 2) / (1 - SQUEEZE)
                g_z[b] = 0
            by_all_w = q[layer]
            for k in range(units):
                for b in range(B):
                    by_value = g_q[b] * w[layer, k, b] * s[layer, k, b]
                    by_part = g[b] * part[layer, k, b] / whole[layer, b]
                    g_y = by_value * (1 - s[layer, k, b]) + by_part * (1 - 2 * s[layer, k, b])
                    g_a = g_y * z[layer, b] + by_part / a[layer, k, b]
                    to_a[k, b] = g_a * bend[layer, k, b]
                    to_b[k, b] = g_y
                    to_w[k, b] = by_value + by_part - w[layer, k, b] * by_all_w[b]
                    g_z[b] += g_y * a[layer, k, b]
