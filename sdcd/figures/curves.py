"""Curves of a metric over the number of variables, one per method, with the published bands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sdcd.errors import InputError
from sdcd.figures import style
from sdcd.runs import summaries


@dataclass(frozen=True)
class Panel:
    """One panel: a metric over a range of d.

    Attributes
    ----------
    metric : str
        One of :data:`sdcd.runs.summaries.METRICS`.
    label : str
        Of the metric's axis, with its unit.
    title : str
        Over the panel.
    smallest, largest : int
        Range of d.
    log : bool
        Whether the metric's axis is logarithmic.
    edges : bool
        Whether to draw the number of true edges, s d: the SHD of the empty graph.
    limits : tuple of float or None
        Of the metric's axis.
    """

    metric: str
    label: str
    title: str = ""
    smallest: int = 0
    largest: int = 10**9
    log: bool = False
    edges: bool = False
    limits: tuple[float, float] | None = None

    def holds(self, d: pd.Series) -> pd.Series:
        """Which of these numbers of variables the panel shows."""
        return d.between(self.smallest, self.largest)


def published_cells(experiment: str, metric: str) -> pd.DataFrame:
    """Published mean and sd of each cell: SHD from the paper's table, the rest from the logs.

    Columns are :data:`~sdcd.runs.summaries.CELL`, ``mean`` and ``sd``; empty if the authors
    published nothing for the metric.
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
    all_d: np.ndarray,
    *,
    log: bool,
) -> None:
    """Draw one panel: for each method its mean over seeds with sd, on its published band.

    Parameters
    ----------
    axes : Axes
        The panel.
    cells : DataFrame
        Ours, from :func:`sdcd.runs.summaries.summarise`, one setting per method and d.
    published : DataFrame
        From :func:`published_cells`.
    methods : sequence of str
        Methods, in the legend's order; they stand side by side at each d in this order.
    all_d : array
        The numbers of variables that the axis has, increasing.
    log : bool
        Whether the metric's axis is logarithmic.
    """
    gap = np.diff(all_d).min() if len(all_d) > 1 else max(all_d.max(initial=1.0), 1.0)
    if log:
        style.log_scale(axes, zero=bool((cells["mean"] == 0).any()))
    for position, name in enumerate(methods):
        look = style.method_style(name)
        shift = gap * 0.34 * ((position + 0.5) / len(methods) - 0.5)
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


_STRIP_COLUMNS = 4
_STRIP_LABELS = {"failed": "NA", "unavailable": "not run"}


def strip_lines(cells: pd.DataFrame, methods: Sequence[str]) -> list[tuple[str, dict]]:
    """What the strip under a panel names: lines of methods without a value, by d.

    Returns
    -------
    list of (str, dict)
        For each line its kind, ``failed`` or ``unavailable``, and for each d at most four methods.
    """
    lines = []
    for kind in _STRIP_LABELS:
        lacking = cells[cells["status"] == kind].groupby("d")["method"].agg(set)
        named = {d: [name for name in methods if name in names] for d, names in lacking.items()}
        for first in range(0, max(map(len, named.values()), default=0), _STRIP_COLUMNS):
            chunk = {d: names[first : first + _STRIP_COLUMNS] for d, names in named.items()}
            lines.append((kind, chunk))
    return lines


def draw_strip(axes: Axes, above: Axes, lines: Sequence[tuple[str, dict]]) -> None:
    """Draw the strip under a panel: a marker for each method and d without a value.

    Methods that failed stand in the line NA; those that are unavailable here, which is no failure
    of theirs, in the line "not run", in paler colours.
    """
    axes.set_xlim(above.get_xlim())
    gap = np.diff(above.get_xticks()).min() if len(above.get_xticks()) > 1 else 1.0
    ticks = {}
    for row, (kind, named) in enumerate(lines):
        ticks.setdefault(_STRIP_LABELS[kind], -row)
        for d, names in named.items():
            for column, name in enumerate(names):
                look = style.method_style(name)
                x = d + gap * 0.18 * (column - (len(names) - 1) / 2)
                alpha = 0.4 if kind == "unavailable" else 1.0
                axes.plot(x, -row, look.marker, color=look.color, alpha=alpha, markersize=5)
    axes.set_ylim(-max(len(lines), 1) + 0.3, 0.7)
    axes.set_yticks(list(ticks.values()), list(ticks))
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.grid(False)
    axes.set_facecolor("#f4f4f4")
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)


