"""What a stage of SDCD carries from one optimisation step to the next, whoever computes it."""

from dataclasses import dataclass, fields, replace

import numpy as np

PARAMETERS = ("W", "b", "u", "v", "c", "e")
"""Names of the trainable arrays, in the order in which they are initialised and stored."""


@dataclass(frozen=True)
class Candidates:
    """The parents that each target of a block may have, as compressed columns.

    Attributes
    ----------
    d : int
        Number of variables.
    targets : int64 (t,)
        The variables this block predicts, ascending.
    indptr : int64 (t + 1,)
        The candidate parents of ``targets[k]`` are ``parents[indptr[k]:indptr[k + 1]]``.
    parents : int64 (E,)
        Ascending within each target; a target is never its own parent.
    """

    d: int
    targets: np.ndarray
    indptr: np.ndarray
    parents: np.ndarray

    @classmethod
    def all(cls, d: int, targets: np.ndarray | None = None) -> "Candidates":
        """Every other variable is a candidate parent of each target (all ``d`` by default)."""
        targets = np.arange(d) if targets is None else np.asarray(targets, dtype=np.int64)
        k = np.arange(d - 1)
        parents = k + (k >= targets[:, None])
        return cls(d, targets, np.arange(len(targets) + 1) * (d - 1), parents.ravel())

    @classmethod
    def of_edges(cls, d: int, parents: np.ndarray, children: np.ndarray) -> "Candidates":
        """The given edges, in any order, are the candidates; all ``d`` variables are targets."""
        order = np.lexsort((parents, children))
        count = np.bincount(children, minlength=d)
        indptr = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
        return cls(d, np.arange(d), indptr, np.asarray(parents, dtype=np.int64)[order])

    @property
    def positions(self) -> np.ndarray:
        """Index into ``targets`` of each candidate edge's target: int64 (E,)."""
        return np.repeat(np.arange(len(self.targets)), np.diff(self.indptr))

    @property
    def children(self) -> np.ndarray:
        """Target of each candidate edge: int64 (E,)."""
        return np.repeat(self.targets, np.diff(self.indptr))

    def dense(self, values: np.ndarray) -> np.ndarray:
        """Lay values of the candidate edges out as (d, t), zero elsewhere; dtype as given."""
        matrix = np.zeros((self.d, len(self.targets)), dtype=values.dtype)
        matrix[self.parents, self.positions] = values
        return matrix


@dataclass
class StageState:
    """Parameters, Adam moments and power-iteration vectors of one stage (symbols as in the paper).

    Shapes, with t targets, E candidate edges and h hidden units: ``W`` (E, h), ``b``, ``u``, ``v``
    (t, h), ``c``, ``e`` (t,), all float32; ``first`` and ``second`` hold Adam's moments of each
    under the same names (nothing where the state is a result); ``step`` counts optimisation steps
    done; ``left`` and ``right`` (d,) float32 are the power iteration's vectors (stage 2 with
    h_rho).

    For a target j with candidate parents i: ``h_j = sigmoid(sum_i x_i W[i -> j] + b_j)``,
    ``mean_j = u_j . h_j + c_j``, ``var_j = softplus(v_j . h_j + e_j)``.
    """

    candidates: Candidates
    W: np.ndarray
    b: np.ndarray
    u: np.ndarray
    v: np.ndarray
    c: np.ndarray
    e: np.ndarray
    first: dict[str, np.ndarray]
    second: dict[str, np.ndarray]
    step: int
    left: np.ndarray
    right: np.ndarray

    def copy(self) -> "StageState":
        """Copy the arrays; the candidates, which are never written, are shared."""
        own = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                own[field.name] = value.copy()
            elif isinstance(value, dict):
                own[field.name] = {name: array.copy() for name, array in value.items()}
        return replace(self, **own)

    def edge_weights(self) -> np.ndarray:
        """``A[i, j] = ||W[i, j, :]||_2`` of each candidate edge: float32 (E,)."""
        return np.sqrt(np.einsum("eh,eh->e", self.W, self.W))
