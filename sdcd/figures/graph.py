"""A picture of a learned graph: parents above their children, wider edges for larger weights.

The layout is that of Sugiyama, one for each connected part, by igraph: nodes on layers along the
edges, long edges with a waypoint on every layer that they pass, few crossings. Edges leave a node
at its lower side and enter at its upper side, so that none runs behind a node.
"""

import itertools
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import igraph
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, PathPatch, Polygon
from matplotlib.path import Path as Curve
from matplotlib.textpath import TextPath
from scipy.optimize import isotonic_regression

from sdcd.data.edges import edge_list
from sdcd.figures import style

MAX_EDGES = 120
MAX_NODES = 50

EDGE_COLOR = "#0072B2"
NODE_EDGE_COLOR = "#444444"
NODE_COLOR = "#FFF4DC"

# Inches, except where a name says points.
_FONT_POINTS = 9.0
_BOX_HEIGHT = 0.27
_LAYER_GAP = 0.42
_NODE_GAP = 0.22
_WAYPOINT_GAP = 0.1
_PORT_GAP = 0.09
_PART_GAP = 0.4
_MARGIN = 0.2
_NARROWEST = 4.5
_WIDTH_POINTS = (0.6, 3.2)
_LABEL_CHARACTERS = 20


def draw_graph(
    adjacency: np.ndarray,
    weights: np.ndarray | None,
    names: Sequence[str],
    stem: str | Path,
    *,
    title: str = "",
) -> tuple[Path, Path]:
    """Draw a graph and write ``stem.png`` and ``stem.pdf``.

    Of a large graph only the strongest edges are drawn, at most :data:`MAX_EDGES` and so many that
    they have at most :data:`MAX_NODES` ends, and the picture says so.

    Parameters
    ----------
    adjacency : (d, d)
        Non-zero at ``[i, j]`` for i -> j; an undirected edge is a line without an arrowhead.
    weights : float (d, d) or None
        Widths of the edges. Without them all are alike, and of a large graph the edges between the
        variables with the most edges are drawn.
    names : sequence of d str
        Labels.
    stem : path
        Where to write, without the suffix.
    title : str
        A line above the graph.

    Returns
    -------
    tuple of Path
        The PNG and the PDF.
    """
    with style.context():
        figure = _figure(np.asarray(adjacency), weights, names, title)
    return style.save(figure, stem)


@dataclass
class _Edge:
    parent: int
    child: int
    weight: float | None
    directed: bool


def _figure(adjacency, weights, names, title) -> Figure:
    every = _edges(adjacency, weights)
    edges = _strongest(every)
    connected = {end for edge in edges for end in (edge.parent, edge.child)}
    alone = [j for j in range(len(names)) if j not in connected]
    if len(connected) + len(alone) > MAX_NODES:
        alone = []
    labels = {j: _label(names[j]) for j in [*connected, *alone]}
    widths = {j: _node_width(labels[j], j, edges) for j in labels}
    parts = [_Layout(part, widths) for part in _parts(edges)]
    area = sum((part.width + _PART_GAP) * (part.height + _PART_GAP) for part in parts)
    least = area**0.5 if len(parts) > 1 else 0.0
    across = max([_NARROWEST - 2 * _MARGIN, least, *(part.width for part in parts)])
    shelves = _shelves([part.width for part in parts], across, _PART_GAP)
    rows = _shelves([widths[j] for j in alone], across, _NODE_GAP)
    width = across + 2 * _MARGIN
    notes = _notes(edges, len(every), len(labels), len(names), weights)
    note = textwrap.wrap(". ".join(notes) + "." if notes else "", int(width * 16))
    above = _MARGIN + (0.3 if title else 0.0)
    below = _MARGIN + 0.15 * len(note)
    heights = [max(parts[k].height for k in shelf) for shelf in shelves]
    height = above + sum(heights) + _PART_GAP * max(len(shelves) - 1, 0)
    height += (_BOX_HEIGHT + 0.15) * len(rows) + (_PART_GAP - 0.15 if rows and shelves else 0.0)
    height += below

    figure = style.new_figure(width, height)
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    # One unit is one inch; y grows downwards.
    axes.set(xlim=(0, width), ylim=(height, 0))
    widest = max((edge.weight or 0.0 for edge in edges), default=0.0)
    places = {}
    y = above
    for shelf, tall in zip(shelves, heights, strict=True):
        x = (width - _total([parts[k].width for k in shelf], _PART_GAP)) / 2
        for k in shelf:
            corner = np.array([x, y])
            for edge, points in parts[k].routes:
                _draw_edge(axes, edge, points + corner, widest)
            places |= {node: corner + place for node, place in parts[k].places.items()}
            x += parts[k].width + _PART_GAP
        y += tall + _PART_GAP
    for row in rows:
        x = (width - _total([widths[alone[k]] for k in row], _NODE_GAP)) / 2
        for k in row:
            places[alone[k]] = np.array([x + widths[alone[k]] / 2, y + _BOX_HEIGHT / 2])
            x += widths[alone[k]] + _NODE_GAP
        y += _BOX_HEIGHT + 0.15
    for node, place in places.items():
        _draw_node(axes, place, widths[node], labels[node])
    if title:
        axes.text(width / 2, 0.12, title, ha="center", va="top", fontsize=10)
    axes.text(
        0.1, height - 0.08, "\n".join(note), ha="left", va="bottom", fontsize=7.5, color="#444444"
    )
    return figure


