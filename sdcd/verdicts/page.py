"""The verdicts as a table and as a page."""

import html
import math
from pathlib import Path

import pandas as pd

from sdcd.files import atomic_path
from sdcd.verdicts.claims import RATIO_METRICS

VERDICTS = ("reproduced", "not reproduced", "inconclusive", "not run")
"""The four answers."""

COLUMNS = (
    "kind",
    "id",
    "experiment",
    "place",
    "statement",
    "method",
    "d",
    "s",
    "fraction",
    "mechanism",
    "metric",
    "published",
    "published_sd",
    "published_n",
    "ours",
    "ours_sd",
    "ours_n",
    "shortened",
    "test",
    "threshold",
    "estimate",
    "low",
    "high",
    "effect_size",
    "p_support",
    "p_refute",
    "verdict",
    "seeds_needed",
    "note",
    "contradiction",
)
"""Columns of a table of verdicts: see :func:`sdcd.verdicts.judge`."""


def count(verdicts: pd.DataFrame) -> pd.DataFrame:
    """How many cells of each table, and claims, got each verdict.

    Returns
    -------
    DataFrame
        Indexed by ``table`` (an experiment, or ``claims``), one column for each of
        :data:`VERDICTS`.
    """
    table = verdicts["experiment"].where(verdicts["kind"] == "cell", "claims")
    counts = pd.crosstab(table, verdicts["verdict"])
    order = list(dict.fromkeys(table))
    counts = counts.reindex(index=order, columns=list(VERDICTS), fill_value=0)
    return counts.rename_axis(index="table", columns=None)


def write(verdicts: pd.DataFrame, stem: str | Path) -> tuple[Path, Path]:
    """Write ``stem.csv``, every column, and ``stem.html``, a page that needs no other file."""
    stem = Path(stem)
    table, page = (stem.with_name(stem.name + suffix) for suffix in (".csv", ".html"))
    with atomic_path(table) as temporary:
        verdicts.to_csv(temporary, index=False, lineterminator="\n")
    with atomic_path(page) as temporary:
        temporary.write_text(to_html(verdicts), encoding="utf-8")
    return table, page


def to_html(verdicts: pd.DataFrame) -> str:
    """The page: counts, then every claim, then the cells of each table."""
    claims = verdicts[verdicts["kind"] == "claim"]
    cells = verdicts[verdicts["kind"] == "cell"]
    parts = [counts_table(verdicts), "<h2>Claims of the text</h2>", claims_list(claims)]
    parts.append("<h2>Cells of the tables</h2>")
    for name, group in cells.groupby("experiment", sort=False):
        parts.append(f"<h3>{html.escape(name.replace('_', ' '))}</h3>")
        parts.append(cells_table(group))
    return _PAGE.replace("{body}", "\n".join(parts))


def counts_table(verdicts: pd.DataFrame) -> str:
    """:func:`count` as an HTML table."""
    counts = count(verdicts)
    head = "".join(f"<th scope='col'>{html.escape(name)}</th>" for name in VERDICTS)
    rows = "".join(
        f"<tr><th scope='row'>{html.escape(str(name).replace('_', ' '))}</th>"
        + "".join(f"<td>{value or '–'}</td>" for value in row)
        + "</tr>"
        for name, row in zip(counts.index, counts.to_numpy().tolist(), strict=True)
    )
    return (
        f"<div class='scroll'><table class='counts'><thead><tr><th></th>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
    )


def claims_list(claims: pd.DataFrame) -> str:
    """Verdicts on claims as HTML, each with its test and what it found."""
    items = []
    for row in claims.to_dict("records"):
        found = [_estimate(row), html.escape(_text(row["note"])), _seeds(row)]
        items.append(
            f"<article id='claim-{html.escape(row['id'])}'>{badge(row['verdict'])}"
            f"<p class='quote'>“{html.escape(row['statement'])}”</p>"
            f"<p class='place'>{html.escape(row['place'])}</p>"
            f"<p>{' '.join(filter(None, found))}</p>{_contradiction(row)}</article>"
        )
    return "\n".join(items)


def cells_table(cells: pd.DataFrame) -> str:
    """Verdicts on the cells of one table as an HTML table, with the number of those not run."""
    judged = cells[cells["verdict"] != "not run"]
    missing = len(cells) - len(judged)
    parts = [_rows(judged)] if len(judged) else []
    if missing:
        parts.append(f"<p>Not run: {missing} of {len(cells)} cells.</p>")
    return "\n".join(parts)


