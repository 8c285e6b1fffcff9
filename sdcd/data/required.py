"""Required edges that form a cycle, told by the file that requires them."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

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
    import networkx as nx

    if path is None:
        return
    graph = nx.from_numpy_array(read_edges(path, names)[0], create_using=nx.DiGraph)
    with contextlib.suppress(nx.NetworkXNoCycle):
        cycle = nx.find_cycle(graph)
        steps = [names[j] for j in (*(parent for parent, _ in cycle), cycle[0][0])]
        shown = " -> ".join(steps if len(steps) <= 10 else [*steps[:9], "...", steps[-1]])
        raise InputError(f"{path}: the required edges form a cycle ({shown}), expected none")
