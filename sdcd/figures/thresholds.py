"""SHD against the threshold on the weights, and average precision: not in the paper."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sdcd.figures import style

PANELS = 3
"""At most so many kinds of data sets are shown."""

CHANCE = {"color": "#777777", "linestyle": (0, (1.2, 1.4)), "linewidth": 1.1}


def draw(table: pd.DataFrame, *, title: str) -> Figure:
    """Draw SHD over the threshold (upper row) and average precision (lower row).

    Parameters
    ----------
    table : DataFrame
        A table of thresholds (columns ``sdcd.runs.thresholds.COLUMNS``).
    title : str
        What kind of data it is of; "not in the paper" is added.

    Returns
    -------
    Figure
        A column for each kind of data set, at most :data:`PANELS`. Above, curves are means over
        data sets; a large marker is the graph that the method returned, at its own threshold. A
        method whose graph is no cut of its weights has that marker beside the panel. Below, methods
        stand in the order of their SHD as returned, best first: where the points do not fall from
        left to right, the ranking by SHD is not that of the weights.
    """
    if not len(table):
        return style.empty_figure(f"Thresholds, {title}: every fit failed.")
    table = table.assign(
        **{
            name: table[name].astype(object).where(table[name].notna(), "").astype(str)
            for name in ("mechanism", "shortened")
        }
    )
    kinds = _kinds(table)
    table = table.merge(pd.DataFrame(kinds, columns=["d", "s", "fraction"]))
    methods = style.in_order(table["method"])
    with style.context():
        figure = style.new_figure(1.9 + 3.6 * len(kinds), 7.2)
        grid = figure.add_gridspec(2, len(kinds))
        above = below = None
        for column, (d, s, fraction) in enumerate(kinds):
            here = table[(table["d"] == d) & (table["s"] == s) & (table["fraction"] == fraction)]
            above = figure.add_subplot(grid[0, column])
            _draw_shd(above, here, methods)
            above.set_title(_kind_title(d, s, fraction, table))
            below = figure.add_subplot(grid[1, column], sharey=below)
            _draw_average_precision(below, here)
            if column == 0:
                above.set_ylabel("SHD (edges; lower is better)")
                below.set_ylabel("average precision\n(no threshold; higher is better)")
        figure.suptitle(f"Not in the paper: SHD against the threshold, {title}", fontsize=10.5)
        _add_legend(figure, table, methods)
    return figure


def _kinds(table: pd.DataFrame) -> list[tuple[int, int, float]]:
    """Which (d, s, fraction) are shown: along d or, with interventions, along the fraction."""
    s = 4 if (table["s"] == 4).any() else table["s"].min()
    table = table[table["s"] == s]
    if table["experiment"].iloc[0] == "interventional":
        d = _spread(table["d"], 1)[0]
        fractions = _spread(table.loc[table["d"] == d, "fraction"], PANELS)
        return [(d, s, fraction) for fraction in fractions]
    return [(d, s, 0.0) for d in _spread(table["d"], PANELS)]


def _spread(values: pd.Series, count: int) -> list:
    """At most ``count`` of the distinct values, evenly over their ranks; of one, the middle."""
    distinct = sorted(values.unique())
    if len(distinct) <= count:
        return distinct
    ends = np.linspace(0, len(distinct) - 1, count) if count > 1 else [(len(distinct) - 1) / 2]
    return [distinct[int(rank)] for rank in ends]


def _kind_title(d, s, fraction, table):
    title = f"d = {d}, s = {s}"
    if table["experiment"].iloc[0] == "interventional":
        title += f", {100 * fraction:g} % of variables intervened on"
    return title


def _draw_shd(axes: Axes, table: pd.DataFrame, methods: Sequence[str]) -> None:
    grid = table[table["point"] == "grid"]
    curves = grid.groupby(["method", "threshold"])["shd"].mean().unstack(0)
    own = table[table["point"] == "own"].groupby("method")
    returned = own["shd"].mean()
    at = own["threshold"].agg(lambda t: np.exp(np.log(t).mean()) if t.notna().all() else np.nan)
    empty = float((table["s"] * table["d"]).iloc[0])
    axes.set_xscale("log")
    axes.axhline(empty, linewidth=1.0, zorder=3, **style.REFERENCE)
    beside = 0
    for name in [name for name in methods if name in returned.index]:
        look = style.method_style(name)
        order = 10 + look.prominence
        x, transform = at[name], axes.transData
        if np.isnan(x):
            beside += 1
            x, transform = 0.985 + 0.04 * beside, axes.get_yaxis_transform()
        if name in curves:
            axes.plot(
                curves.index,
                curves[name],
                color=look.color,
                linestyle=look.line,
                linewidth=1.2 * look.prominence,
                zorder=order,
            )
        axes.plot(
            x,
            returned[name],
            transform=transform,
            marker=look.marker,
            markersize=8 * look.prominence**0.5,
            markerfacecolor=look.color,
            markeredgecolor="white",
            markeredgewidth=0.9,
            linestyle="none",
            clip_on=False,
            zorder=order + 10,
        )
    # To the right of this every graph is empty.
    graphs = curves.index[(curves != empty).any(axis=1)]
    axes.set_xlim(curves.index.min(), graphs.max() * 1.3 if len(graphs) else None)
    axes.set_ylim(0, max(1.05 * returned.max(), 1.6 * empty))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("threshold on the weights")


def _draw_average_precision(axes: Axes, table: pd.DataFrame) -> None:
    own = table[table["point"] == "own"]
    order = own.groupby("method")["shd"].mean().sort_values(kind="stable").index
    chance = own["s"].iloc[0] / (own["d"].iloc[0] - 1)
    axes.axhline(chance, **CHANCE, zorder=3)
    for place, name in enumerate(order):
        look = style.method_style(name)
        values = own.loc[own["method"] == name, "average_precision"].dropna().to_numpy(float)
        if not len(values):
            axes.text(
                place, chance + 0.02, "no weights", rotation=90, ha="center", va="bottom",
                fontsize=7.5, color=look.color,
            )  # fmt: skip
            continue
        axes.plot(
            place + np.linspace(-0.18, 0.18, len(values)) if len(values) > 1 else [place],
            values,
            linestyle="none",
            marker=look.marker,
            markersize=3.6,
            markerfacecolor="white",
            markeredgecolor=look.color,
            markeredgewidth=0.7,
            zorder=5,
        )
        axes.hlines(
            values.mean(), place - 0.3, place + 0.3, color=look.color, linewidth=2, zorder=6
        )
    labels = [style.label(name) for name in order]
    axes.set_xticks(range(len(order)), labels, rotation=55, ha="right", rotation_mode="anchor")
    axes.set_xlim(-0.6, len(order) - 0.4)
    axes.set_ylim(0, 1.03)
    axes.grid(axis="x", visible=False)
    axes.set_xlabel("methods by SHD as returned, lowest first")


def _add_legend(figure: Figure, table: pd.DataFrame, methods: Sequence[str]) -> None:
    handles = [style.method_handle(name) for name in methods]
    handles += [
        style.marker_handle(
            "as returned, at its\nown threshold",
            markersize=8,
            markerfacecolor="#555555",
            markeredgecolor="white",
        ),
        Line2D([], [], linewidth=1.0, label="empty graph", **style.REFERENCE),
        Line2D([], [], label="chance", **CHANCE),
    ]
    figure.legend(handles=handles, loc="outside right upper", ncols=1, handlelength=3.0)
    own = table[table["point"] == "own"]
    counts = own.groupby(["method", "d", "s", "fraction"]).size()
    notes = [
        f"Curves: means over {style.number_of_data_sets(counts)}; each method's weights are in "
        "units of its own. SDCD: DAG trim at the threshold; other methods: plain cut."
    ]
    beside = own[own["threshold"].isna()]["method"]
    if len(beside):
        names = ", ".join(style.in_order(beside))
        notes.append(f"Markers beside a panel: the graph is no cut of weights ({names}).")
    notes.append("Below: points are data sets, bars their means.")
    shortened, _ = style.shortened_texts(own.assign(status="ok"))
    if shortened:
        notes.append("Shortened: " + "; ".join(shortened) + ".")
    style.add_note(figure, "  ".join([*notes, *style.extra_note(methods)]))
