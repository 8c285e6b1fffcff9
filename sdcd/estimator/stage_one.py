"""What stage 1 hands to stage 2: which edges are candidates, and how strong they were."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sdcd.errors import InputError
from sdcd.estimator.state import Candidates
from sdcd.files import read_npz, write_npz

DENSE_LIMIT = 5000
"""Up to this many variables, all targets are fitted together and every pair's weight is kept."""

LARGE_BLOCK = 250
"""Targets fitted together where there are more variables and nothing else is asked for."""


@dataclass(frozen=True)
class StageOne:
    """Stage 1's result for a block of targets, or for all of them once gathered.

    Attributes
    ----------
    candidates : Candidates
        The block's targets and the edges into them that stage 2 may use: the selected ones, or
        every pair if stage 2 is to mask self-loops only.
    weights : float32 (E,)
        ``A[i, j]`` of each candidate edge at the end of stage 1.
    W : float32 (E, h)
        Input weights of each candidate edge at the end of stage 1 (for a warm start).
    matrix : float32 (d, t) or None
        ``A[i, j]`` of every pair, if d is at most ``DENSE_LIMIT``.
    blocks : int64 (number of blocks,)
        Number of targets of each block that was fitted together.
    epochs : int64 (number of blocks,)
        Epochs that each block ran.
    identity : str
        Names the data and the settings it was learned from.
    """

    candidates: Candidates
    weights: np.ndarray
    W: np.ndarray
    matrix: np.ndarray | None
    blocks: np.ndarray
    epochs: np.ndarray
    identity: str

    def save(self, path: str | Path) -> None:
        """Write as ``.npz``."""
        write_npz(path, **self.tree())

    @classmethod
    def load(cls, path: str | Path) -> "StageOne":
        """Read what :meth:`save` wrote; :class:`InputError` if it is something else."""
        arrays = read_npz(path)
        try:
            return cls.of_tree(arrays)
        except (KeyError, TypeError):
            raise InputError(f"{path}: not a result of stage 1") from None

    def tree(self) -> dict[str, np.ndarray]:
        """The same as a flat dict of arrays."""
        c = self.candidates
        tree = {
            "d": np.array(c.d),
            "targets": c.targets,
            "indptr": c.indptr,
            "parents": c.parents,
            "weights": self.weights,
            "W": self.W,
            "blocks": self.blocks,
            "epochs": self.epochs,
            "identity": np.array(self.identity),
        }
        return tree if self.matrix is None else {**tree, "matrix": self.matrix}

    @classmethod
    def of_tree(cls, tree: dict[str, np.ndarray]) -> "StageOne":
        """Undo :meth:`tree`."""
        candidates = Candidates(int(tree["d"]), tree["targets"], tree["indptr"], tree["parents"])
        arrays = (tree["weights"], tree["W"], tree.get("matrix"), tree["blocks"], tree["epochs"])
        return cls(candidates, *arrays, str(tree["identity"]))


def gather(blocks: Sequence[StageOne]) -> StageOne:
    """Put the blocks of one problem together, in any order.

    Raises
    ------
    InputError
        If a target is missing or comes twice, or the blocks were learned from different data or
        with different settings.
    """
    if not blocks:
        raise InputError("stage 1: no blocks to gather, expected at least one")
    blocks = sorted(blocks, key=lambda block: block.candidates.targets[0])
    d = blocks[0].candidates.d
    targets = np.concatenate([block.candidates.targets for block in blocks])
    for block in blocks:
        if block.identity != blocks[0].identity:
            first, other = (
                f"targets {b.candidates.targets[0]} to {b.candidates.targets[-1]}"
                for b in (blocks[0], block)
            )
            raise InputError(
                "stage 1: blocks were fitted to different data or with different settings: "
                f"{first} and {other}"
            )
    if not np.array_equal(targets, np.arange(d)):
        count = np.bincount(targets, minlength=d)
        wrong = int(np.flatnonzero(count != 1)[0]) if (count != 1).any() else int(targets[0])
        raise InputError(
            f"stage 1: target {wrong} is in {count[wrong]} blocks, expected each of the {d} "
            "targets in exactly one, and each block a contiguous range"
        )
    sizes = np.concatenate([np.diff(block.candidates.indptr) for block in blocks])
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    parents = np.concatenate([block.candidates.parents for block in blocks])
    dense = all(block.matrix is not None for block in blocks)
    return StageOne(
        candidates=Candidates(d, targets, indptr, parents),
        weights=np.concatenate([block.weights for block in blocks]),
        W=np.concatenate([block.W for block in blocks]),
        matrix=np.concatenate([block.matrix for block in blocks], axis=1) if dense else None,
        blocks=np.concatenate([block.blocks for block in blocks]),
        epochs=np.concatenate([block.epochs for block in blocks]),
        identity=blocks[0].identity,
    )
