"""Box plots of a metric over the fraction of intervened variables, one panel per d and s."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from sdcd.errors import InputError
from sdcd.figures import style
from sdcd.runs import summaries


def draw(
    runs: pd.DataFrame,
    *,
    metric: str,
    label: str,
    methods: Sequence[str] | None = None,
    sparsities: Sequence[int] | None = None,
    log: bool = False,
    limits: tuple[float, float] | None = None,
) -> Figure:
    """A grid of panels, columns d and rows s, with a box for each method and fraction.

    Parameters
    ----------
    runs : DataFrame
        Runs of the interventional experiment.
    metric : str
        One of :data:`sdcd.runs.summaries.METRICS`.
    label : str
        Of the metric's axis, with its unit.
    methods, sparsities : sequence, optional
        Methods and values of s to show where the runs have them; all by default.
    log : bool, default False
        Whether the metric's axis is logarithmic.
    limits : tuple of float, optional
        Of the metric's axis; by default a row's panels share theirs.

    Returns
    -------
    Figure
        A box spans the quartiles of the seeds, its line is the median, its whiskers reach the
        extremes, and every run is a point. The band behind it is the published mean ± sd, from the
        authors' logs, and exists where they have the cell. The dashed line in panels of SHD is the
        number of true edges. Titles give the edge density, s d / (d (d - 1) / 2).
    """
    from sdcd import published

    runs = summaries.tidy(runs)
    if not len(runs):
        raise InputError("figure of experiment interventional: there are no runs to draw")
    if methods is not None:
        runs = runs[runs["method"].isin(methods)]
    if sparsities is not None:
        runs = runs[runs["s"].isin(sparsities)]
    if not len(runs):
        # A configuration may well have none of them.
        return style.empty_figure("No run has the methods and densities that this figure shows.")
    theirs = summaries.summarise(published.published_runs("interventional"), metric)
    shown = style.in_order(runs["method"])
    rows, columns = sorted(runs["s"].unique()), sorted(runs["d"].unique())
    fractions = sorted(runs["fraction"].unique())
    cells = summaries.summarise(runs, metric)
    with style.context():
        figure = style.new_figure(1.9 + 2.9 * len(columns), 1.1 + 2.3 * len(rows))
        grid = figure.add_gridspec(len(rows), len(columns))
        for index, s in enumerate(rows):
            first = None
            for column, d in enumerate(columns):
                axes = figure.add_subplot(grid[index, column], sharey=first)
                if first is None:
                    first = axes
                    if log:
                        values = runs.loc[(runs["s"] == s) & (runs["status"] == "ok"), metric]
                        style.log_scale(axes, zero=bool((values == 0).any()))
                here = (runs["s"] == s) & (runs["d"] == d)
                there = theirs[(theirs["s"] == s) & (theirs["d"] == d)]
                _draw_boxes(axes, runs[here], there, metric, shown, fractions, log)
                if metric == "shd" and here.any():
                    axes.axhline(s * d, linewidth=0.9, **style.REFERENCE)
                axes.set_title(f"d = {d}, s = {s} (δ = {200 * s / (d - 1):.1f} %)")
                if column:
                    axes.tick_params(labelleft=False)
                if index == len(rows) - 1:
                    axes.set_xlabel("fraction of variables intervened on")
            if limits:
                first.set_ylim(*limits)
            elif not log:
                first.set_ylim(bottom=0)
            first.set_ylabel(label)
        _add_legend(figure, cells, shown, metric)
    return figure


def _draw_boxes(
    axes: Axes,
    runs: pd.DataFrame,
    published: pd.DataFrame,
    metric: str,
    methods: Sequence[str],
    fractions: Sequence[float],
    log: bool,
) -> None:
    width = 0.8 / len(methods)
    for place, fraction in enumerate(fractions):
        for position, name in enumerate(methods):
            look = style.method_style(name)
            x = place + width * (position + 0.5) - 0.4
            cell = published[(published["method"] == name) & (published["fraction"] == fraction)]
            ours = runs[(runs["method"] == name) & (runs["fraction"] == fraction)]
            if not len(ours):
                continue
            for mean, sd in zip(cell["mean"], cell["sd"].fillna(0.0), strict=True):
                low = max(mean - sd, mean * 0.1) if log else mean - sd
                band = {"color": look.color, "alpha": style.PUBLISHED_ALPHA, "linewidth": 0}
                corner = x - width * 0.5, low
                axes.add_patch(Rectangle(corner, width, mean + sd - low, **band, zorder=2))
                ends = x - width * 0.5, x + width * 0.5
                axes.hlines(mean, *ends, color=look.color, alpha=0.5, linewidth=0.8)
            values = pd.to_numeric(ours.loc[ours["status"] == "ok", metric]).dropna().to_numpy()
            if not len(values):
                axes.annotate(
                    "not run" if (ours["status"] == "unavailable").all() else "NA",
                    (x, 0.01),
                    xycoords=("data", "axes fraction"),
                    color=look.color,
                    fontsize=6,
                    ha="center",
                    va="bottom",
                    rotation=90,
                )
                continue
            hollow = (ours["shortened"] != "").any()
            _draw_box(axes, x, width, values, look, hollow)
    axes.set_xticks(range(len(fractions)), [f"{fraction:g}" for fraction in fractions])
    axes.set_xlim(-0.5, len(fractions) - 0.5)
    axes.grid(axis="x", visible=False)


def _draw_box(axes, x, width, values, look, hollow):
    axes.boxplot(
        [values],
        positions=[x],
        widths=width * 0.66,
        whis=(0, 100),
        showcaps=False,
        patch_artist=True,
        manage_ticks=False,
        boxprops={
            "facecolor": "white" if hollow else look.color,
            "alpha": 0.75,
            "edgecolor": look.color,
            "linewidth": 0.8,
        },
        medianprops={"color": look.color if hollow else "black", "linewidth": 1.1},
        whiskerprops={"color": look.color, "linewidth": 0.9},
        zorder=4,
    )
    spread = np.linspace(-0.5, 0.5, len(values)) if len(values) > 1 else np.zeros(1)
    axes.plot(
        x + spread * width * 0.4,
        values,
        linestyle="none",
        marker=look.marker,
        markersize=2.4,
        markerfacecolor="white",
        markeredgecolor=look.color,
        markeredgewidth=0.6,
        zorder=5,
    )


def _add_legend(figure, cells, methods, metric):
    handles = []
    for name in methods:
        color = style.method_style(name).color
        look = {"markersize": 9, "markerfacecolor": color, "markeredgecolor": color, "alpha": 0.75}
        handles.append(style.marker_handle(style.label(name), "s", **look))
    if metric == "shd":
        handles.append(Line2D([], [], linewidth=0.9, label="true edges", **style.REFERENCE))
    handles.append(style.published_handle())
    shortened, _ = style.shortened_texts(cells)
    if shortened:
        handles.append(Patch(facecolor="white", edgecolor="#555555", label="shortened runs"))
    figure.legend(handles=handles, loc="outside right upper", ncols=1)
    notes = []
    if (cells["n"] > 0).any():
        over = style.number_of_data_sets(cells.loc[cells["n"] > 0, "n"])
        notes.append(f"Boxes: median, quartiles, extremes over {over}; points: single data sets.")
    notes += ["Published: from the authors' logs.", "δ: edge density."]
    notes += style.failure_notes(cells, ("d", "s", "fraction"))
    if len(cells) < len(methods) * cells[["d", "s", "fraction"]].nunique().prod():
        notes.append("No box and no word: no run was made.")
    if shortened:
        notes.append("White boxes: " + "; ".join(shortened) + ".")
    style.add_note(figure, "  ".join([*notes, *style.extra_note(methods)]))
