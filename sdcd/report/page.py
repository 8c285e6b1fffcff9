"""The report that a reader opens first: one page that needs no other file.

It is put together from a folder of results, and from nothing else: the tables of runs, the records
of the fits, the figures, the tables, the verdicts. The same folder gives the same bytes.
"""

import ast
import base64
import hashlib
import html
import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from sdcd import verdicts
from sdcd.errors import InputError
from sdcd.experiments.plan import DERIVED, FAMILIES, STUDIES, exhibits
from sdcd.files import read_json
from sdcd.report import overview, pruning_effects
from sdcd.runs.table import read_runs

CAPTIONS = Path(__file__).resolve().parents[2] / "workflow" / "report"
"""Where the captions are, ``fig_{name}.rst`` and ``table_{name}.rst``."""

PAPER_ORDER = (
    "fig:cartoon",
    "table:method-comparison",
    "tab:pst-constraints",
    "fig:constraint-asymptotics",
    "fig:observational",
    "fig:interventional",
    "app:fig:constraint-optimization-behaviors",
    "app:tab:empirical:dcdi",
    "app:fig:empirical:runtime",
    "app:tab:empirical:observational",
    "app:fig:empirical:observational-f1-cpdag",
    "app:fig:empirical:observational-large",
    "app:tab:empirical:observational-large",
    "app:fig:empirical:observational_precision",
    "app:fig:empirical:observational_recall",
    "app:fig:empirical:observational-large-precision-recall",
    "app:fig:empirical:interventional_full",
    "app:tab:empirical:interventional",
    "app:fig:empirical:interventional_full_precision",
    "app:fig:empirical:interventional_full_recall",
    "app:tab:empirical:ablation",
    "app:tab:empirical:ablation2",
)
"""The paper's labels of its figures and tables, in its order. A caption names its own."""


def page(
    results: str | Path,
    *,
    drawn: str | Path | None = None,
    beside: str | Path | None = None,
    captions: str | Path = CAPTIONS,
) -> str:
    """The report as HTML.

    Parameters
    ----------
    results : path
        A folder of results: ``runs/{experiment}.csv``, and where they are there, the records
        ``fits/{dataset}/{method}.json`` and ``plan.json``, which says what the runs are.
    drawn : path, optional
        The folder with ``figures/``, ``tables/`` and ``verdicts.csv``; default ``results``. What is
        not there is left out.
    beside : path, optional
        The folder that the page is meant for: links to larger files start there. Default ``drawn``.
    captions : path
        The folder of captions.

    Raises
    ------
    InputError
        If ``results`` holds no runs, or a file is not what it should be.
    """
    results = Path(results)
    drawn = Path(results if drawn is None else drawn)
    beside = Path(drawn if beside is None else beside)
    plan = read_plan(results)
    tables = read_tables(results, plan)
    compared = [table for name, table in tables.items() if name in FAMILIES]
    runs = pd.concat(compared, ignore_index=True) if compared else None
    judged = drawn / "verdicts.csv"
    judged = read_verdicts(judged) if judged.exists() else None
    scale = html.escape(str(plan.get("scale") or results.resolve().name))
    parts = [f"<h1>SDCD, reproduced at scale {scale}</h1>", _INTRODUCTION]
    sections: list[tuple[str, str]] = []

    def section(name: str, title: str, *content: str) -> None:
        sections.append((name, title))
        parts.append(f"<section id='{name}'>\n<h2>{title}</h2>")
        parts.extend(content)
        parts.append("</section>")

    contents = len(parts)
    if runs is not None:
        section("run", "What was run", *_what_was_run(runs, plan, results))
    if judged is not None:
        section("verdicts", "Does it reproduce?", *_verdicts(judged))
    shown = _exhibits(drawn, tables, captions)
    listed = "".join(f"<li><a href='#{e.anchor}'>{html.escape(e.title)}</a></li>" for e in shown)
    section(
        "exhibits",
        "Figures and tables",
        f"<nav class='list'><ul>{listed}</ul></nav>",
        *(_exhibit(exhibit, judged, beside) for exhibit in shown),
    )
    if runs is not None:
        pruning = pruning_effects.page_section(runs)
        if pruning:
            section("pruning", "Held-out pruning, not in the paper", *pruning)
        failed = overview.failures(runs)
        section(
            "failures",
            "Failures",
            "<p>Failed fits by method and reason, with the log of the first, which lies in the "
            "folder of results. A failure is a result: the figures and tables show it as NA, or as "
            "not run if the method is unavailable here.</p>",
            overview.failures_table(failed),
        )
    if judged is not None:
        claims = judged[judged["kind"] == "claim"]
        section("claims", "Every claim, with its test", verdicts.claims_list(claims))
    links = "".join(f"<li><a href='#{name}'>{title}</a></li>" for name, title in sections)
    parts.insert(contents, f"<nav><ul>{links}</ul></nav>")
    return _PAGE.replace("{scale}", scale).replace("{body}", "\n".join(parts))


