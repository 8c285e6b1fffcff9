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

import math
from functools import cache

import numpy as np
import torch
from numba import njit

from sdcd.baselines._augmented_lagrangian import AugmentedLagrangian, Rows
from sdcd.baselines._exponential import exponential_constraint
from sdcd.baselines._masks import FASTMATH, draw_roles, generator_state
from sdcd.baselines._networks import Networks, Parameters, xavier_uniform
from sdcd.graphs import is_acyclic

VARIANCE_FLOOR = 1e-4


class DCDFG:
    """The model and its gradients; the loop of ``_augmented_lagrangian`` trains it.

    Parameters
    ----------
    d, modules : int
    dtype : torch.float32 or torch.float64
    seed : int
    hidden, layers : int
        Units per hidden layer, and hidden layers, of each module's network.

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
        dtype: torch.dtype,
        seed: int,
        hidden: int = 16,
        layers: int = 2,
    ):
        self.d, self.modules, self.dtype = d, modules, dtype
        self.networks = Networks(modules, d, hidden, layers, outputs=1)
        self.parameters = Parameters(
            {
                "logits": (modules, d, 3),
                **self.networks.shapes(),
                "decoder": (d, modules),
                "offsets": (d,),
                "log_variances": (d,),
            },
            dtype,
        )
        values, gradients = self.parameters.values, self.parameters.gradients
        generator = torch.Generator().manual_seed(seed)
        self.networks.bind(self.parameters)
        self.networks.initialise(generator)
        xavier_uniform(values["decoder"][: min(modules, d), None], generator)
        values["logits"].fill_(1)
        self._values = {name: array.numpy() for name, array in values.items()}
        self._gradients = {name: array.numpy() for name, array in gradients.items()}
        self._noise = generator_state(seed, stream=0)
        self._workspace = cache(self._new_workspace)
        # All entries of P are modules / 9 off the diagonal at the start.
        self.radius = self._values["logits"].dtype.type((d - 1) * modules / 9)

    def _new_workspace(self, B: int):
        w = self.networks.workspace(B)
        roles = np.empty((3, self.modules, self.d, B), self._values["logits"].dtype)
        return w, w.entering[0].numpy(), *roles

    def role_probabilities(self) -> np.ndarray:
        """The probabilities pi, (m, d, 3)."""
        logits = self._values["logits"]
        pi = np.exp(logits - logits.max(axis=2, keepdims=True))
        return pi / pi.sum(axis=2, keepdims=True)

    def edge_probabilities(self) -> np.ndarray:
        """Soft edges P, (d, d), parent by child; entries may exceed 1."""
        return _edges(self.role_probabilities())

    def _reg(self, pi: np.ndarray) -> np.floating:
        return pi[:, :, :2].sum() / pi.dtype.type(2 * self.d * self.modules)

    def penalties(self) -> tuple[np.floating, np.floating]:
        """``(sum pi_in + sum pi_out) / (2 d m)`` and h."""
        pi = self.role_probabilities()
        return self._reg(pi), exponential_constraint(_edges(pi) / self.radius)[0]

    def _forward(self, rows: Rows, first: int, B: int):
        w, inputs, soft_in, soft_out, hard_out = self._workspace(B)
        pi = self.role_probabilities()
        draw_roles(self._noise, pi, rows.x.numpy(), first, inputs, soft_in, soft_out, hard_out)
        modules = self.networks.forward(w)
        residuals = np.empty((self.d, B), pi.dtype)
        _decode(
            modules.numpy(),
            hard_out,
            self._values["decoder"],
            self._values["offsets"],
            rows.x.numpy(),
            first,
            residuals,
        )
        return pi, modules, residuals

    def nll(self, rows: Rows, first: int, B: int) -> float:
        """The likelihood's part of the objective for rows ``first`` to ``first + B``."""
        _, _, residuals = self._forward(rows, first, B)
        variances = np.exp(self._values["log_variances"].astype(np.float64)) + VARIANCE_FLOOR
        observed = rows.observed[:, first : first + B].numpy()
        by_row = observed * residuals**2
        return float(
            (
                by_row.sum(axis=1, dtype=np.float64) / variances
                + observed.sum(axis=1, dtype=np.float64) * np.log(2 * math.pi * variances)
            ).sum()
            / (2 * self.d * B)
        )

    def gradient(self, rows: Rows, first: int, B: int, lagrangian: AugmentedLagrangian) -> None:
        """Set the gradients of the augmented Lagrangian for rows ``first`` to ``first + B``."""
        pi, modules, residuals = self._forward(rows, first, B)
        w, _, soft_in, soft_out, hard_out = self._workspace(B)
        delta = torch.empty_like(modules)
        _decoder_gradient(
            residuals,
            rows.observed.numpy(),
            first,
            self._values["log_variances"],
            modules.numpy(),
            hard_out,
            self._values["decoder"],
            delta.numpy(),
            self._gradients["decoder"],
            self._gradients["offsets"],
            self._gradients["log_variances"],
        )
        upstream = self.networks.backward(w, delta)
        _roles_gradient(
            upstream.numpy(),
            rows.x.numpy(),
            first,
            residuals,
            modules.numpy(),
            self._values["decoder"],
            soft_in,
            soft_out,
            self._gradients["logits"],
        )
        self._gradients["logits"][:] += self._penalty_gradient(pi, lagrangian)

    def _penalty_gradient(self, pi: np.ndarray, lagrangian: AugmentedLagrangian) -> np.ndarray:
        h, by_P = exponential_constraint(_edges(pi) / self.radius)
        by_P = by_P * (lagrangian.slope(h) / self.radius)
        np.fill_diagonal(by_P, 0)
        pi_in, pi_out = pi[:, :, 0], pi[:, :, 1]
        by_pi = np.zeros_like(pi)
        reg = lagrangian.regularisation / pi.dtype.type(2 * self.d * self.modules)
        by_pi[:, :, 0] = pi_out @ by_P.T + reg
        by_pi[:, :, 1] = pi_in @ by_P + reg
        return pi * (by_pi - (pi * by_pi).sum(axis=2, keepdims=True))


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


