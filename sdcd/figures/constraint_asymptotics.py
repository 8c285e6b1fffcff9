"""The figure of the constraints' asymptotics (fig:constraint-asymptotics)."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter

from sdcd.acyclicity import CONSTRAINTS
from sdcd.figures.style import add_note, context, new_figure

CONSTRAINT_COLORS = {
    "h_rho": "#E8710A",
    "h_rho+": "#7A3BA8",
    "h_exp": "#0072B2",
    "h_log": "#009E73",
    "h_inv": "#56B4E9",
    "h_binom": "#222222",
}
"""One colour per constraint in all figures, h_rho in orange as in the paper; in legends' order."""

CONSTRAINT_SYMBOLS = {
    **{name: constraint.symbol for name, constraint in CONSTRAINTS.items()},
    "h_rho+": r"$h_{\rho}{+}$",
}

FAMILY_LINES = {"cycle": "-", "noise": (0, (4, 1.6))}
FAMILY_LABELS = {"cycle": r"cycle of length $d/2$", "noise": "uniform noise"}
PANELS = {"scale": r"scale of the weights $\varepsilon$", "dimension": "number of variables $d$"}
PAPER_MAX_D = 1000
LIMITS = (1e-16, 1e16)


def draw(table: pd.DataFrame) -> Figure:
    """Both panels: h against the weights' scale (left) and the number of variables (right).

    Parameters
    ----------
    table : DataFrame
        The records that :func:`sdcd.studies.constraint_asymptotics.constraint_asymptotics`
        returns.

    Returns
    -------
    Figure
        Cycles solid, noise dashed; the vertical axis is cut at 1e-16 and 1e16. A curve that leaves
        its constraint's domain ends in a vertical dotted line there.
    """
    with context():
        figure = new_figure(7.0, 3.3)
        panels = figure.subplots(1, 2, sharey=True)
        for letter, axes, (panel, label) in zip("ab", panels, PANELS.items(), strict=True):
            part = table[table["panel"] == panel]
            _panel(axes, part)
            axes.set_xlabel(label)
            axes.set_title(_title(letter, panel, part), loc="left")
        left, right = panels
        left.set_ylabel(r"constraint $h(A)$")
        left.set_yscale("log")
        left.set_ylim(*LIMITS)
        left.yaxis.set_major_locator(LogLocator(numticks=9))
        left.yaxis.set_minor_formatter(NullFormatter())
        left.set_xlim(left=0)
        right.set_xscale("log")
        right.xaxis.set_major_locator(FixedLocator([2, 10, 100, 1000]))
        right.xaxis.set_major_formatter("{x:g}")
        right.xaxis.set_minor_formatter(NullFormatter())
        _legend(figure, table)
        largest = table.loc[table["panel"] == "dimension", "d"].max()
        if largest < PAPER_MAX_D:
            add_note(figure, f"(b): shortened, up to d = {largest:g} instead of {PAPER_MAX_D:,}.")
    return figure


def _panel(axes: Axes, table: pd.DataFrame) -> None:
    names = [name for name in CONSTRAINT_COLORS if name in set(table["constraint"])]
    ends: dict[float, list[tuple[float, str]]] = {}
    for name in reversed(names):  # h_rho last, on top
        for family, line in FAMILY_LINES.items():
            curve = table[(table["constraint"] == name) & (table["family"] == family)]
            curve = curve.sort_values("x")
            inside = curve[~curve["escaped"].astype(bool)]
            x = inside["x"].to_numpy(float)
            y = np.minimum(inside["value"].to_numpy(float), LIMITS[1] ** 2)
            positive = y > 0  # a logarithmic axis has no zero
            color, width = CONSTRAINT_COLORS[name], _width(name)
            axes.plot(x[positive], y[positive], color=color, lw=width, ls=line)
            escape = curve["domain_escape_at"].iloc[0] if len(curve) else np.nan
            if np.isfinite(escape) and positive.any():
                ends.setdefault(escape, []).append((y[positive][-1], name))
    for escape, curves in ends.items():
        # Curves that end at the same place share the line: their dots take turns.
        bottom, period = min(value for value, _ in curves), 2.2 * len(curves)
        for turn, (_, name) in enumerate(curves):
            dots = (2.2 * turn, (1.1, period - 1.1))
            color, width = CONSTRAINT_COLORS[name], _width(name)
            axes.vlines(escape, bottom, LIMITS[1], color=color, lw=width, ls=[dots])


def _title(letter: str, panel: str, table: pd.DataFrame) -> str:
    """What the panel varies, and what it holds fixed."""
    if panel == "scale":
        return rf"({letter}) growing weights, $d = {table['d'].iloc[0]:g}$"
    return rf"({letter}) growing graphs, $\varepsilon = {table['epsilon'].iloc[0]:g}$"


def _width(name: str) -> float:
    return 2.6 if name == "h_rho" else 1.5


def _legend(figure: Figure, table: pd.DataFrame) -> None:
    names = [name for name in CONSTRAINT_COLORS if name in set(table["constraint"])]
    handles = [Line2D([], [], color=CONSTRAINT_COLORS[name], lw=_width(name)) for name in names]
    labels = [CONSTRAINT_SYMBOLS[name] for name in names]
    gray = "#555555"
    handles += [Line2D([], [], color=gray, lw=1.5, ls=line) for line in FAMILY_LINES.values()]
    labels += list(FAMILY_LABELS.values())
    handles.append(Line2D([], [], color=gray, lw=1.5, ls=(0, (1, 2.2))))
    labels.append("leaves its domain")
    figure.legend(handles, labels, loc="outside right center", handlelength=2.2, labelspacing=0.7)