def draw(
    runs: pd.DataFrame,
    *,
    rows: Sequence[Sequence[Mapping[str, object]]],
    experiment: str,
    note: str = "",
    whole: bool = True,
) -> Figure:
    """A figure of panels over d, with the strips of failures, a legend and a note.

    Parameters
    ----------
    runs : DataFrame
        Runs of ours (columns ``sdcd.runs.table.RUN_COLUMNS``).
    rows : sequence of sequence of mapping
        The panels, row by row, each as the arguments of :class:`Panel`. One without any run of
        ours is left out.
    experiment : str
        Where the published values are.
    note : str
        Further words for the note.
    whole : bool, default True
        Whether the figure is of all methods of the paper, so that one without a run is named.

    Returns
    -------
    Figure
        Points are means over data sets, error bars their sd, bands the published mean and sd, and
        in panels with ``edges`` the dashed line is the number of true edges. A cell in which every
        run failed has its marker in the strip under the panel, see :func:`draw_strip`. Runs that
        were shortened are hollow.
    """
    runs = summaries.tidy(runs)
    if not len(runs):
        raise InputError(f"figure of experiment {experiment}: there are no runs to draw")
    methods = style.in_order(runs["method"])
    panels = [[Panel(**panel) for panel in row] for row in rows]
    panels = [[panel for panel in row if panel.holds(runs["d"]).any()] for row in panels]
    drawn = [[_prepare(panel, runs, methods, experiment) for panel in row] for row in panels if row]
    every = [each for row in drawn for each in row]
    columns = max(len(row) for row in drawn)
    # Panels under each other have the same axis.
    all_d = [
        np.unique(np.concatenate([table["d"] for row in drawn for table in row[column].tables]))
        for column in range(columns)
    ]
    deepest = max(len(each.strip) for each in every)
    with style.context():
        figure = style.new_figure(1.6 + 3.6 * columns, 1.1 + 3.5 * len(drawn))
        heights = [1, 0.03 + 0.06 * deepest] * len(drawn) if deepest else [1] * len(drawn)
        grid = figure.add_gridspec(len(heights), columns, height_ratios=heights)
        for index, row in enumerate(drawn):
            for column, each in enumerate(row):
                axes = figure.add_subplot(grid[2 * index if deepest else index, column])
                _draw_panel(axes, each, methods, all_d[column])
                if index == 0 or each.panel.title not in [above.panel.title for above in drawn[0]]:
                    axes.set_title(each.panel.title)
                if column == 0 or each.panel.label != row[0].panel.label:
                    axes.set_ylabel(each.panel.label)
                bottom = axes
                if deepest:
                    bottom = figure.add_subplot(grid[2 * index + 1, column])
                    draw_strip(bottom, axes, each.strip)
                bottom.set_xlabel("number of variables d")
        _add_legend(figure, methods, every, _unrun(every, methods, experiment, whole=whole), note)
    return figure


class _Drawn(NamedTuple):
    """A panel with our cells, the published ones, and the lines of the strip under it."""

    panel: Panel
    cells: pd.DataFrame
    published: pd.DataFrame
    strip: list[tuple[str, dict]]

    @property
    def tables(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        return self.cells, self.published

    def is_cut(self) -> bool:
        """Whether a bar or band would reach below a tenth of its mean, where it is drawn to end."""
        reaches = ((table["sd"] > 0.9 * table["mean"]).any() for table in self.tables)
        return self.panel.log and any(reaches)


def _unrun(drawn, methods, experiment, *, whole) -> list[str]:
    """Sentences on what has neither a point nor a marker."""
    gaps, without = False, set()
    for panel, cells, *_ in drawn:
        gaps |= len(cells) < cells["d"].nunique() * len(methods)
        theirs = published_cells(experiment, panel.metric)
        without |= set(theirs.loc[theirs["d"].isin(cells["d"]), "method"]) - set(methods)
    found = ["No point and no marker: no run was made."] if gaps else []
    if whole and without:
        found.append(f"Without any run: {', '.join(style.in_order(without))}.")
    return found


def _prepare(panel, runs, methods, experiment) -> _Drawn:
    cells = summaries.summarise(runs, panel.metric)
    cells = cells[panel.holds(cells["d"])]
    published = published_cells(experiment, panel.metric)
    inside = panel.holds(published["d"]) & published["method"].isin(methods)
    published = published[inside & (published["d"] <= _one_beyond(cells["d"], published["d"]))]
    return _Drawn(panel, cells, published, strip_lines(cells, methods))


def _draw_panel(axes, drawn: _Drawn, methods, all_d):
    panel, cells, published, _ = drawn
    if cells["mean"].isna().all() and not len(published):
        axes.set_axis_off()
        axes.text(0.5, 0.5, "no values", ha="center", transform=axes.transAxes)
        return
    draw_curves(axes, cells, published, methods, all_d, log=panel.log)
    if panel.edges:
        _draw_edges(axes, cells, published)
    if not panel.log:
        style.plain_linear_ticks(axes)
    if panel.limits:
        axes.set_ylim(*panel.limits)


def _one_beyond(ours, published):
    """The first published d above all of ours: how far published bands are drawn."""
    above = published[published > ours.max()]
    return above.min() if len(above) else ours.max()


def _draw_edges(axes, cells, published):
    edges = pd.concat([cells[["d", "s"]], published[["d", "s"]]]).drop_duplicates().sort_values("d")
    axes.plot(edges["d"], edges["s"] * edges["d"], linewidth=1.0, zorder=6, **style.REFERENCE)


def _add_legend(figure, methods, drawn: Sequence[_Drawn], unrun, note):
    cells = pd.concat([each.cells for each in drawn])
    handles = [style.method_handle(name) for name in methods]
    if any(each.panel.edges for each in drawn):
        handles.append(Line2D([], [], linewidth=1.0, label="true edges", **style.REFERENCE))
    if any(len(each.published) for each in drawn):
        handles.append(style.published_handle())
    shortened, _ = style.shortened_texts(cells)
    if shortened:
        look = {"markerfacecolor": "white", "markeredgecolor": "#555555"}
        handles.append(style.marker_handle("shortened runs", **look))
    figure.legend(handles=handles, loc="outside right upper", ncols=1, handlelength=3.0)
    seeds = cells.loc[cells["n"] > 0, "n"]
    notes = []
    if len(seeds):
        over = style.number_of_data_sets(seeds)
        bars = "± sd, none for a single data set" if seeds.min() == 1 else "± sd"
        notes.append(f"Points: mean over {over} of each d; bars: {bars}.")
    if any(each.is_cut() for each in drawn):
        notes.append("Bars and bands end at a tenth of the mean where the sd is near it or larger.")
    notes += [*style.failure_notes(cells, ("d",)), *unrun]
    if shortened:
        notes.append("Hollow: " + "; ".join(shortened) + ".")
    notes += [note] if note else []
    style.add_note(figure, "  ".join([*notes, *style.extra_note(methods)]))