def _edges(adjacency, weights) -> list[_Edge]:
    """Edges by decreasing weight, the two entries of an undirected edge as one."""
    found: dict[tuple[int, int], _Edge] = {}
    for i, j, weight in edge_list(adjacency, weights):
        if (j, i) in found:
            found[j, i].directed = False
        elif i != j:
            found[i, j] = _Edge(i, j, weight, True)
    edges = list(found.values())
    if weights is None and edges:
        degree = np.bincount([end for edge in edges for end in (edge.parent, edge.child)])
        edges.sort(key=lambda edge: -min(degree[edge.parent], degree[edge.child]))
    return edges


def _strongest(edges: list[_Edge]) -> list[_Edge]:
    """As many of the first edges as fit the picture."""
    ends: set[int] = set()
    for count, edge in enumerate(edges):
        ends |= {edge.parent, edge.child}
        if count == MAX_EDGES or len(ends) > MAX_NODES:
            return edges[:count]
    return edges


def _notes(edges, n_edges, n_shown, d, weights) -> list[str]:
    notes = []
    if not n_edges:
        notes.append("No edges")
    elif weights is not None:
        low, high = edges[-1].weight, edges[0].weight
        notes.append(f"Width of an edge: its weight, here {low:.3g} to {high:.3g}")
    if len(edges) < n_edges:
        what = "the strongest" if weights is not None else "those between well-connected variables"
        notes.append(f"Only {len(edges)} of {n_edges} edges are drawn, {what}")
    if n_shown < d:
        notes.append(f"{d - n_shown} of {d} variables have none of them and are left out")
    if any(not edge.directed for edge in edges):
        notes.append("Lines without an arrowhead are undirected edges")
    return notes


# Layout