@njit(cache=True, error_model="numpy", fastmath=FASTMATH)
def _decode(modules, hard_out, decoder, offsets, x, first, residuals):
    """``x - mean`` of every variable, (d, B)."""
    m, d, B = hard_out.shape
    for j in range(d):
        row = residuals[j]
        row[:] = x[j, first : first + B] - offsets[j]
        for f in range(m):
            weight, fed, value = decoder[j, f], hard_out[f, j], modules[f, 0]
            for b in range(B):
                row[b] -= weight * fed[b] * value[b]


@njit(cache=True, error_model="numpy", fastmath=FASTMATH)
def _decoder_gradient(
    residuals,
    observed,
    first,
    log_variances,
    modules,
    hard_out,
    decoder,
    by_modules,
    by_decoder,
    by_offsets,
    by_log_variances,
):
    """Turn ``residuals`` into the gradient of the means; set those of modules and decoder."""
    m, d, B = hard_out.shape
    real = residuals.dtype.type
    one, half, share = real(1), real(0.5), real(1 / (d * B))
    by_modules[:] = 0
    for j in range(d):
        row, weights = residuals[j], observed[j, first : first + B]
        scale = real(np.exp(log_variances[j]))
        precision = one / (scale + real(VARIANCE_FLOOR))
        by_variance = real(0)
        by_mean = real(0)
        for b in range(B):
            r, weight = row[b], weights[b] * share
            by_variance += weight * half * precision * (one - r * r * precision)
            row[b] = -weight * r * precision
            by_mean += row[b]
        by_log_variances[j] = by_variance * scale
        by_offsets[j] = by_mean
        for f in range(m):
            fed, value, upstream = hard_out[f, j], modules[f, 0], by_modules[f, 0]
            weight = decoder[j, f]
            total = real(0)
            for b in range(B):
                masked = row[b] * fed[b]
                total += masked * value[b]
                upstream[b] += weight * masked
            by_decoder[j, f] = total


@njit(cache=True, error_model="numpy", fastmath=FASTMATH)
def _roles_gradient(upstream, x, first, by_mean, modules, decoder, soft_in, soft_out, by_logits):
    """Gradient of the roles' logits through the relaxed indicators."""
    m, d, B = soft_in.shape
    real = by_mean.dtype.type
    one = real(1)
    for f in range(m):
        value = modules[f, 0]
        for i in range(d):
            by_masked, values, row = upstream[f, i], x[i, first : first + B], by_mean[i]
            relaxed_in, relaxed_out = soft_in[f, i], soft_out[f, i]
            weight = decoder[i, f]
            g_in, g_out, g_none = real(0), real(0), real(0)
            for b in range(B):
                y_in, y_out = relaxed_in[b], relaxed_out[b]
                by_in = by_masked[b] * values[b]
                by_out = weight * value[b] * row[b]
                mean = by_in * y_in + by_out * y_out
                g_in += y_in * (by_in - mean)
                g_out += y_out * (by_out - mean)
                g_none -= (one - y_in - y_out) * mean
            by_logits[f, i, 0] = g_in
            by_logits[f, i, 1] = g_out
            by_logits[f, i, 2] = g_none
