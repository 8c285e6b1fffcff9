"""The method in one picture, drawn from a real fit (the paper's fig:cartoon)."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, Patch, Rectangle

from sdcd.figures import style
from sdcd.graphs import topological_order

RIGHT = "#0072B2"
REVERSED = "#E69F00"
WRONG = "#D55E00"
MISSED = "#999999"
LEFT_OUT = "#EDEDED"

_WEIGHTS = LinearSegmentedColormap.from_list("weights", ["#FFFFFF", "#9ECAE1", "#08306B"])


def draw(table: pd.DataFrame) -> Figure:
    """Draw the stages of one fit: weights of stage 1, mask, weights of stage 2, graph, true graph.

    Parameters
    ----------
    table : DataFrame
        A row for each ordered pair of variables (columns ``sdcd.runs.cartoon.COLUMNS``).

    Returns
    -------
    Figure
        In the matrices, rows are parents and columns children, in a causal order of the true
        graph, whose edges are framed: they all lie above the diagonal.
    """
    if not len(table):
        return style.empty_figure(
            "The fit of SDCD that this figure is drawn from failed,\nor has no weights of stage 1."
        )
    d = int(table["d"].iloc[0])
    true = _matrix(table, "true", d) > 0
    order = topological_order(true)
    stage_1, mask, stage_2, graph, true = (
        _matrix(table, name, d)[np.ix_(order, order)]
        for name in ("stage_1_weight", "selected", "stage_2_weight", "in_graph", "true")
    )
    mask, graph, true = mask > 0, graph > 0, true > 0
    tau_1, tau_2 = (float(table[name].iloc[0]) for name in ("tau_1", "tau_2"))
    with style.context():
        figure = style.new_figure(9.0, 6.6)
        grid = figure.add_gridspec(2, 3)
        panels = [figure.add_subplot(grid[k // 3, k % 3]) for k in range(6)]
        _draw_weights(panels[0], stage_1, true, tau_1, r"$\tau_1$")
        _draw_mask(panels[1], mask, true)
        _draw_weights(panels[2], np.where(mask, stage_2, np.nan), true, tau_2, r"$\tau_2$")
        _draw_graph(panels[3], graph, true, order)
        _draw_graph(panels[4], true, graph, order, truth=True)
        titles = (
            "stage 1: weights\nof all edges",
            f"its mask: weights > {tau_1:g}\n{mask.sum()} of {d * (d - 1)} edges, "
            f"{(mask & true).sum()} of the {true.sum()} true",
            "stage 2: weights of these,\npenalised by " + r"$\gamma\,h_\rho$",
            f"learned graph: DAG trim at {tau_2:g}\n{graph.sum()} edges, "
            f"{(graph & true).sum()} of them true",
            f"true graph\n{true.sum()} edges",
        )
        for letter, axes, title in zip("abcde", panels, titles, strict=False):
            axes.set_title(f"({letter}) {title}", loc="left", fontsize=9)
        _legend(panels[5])
        style.add_note(figure, _note(table))
    return figure


def _matrix(table: pd.DataFrame, column: str, d: int) -> np.ndarray:
    matrix = np.zeros((d, d))
    matrix[table["parent"], table["child"]] = table[column]
    return matrix


def _frame(axes: Axes, true: np.ndarray) -> None:
    d = len(true)
    for parent, child in zip(*np.nonzero(true), strict=True):
        axes.add_patch(
            Rectangle(
                (child - 0.5, parent - 0.5), 1, 1, fill=False, edgecolor="#222222", linewidth=0.8
            )
        )
    axes.set_xlim(-0.5, d - 0.5)
    axes.set_ylim(d - 0.5, -0.5)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_color("#999999")
    axes.set_xlabel("child")
    axes.set_ylabel("parent")


def _draw_weights(axes: Axes, weights: np.ndarray, true, tau: float, symbol: str) -> None:
    colors = _WEIGHTS.with_extremes(bad=LEFT_OUT)
    shown = weights.copy()
    np.fill_diagonal(shown, np.nan)
    largest = max(np.nanmax(shown, initial=0.0), tau)
    image = axes.imshow(shown, cmap=colors, vmin=0, vmax=largest, interpolation="nearest")
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.78, pad=0.03, aspect=18)
    bar.ax.axhline(tau, color=WRONG, linewidth=1.6)
    bar.ax.annotate(
        symbol, (0, tau), xytext=(-2, 0), xycoords=("axes fraction", "data"),
        textcoords="offset points", ha="right", va="center", color=WRONG, fontsize=9,
        annotation_clip=False,
    )  # fmt: skip
    bar.ax.grid(False)
    bar.outline.set_linewidth(0.5)
    _frame(axes, true)


def _draw_mask(axes: Axes, mask: np.ndarray, true: np.ndarray) -> None:
    axes.imshow(mask, cmap=ListedColormap([LEFT_OUT, "#6BAED6"]), vmin=0, vmax=1)
    _frame(axes, true)


def _draw_graph(axes: Axes, graph, other, order, *, truth: bool = False) -> None:
    """Nodes on a circle, clockwise from the top in causal order; edges by what they are."""
    d = len(graph)
    angle = np.pi / 2 - 2 * np.pi * np.arange(d) / d
    places = np.column_stack([np.cos(angle), np.sin(angle)])
    for parent, child in zip(*np.nonzero(graph), strict=True):
        if other[parent, child]:
            color, line = RIGHT, "-"
        elif truth:
            color, line = MISSED, (0, (3, 1.5))
        else:
            color, line = (REVERSED if other[child, parent] else WRONG), (0, (3, 1.5))
        axes.add_patch(
            FancyArrowPatch(
                places[parent], places[child], arrowstyle="-|>", mutation_scale=7, shrinkA=6,
                shrinkB=6, linewidth=1.0, color=color, linestyle=line,
                connectionstyle="arc3,rad=0.08", zorder=2 if other[parent, child] else 3,
            )
        )  # fmt: skip
    size = min(9.0, 2 * np.pi * 60 / d / 2)
    axes.plot(
        *places.T, "o", markersize=size, markerfacecolor="white", markeredgecolor="#444444",
        markeredgewidth=0.8, zorder=4,
    )  # fmt: skip
    if d <= 40:
        for node, place in zip(order, places, strict=True):
            axes.text(*place, str(node), ha="center", va="center", fontsize=6, zorder=5)
    axes.set_xlim(-1.15, 1.15)
    axes.set_ylim(-1.15, 1.15)
    axes.set_aspect("equal")
    axes.set_axis_off()


def _legend(axes: Axes) -> None:
    axes.set_axis_off()
    dashed = (0, (3, 1.5))
    handles = [
        Patch(facecolor="white", edgecolor="#222222", linewidth=0.8, label="true edge"),
        Patch(facecolor=LEFT_OUT, label="left out by stage 1"),
        Patch(facecolor="#6BAED6", label="left to stage 2"),
        Line2D([], [], color=RIGHT, label="learned and true"),
        Line2D([], [], color=REVERSED, linestyle=dashed, label="learned the wrong way round"),
        Line2D([], [], color=WRONG, linestyle=dashed, label="learned, not in the true graph"),
        Line2D([], [], color=MISSED, linestyle=dashed, label="true, not learned this way"),
    ]
    axes.legend(handles=handles, loc="center left", handlelength=2.2, labelspacing=0.9)


def _note(table: pd.DataFrame) -> str:
    row = table.iloc[0]
    shortened = row.get("shortened")
    marked = f" Shortened: {shortened}." if isinstance(shortened, str) and shortened else ""
    return (
        f"One fit of {row['method']}: d = {row['d']}, s = {row['s']}, "
        f"{100 * row['fraction']:g} % of variables intervened on, seed {row['seed']}. "
        "Variables are in a causal order of the true graph, along the matrices and clockwise from "
        f"the top.{marked}"
    )
