"""The report that a reader opens first: one page that needs no other file.

It is put together from a folder of results, and from nothing else: the tables of runs, the records
of the fits, the figures, the verdicts. The same folder gives the same bytes.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from markupsafe import Markup, escape

from sdcd import verdicts
from sdcd.exhibits import EXHIBITS, IN_PAPER, Exhibit, available, file_stem
from sdcd.report import judgement, overview, pruning_effects
from sdcd.report.inputs import compared_runs, read_plan, read_records, read_tables
from sdcd.report.template import render
from sdcd.report.view import Span, Table, image
from sdcd.tables.layout import Layout


def page(results: str | Path, *, drawn: str | Path | None = None) -> str:
    """The report as HTML.

    Parameters
    ----------
    results : path
        A folder of results: ``runs/{experiment}.csv``, and where they are there, the records
        ``fits/{dataset}/{method}.json`` and ``plan.json``, which says what the runs are.
    drawn : path, optional
        The folder that the page goes to, with ``figures/``, ``tables/`` and ``verdicts.csv``;
        default ``results``. What is not there is left out.

    Raises
    ------
    InputError
        If ``results`` holds no runs, or a file is not what it should be.
    """
    results = Path(results)
    drawn = Path(results if drawn is None else drawn)
    plan = read_plan(results)
    tables = read_tables(results, plan)
    runs = compared_runs(tables)
    judged = drawn / "verdicts.csv"
    judged = verdicts.read(judged) if judged.exists() else None
    exhibits = _exhibits(results, drawn, tables, judged)
    shown = {exhibit.rule for exhibit in exhibits}
    content = {
        "scale": str(plan.get("scale") or results.resolve().name),
        "run": None,
        "pruning": None,
        "ordering": None,
        "verdicts": None if judged is None else judgement.section(judged),
        "exhibits": exhibits,
        "lacking": [
            f"{number}, {EXHIBITS[rule].title}"
            for rule, number in IN_PAPER.items()
            if rule not in shown
        ],
    }
    if len(runs):
        records = read_records(results, overview.fit_names(runs))
        content["run"] = {
            "facts": overview.facts(runs, plan, records),
            "grids": overview.grids(runs),
            "costs": overview.costs(runs),
            "versions": overview.versions(records),
            "failures": overview.failures_by_reason(runs),
        }
        content["pruning"] = pruning_effects.section(runs)
        content["ordering"] = pruning_effects.section(runs, pruning_effects.ORDERING)
    return render("report.html.j2", content, inline_markup=_inline_markup)


@dataclass(frozen=True)
class _Shown:
    """One figure or table on the page."""

    rule: str
    title: str
    caption: str
    module: str
    sources: list[tuple[str, str]]
    links: list[tuple[str, str]]
    in_paper: str = ""
    image: str = ""
    size: tuple[int, int] = (0, 0)
    table: Table | None = None
    notes: tuple[str, ...] = ()
    legend: tuple[Span, ...] = ()
    judged: tuple[str, Table, str] | None = None


def _exhibits(
    results: Path,
    drawn: Path,
    tables: Mapping[str, pd.DataFrame],
    judged: pd.DataFrame | None,
) -> list[_Shown]:
    """What is drawn of the runs that there are, in the paper's order, then what is not in it."""
    found = []
    for rule, exhibit in available(EXHIBITS, tables).items():
        kind, suffixes = "figures", (".png", ".pdf")
        if rule.startswith("table_"):
            kind, suffixes = "tables", (".csv", ".tex")
        paths = [drawn / kind / f"{file_stem(rule)}{suffix}" for suffix in suffixes]
        if not paths[0].exists():
            continue
        there = [path for path in paths if path.exists()]
        links = [(path.suffix[1:].upper(), f"{kind}/{path.name}") for path in there]
        made_from = [f"runs/{name}.csv" for name in exhibit.runs]
        sources = [(name, _digest(results / name)) for name in made_from]
        common = {"rule": rule, "title": exhibit.title, "module": exhibit.module}
        common |= {"sources": sources, "links": links}
        if rule in IN_PAPER:
            common["in_paper"] = f"{IN_PAPER[rule]} of the paper, {exhibit.label}"
        if kind == "figures":
            found.append(_Shown(caption=exhibit.caption, **image(paths[0]), **common))
        else:
            found.append(_Shown(**_table(rule, exhibit, tables, judged), **common))
    return found


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def _table(
    rule: str,
    exhibit: Exhibit,
    tables: Mapping[str, pd.DataFrame],
    judged: pd.DataFrame | None,
) -> dict[str, object]:
    _, layout = exhibit.make(tables)
    return {
        "caption": layout.caption,
        "table": _of_layout(layout),
        "notes": tuple(layout.notes),
        "legend": tuple(Span(text, css) for text, css in _LEGEND if _has(layout, css)),
        "judged": None if judged is None else judgement.of_table(file_stem(rule), judged),
    }


_SOURCES = {
    "": ("", ""),
    "ours": ("ours", ""),
    "paper": ("paper", "paper "),
    "difference": ("difference", "Δ "),
    "95 % CI": ("difference", ""),
}
"""Class and prefix of what stands in a cell, by :data:`sdcd.tables.layout.SOURCES`."""

_LEGEND = (
    ("ours", "ours"),
    ("paper", "paper"),
    ("Δ difference by seed, with its 95 % interval", "difference"),
)


def _has(layout: Layout, source: str) -> bool:
    return any(source in entry for _, entries in layout.rows for entry in entries)


def _of_layout(layout: Layout) -> Table:
    rows = []
    for index, (keys, entries) in enumerate(layout.rows):
        cells: list[str | list[Span]] = [str(key) for key in keys]
        for column, entry in enumerate(entries):
            best = (index, column) in layout.best
            cells.append(
                [
                    Span(prefix + text, css, best and source in ("ours", ""))
                    for source, text in entry.items()
                    for css, prefix in [_SOURCES[source]]
                ]
            )
        rows.append(cells)
    return Table((*layout.keys, *layout.columns), rows, headers=len(layout.keys))


def _inline_markup(text: str) -> Markup:
    """The inline markup of a caption as HTML."""
    text = re.sub(r"``(.+?)``", r"<code>\1</code>", str(escape(text)))
    return Markup(re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", text))
