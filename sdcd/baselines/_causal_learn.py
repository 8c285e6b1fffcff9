"""The package causal-learn, contained: what its methods share here.

It shuffles with the global generators of ``random`` and numpy, prints, and returns graphs with
marks at the edges' ends. Here the generators are seeded before and put back after, what it prints
is dropped, and its graphs become matrices.
"""

import contextlib
import io
import random
import warnings
from collections.abc import Iterator

import numpy as np

INSTALL = "install with: pip install -e '.[baselines]'"
TAIL, HEAD = -1, 1


@contextlib.contextmanager
def contained(seed: int) -> Iterator[None]:
    """Run a piece of causal-learn with both global generators seeded, and put them back."""
    states = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed % 2**32)
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])


def adjacency(marks: np.ndarray) -> np.ndarray:
    """The matrix of a graph of causal-learn; an edge with two heads counts as undirected.

    Parameters
    ----------
    marks : int (d, d)
        ``marks[i, j]`` is the mark at i of the edge between i and j: -1 a tail, 1 a head, 0 without
        an edge.

    Returns
    -------
    bool (d, d)
    """
    two_heads = (marks == HEAD) & (marks.T == HEAD)
    return (marks == TAIL) | two_heads
