"""Acyclicity penalties of :mod:`.engine_torch`: gamma dh/dA for every input weight."""

from typing import Protocol

import numpy as np
import torch

from sdcd.estimator.engine import StageSettings
from sdcd.estimator.model import log_domain_scale
from sdcd.estimator.state import StageState


class Block(Protocol):
    """What a penalty sees of a block of targets."""

    inputs: np.ndarray
    positions: np.ndarray

    def weights(self) -> torch.Tensor:
        """A of every input, (T, K)."""


class NoPenalty:
    """Keeps the power iteration's vectors, which a state has in any case."""

    escapes = 0

    def __init__(
        self,
        state: StageState,
        blocks: list[Block],
        settings: StageSettings,
        device: torch.device,
    ):
        self.left = torch.from_numpy(state.left.copy()).to(device)
        self.right = torch.from_numpy(state.right.copy()).to(device)

    def vectors(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The left and right vector, (d,) each."""
        return self.left, self.right


class _Penalty(NoPenalty):
    """What the penalties have in common.

    ``pulls(gamma)`` gives each block the factor (T, K) by which its W enters the gradient of
    gamma * h(A): gamma * dh/dA / A.
    """

    def __init__(
        self,
        state: StageState,
        blocks: list[Block],
        settings: StageSettings,
        device: torch.device,
    ):
        super().__init__(state, blocks, settings, device)
        self.blocks = blocks
        self.d = state.candidates.d
        # Both ends of every input of every block, in one line; padding has weight 0.
        parents = np.concatenate([block.inputs.ravel() for block in blocks])
        children = np.concatenate(
            [
                np.repeat(state.candidates.targets[block.positions], block.inputs.shape[1])
                for block in blocks
            ]
        )
        self.real = torch.from_numpy(np.flatnonzero(parents < self.d)).to(device)
        self.parents = torch.from_numpy(np.minimum(parents, self.d - 1)).to(device)
        self.children = torch.from_numpy(children).to(device)

    def pulls(self, gamma: float | torch.Tensor) -> list[torch.Tensor]:
        A = torch.cat([block.weights().view(-1) for block in self.blocks])
        # Where A is 0, so is W, and any finite factor gives 0.
        pull = gamma * self.derivative(A) / A.clamp_min(1e-30)
        sizes = [block.inputs.size for block in self.blocks]
        shapes = [block.inputs.shape for block in self.blocks]
        return [part.view(shape) for part, shape in zip(pull.split(sizes), shapes, strict=True)]

    def derivative(self, A: torch.Tensor) -> torch.Tensor:
        """dh/dA of every input, from its weight; moves the power iteration on."""
        raise NotImplementedError

    def matrix(self, A: torch.Tensor) -> torch.Tensor:
        """The weights as a (d, d) matrix."""
        matrix = torch.zeros(self.d * self.d, device=A.device)
        where = (self.parents * self.d + self.children).index_select(0, self.real)
        matrix.index_copy_(0, where, A.index_select(0, self.real))
        return matrix.view(self.d, self.d)

    def entries(self, matrix: torch.Tensor) -> torch.Tensor:
        """Undo :meth:`matrix`."""
        return matrix.reshape(-1).index_select(0, self.parents * self.d + self.children)


class Spectral(_Penalty):
    """h_rho by power iteration on A + 1e-6, right and left vector at once.

    The stacked vector (right, left) is multiplied by diag(A, A^T); the 1e-6 in every entry adds
    1e-6 times the vector's sum. Normalising after every third product is the same iteration, and
    as far as single precision goes without underflow when A is zero.
    """

    def __init__(self, state, blocks, settings: StageSettings, device):
        super().__init__(state, blocks, settings, device)
        self.power_iterations = settings.power_iterations
        n_edges = len(state.candidates.parents)
        self.product = None
        if n_edges < 0.25 * self.d**2:
            parents, children = (
                ends.index_select(0, self.real).cpu().numpy()
                for ends in (self.parents, self.children)
            )
            rows = np.concatenate([parents, children + self.d])
            columns = np.concatenate([children, parents + self.d])
            self.product = SparseProduct(rows, columns, 2 * self.d, device)

    def derivative(self, A: torch.Tensor) -> torch.Tensor:
        """One call is ``power_iterations`` steps on both vectors."""
        if self.product is not None:
            real = A.index_select(0, self.real)
            weights = self.product.arrange(torch.cat([real, real]))
        else:
            matrix = self.matrix(A)
            stack = torch.stack([matrix, matrix.T])
        x = torch.stack([self.right, self.left])
        for i in range(1, self.power_iterations + 1):
            shift = 1e-6 * x.sum(dim=1, keepdim=True)
            if self.product is not None:
                x = self.product.multiply(weights, x.view(-1)).view(2, -1) + shift
            else:
                x = torch.bmm(stack, x[:, :, None])[:, :, 0] + shift
            if i % 3 == 0 or i == self.power_iterations:
                x = x / torch.linalg.vector_norm(x, dim=1, keepdim=True)
        self.right.copy_(x[0])
        self.left.copy_(x[1])
        scale = (x[0] * x[1]).sum() + 1e-6
        return (
            self.left.index_select(0, self.parents)
            * self.right.index_select(0, self.children)
            / scale
        )


class _OfMatrix(_Penalty):
    """A penalty h(M) with M = A or, if its name ends in "_squared", M = A * A."""

    def __init__(self, state, blocks, settings: StageSettings, device):
        super().__init__(state, blocks, settings, device)
        self.squared = settings.penalty.endswith("_squared")

    def derivative(self, A: torch.Tensor) -> torch.Tensor:
        if self.squared:
            return 2 * A * self.entries(self.of_matrix(self.matrix(A * A)))
        return self.entries(self.of_matrix(self.matrix(A)))

    def of_matrix(self, M: torch.Tensor) -> torch.Tensor:
        """dh/dM: (d, d)."""
        raise NotImplementedError


class Exponential(_OfMatrix):
    """h_exp: the derivative of tr exp(M) is exp(M)^T."""

    def of_matrix(self, M: torch.Tensor) -> torch.Tensor:
        """The transposed matrix exponential."""
        return torch.matrix_exp(M).T


class Logarithm(_OfMatrix):
    """h_log: the derivative of -log det(I - c M) is c (I - c M)^-T.

    c is 1 inside the domain. M is inside exactly if I - M is an M-matrix, that is, if its inverse
    has no negative entry: then that inverse is the answer, and no eigenvalue is needed.
    """

    def of_matrix(self, M: torch.Tensor) -> torch.Tensor:
        """The transposed inverse of I - M, well inside the domain."""
        M = M.double()
        eye = torch.eye(self.d, dtype=torch.float64, device=M.device)
        scale = 1.0
        inverse, singular = torch.linalg.inv_ex(eye - M)
        if singular or inverse.min() < -1e-9 * inverse.abs().max():
            scale = log_domain_scale(M)
            self.escapes += scale < 1
            inverse = torch.linalg.inv(eye - scale * M)
        return scale * inverse.T.float()


PENALTIES = {
    "none": NoPenalty,
    "spectral": Spectral,
    "exp": Exponential,
    "exp_squared": Exponential,
    "log": Logarithm,
    "log_squared": Logarithm,
}


class SparseProduct:
    """Matrix times vector for a fixed pattern of entries, summed in a fixed order.

    A row's terms are summed 32 at a time, the sums again, until one is left. Gathers and sums along
    an axis are deterministic on every device, and the memory is linear in the entries and rows
    however long a row is.
    """

    _WIDTH = 32

    def __init__(self, rows: np.ndarray, columns: np.ndarray, n_rows: int, device: torch.device):
        order = np.argsort(rows, kind="stable")
        group, indices = _groups_of(rows[order], self._WIDTH)
        # An index one past the end stands for a term that is 0.
        self.entry = np.append(order, len(rows))[indices]
        self.source = np.append(columns[order], 0)[indices]
        levels = []
        while len(group) and np.bincount(group).max() > 1:
            group, indices = _groups_of(group, self._WIDTH)
            levels.append(indices)
        last = np.full((n_rows, 1), len(group))
        last[group, 0] = np.arange(len(group))
        self.entry, self.source, *self.levels = (
            torch.from_numpy(array).to(device) for array in (self.entry, self.source, *levels, last)
        )

    def arrange(self, values: torch.Tensor) -> torch.Tensor:
        """Values of the entries, laid out for :meth:`multiply`."""
        return _take(torch.cat([values, values.new_zeros(1)]), self.entry)

    def multiply(self, arranged: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """The matrix with these entries times ``x``."""
        sums = (_take(x, self.source) * arranged).sum(dim=1)
        for indices in self.levels:
            sums = _take(torch.cat([sums, sums.new_zeros(1)]), indices).sum(dim=1)
        return sums


def _groups_of(rows: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Cut each run of equal ``rows`` (m,), ascending, into groups of at most ``width``.

    Returns the row of each group and the indices of its members, (groups, width), padded with m.
    """
    _, starts, counts = np.unique(rows, return_index=True, return_counts=True)
    width = max(1, min(width, int(counts.max(initial=0))))
    rank = np.arange(len(rows)) - np.repeat(starts, counts)
    group = np.cumsum(rank % width == 0) - 1
    indices = np.full((int(group[-1]) + 1 if len(rows) else 0, width), len(rows))
    indices[group, rank % width] = np.arange(len(rows))
    return rows[rank % width == 0], indices


def _take(values: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    return values.index_select(0, indices.view(-1)).view(indices.shape)