def _rows(cells: pd.DataFrame) -> str:
    head = "".join(
        f"<th scope='col'>{name}</th>"
        for name in ("setting", "method", "paper", "ours", "difference", "verdict", "")
    )
    rows = []
    for row in cells.to_dict("records"):
        setting = f"d = {row['d']:.0f}, s = {row['s']:.0f}"
        if row["experiment"] == "interventional":
            setting += f", fraction {row['fraction']:g}"
        if _text(row["mechanism"]):
            setting += f", {row['mechanism']}"
        star = "*" if _text(row["shortened"]) else ""
        ours = _number(row["ours"], row["ours_sd"])
        ours = f"{ours} ({row['ours_n']:.0f}){star}" if ours else "NA"
        words = [html.escape(_text(row["note"])), _seeds(row), _contradiction(row, "span")]
        if star:
            words.insert(0, html.escape(f"* {row['shortened']}."))
        texts = [
            html.escape(setting),
            html.escape(row["method"]),
            _number(row["published"], row["published_sd"]) or "NA",
            ours,
            _interval(row),
            badge(row["verdict"]),
            " ".join(filter(None, words)),
        ]
        rows.append("<tr>" + "".join(f"<td>{text}</td>" for text in texts) + "</tr>")
    return (
        f"<div class='scroll'><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def badge(verdict: str) -> str:
    """One of :data:`VERDICTS` as HTML."""
    mark = {"reproduced": "✓", "not reproduced": "✗", "inconclusive": "?", "not run": "–"}[verdict]
    return f"<span class='badge {verdict.replace(' ', '-')}'>{mark} {verdict}</span>"


def _estimate(row) -> str:
    if math.isnan(row["estimate"]):
        return ""
    text = f"{_meaning(row)} {row['estimate']:.3g}"
    if not math.isnan(row["low"]):
        text += f" [{row['low']:.3g}, {row['high']:.3g}]"
    if not math.isnan(row["threshold"]):
        text += f"; threshold {row['threshold']:g}"
    return text + "."


def _meaning(row) -> str:
    """What the estimate of a claim is."""
    if row["test"] in ("lower", "higher", "within"):
        return "Ratio" if row["metric"] in RATIO_METRICS else "Difference"
    if row["test"].endswith("_edges") and row["test"] != "share_below_edges":
        return "Ratio to the number of true edges"
    return "Estimate"


def _interval(row) -> str:
    if math.isnan(row["estimate"]):
        return ""
    text = f"{row['estimate']:+.1f}"
    if not math.isnan(row["low"]):
        text += f" [{row['low']:+.1f}, {row['high']:+.1f}]"
    return text.replace("-", "−")


def _number(mean, sd) -> str:
    if math.isnan(mean):
        return ""
    return f"{mean:.1f}" + ("" if math.isnan(sd) else f" ± {sd:.1f}")


def _seeds(row) -> str:
    if math.isnan(row["seeds_needed"]):
        return ""
    number = int(row["seeds_needed"])
    shown = f"About {number}" if number < 1000 else "1,000 or more"
    return f"{shown} data sets for each setting would settle it."


def _contradiction(row, tag: str = "p") -> str:
    text = _text(row["contradiction"])
    return f"<{tag} class='contradiction'>{html.escape(text)}</{tag}>" if text else ""


def _text(value) -> str:
    return value if isinstance(value, str) else ""


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Verdicts</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; color: #1a1a1a; margin: 1.5rem auto;
  max-width: 64rem; padding: 0 1rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .93em; }
th, td { padding: .3rem .7rem; text-align: left; vertical-align: top;
  border-bottom: 1px solid #e6e6e6; font-variant-numeric: tabular-nums; }
.counts td { text-align: right; }
article { border-top: 1px solid #e0e0e0; padding: .7rem 0; }
article p { margin: .25rem 0; }
.quote { font-style: italic; }
.place { color: #5b5b5b; font-size: .9em; }
.badge { display: inline-block; border-radius: .25rem; padding: 0 .5rem; font-size: .88em;
  font-weight: 600; white-space: nowrap; border: 1px solid; }
.reproduced { color: #00543d; background: #e3f4ee; }
.not-reproduced { color: #8a2d00; background: #fdebe1; }
.inconclusive { color: #33415c; background: #eef1f7; }
.not-run { color: #5b5b5b; background: #f4f4f4; }
.contradiction { color: #7a4b00; font-size: .93em; }
.contradiction::before { content: "The paper: "; font-weight: 600; }
</style>
</head>
<body>
<h1>Verdicts</h1>
<p>Does the paper reproduce? A cell of a table is <em>reproduced</em> if our SHD is shown to be
within one standard deviation between data sets of the published, and <em>not reproduced</em> if it
is shown to differ and is farther away; by seed where the authors logged runs on the same data. A
claim of the text has a test and a threshold of its own, fixed in advance. In between the answer is
<em>inconclusive</em>. All tests at 5 %, adjusted for their number.</p>
{body}
</body>
</html>
"""