# What is read


def read_plan(results: str | Path) -> Mapping[str, object]:
    """What ``plan.json`` says was run (:meth:`sdcd.experiments.plan.Plan.to_json`), or {}."""
    path = Path(results) / "plan.json"
    plan = read_json(path) if path.exists() else {}
    types = {"scale": str, "n_observational": int, "n_per_intervention": int}
    types |= {"experiments": dict, "studies": dict}
    if plan and not (
        isinstance(plan, dict)
        and all(isinstance(plan.get(key), expected) for key, expected in types.items())
    ):
        raise InputError(f"{path}: not a plan of runs, expected the keys {', '.join(types)}")
    return plan


def read_tables(results: str | Path, plan: Mapping[str, object] | None = None):
    """Tables in ``runs/`` by name: those of the plan, or without one all that are there.

    Returns
    -------
    dict of str to DataFrame
    """
    folder = Path(results) / "runs"
    names = [*FAMILIES, *STUDIES, *DERIVED]
    if plan:
        planned = {*plan["experiments"], *plan["studies"]}
        planned |= {name for name, (_, _, of) in DERIVED.items() if of in planned}
        names = [name for name in names if name in planned]
    found = {
        name: read_runs(folder / f"{name}.csv")
        for name in names
        if (folder / f"{name}.csv").exists()
    }
    if not found:
        raise InputError(f"{folder}: no table of runs, expected files such as observational.csv")
    return found


def read_verdicts(path: str | Path) -> pd.DataFrame:
    """The table that :func:`sdcd.verdicts.write` wrote."""
    table = pd.read_csv(path, keep_default_na=False, na_values=[""])
    missing = [column for column in verdicts.COLUMNS if column not in table]
    if missing:
        raise InputError(f"{path}: column {missing[0]!r} is missing, expected a table of verdicts")
    return table


def read_records(results: str | Path, names: Sequence[str]) -> list[dict]:
    """The records that exist of the fits with these names (:func:`.overview.fit_names`)."""
    paths = (Path(results) / "fits" / f"{name}.json" for name in dict.fromkeys(names))
    records = [(path, read_json(path)) for path in paths if path.exists()]
    for path, record in records:
        if not isinstance(record, dict) or not isinstance(record.get("seconds"), int | float):
            raise InputError(f"{path}: not the record of a fit")
    return [record for _, record in records]


# What was run


def _what_was_run(runs: pd.DataFrame, plan: Mapping, results: Path) -> list[str]:
    names = overview.fit_names(runs)
    fits = runs[~pd.Series(names).duplicated().to_numpy()]
    records = read_records(results, names)
    hours = fits["seconds"].sum() / 3600
    if records:
        hours = sum(record["seconds"] * record.get("threads", 1) for record in records) / 3600
    unavailable = int((fits["status"] == "unavailable").sum())
    failed = int((fits["status"] != "ok").sum()) - unavailable
    missing = f" and {unavailable:,} could not be run here" if unavailable else ""
    facts = {
        "Fits": f"{len(fits):,}, of which {failed:,} failed{missing}",
        "Cost": f"{hours:.2f} core-hours of fits",
    }
    if plan:
        facts["Rows of a data set"] = (
            f"{plan['n_observational']:,}, and {plan['n_per_intervention']:,} more for each "
            "variable that is intervened on"
        )
        digest = hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()[:16]
        facts["Configuration"] = f"<code>{digest}</code>, digest of <code>plan.json</code>"
    facts |= _provenance(records)
    listed = "".join(f"<div><dt>{name}</dt><dd>{text}</dd></div>" for name, text in facts.items())
    parts = [f"<dl>{listed}</dl>", _grids(runs)]
    parts.append(
        _details("What each method cost, and what was shortened", overview.costs_table(runs))
    )
    versions = _versions(records)
    if versions:
        parts.append(_details("Versions of the packages", versions))
    return parts


