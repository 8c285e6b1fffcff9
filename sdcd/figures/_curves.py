"""Curves of a metric over the number of variables, one per method, with the published bands."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from sdcd import summaries
from sdcd.figures import style

PANELS = (("d ≤ 50", 0, 50), ("d > 50", 51, 500))
"""Panels of the observational figures: title, smallest and largest d."""


def published_cells(experiment: str, metric: str) -> pd.DataFrame:
    """Published mean and sd of each cell: SHD from the paper's table, the rest from the logs.

    Columns are :data:`~sdcd.summaries.CELL`, ``mean`` and ``sd``; empty if the authors published
    nothing for the metric.
    """
    from sdcd import published

    if metric == "shd":
        cells = published.published_table(experiment)
    else:
        cells = summaries.summarise(published.published_runs(experiment), metric)
    return cells.loc[cells["mean"].notna(), [*summaries.CELL, "mean", "sd"]]


def draw_curves(
    axes: Axes,
    cells: pd.DataFrame,
    published: pd.DataFrame,
    methods: Sequence[str],
    *,
    log: bool,
) -> None:
    """Draw one panel: for each method its mean over seeds with sd, on its published band.

    Parameters
    ----------
    axes : Axes
        The panel.
    cells : DataFrame
        Ours, from :func:`sdcd.summaries.summarise`, one setting per method and d.
    published : DataFrame
        From :func:`published_cells`.
    methods : sequence of str
        Methods, in the legend's order; they stand side by side at each d in this order.
    log : bool
        Whether the metric's axis is logarithmic.
    """
    all_d = np.unique(np.concatenate([cells["d"], published["d"]]).astype(float))
    gap = np.diff(all_d).min() if len(all_d) > 1 else max(all_d.max(initial=1.0), 1.0)
    if log:
        axes.set_yscale("log")
    for position, name in enumerate(methods):
        look = style.method_style(name)
        shift = gap * 0.44 * ((position + 0.5) / len(methods) - 0.5)
        order = 10 + look.prominence
        theirs = published[published["method"] == name].sort_values("d")
        if len(theirs):
            _draw_band(axes, theirs, shift, look, log)
        ours = cells[(cells["method"] == name) & cells["mean"].notna()].sort_values("d")
        if not len(ours):
            continue
        x, mean = (ours["d"] + shift).to_numpy(), ours["mean"].to_numpy()
        sd = ours["sd"].fillna(0.0).to_numpy()
        below = np.minimum(sd, mean * 0.9) if log else sd
        axes.errorbar(
            x,
            mean,
            yerr=np.stack([below, sd]),
            color=look.color,
            linestyle=look.line,
            linewidth=1.2 * look.prominence,
            elinewidth=0.9 * look.prominence,
            capsize=1.8,
            capthick=0.9,
            zorder=order,
        )
        for hollow in (False, True):
            chosen = (ours["shortened"] != "").to_numpy() == hollow
            axes.plot(
                x[chosen],
                mean[chosen],
                linestyle="none",
                marker=look.marker,
                markersize=4.6 * look.prominence**0.5,
                markeredgewidth=0.9,
                markeredgecolor=look.color,
                markerfacecolor="white" if hollow else look.color,
                zorder=order + 1,
            )
    axes.set_xticks(all_d, [f"{d:,.0f}" for d in all_d])
    axes.set_xlim(all_d.min() - 0.45 * gap, all_d.max() + 0.45 * gap)


def _draw_band(axes, cells, shift, look, log):
    x, mean, sd = cells["d"] + shift, cells["mean"], cells["sd"].fillna(0.0)
    low = np.maximum(mean - sd, mean * 0.1) if log else mean - sd
    axes.fill_between(
        x, low, mean + sd, color=look.color, alpha=style.PUBLISHED_ALPHA, linewidth=0, zorder=2
    )
    axes.plot(x, mean, color=look.color, alpha=0.45, linewidth=0.7, zorder=3)
    if len(cells) == 1:
        axes.vlines(x, low, mean + sd, color=look.color, alpha=0.3, linewidth=4, zorder=2)


def draw_failures(axes: Axes, above: Axes, cells: pd.DataFrame, methods: Sequence[str]) -> None:
    """A strip under a panel that names what failed: one marker per method and d without a value."""
    failed = cells[cells["status"] == "failed"]
    axes.set_xlim(above.get_xlim())
    columns = 4
    all_d = sorted(cells["d"].unique())
    gap = np.diff(above.get_xticks()).min() if len(above.get_xticks()) > 1 else 1.0
    deepest = 1
    for d in all_d:
        names = [name for name in methods if name in set(failed.loc[failed["d"] == d, "method"])]
        for position, name in enumerate(names):
            look = style.method_style(name)
            row, column = divmod(position, columns)
            width = min(columns, len(names) - row * columns)
            deepest = max(deepest, row + 1)
            axes.plot(
                d + gap * 0.18 * (column - (width - 1) / 2),
                -row,
                marker=look.marker,
                color=look.color,
                markersize=5,
                linestyle="none",
            )
    axes.set_ylim(-deepest + 0.3, 0.7)
    axes.set_yticks([0], ["NA"])
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.grid(False)
    axes.set_facecolor("#f4f4f4")
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)


def curves_figure(
    runs: pd.DataFrame,
    metrics: Sequence[tuple[str, str, bool]],
    *,
    experiment: str,
    panels: Sequence[tuple[str, int, int]] = PANELS,
    edges: bool = False,
) -> Figure:
    """A figure of one row of panels for each metric, over d.

    Parameters
    ----------
    runs : DataFrame
        Runs of ours.
    metrics : sequence of (metric, axis label, logarithmic)
        The rows.
    experiment : str
        Where the published values are.
    panels : sequence of (title, smallest d, largest d)
        The columns; one without any run of ours is left out.
    edges : bool, default False
        Draw the number of true edges, s d, where the metric is ``shd``.
    """
    runs = summaries.tidy(runs)
    methods = style.in_order(runs["method"])
    shown = [panel for panel in panels if runs["d"].between(panel[1], panel[2]).any()]
    all_cells = {metric: summaries.summarise(runs, metric) for metric, _, _ in metrics}
    any_failed = any((cells["status"] == "failed").any() for cells in all_cells.values())
    with style.context():
        figure = style.new_figure(1.6 + 3.6 * len(shown), 1.1 + 3.5 * len(metrics))
        heights = [1, 0.09] * len(metrics) if any_failed else [1] * len(metrics)
        grid = figure.add_gridspec(len(heights), len(shown), height_ratios=heights)
        any_band = False
        for row, (metric, label, log) in enumerate(metrics):
            theirs_all = published_cells(experiment, metric)
            for column, (title, smallest, largest) in enumerate(shown):
                axes = figure.add_subplot(grid[row * (2 if any_failed else 1), column])
                cells = all_cells[metric]
                cells = cells[cells["d"].between(smallest, largest)]
                theirs = theirs_all[
                    theirs_all["d"].between(smallest, _one_beyond(cells["d"], theirs_all["d"]))
                    & (theirs_all["d"] <= largest)
                    & theirs_all["method"].isin(methods)
                ]
                any_band |= len(theirs) > 0
                draw_curves(axes, cells, theirs, methods, log=log)
                if metric == "shd" and edges:
                    _draw_edges(axes, cells, theirs)
                if log:
                    style.plain_log_ticks(axes)
                axes.set_title(title if row == 0 else "")
                bottom = axes
                if column == 0:
                    axes.set_ylabel(label)
                if any_failed:
                    bottom = figure.add_subplot(grid[2 * row + 1, column])
                    draw_failures(bottom, axes, cells, methods)
                bottom.set_xlabel("number of variables d")
        _add_legend(figure, runs, methods, edges=edges, band=any_band, failed=any_failed)
    return figure


def _one_beyond(ours, published):
    """The first published d above all of ours: how far published bands are drawn."""
    above = published[published > ours.max()]
    return above.min() if len(above) else ours.max()


def _draw_edges(axes, cells, published):
    edges = pd.concat([cells[["d", "s"]], published[["d", "s"]]]).drop_duplicates().sort_values("d")
    axes.plot(
        edges["d"],
        edges["s"] * edges["d"],
        color=style.REFERENCE_COLOR,
        linestyle=(0, (6, 3)),
        linewidth=1.0,
        zorder=6,
    )


def _add_legend(figure, runs, methods, *, edges, band, failed):
    handles = [style.method_handle(name) for name in methods]
    if edges:
        handles.append(
            Line2D(
                [],
                [],
                color=style.REFERENCE_COLOR,
                linestyle=(0, (6, 3)),
                linewidth=1.0,
                label="true edges",
            )
        )
    if band:
        handles.append(
            Patch(color="#555555", alpha=0.25, linewidth=0, label="published,\nmean ± sd")
        )
    shortened = sorted(set(runs.loc[runs["shortened"] != "", "shortened"]))
    if shortened:
        handles.append(
            Line2D(
                [],
                [],
                linestyle="none",
                marker="o",
                markerfacecolor="white",
                markeredgecolor="#555555",
                label="shortened runs",
            )
        )
    figure.legend(handles=handles, loc="outside right center", ncols=1, handlelength=3.0)
    seeds = runs.groupby(["d"])["seed"].nunique()
    count = f"{seeds.min()}" if seeds.min() == seeds.max() else f"{seeds.min()} to {seeds.max()}"
    notes = [f"Points: mean over {count} data sets of each d; bars: ± sd."]
    if failed:
        notes.append("NA: every run of the method failed.")
    if shortened:
        notes.append("Hollow: " + "; ".join(shortened) + ".")
    style.add_note(figure, "  ".join(notes))
