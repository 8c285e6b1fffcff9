"""What all figures share: one colour, marker and line per method, fonts, and how they are saved.

Only matplotlib's object interface is used: no figure is kept by a global registry, and drawing one
changes no setting of the caller's.
"""

import textwrap
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter, NullLocator

from sdcd.files import atomic_path


@dataclass(frozen=True)
class MethodStyle:
    """How a method looks in every figure.

    Attributes
    ----------
    color : str
        ``#rrggbb``.
    marker : str
        Matplotlib marker, filled.
    line : str or tuple
        Matplotlib line style.
    prominence : float
        Multiplies line width and marker size; 1 except for SDCD.
    """

    color: str
    marker: str
    line: str | tuple
    prominence: float = 1.0


_DASHED = (0, (4, 1.6))
_DOTTED = (0, (1.2, 1.4))
_DASH_DOT = (0, (5, 1.5, 1.2, 1.5))

# Colours are from the palettes of Okabe and Ito and of Paul Tol, made for colour-blind readers.
# Neighbours in hue differ in lightness, marker and line as well, so that the figures also survive
# a black-and-white printer. SDCD alone is vermilion.
STYLES = {
    "SDCD": MethodStyle("#D55E00", "o", "-", 1.5),
    "SDCD-GPU": MethodStyle("#D55E00", "P", _DASHED, 1.3),
    "DCDI-G": MethodStyle("#0072B2", "s", "-"),
    "DCDI-DSF": MethodStyle("#56B4E9", "D", _DASHED),
    "DCD-FG": MethodStyle("#882255", "^", "-"),
    "GIES": MethodStyle("#117733", "v", "-"),
    "DAGMA": MethodStyle("#332288", "D", _DASH_DOT),
    "NOTEARS": MethodStyle("#44AA99", "<", "-"),
    "NOBEARS": MethodStyle("#999933", ">", _DASHED),
    "SCORE": MethodStyle("#CC79A7", "p", "-"),
    "sortnregress": MethodStyle("#777777", "h", _DOTTED),
    "AVICI": MethodStyle("#000000", "*", _DASH_DOT),
    "NOCURL": MethodStyle("#8C6D31", "X", _DOTTED),
    "SDCD-warm": MethodStyle("#E69F00", "o", _DASHED),
    "SDCD-warm-nomask": MethodStyle("#CC6677", "D", _DOTTED),
    "SDCD-no-s1": MethodStyle("#661100", "s", _DASH_DOT),
    "SDCD-no-s1-2": MethodStyle("#AA4499", "^", _DASHED),
    "SDCD-exp": MethodStyle("#6699CC", "v", _DASHED),
    "SDCD-log": MethodStyle("#88AA00", "X", _DASH_DOT),
}
"""The methods of the paper, in the order of its tables and legends."""

_RIVALS = {
    "SDCD-ordered": MethodStyle("#2166AC", "d", "-", 1.2),
    "R2-sortnregress": MethodStyle("#777777", "H", "-"),
    "random-sortnregress": MethodStyle("#AAAAAA", "h", _DASHED),
    "mean-difference": MethodStyle("#E7298A", "d", "-"),
    "tree-importance": MethodStyle("#1B7837", "8", _DASHED),
    "BOSS": MethodStyle("#2166AC", "s", _DASHED),
    "GRaSP": MethodStyle("#5E3C99", "P", "-"),
    "FLOP": MethodStyle("#2166AC", "X", "-"),
    "PC": MethodStyle("#4D4D4D", "v", _DASH_DOT),
    "LiNGAM": MethodStyle("#A6761D", "p", "-"),
    "CAM": MethodStyle("#CC79A7", "d", _DASHED),
    "dotears": MethodStyle("#B2182B", "^", _DASH_DOT),
}
"""Further methods of this package, which the paper does not have; they come after its own."""

_SPARE_COLORS = ("#A6761D", "#1B7837", "#5E3C99", "#E7298A", "#2166AC", "#B2182B", "#4D4D4D")
_SPARE_MARKERS = ("d", "H", "8", "P", "X", "p")
_SPARE_LINES = ("-", _DASHED, _DASH_DOT, _DOTTED)

REFERENCE = {"color": "#222222", "linestyle": (0, (6, 3))}
"""Look of lines that are no method, such as the number of true edges."""

PUBLISHED_ALPHA = 0.16
"""Opacity of a published band."""