def _provenance(records: Sequence[Mapping]) -> dict[str, str]:
    """When, on which machines and by which code the fits were made."""
    found = {}
    ends = sorted(str(record["finished"])[:16] for record in records if "finished" in record)
    if ends:
        first, last = (html.escape(end.replace("T", " ")) for end in (ends[0], ends[-1]))
        found["Date"] = f"{first} to {last} UTC"
    machines = Counter(_machine(record["machine"]) for record in records if "machine" in record)
    if machines:
        found["Machine"] = _counted(machines)
    codes = [record["code"] for record in records if "code" in record]
    if codes:
        commits = Counter(str(code.get("commit") or "none") for code in codes)
        found["Git commit"] = _counted(commits)
        different = len({str(code.get("fingerprint")) for code in codes})
        found["Code"] = f"{different:,} fingerprints, one for each method and version of its code"
    return found


def _machine(machine: Mapping) -> str:
    parts = [str(machine.get("cpu", "")), f"{machine.get('cores', '?')} cores"]
    parts += [str(machine[key]) for key in ("gpu", "platform") if key in machine]
    return ", ".join(parts)


def _counted(counts: Counter, most: int = 6) -> str:
    """Texts, each with its number of fits if there are several; the rarest are only counted."""
    if len(counts) == 1:
        return html.escape(next(iter(counts)))
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{html.escape(text)} ({number:,} fits)" for text, number in ordered[:most]]
    if len(ordered) > most:
        shown.append(f"and {len(ordered) - most} more")
    return "<br>".join(shown)


def _versions(records: Sequence[Mapping]) -> str:
    found: dict[str, set[str]] = {}
    for record in records:
        for name, version in record.get("versions", {}).items():
            found.setdefault(str(name), set()).add(str(version))
    items = (f"{name} {' and '.join(sorted(found[name]))}" for name in sorted(found))
    return f"<p>{html.escape(', '.join(items))}</p>" if found else ""


