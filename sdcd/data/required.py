"""Required edges that form a cycle, told by the file that requires them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sdcd.data.edges import read_edges
from sdcd.errors import InputError


def refuse_required_cycle(names: Sequence[str], path: str | Path | None) -> None:
    """Refuse a list of required edges with a cycle; :class:`InputError` with one of its cycles.

    Parameters
    ----------
    names : sequence of d str
        All variables.
    path : path or None
        The list; without one there is nothing to refuse.
    """
    if path is None:
        return
    found = find_cycle(read_edges(path, names)[0])
    if found:
        steps = [names[j] for j in found]
        shown = " -> ".join(steps if len(steps) <= 10 else [*steps[:9], "...", steps[-1]])
        raise InputError(f"{path}: the required edges form a cycle ({shown}), expected none")


def find_cycle(A: np.ndarray) -> list[int]:
    """Nodes of a directed cycle of a graph (d, d), the first also at the end; empty without one."""
    A = np.asarray(A) != 0
    left = np.arange(len(A))
    while left.size:
        # What no other node of the rest leads to is in no cycle.
        reached = A[np.ix_(left, left)].any(axis=0)
        if reached.all():
            break
        left = left[reached]
    if not left.size:
        return []
    # Each node of the rest has a parent there: going backwards ends in a cycle.
    walk = [int(left[0])]
    while True:
        parent = int(left[A[left, walk[-1]].argmax()])
        if parent in walk:
            return [parent, *reversed(walk[walk.index(parent) :])]
        walk.append(parent)