class _Layout:
    """Places of the nodes of one connected part, and routes of its edges, in inches.

    Attributes
    ----------
    places : dict
        Middle (x, y) of each node from the top left.
    routes : list of (edge, points)
        The points of an edge from parent to child: where it leaves the one, where it enters and
        leaves the layers that it passes, where it enters the other.
    width, height : float
        Of the whole.
    """

    def __init__(self, edges: list[_Edge], widths: dict[int, float]):
        nodes = sorted({end for edge in edges for end in (edge.parent, edge.child)})
        number = {node: k for k, node in enumerate(nodes)}
        graph = igraph.Graph(
            n=len(nodes),
            edges=[(number[edge.parent], number[edge.child]) for edge in edges],
            directed=True,
        )
        layout = graph.layout_sugiyama()
        # An edge passes a waypoint on each layer between its ends.
        waypoints = [point for points in layout.edge_routing for point in points]
        x, level = np.array([*layout.coords, *waypoints]).T
        level = np.unique(level, return_inverse=True)[1]
        half = np.zeros(len(x))
        half[: len(nodes)] = [widths[node] / 2 for node in nodes]
        chains, used = [], len(nodes)
        for edge, points in zip(edges, layout.edge_routing, strict=True):
            passed = range(used, used + len(points))
            used += len(points)
            ends = (number[edge.parent], number[edge.child])
            chains.append(sorted([*ends, *passed], key=lambda vertex: level[vertex]))
        x = _spread(x, level, half, chains)
        self.width = float((x + half).max())
        # The more edges there are between two layers, the flatter some of them run.
        crowds = np.bincount([level[v] for chain in chains for v in chain[:-1]])
        gaps = _BOX_HEIGHT + _LAYER_GAP + np.minimum(0.015 * crowds, 0.6)
        y = _BOX_HEIGHT / 2 + np.concatenate([[0.0], np.cumsum(gaps)])
        self.height = float(y[-1] + _BOX_HEIGHT / 2)
        self.places = {node: np.array([x[k], y[level[k]]]) for k, node in enumerate(nodes)}
        leaves = _ports(chains, x, half, upper=True)
        enters = _ports(chains, x, half, upper=False)
        self.routes = []
        for k, (edge, (top, *passed, bottom)) in enumerate(zip(edges, chains, strict=True)):
            points = [(leaves[k], y[level[top]] + _BOX_HEIGHT / 2)]
            for waypoint in passed:
                middle = y[level[waypoint]]
                points.append((x[waypoint], middle - _BOX_HEIGHT / 2))
                points.append((x[waypoint], middle + _BOX_HEIGHT / 2))
            points.append((enters[k], y[level[bottom]] - _BOX_HEIGHT / 2))
            if nodes[top] != edge.parent:
                points.reverse()
            self.routes.append((edge, np.array(points)))


def _spread(
    x: np.ndarray, level: np.ndarray, half: np.ndarray, chains: list[list[int]]
) -> np.ndarray:
    """Positions near the neighbours' mean, on each layer in the order of ``x``, without overlap."""
    neighbours: list[list[int]] = [[] for _ in x]
    for chain in chains:
        for above, below in itertools.pairwise(chain):
            neighbours[above].append(below)
            neighbours[below].append(above)
    rows = [np.flatnonzero(level == k) for k in range(level.max() + 1)]
    rows = [row[np.argsort(x[row], kind="stable")] for row in rows]
    steps = []
    for row in rows:
        gaps = [
            half[a] + half[b] + (_NODE_GAP if half[a] and half[b] else _WAYPOINT_GAP)
            for a, b in itertools.pairwise(row)
        ]
        steps.append(np.concatenate([[0.0], np.cumsum(gaps)]))
    x = np.zeros(len(x))
    for row, step in zip(rows, steps, strict=True):
        x[row] = step - step.mean()
    for sweep in range(40):
        for k in range(len(rows)) if sweep % 2 == 0 else reversed(range(len(rows))):
            row = rows[k]
            wanted = np.array([x[neighbours[vertex]].mean() for vertex in row])
            # Waypoints pull harder, so that long edges are straight.
            pull = np.where(half[row] > 0, 1.0, 4.0)
            x[row] = isotonic_regression(wanted - steps[k], weights=pull).x + steps[k]
    return x - (x - half).min()


def _parts(edges: list[_Edge]) -> list[list[_Edge]]:
    """The edges of each connected part, the parts with the most edges first."""
    graph = igraph.Graph([(edge.parent, edge.child) for edge in edges])
    part = graph.connected_components().membership
    grouped: dict[int, list[_Edge]] = {}
    for edge in edges:
        grouped.setdefault(part[edge.parent], []).append(edge)
    return sorted(grouped.values(), key=len, reverse=True)


