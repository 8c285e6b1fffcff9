"""Graphs as lists of edges by name: ``.csv`` with the columns ``parent``, ``child``, ``weight``."""

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from sdcd.errors import InputError
from sdcd.files import atomic_path

COLUMNS = ("parent", "child", "weight")
ENDS = (COLUMNS[:2], ("from", "to"), ("source", "target"), ("cause", "effect"), ("gene1", "gene2"))
"""What the columns of an edge's ends may be called, in any case: from, then to."""


def edge_list(
    adjacency: np.ndarray, weights: np.ndarray | None
) -> list[tuple[int, int, float | None]]:
    """Edges (parent, child, weight) by decreasing weight, then by parent and child.

    Parameters
    ----------
    adjacency : (d, d)
        Non-zero at ``[i, j]`` for i -> j; an undirected edge is listed in both directions.
    weights : float (d, d) or None
        Strengths; without them each edge's is ``None``.
    """
    parents, children = np.nonzero(adjacency)
    if weights is None:
        return [(int(i), int(j), None) for i, j in zip(parents, children, strict=True)]
    strengths = weights[parents, children]
    order = np.argsort(-strengths, kind="stable")
    return [(int(parents[e]), int(children[e]), float(strengths[e])) for e in order]


def write_edges(
    path: str | Path,
    adjacency: np.ndarray,
    weights: np.ndarray | None,
    names: Sequence[str],
    more: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Write :func:`edge_list` by names; a missing weight is an empty cell.

    ``more`` are further columns: for each its name and the edges' values (d, d), NaN where there is
    none, which is an empty cell too.
    """
    more = more or {}
    with (
        atomic_path(path) as temporary,
        open(temporary, "w", newline="", encoding="utf-8") as stream,
    ):
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([*COLUMNS, *more])
        for i, j, weight in edge_list(adjacency, weights):
            values = [float(matrix[i, j]) for matrix in more.values()]
            cells = ["" if x is None or math.isnan(x) else repr(x) for x in (weight, *values)]
            writer.writerow([names[i], names[j], *cells])


def read_edges(
    path: str | Path, names: Sequence[str], *, left_out: list[str] | None = None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Read a list of edges.

    Parameters
    ----------
    path : path
        ``.csv`` with a header. Its columns are called ``parent``, ``child`` and perhaps
        ``weight``, in any order; ``from, to``, ``source, target``, ``cause, effect`` and
        ``Gene1, Gene2`` are understood too. Other columns are not looked at.
    names : sequence of d str
        All variables; those without an edge are not in the file.
    left_out : list of str, optional
        If given, edges with an end that is no variable, and from a variable to itself, are left out
        and counted here in words, instead of refused.

    Returns
    -------
    adjacency : int8 (d, d)
        The graph.
    weights : float64 (d, d) or None
        Zero where there is no edge; ``None`` if the file has no weights.

    Raises
    ------
    InputError
        If the file is missing, is not such a list, or names something that is no variable.
    """
    path = Path(path)
    return edges_from_rows(path, read_rows(path), names, left_out)


def read_rows(path: Path) -> list[tuple[int, list[str]]]:
    """The rows of a CSV file that are not blank, each with the line on which it starts."""
    rows = []
    try:
        with open(path, newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream)
            line = 1
            for cells in reader:
                if cells:
                    rows.append((line, [cell.strip() for cell in cells]))
                line = reader.line_num + 1
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: not a CSV file ({error})") from None
    if not rows:
        raise InputError(f"{path}: empty, expected a header")
    return rows


def edges_from_rows(
    path: Path,
    rows: list[tuple[int, list[str]]],
    names: Sequence[str],
    left_out: list[str] | None = None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """The graph in the rows of a list of edges; see :func:`read_edges`."""
    _, header = rows[0]
    title, header = header, [name.lower() for name in header]
    found = [pair for pair in ENDS if set(pair) <= set(header)]
    if not found:
        raise InputError(
            f"{path}: row 1: columns {', '.join(title)}, expected parent, child and perhaps weight"
            f"{', separated by commas' if len(title) == 1 else ''}"
        )
    parent, child = (header.index(name) for name in found[0])
    weight = header.index("weight") if "weight" in header else None
    index = {name: j for j, name in enumerate(names)}
    adjacency = np.zeros((len(names), len(names)), dtype=np.int8)
    weights = np.zeros(adjacency.shape) if weight is not None else None
    unmeasured = loops = 0
    for line, cells in rows[1:]:
        if len(cells) != len(header):
            raise InputError(f"{path}: row {line}: {len(cells)} cells, expected {len(header)}")
        if left_out is not None:
            if not {cells[parent], cells[child]} <= index.keys():
                unmeasured += 1
                continue
            if cells[parent] == cells[child]:
                loops += 1
                continue
        for position in (parent, child):
            if cells[position] not in index:
                shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
                raise InputError(
                    f"{path}: row {line}, column {title[position]!r}: {cells[position]!r} is no "
                    f"variable (variables: {shown})"
                )
        edge = index[cells[parent]], index[cells[child]]
        if edge[0] == edge[1]:
            raise InputError(f"{path}: row {line}: an edge from {cells[parent]!r} to itself")
        adjacency[edge] = 1
        if weights is not None:
            if cells[weight] == "":
                weights = None
                continue
            weights[edge] = number(path, cells[weight], line, "weight")
    if unmeasured:
        left_out.append(f"{unmeasured} edges with an end that is no variable")
    if loops:
        left_out.append(f"{loops} edges from a variable to itself")
    return adjacency, weights


def number(path: Path, cell: str, line: int, column: str) -> float:
    """A cell as a number; ``NA`` is NaN."""
    try:
        return float("nan") if cell == "NA" else float(cell)
    except ValueError:
        raise InputError(
            f"{path}: row {line}, column {column!r}: {cell!r}, expected a number"
        ) from None