def _grids(runs: pd.DataFrame) -> str:
    """One row for each experiment: which data sets, how many seeds, which methods."""
    head = ("experiment", "d", "s", "also varied", "seeds", "methods")
    rows = []
    for name, group in runs.groupby("experiment", sort=False):
        varied = [f"fraction {_listed(group['fraction'])}"] if name == "interventional" else []
        if group["mechanism"].notna().any():
            varied.append(", ".join(dict.fromkeys(group["mechanism"])))
        seeds = group.groupby(["method", "d"])["seed"].nunique()
        few, many = int(seeds.min()), int(seeds.max())
        cells = (
            name.replace("_", " "),
            _listed(group["d"]),
            _listed(group["s"]),
            "; ".join(varied),
            str(many) if few == many else f"{few} to {many}",
            ", ".join(dict.fromkeys(group["method"])),
        )
        rows.append("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in cells) + "</tr>")
    headings = "".join(f"<th scope='col'>{text}</th>" for text in head)
    return (
        "<div class='scroll'><table class='grids'><thead><tr>"
        f"{headings}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _listed(values: pd.Series) -> str:
    return ", ".join(f"{value:g}" for value in sorted(set(values.dropna())))


# Verdicts


def _verdicts(judged: pd.DataFrame) -> list[str]:
    claims = judged[judged["kind"] == "claim"]
    by_verdict = {name: claims[claims["verdict"] == name] for name in verdicts.VERDICTS}
    listed = ("not reproduced", "reproduced", "inconclusive")
    unrun = by_verdict["not run"]
    return [
        f"<p>{_sentence(judged)}</p>",
        "<p>A cell of a table is <em>reproduced</em> if our SHD is shown to be within one standard "
        "deviation between data sets of the published, and <em>not reproduced</em> if it is shown "
        "to differ and is farther away. A claim of the text has a test and a threshold of its own, "
        "fixed in advance. In between the answer is <em>inconclusive</em>: with so few data sets "
        "it cannot be told.</p>",
        verdicts.counts_table(judged),
        _refuted_cells(judged[judged["kind"] == "cell"]),
        "<h3>Claims of the text</h3>",
        _claims(pd.concat([by_verdict[name] for name in listed])),
        _details(f"{len(unrun)} claims that these runs cannot judge", _claims(unrun)),
    ]


def _claims(claims: pd.DataFrame) -> str:
    """Claims in one line each, linked to where they are judged."""
    items = "".join(
        f"<li>{verdicts.badge(row['verdict'])}<span>"
        f"<a href='#claim-{html.escape(row['id'])}'>{html.escape(row['statement'])}</a> "
        f"<span class='place'>{html.escape(row['place'])}; {html.escape(row['id'])}</span>"
        "</span></li>"
        for row in claims.to_dict("records")
    )
    return f"<ul class='claims'>{items}</ul>"


def _sentence(judged: pd.DataFrame) -> str:
    parts = []
    for kind, what in (("claim", "claims of the text"), ("cell", "cells of the tables")):
        counts = judged.loc[judged["kind"] == kind, "verdict"].value_counts()
        total = int(counts.sum() - counts.get("not run", 0))
        numbers = ", ".join(f"{counts.get(name, 0)} {name}" for name in verdicts.VERDICTS[:3])
        parts.append(
            f"of {total} {what} that these runs can judge, {numbers} "
            f"({counts.get('not run', 0)} more were not run)"
        )
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _refuted_cells(cells: pd.DataFrame, most: int = 12) -> str:
    """The cells that do not reproduce, the farthest from the paper first."""
    refuted = cells[cells["verdict"] == "not reproduced"]
    order = (
        refuted["effect_size"]
        .abs()
        .fillna(float("inf"))
        .sort_values(ascending=False, kind="stable")
    )
    shown = refuted.loc[order.index[:most]]
    if not len(shown):
        return "<p>No cell is shown to differ from the paper.</p>"
    items = "".join(f"<li>{_refuted(row)}</li>" for row in shown.to_dict("records"))
    more = len(refuted) - len(shown)
    rest = f"<p>And {more} more, under their tables below.</p>" if more else ""
    return f"<h3>Cells that do not reproduce</h3><ul class='refuted'>{items}</ul>{rest}"


def _refuted(row: Mapping) -> str:
    where = f"{row['experiment'].replace('_', ' ')}, d = {row['d']:.0f}, s = {row['s']:.0f}"
    if row["experiment"] == "interventional":
        where += f", fraction {row['fraction']:g}"
    if isinstance(row["mechanism"], str):
        where += f", {row['mechanism']}"
    paper = row["statement"].partition(": ")[2]
    ours = "NA" if pd.isna(row["ours"]) else f"{row['ours']:.1f} over {row['ours_n']:.0f} data sets"
    text = f"{where}: {row['method']} has {paper} in the paper, {ours} here."
    if isinstance(row["note"], str):
        text += f" {row['note']}"
    return html.escape(text)


# Figures and tables


@dataclass(frozen=True)
class _Exhibit:
    kind: str
    name: str
    title: str
    caption: str
    label: str
    path: Path

    @property
    def anchor(self) -> str:
        return f"{self.kind}-{self.name}"


def _exhibits(drawn: Path, tables: Mapping, captions: str | Path) -> list[_Exhibit]:
    """What is drawn of the runs that there are, in the paper's order, then what is not in it."""
    found = []
    for kind, prefix, suffix in (("figures", "fig", ".png"), ("tables", "table", ".html")):
        for name, experiments in exhibits(kind).items():
            path = drawn / kind / f"{name}{suffix}"
            if not set(experiments) <= set(tables) or not path.exists():
                continue
            source = Path(captions) / f"{prefix}_{name}.rst"
            text = source.read_text(encoding="utf-8") if source.exists() else ""
            caption = " ".join(text.split())
            label = re.search(r"\(The paper's ([^()\s]+?)\.?\)", caption)
            found.append(
                _Exhibit(kind, name, _title(kind, name), caption, label[1] if label else "", path)
            )
    rank = {label: position for position, label in enumerate(PAPER_ORDER)}
    return sorted(found, key=lambda e: (rank.get(e.label, len(rank)), e.name, e.kind))


def _title(kind: str, name: str) -> str:
    """The first line of the docstring of the module that makes it, without what is in brackets."""
    source = Path(__file__).parents[1] / kind / f"{name}.py"
    line = (ast.get_docstring(ast.parse(source.read_bytes())) or name).partition("\n")[0]
    return re.sub(r"\s*\([^()]*\)", "", line).removesuffix(".")


def _exhibit(exhibit: _Exhibit, judged: pd.DataFrame | None, beside: Path) -> str:
    caption = _markup(exhibit.caption)
    title = f"<h3>{html.escape(exhibit.title)}</h3>"
    if exhibit.kind == "figures":
        larger = exhibit.path.with_suffix(".pdf")
        link = f" <a href='{_link(larger, beside)}'>PDF</a>" if larger.exists() else ""
        return (
            f"<figure id='{exhibit.anchor}'>{title}"
            f"<div class='scroll'>{_image(exhibit.path, exhibit.title)}</div>"
            f"<figcaption>{caption}{link}</figcaption></figure>"
        )
    text = exhibit.path.read_text(encoding="utf-8")
    body = re.search(r"<body>(.*)</body>", text, flags=re.DOTALL)
    if body is None:
        raise InputError(f"{exhibit.path}: no <body>, expected a table as an HTML page")
    links = " ".join(
        f"<a href='{_link(path, beside)}'>{path.suffix[1:].upper()}</a>"
        for path in (exhibit.path.with_suffix(suffix) for suffix in (".csv", ".tex"))
        if path.exists()
    )
    return (
        f"<div class='exhibit' id='{exhibit.anchor}'>{title}<p>{caption} {links}</p>"
        f"<div class='long'>{body[1].strip()}</div>{_verdicts_of(exhibit.name, judged)}</div>"
    )


def _verdicts_of(table: str, judged: pd.DataFrame | None) -> str:
    """The verdicts on the cells of a table of the paper, folded away."""
    if judged is None:
        return ""
    cells = judged[(judged["kind"] == "cell") & (judged["experiment"] == table)]
    if not len(cells):
        return ""
    counts = cells["verdict"].value_counts()
    numbers = ", ".join(f"{counts[name]} {name}" for name in verdicts.VERDICTS if name in counts)
    return _details(f"Verdicts on its {len(cells)} cells: {numbers}", verdicts.cells_table(cells))


def _image(path: Path, title: str) -> str:
    content = path.read_bytes()
    if content[:8] != b"\x89PNG\r\n\x1a\n":
        raise InputError(f"{path}: not a PNG")
    width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
    data = base64.b64encode(content).decode()
    # Drawn at twice the density of an ordinary screen.
    return (
        f"<img alt='{html.escape(title)}' width='{width // 2}' height='{height // 2}' "
        f"src='data:image/png;base64,{data}'>"
    )


def _link(path: Path, beside: Path) -> str:
    return html.escape(Path(os.path.relpath(path, beside)).as_posix())


def _markup(text: str) -> str:
    """The inline markup of a caption as HTML."""
    text = html.escape(text)
    text = re.sub(r"``(.+?)``", r"<code>\1</code>", text)
    return re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", text)


def _details(title: str, content: str) -> str:
    return f"<details><summary>{html.escape(title)}</summary>{content}</details>"


_INTRODUCTION = """<p>The figures and tables of <em>Stable Differentiable Causal Discovery</em>
(Nazaret, Hong, Azizi and Blei, ICML 2024), redrawn from new runs, with the published values beside
them. Every data set is the one behind the published run of the same d, s and seed, except in the
DCDI simulations. SHD is the structural Hamming distance to the true graph: lower is better.</p>"""

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>SDCD, reproduced at scale {scale}</title>
<style>
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, sans-serif; color: #1a1a1a; background: #fff;
  max-width: 70rem; margin: 0 auto; padding: 1.5rem 1.25rem 4rem; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .6rem; }
h2 { font-size: 1.3rem; margin: 2.8rem 0 .8rem; padding-bottom: .25rem;
  border-bottom: 2px solid #1a1a1a; }
h3 { font-size: 1.05rem; margin: 1.8rem 0 .5rem; }
p, figcaption, dl { max-width: 46rem; }
a { color: #1d5487; }
code { font-size: .92em; }
nav ul { display: flex; flex-wrap: wrap; gap: .3rem 1.4rem; list-style: none; padding: 0; }
dl { margin: 0 0 1.2rem; }
dl div { display: grid; grid-template-columns: 10rem 1fr; gap: .1rem 1rem; padding: .2rem 0; }
dt { color: #5b5b5b; }
dd { margin: 0; }
.scroll { overflow-x: auto; max-width: 100%; }
.long .scroll { max-height: 36rem; overflow-y: auto; }
.long thead th { position: sticky; top: 0; background: #fff; }
table { border-collapse: collapse; font-size: .9rem; line-height: 1.4; overflow-wrap: normal; }
th, td { padding: .3rem .7rem; text-align: left; vertical-align: top;
  border-bottom: 1px solid #e4e4e4; font-variant-numeric: tabular-nums; }
thead th { border-bottom: 1px solid #777; white-space: nowrap; }
.exhibit td, .exhibit tbody th { white-space: nowrap; }
.exhibit details td:last-child { white-space: normal; min-width: 16rem; }
.long td span { display: block; }
.number, .counts td { text-align: right; }
.paper, .place { color: #5b5b5b; }
.difference { color: #2a5d8f; font-size: .87em; }
.legend span + span { margin-left: 1.2em; }
.notes { color: #444; font-size: .87em; padding-left: 1.2em; max-width: 46rem; }
figure { margin: 2.2rem 0; }
figcaption { margin-top: .5rem; }
img { display: block; max-width: 100%; height: auto; }
details { margin: .8rem 0; }
summary { cursor: pointer; color: #1d5487; }
details[open] > summary { margin-bottom: .6rem; }
article { border-top: 1px solid #e0e0e0; padding: .7rem 0; }
article p { margin: .25rem 0; }
.quote { font-style: italic; }
article .place { font-size: .9em; }
.claims { list-style: none; padding: 0; font-size: .93rem; }
.claims li { display: grid; grid-template-columns: 9rem 1fr; gap: .1rem .8rem; padding: .25rem 0;
  border-bottom: 1px solid #e4e4e4; align-items: baseline; }
.claims .badge { justify-self: start; }
.claims .place { font-size: .9em; white-space: normal; }
.grids td:last-child { min-width: 20rem; }
.grids td { min-width: 4rem; }
.long > p { font-size: .93em; }
.list ul { display: block; columns: 20rem 3; font-size: .93em; }
.effects { list-style: none; padding: 0; max-width: 60rem; }
.effects li { border-left: 4px solid; padding: .1rem 0 .1rem .7rem; margin: .4rem 0; }
.better { color: #00543d; }
.worse { color: #8a2d00; }
.open { color: #5b5b5b; }
.badge { display: inline-block; border-radius: .25rem; padding: 0 .5rem; font-size: .82rem;
  font-weight: 600; white-space: nowrap; border: 1px solid; }
.reproduced { color: #00543d; background: #e3f4ee; }
.not-reproduced { color: #8a2d00; background: #fdebe1; }
.inconclusive { color: #33415c; background: #eef1f7; }
.not-run { color: #5b5b5b; background: #f4f4f4; }
.contradiction { color: #7a4b00; font-size: .93em; }
.contradiction::before { content: "The paper: "; font-weight: 600; }
@media (max-width: 40rem) {
  body { padding: 1rem .9rem 3rem; }
  dl div, .claims li { grid-template-columns: 1fr; }
  th, td { padding: .3rem .5rem; }
  .counts thead th { white-space: normal; }
  figure img { max-width: none; width: 42rem; }
}
@media print {
  body { max-width: none; font-size: 10pt; padding: 0; }
  nav { display: none; }
  .scroll, .long .scroll { overflow: visible; max-height: none; }
  figure, article, tr { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  table { font-size: 7.5pt; }
  .exhibit td { white-space: normal; }
}
</style>
</head>
<body>
{body}
</body>
</html>
"""
