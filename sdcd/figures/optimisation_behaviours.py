"""The figure of optimisation under each constraint (app:fig:constraint-optimization-behaviors)."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from sdcd.figures.constraint_asymptotics import CONSTRAINT_COLORS, CONSTRAINT_SYMBOLS
from sdcd.figures.style import add_note, context, new_figure

PANELS = {"penalty": "penalty", "augmented_lagrangian": "augmented Lagrangian"}

PAPER_EPOCHS = {"penalty": 8_000, "augmented_lagrangian": 200_000}
"""Epochs of the paper, at most; fewer are said under the figure."""

FLOOR = 1e-4
"""Thresholds below this are drawn here: the optimisation counts as having reached a DAG."""


def draw(table: pd.DataFrame) -> Figure:
    """Threshold to DAG against epochs, under a penalty (left) and augmented Lagrangian (right).

    Parameters
    ----------
    table : DataFrame
        The records that :func:`sdcd.studies.optimisation_behaviours.optimisation_behaviours`
        returns.

    Returns
    -------
    Figure
        One curve per constraint, h_rho+ dashed. A disc marks where a run reached a DAG, a cross
        where it left its constraint's domain; other curves end with the run.
    """
    with context():
        figure = new_figure(7.0, 3.0)
        panels = figure.subplots(1, 2, sharey=True)
        for letter, axes, (mode, title) in zip("ab", panels, PANELS.items(), strict=True):
            _panel(axes, table[table["mode"] == mode])
            axes.set_title(f"({letter}) {title}", loc="left")
            axes.set_xlabel("epochs (thousands)")
            axes.set_xlim(left=0)
            axes.margins(x=0.03)
            axes.xaxis.set_major_locator(MaxNLocator(5))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda epoch, _: f"{epoch / 1000:g}"))
        axes = panels[0]
        axes.set_ylabel("threshold to DAG")
        axes.set_yscale("log")
        axes.set_ylim(FLOOR * 0.8, max(0.1, table["threshold"].max() * 1.2))
        axes.yaxis.set_major_locator(LogLocator())
        axes.yaxis.set_minor_formatter(NullFormatter())
        _legend(figure, table)
        _note_shortened(figure, table)
    return figure


def _note_shortened(figure: Figure, table: pd.DataFrame) -> None:
    cut = table[table["end"] == "epochs"].groupby("mode")["epoch"].max()
    fewer = [
        f"({letter}): shortened, {cut[mode]:,} epochs instead of {PAPER_EPOCHS[mode]:,}."
        for letter, mode in zip("ab", PANELS, strict=True)
        if cut.get(mode, np.inf) < PAPER_EPOCHS[mode]
    ]
    if fewer:
        add_note(figure, "  ".join(fewer))


def _panel(axes: Axes, table: pd.DataFrame) -> None:
    present = set(table["constraint"])
    for name in reversed([name for name in CONSTRAINT_COLORS if name in present]):
        curve = table[table["constraint"] == name].sort_values("epoch")
        x = curve["epoch"].to_numpy(float)
        y = np.maximum(curve["threshold"].to_numpy(float), FLOOR)
        axes.plot(x, y, **_line(name))
        end = curve["end"].iloc[-1]
        if end in _END_MARKERS:
            axes.plot(
                x[-1:],
                y[-1:],
                color=CONSTRAINT_COLORS[name],
                marker=_END_MARKERS[end],
                markersize=6,
                markeredgewidth=1.8 if end == "escape" else 0,
                clip_on=False,
                zorder=10,
            )


_END_MARKERS = {"dag": "o", "escape": "x"}


def _line(name: str) -> dict:
    return {
        "color": CONSTRAINT_COLORS[name],
        "lw": 2.2 if name.startswith("h_rho") else 1.5,
        "ls": (0, (3, 1)) if name == "h_rho+" else "-",
    }


def _legend(figure: Figure, table: pd.DataFrame) -> None:
    present = set(table["constraint"])
    names = [name for name in CONSTRAINT_COLORS if name in present]
    handles = [Line2D([], [], **_line(name)) for name in names]
    labels = [CONSTRAINT_SYMBOLS[name] for name in names]
    for end, label in (("dag", "reached a DAG"), ("escape", "left its domain")):
        if (table["end"] == end).any():
            handles.append(
                Line2D([], [], color="#555555", ls="", marker=_END_MARKERS[end], markersize=6)
            )
            labels.append(label)
    figure.legend(handles, labels, loc="outside right center", handlelength=2.2, labelspacing=0.7)
