"""Paths in directed graphs."""

import numpy as np


def reachable(A: np.ndarray) -> np.ndarray:
    """Whether there is a path i -> ... -> j of at least one edge: bool (d, d).

    Parameters
    ----------
    A : bool (d, d)
        ``A[i, j]`` is an edge i -> j; cycles are allowed.
    """
    reached = A.copy()
    while True:
        # Paths of up to twice as many edges; products of float32 are the fast ones, and positive
        # where they should be.
        step = reached.astype(np.float32)
        longer = reached | (step @ step > 0)
        if (longer == reached).all():
            return reached
        reached = longer