EXTRA_MARK = "†"
"""Stands after the names of methods that the paper does not have."""


def method_style(name: str) -> MethodStyle:
    """The style of a method; one that the package does not have gets one computed from its name.

    What is called after another method, such as ``NOTEARS+prune`` or ``SDCD-pruned``, has a lighter
    or darker shade of its colour; others have colours of their own.
    """
    if name in STYLES or name in _RIVALS:
        return STYLES.get(name) or _RIVALS[name]
    number = zlib.crc32(name.encode())
    number, color = divmod(number, len(_SPARE_COLORS))
    number, marker = divmod(number, len(_SPARE_MARKERS))
    line = number % len(_SPARE_LINES)
    known = {**STYLES, **_RIVALS}
    bases = [base for base in known if name.startswith((f"{base}+", f"{base}-"))]
    shade = _shade(known[max(bases, key=len)].color) if bases else _SPARE_COLORS[color]
    return MethodStyle(shade, _SPARE_MARKERS[marker], _SPARE_LINES[line])


def _shade(color: str) -> str:
    """A colour half way to white, or if it is light, half way to black."""
    rgb = np.array(to_rgb(color))
    light = rgb @ (0.2126, 0.7152, 0.0722) > 0.4
    return to_hex(rgb * 0.5 if light else 0.5 + rgb * 0.5)


def label(name: str) -> str:
    """A method's name in a figure, marked if the paper does not have the method."""
    return name if name in STYLES else f"{name} {EXTRA_MARK}"


def extra_note(names: Iterable[str]) -> list[str]:
    """What :data:`EXTRA_MARK` means, as a list of one sentence; empty if no method has it."""
    extra = any(name not in STYLES for name in names)
    return [f"{EXTRA_MARK}: method that is not in the paper."] if extra else []


def number_of_data_sets(counts: pd.Series) -> str:
    """How many data sets the cells of a figure have: ``1 to 5 data sets``."""
    low, high = counts.min(), counts.max()
    number = f"{low}" if low == high else f"{low} to {high}"
    return f"{number} data set" + ("" if high == 1 else "s")


def shortened_texts(cells: pd.DataFrame) -> tuple[list[str], list[str]]:
    """What was shortened, in words: in cells with a value, and in those that failed.

    Parameters
    ----------
    cells : DataFrame
        With the columns ``method``, ``status`` and ``shortened``.

    Returns
    -------
    tuple of list of str
        A text for each kind of shortening, such as ``SCORE: max_rows = 2,000 instead of 10,000``;
        without names where it holds for every method.
    """
    every = set(cells["method"])
    parts = cells.assign(shortened=cells["shortened"].str.split("; ")).explode("shortened")
    parts = parts[parts["shortened"] != ""]
    texts = []
    for there in (parts["status"] == "ok", parts["status"] != "ok"):
        methods = parts[there].groupby("shortened", sort=False)["method"].agg(set)
        texts.append(
            [
                what if names == every else f"{', '.join(in_order(names))}: {what}"
                for what, names in methods.items()
            ]
        )
    return tuple(texts)


def failure_notes(cells: pd.DataFrame, setting: Sequence[str]) -> list[str]:
    """What a figure says of methods that failed, could not be run, or finished in part.

    ``cells`` are those of :func:`sdcd.runs.summaries.summarise`, and ``setting`` is what the figure
    tells apart: some of ``d``, ``s`` and ``fraction``.
    """
    _, failed_early = shortened_texts(cells)
    notes = []
    if (cells["status"] == "failed").any():
        limits = f" ({'; '.join(failed_early)})" if failed_early else ""
        notes.append(f"NA: every run of the method failed{limits}.")
    if (cells["status"] == "unavailable").any():
        notes.append("Not run: the method could not be run here.")
    partly = cells[(cells["n_failed"] > 0) & (cells["status"] == "ok")]
    words = {"d": "d = {:g}", "s": "s = {:g}", "fraction": "fraction {:g}"}
    lacking = dict.fromkeys(
        f"{cell['method']} at {', '.join(words[key].format(cell[key]) for key in setting)} "
        f"({cell['n_runs'] - cell['n_failed']} of {cell['n_runs']})"
        for cell in partly.to_dict("records")
    )
    if lacking:
        notes.append(f"Finished in part: {', '.join(lacking)}.")
    return notes


