"""A table of cells as a reader sees it, and the files that it is written to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from sdcd.files import atomic_path
from sdcd.runs.table import write_csv
from sdcd.tables import comparison

SOURCES = (
    ("ours", comparison.ours_text),
    ("paper", comparison.published_text),
    ("difference", comparison.difference_text),
    ("95 % CI", comparison.interval_text),
)
"""What stands in each cell, one under the other."""


class Formula(str):
    """Text that LaTeX sets as a formula of its own: ``Formula("1/k!", r"1/k!")``."""

    tex: str

    def __new__(cls, text: str, tex: str):
        """A text, and how LaTeX writes it."""
        formula = super().__new__(cls, text)
        formula.tex = tex
        return formula


@dataclass(frozen=True)
class Layout:
    """A printable table: text in every cell.

    Attributes
    ----------
    caption : str
        What the table shows, in sentences.
    keys : sequence of str
        Headings of the leading columns.
    columns : sequence of str
        Headings of the others.
    rows : list of (tuple of str, list of dict)
        For each row its keys, and for each column a mapping from source (one of :data:`SOURCES`, or
        ``""`` for plain text) to text; a source that is empty is left out.
    notes : list of str
        Set under the table.
    best : set of (row, column)
        Cells whose value of ours is set in bold.
    """

    caption: str
    keys: Sequence[str]
    columns: Sequence[str]
    rows: list[tuple[tuple[str, ...], list[Mapping[str, str]]]]
    notes: list[str] = field(default_factory=list)
    best: frozenset[tuple[int, int]] = frozenset()


def by_setting(
    cells: pd.DataFrame, caption: str, keys: Mapping[str, str], columns: str = "method"
) -> Layout:
    """Lay cells out with one row per setting and one column per method (or the reverse).

    Parameters
    ----------
    cells : DataFrame
        From :func:`sdcd.tables.comparison.compare`.
    caption : str
        The caption.
    keys : mapping of column name to heading
        What the rows are; a key ``density`` is computed from d and s.
    columns : str, default "method"
        What the columns are.

    Returns
    -------
    Layout
        The lowest mean of ours in each row (or column, if the columns are not methods) is bold.
        Notes explain NA, NT, the star of shortened runs and the reasons of failures.
    """
    cells = cells.reset_index(drop=True)
    real_keys = [key for key in keys if key != "density"]
    row_keys = list(dict.fromkeys(cells[real_keys].itertuples(index=False, name=None)))
    if "method" not in real_keys:
        row_keys = sorted(row_keys)
    names = list(dict.fromkeys(cells[columns]))
    if columns != "method":
        names = sorted(names)
    position = {
        (tuple(row[key] for key in real_keys), row[columns]): row for _, row in cells.iterrows()
    }
    rows, means = [], []
    for key in row_keys:
        entries, row_means = [], []
        for name in names:
            cell = position.get((key, name))
            if cell is None:
                entries.append({})
                row_means.append(float("nan"))
                continue
            entries.append({source: text(cell) for source, text in SOURCES if text(cell)})
            row_means.append(cell["mean"] if cell["status"] == "ok" else float("nan"))
        if any("ours" in entry for entry in entries):
            entries = [{"ours": "NT", **entry} for entry in entries]
        rows.append((_key_texts(keys, real_keys, key), entries))
        means.append(row_means)
    means = pd.DataFrame(means)
    across = int(columns == "method")
    lowest = means.eq(means.min(axis=across), axis=1 - across)
    best = frozenset(zip(*[axis.tolist() for axis in lowest.to_numpy().nonzero()], strict=True))
    headings = [f"{columns}={name}" if columns != "method" else str(name) for name in names]
    return Layout(caption, list(keys.values()), headings, rows, _notes(cells), best)


def _key_texts(keys, real_keys, values) -> tuple[str, ...]:
    known = dict(zip(real_keys, values, strict=True))
    texts = []
    for key in keys:
        if key == "density":
            texts.append(f"{200 * known['s'] / (known['d'] - 1):.1f} %")
        elif key == "fraction":
            texts.append(f"{known[key]:.2f}")
        else:
            texts.append(str(known[key]))
    return tuple(texts)


def _notes(cells: pd.DataFrame) -> list[str]:
    notes = []
    if (cells["status"] != "not_run").any():
        notes.append("ours: mean ± sd over data sets (their number).")
    notes.append("paper: as printed.")
    if cells["n_pairs"].any():
        notes.append(
            "difference: ours − published, mean over the data sets that both have (their number), "
            "and its 95 % confidence interval."
        )
    shown = set(cells["published_status"]) | set(cells["status"])
    if "failed" in shown:
        notes.append("NA: every run failed.")
    if "unavailable" in shown:
        notes.append("not run: the method could not be run here.")
    if shown & {"not_tested", "not_run"}:
        notes.append("NT: not tested.")
    for what in dict.fromkeys(cells.loc[cells["shortened"] != "", "shortened"]):
        notes.append(f"* shortened: {what}.")
    failed = cells[cells["reason"] != ""]
    kind = failed["status"].eq("unavailable").map({True: "Not run", False: "Failures of ours"})
    for (what, reason), group in failed.groupby([kind, "reason"], sort=False):
        where = ", ".join(
            f"{method} at d = {', '.join(str(d) for d in sorted(set(rows['d'])))}"
            for method, rows in group.groupby("method", sort=False)
        )
        notes.append(f"{what}: {where}: {reason}.")
    return notes


def write(data: pd.DataFrame, layout: Layout, stem: str | Path) -> tuple[Path, Path]:
    """Write ``stem.csv``, every number, one row per cell, and ``stem.tex``."""
    stem = Path(stem)
    table, tex = (stem.with_name(stem.name + suffix) for suffix in (".csv", ".tex"))
    write_csv(table, data)
    with atomic_path(tex) as temporary:
        temporary.write_text(to_latex(layout), encoding="utf-8")
    return table, tex


def to_latex(layout: Layout) -> str:
    """The table as one or several LaTeX ``table`` (needs the packages booktabs and graphicx).

    Each source of a row is a line of its own, named in the column after the keys. A table of more
    than :data:`LATEX_ROWS` rows is split, so that each part fits a page.
    """
    present = sources(layout)
    named = present != [""]
    head = [*layout.keys, *([""] if named else []), *layout.columns]
    starts = range(0, max(len(layout.rows), 1), LATEX_ROWS)
    lines = [r"% needs \usepackage{booktabs} and \usepackage{graphicx}"]
    for part, start in enumerate(starts, start=1):
        caption = layout.caption + (f" (Part {part} of {len(starts)}.)" if len(starts) > 1 else "")
        lines += [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_latex(caption)}}}",
            r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
            r"\begin{tabular}{" + "l" * len(head) + "}",
            r"\toprule",
            " & ".join(_latex(text) for text in head) + r" \\",
            r"\midrule",
        ]
        for index in range(start, min(start + LATEX_ROWS, len(layout.rows))):
            if index > start and named:
                lines.append(r"\addlinespace")
            lines += _latex_row(layout, index, present)
        lines += [r"\bottomrule", r"\end{tabular}}"]
        if layout.notes and part == len(starts):
            notes = " ".join(_latex(note) for note in layout.notes)
            lines.append(r"\par\smallskip\begin{minipage}{\linewidth}\footnotesize " + notes)
            lines.append(r"\end{minipage}")
        lines += [r"\end{table}", ""]
    return "\n".join(lines)


LATEX_ROWS = 15
"""Rows of settings in one LaTeX table: with four lines each, about a page."""


def _latex_row(layout: Layout, index: int, sources: list[str]) -> list[str]:
    keys, entries = layout.rows[index]
    used = [source for source in sources if any(source in entry for entry in entries)]
    lines = []
    for line, source in enumerate(used or sources[:1]):
        texts = [_latex(text) if line == 0 else "" for text in keys]
        if sources != [""]:
            texts.append(_latex(source))
        for column, entry in enumerate(entries):
            text = _latex(entry.get(source, ""))
            if source in ("ours", "") and text and (index, column) in layout.best:
                text = rf"\textbf{{{text}}}"
            texts.append(text)
        lines.append(" & ".join(texts) + r" \\")
    return lines


def sources(layout: Layout) -> list[str]:
    """Those of :data:`SOURCES` that the table has, or ``[""]`` where it is plain text."""
    present = {source for _, entries in layout.rows for entry in entries for source in entry}
    if not present or present == {""}:
        return [""]
    return [source for source, _ in SOURCES if source in present]


def _latex(text: str) -> str:
    if isinstance(text, Formula):
        return f"${text.tex}$"
    escapes = {
        "\\": r"\textbackslash{}",
        "&": r"\&",
        "%": r"\%",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "$": r"\$",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
        "−": r"$-$",
        "²": r"$^2$",
        "³": r"$^3$",
        "≤": r"$\leq$",
        "≥": r"$\geq$",
        "δ": r"$\delta$",
        "ρ": r"$\rho$",
        "✓": r"$\surd$",
        "✗": r"$\times$",
        "×": r"$\times$",
        "<": r"$<$",
        ">": r"$>$",
    }
    return "".join(escapes.get(character, character) for character in text)
