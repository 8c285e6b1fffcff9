"""h_rho as it is trained with: an estimate by power iteration, carried from step to step."""

from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp

SHIFT = 1e-6
"""Added to every entry of A during the iteration, and to the denominator of the gradient."""


@dataclass(frozen=True)
class PowerIteration:
    """Estimates of the left and right eigenvectors of A's spectral radius.

    Each iteration is ``right <- (A + 1e-6) right`` and ``left <- (A + 1e-6)^T left``, each divided
    by its norm. The gradient of h_rho is taken to be

        G = outer(left, right) / (left . right + 1e-6),

    a constant, and its value ``h = sum(G * A)``. Start with :meth:`start`; call :meth:`update` in
    each optimisation step, with that step's A, on what the last one returned. Nothing (d, d) is
    formed but by :meth:`gradient`: an update costs O(d^2) for an array, O(edges + d) for a sparse
    one.

    Attributes
    ----------
    left, right : float64 (d,)
        Unit vectors, positive.
    value : float
        h at the last update's A (NaN before the first).
    shift : float
        The 1e-6 of both formulas.

    Notes
    -----
    **Convergence.** It is exact in the limit for a matrix whose graph is strongly connected and
    aperiodic, such as a dense one. Otherwise the 1e-6, which makes every matrix so, decides how
    far from exact it stays:

    * *Acyclic A.* h_rho is 0; the estimate is small but positive. The shift closes every path of
      A into a cycle of weight ``1e-6 * (product of the path)``, so that the estimate tends to a
      fraction of the spectral radius of A + 1e-6, for a path of length l with weights w about
      ``(1e-6 w^l)^(1 / (l + 1))``. Only A = 0 gives 0. The gradient still points at the edges of
      the longest, heaviest paths: harmless, as they get smaller h falls with them.
    * *Several strongly connected components.* The one with the largest radius wins, after as many
      iterations as the ratio of the two largest radii asks for. Before that, and if they tie, the
      estimate is a mean of their radii and the gradient touches both.
    * *Periodic A, such as one cycle.* Eigenvalues of equal modulus surround the circle. If all
      the cycle's weights are equal, the start is already its eigenvector, and the estimate exact.
      Otherwise the vectors go round with the cycle for about 1e6 iterations, and the estimate with
      them: 0.75 for the cycle 0 -> 1 -> 0 with weights 1 and 0.5, whose radius is 0.707. One
      self-loop in the component ends that.

    Source: the paper's appendix "Spectral Acyclicity Constraint Estimation"; the constants are
    those of the published runs (15 iterations for each optimisation step).
    """

    left: np.ndarray
    right: np.ndarray
    value: float = np.nan
    shift: float = field(default=SHIFT, repr=False)

    @classmethod
    def start(cls, d: int, *, shift: float = SHIFT) -> "PowerIteration":
        """Both vectors ``ones(d) / sqrt(d)``."""
        ones = np.full(d, 1 / np.sqrt(d))
        return cls(ones, ones, shift=shift)

    def update(self, A: np.ndarray | sp.sparray, iterations: int = 15) -> "PowerIteration":
        """Iterate with A, and evaluate h there.

        Parameters
        ----------
        A : array or sparse array (d, d)
            Non-negative; ``A[i, j]`` is the weight of i -> j. Of a list of edges, see
            :func:`edge_matrix`.
        iterations : int
            15 in SDCD, 5 in the paper's comparison of constraints.

        Returns
        -------
        PowerIteration
            The new estimate; this one is not changed.
        """
        left, right, transposed = self.left, self.right, A.T
        for _ in range(iterations):
            right = A @ right + self.shift * right.sum()
            left = transposed @ left + self.shift * left.sum()
            right = right / np.sqrt(right @ right)
            left = left / np.sqrt(left @ left)
        value = float(left @ (A @ right)) / (left @ right + self.shift)
        return replace(self, left=left, right=right, value=float(value))

    def gradient(self) -> np.ndarray:
        """G, the gradient of h with respect to A, in A's layout: float64 (d, d)."""
        return np.outer(self.left / (self.left @ self.right + self.shift), self.right)

    def edge_gradient(self, parents: np.ndarray, children: np.ndarray) -> np.ndarray:
        """G at the edges ``parents[e] -> children[e]`` only: float64 (edges,)."""
        scaled = self.left / (self.left @ self.right + self.shift)
        return scaled[parents] * self.right[children]


def edge_matrix(
    parents: np.ndarray, children: np.ndarray, weights: np.ndarray, d: int
) -> sp.csr_array:
    """The sparse matrix of a list of edges, for :meth:`PowerIteration.update`.

    Parameters
    ----------
    parents, children : int (edges,)
        Edge e is ``parents[e] -> children[e]``.
    weights : float (edges,)
        Weights of equal edges are added.
    d : int
        Number of nodes.
    """
    return sp.csr_array((weights, (parents, children)), shape=(d, d), dtype=np.float64)