def in_order(names) -> list[str]:
    """The paper's methods in the order of :data:`STYLES`, the package's others, then any."""
    rank = {name: position for position, name in enumerate([*STYLES, *_RIVALS])}
    return sorted(dict.fromkeys(names), key=lambda name: (rank.get(name, len(rank)), name))


@contextmanager
def context() -> Iterator[None]:
    """Matplotlib's settings for the project's figures, for the length of a ``with`` block."""
    settings = {
        "font.family": "DejaVu Sans",
        "font.size": 9,
        "axes.titlesize": 9.5,
        "axes.labelsize": 9.5,
        "xtick.labelsize": 8.5,
        "ytick.labelsize": 8.5,
        "legend.fontsize": 8.5,
        "mathtext.fontset": "dejavusans",
        "axes.linewidth": 0.8,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "#e3e3e3",
        "grid.linewidth": 0.6,
        "lines.solid_capstyle": "round",
        "figure.facecolor": "white",
        "savefig.facecolor": "white",
        "legend.frameon": False,
        # Text stays text in the PDF: searchable, and set in a font that printers take (Type 42).
        "pdf.fonttype": 42,
        "svg.hashsalt": "sdcd",
    }
    with matplotlib.rc_context(settings):
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of the given size in inches, not registered anywhere."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def empty_figure(text: str) -> Figure:
    """A figure that only says why there is nothing to draw."""
    with context():
        figure = new_figure(6.0, 1.2)
        figure.text(0.5, 0.5, text, ha="center", va="center")
    return figure


def save(figure: Figure, stem: str | Path) -> tuple[Path, Path]:
    """Write ``stem.png`` (200 dots per inch) and ``stem.pdf``.

    The bytes depend on the figure and the version of matplotlib alone: no dates, no names.

    Returns
    -------
    tuple of Path
        The PNG and the PDF.
    """
    stem = Path(stem)
    png, pdf = stem.with_name(stem.name + ".png"), stem.with_name(stem.name + ".pdf")
    with context():
        with atomic_path(png) as temporary:
            figure.savefig(temporary, dpi=200, metadata={"Software": None})
        with atomic_path(pdf) as temporary:
            figure.savefig(temporary, metadata={"CreationDate": None, "Producer": None})
    return png, pdf


def add_note(figure: Figure, text: str) -> None:
    """Set a note in small type along the bottom edge, wrapped to the figure's width.

    The figure grows by the lines that are more than four, so that a long note costs its panels and
    legend nothing.
    """
    lines = textwrap.wrap(text, int(figure.get_figwidth() * 17))
    points = 7.5
    figure.set_figheight(figure.get_figheight() + max(0, len(lines) - 4) * 1.3 * points / 72)
    figure.supxlabel("\n".join(lines), fontsize=points, color="#444444", x=0.01, ha="left")


def method_handle(name: str) -> Line2D:
    """A legend's entry for a method."""
    style = method_style(name)
    return Line2D(
        [],
        [],
        color=style.color,
        linestyle=style.line,
        linewidth=1.2 * style.prominence,
        marker=style.marker,
        markersize=5 * style.prominence**0.5,
        markerfacecolor=style.color,
        label=label(name),
    )


def published_handle() -> Patch:
    """The legend's entry for published bands."""
    return Patch(color="#555555", alpha=0.25, linewidth=0, label="published,\nmean ± sd")


def marker_handle(label: str, marker: str = "o", **look) -> Line2D:
    """A legend's entry for a marker without a line; ``look`` has its colours and size."""
    return Line2D([], [], linestyle="none", marker=marker, label=label, **look)


def plain_linear_ticks(axes: Axes) -> None:
    """Separate thousands on a linear vertical axis: 1,000 and not 1000 or 1e3."""
    axes.yaxis.set_major_formatter("{x:,.10g}")


def log_scale(axes: Axes, *, zero: bool = False) -> None:
    """Make the vertical axis logarithmic, labelled 10, 20, 50, 100, ... and not in powers of ten.

    Parameters
    ----------
    axes : Axes
    zero : bool, default False
        Whether 0 must have a place: the axis is then linear from 0 to 1.
    """
    if zero:
        axes.set_yscale("symlog", linthresh=1, linscale=0.3)
        steps = [step * 10**power for power in range(9) for step in (1, 2, 5)]
        axes.yaxis.set_major_locator(FixedLocator([0, *steps]))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0), numticks=30))
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter("{x:,.10g}")