def _shelves(widths: list[float], across: float, gap: float) -> list[list[int]]:
    """Positions of items side by side, on as many shelves as they need."""
    shelves, used = [], np.inf
    for k, width in enumerate(widths):
        used += width + gap
        if used > across + 1e-9:
            shelves.append([])
            used = width
        shelves[-1].append(k)
    return shelves


def _total(widths: list[float], gap: float) -> float:
    return sum(widths) + gap * (len(widths) - 1)


def _ports(
    chains: list[list[int]], x: np.ndarray, half: np.ndarray, *, upper: bool
) -> dict[int, float]:
    """Where each chain leaves its upper node, or enters its lower one, side by side."""
    end, beside = (0, 1) if upper else (-1, -2)
    by_node: dict[int, list[int]] = {}
    for k, chain in enumerate(chains):
        by_node.setdefault(chain[end], []).append(k)
    ports = {}
    for node, own in by_node.items():
        own.sort(key=lambda k: x[chains[k][beside]])
        step = min(2 * _PORT_GAP, (2 * half[node] - 0.16) / max(len(own) - 1, 1))
        for place, k in enumerate(own):
            ports[k] = x[node] + (place - (len(own) - 1) / 2) * step
    return ports


# Drawing


def _label(name: str) -> str:
    return name if len(name) <= _LABEL_CHARACTERS else name[: _LABEL_CHARACTERS - 1] + "…"


def _node_width(label: str, node: int, edges: list[_Edge]) -> float:
    """Room for the label, and for the edges on either side."""
    text = TextPath((0, 0), label, size=_FONT_POINTS).get_extents().width / 72
    children = sum(edge.parent == node for edge in edges)
    parents = sum(edge.child == node for edge in edges)
    return max(text + 0.2, 0.16 + _PORT_GAP * (max(children, parents) - 1), 0.36)


def _draw_node(axes, place, width, label) -> None:
    x, y = place
    axes.add_patch(
        FancyBboxPatch(
            (x - width / 2, y - _BOX_HEIGHT / 2),
            width,
            _BOX_HEIGHT,
            boxstyle="round,pad=0,rounding_size=0.07",
            facecolor=NODE_COLOR,
            edgecolor=NODE_EDGE_COLOR,
            linewidth=0.8,
            zorder=3,
        )
    )
    axes.text(x, y + 0.01, label, ha="center", va="center", fontsize=_FONT_POINTS, zorder=4)


def _draw_edge(axes, edge: _Edge, points: np.ndarray, widest: float) -> None:
    low, high = _WIDTH_POINTS
    share = 0.3 if edge.weight is None or not widest else edge.weight / widest
    line = low + (high - low) * share
    ending = points[-1]
    if edge.directed:
        # The head lies between the end of the line and the outline of the node.
        size = 0.06 + 0.02 * line
        back = np.array([0, -np.sign(points[-1, 1] - points[-2, 1])])
        tip = points[-1] + 0.012 * back
        neck = tip + size * back
        ending = neck - 0.01 * back
        across = np.array([0.42 * size, 0])
        axes.add_patch(
            Polygon(
                [tip, neck + across, neck - across],
                closed=True,
                facecolor=EDGE_COLOR,
                edgecolor="white",
                linewidth=0.3,
                zorder=2.5,
            )
        )
    curve = _curve([*points[:-1], ending])
    axes.add_patch(
        PathPatch(
            curve, facecolor="none", edgecolor=EDGE_COLOR, linewidth=line, alpha=0.85, zorder=2
        )
    )


def _curve(points: list[np.ndarray]) -> Curve:
    """Through all points, vertical at each of them."""
    vertices, codes = [points[0]], [Curve.MOVETO]
    for a, b in itertools.pairwise(points):
        lift = np.array([0, 0.45 * (b[1] - a[1])])
        vertices += [a + lift, b - lift, b]
        codes += [Curve.CURVE4] * 3
    return Curve(np.array(vertices), codes)
