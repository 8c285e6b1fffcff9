"""The verdicts in words, for the page."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from sdcd import verdicts
from sdcd.report.view import Span, Table
from sdcd.verdicts.evidence import RATIO_METRICS

MARKS = {"reproduced": "✓", "not reproduced": "✗", "inconclusive": "?", "not run": "–"}


def badge(verdict: str) -> Span:
    """A verdict with its mark."""
    return Span(f"{MARKS[verdict]} {verdict}", f"badge {verdict.replace(' ', '-')}")


@dataclass(frozen=True)
class Claim:
    """A claim of the text with what its test found."""

    id: str
    badge: Span
    statement: str
    place: str
    found: str
    contradiction: str


@dataclass(frozen=True)
class Section:
    """What the page says of the verdicts as a whole."""

    summary: str
    margin: str
    counts: Table
    refuted: list[str]
    more_refuted: int
    claims: list[Claim]
    unrun: list[Claim]


def section(judged: pd.DataFrame, most: int = 12) -> Section:
    """Counts, the cells that do not reproduce, and every claim.

    Of cells with a published value at most so many, those without one by method.
    """
    claims = judged[judged["kind"] == "claim"]
    cells = judged[(judged["kind"] == "cell") & (judged["verdict"] == "not reproduced")]
    without_value = cells["published"].isna()
    valued = cells[~without_value]
    distance = valued["effect_size"].abs().fillna(float("inf"))
    farthest = valued.loc[distance.sort_values(ascending=False, kind="stable").index[:most]]
    by_method = cells[without_value].groupby(["experiment", "method"], sort=False)
    by_verdict = {name: claims[claims["verdict"] == name] for name in verdicts.VERDICTS}
    judged_claims = pd.concat(
        [by_verdict[name] for name in ("not reproduced", "reproduced", "inconclusive")]
    )
    return Section(
        _sentence(judged),
        verdicts.margin_sentence(judged),
        _counts(judged),
        [
            *(_refuted(row) for row in farthest.to_dict("records")),
            *(_finished_here(*names, group) for names, group in by_method),
        ],
        len(valued) - len(farthest),
        [_claim(row) for row in judged_claims.to_dict("records")],
        [_claim(row) for row in by_verdict["not run"].to_dict("records")],
    )


def of_table(experiment: str, judged: pd.DataFrame) -> tuple[str, Table, str] | None:
    """Verdicts on the cells of one table: a heading, the cells, and what was not run."""
    cells = judged[(judged["kind"] == "cell") & (judged["experiment"] == experiment)]
    if not len(cells):
        return None
    counts = cells["verdict"].value_counts()
    numbers = ", ".join(f"{counts[name]} {name}" for name in verdicts.VERDICTS if name in counts)
    # Shortened runs are shown although they are not judged.
    run = cells[(cells["verdict"] != "not run") | cells["ours"].notna()]
    missing = len(cells) - len(run)
    head = ("setting", "method", "paper", "ours", "difference", "verdict", "")
    table = Table(head, [_cell(row) for row in run.to_dict("records")])
    rest = f"{missing} of {len(cells)} cells have no run." if missing else ""
    return f"Verdicts on its {len(cells)} cells: {numbers}", table, rest


def _counts(judged: pd.DataFrame) -> Table:
    counts = verdicts.count(judged)
    rows = [
        (str(name).replace("_", " "), *(str(value or "–") for value in row))
        for name, row in zip(counts.index, counts.to_numpy().tolist(), strict=True)
    ]
    columns = frozenset(range(1, len(verdicts.VERDICTS) + 1))
    return Table(("", *verdicts.VERDICTS), rows, headers=1, numeric=columns)


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


def _refuted(row: Mapping) -> str:
    where = f"{row['experiment'].replace('_', ' ')}, {_setting(row)}"
    paper = row["statement"].partition(": ")[2]
    ours = "NA" if pd.isna(row["ours"]) else f"{row['ours']:.1f} over {row['ours_n']:.0f} data sets"
    text = f"{where}: {row['method']} has {paper} in the paper, {ours} here."
    return f"{text} {_text(row['note'])}".strip()


def _finished_here(experiment: str, method: str, cells: pd.DataFrame) -> str:
    """Cells of one method that have no value in the paper, and one here."""
    sizes = ", ".join(f"{d:.0f}" for d in sorted(cells["d"].unique()))
    lowest, highest = cells["ours"].min(), cells["ours"].max()
    return (
        f"{experiment.replace('_', ' ')}: {method} has NA in {len(cells)} cells of the paper "
        f"(d = {sizes}); here it finishes, with mean SHD from {lowest:.0f} to {highest:.0f}."
    )


def _claim(row: Mapping) -> Claim:
    found = [_estimate(row), _text(row["note"]), _seeds(row)]
    return Claim(
        row["id"],
        badge(row["verdict"]),
        row["statement"],
        row["place"],
        " ".join(filter(None, found)),
        _text(row["contradiction"]),
    )


def _cell(row: Mapping) -> tuple:
    star = "*" if _text(row["shortened"]) else ""
    ours = _mean(row["ours"], row["ours_sd"])
    words = [Span(f"* {row['shortened']}.")] if star else []
    words += [Span(text) for text in (_text(row["note"]), _seeds(row)) if text]
    if _text(row["contradiction"]):
        words.append(Span(row["contradiction"], "contradiction"))
    return (
        _setting(row),
        row["method"],
        _mean(row["published"], row["published_sd"]) or "NA",
        f"{ours} ({row['ours_n']:.0f}){star}" if ours else "NA",
        _interval(row),
        [badge(row["verdict"])],
        words,
    )


def _setting(row: Mapping) -> str:
    text = f"d = {row['d']:.0f}, s = {row['s']:.0f}"
    if row["experiment"] == "interventional":
        text += f", fraction {row['fraction']:g}"
    return text + (f", {row['mechanism']}" if _text(row["mechanism"]) else "")


def _estimate(row: Mapping) -> str:
    if math.isnan(row["estimate"]):
        return ""
    text = f"{_meaning(row)} {row['estimate']:.3g}"
    if not math.isnan(row["low"]):
        text += f" [{row['low']:.3g}, {row['high']:.3g}]"
    if not math.isnan(row["threshold"]):
        text += f"; threshold {row['threshold']:g}"
    return text + "."


def _meaning(row: Mapping) -> str:
    """What the estimate of a claim is."""
    if row["test"] in ("lower", "higher", "within"):
        return "Ratio" if row["metric"] in RATIO_METRICS else "Difference"
    if row["test"].endswith("_edges") and row["test"] != "share_below_edges":
        return "Ratio to the number of true edges"
    return "Estimate"


def _interval(row: Mapping) -> str:
    if math.isnan(row["estimate"]):
        return ""
    text = f"{row['estimate']:+.1f}"
    if not math.isnan(row["low"]):
        text += f" [{row['low']:+.1f}, {row['high']:+.1f}]"
    return text.replace("-", "−")


def _mean(mean: float, sd: float) -> str:
    if math.isnan(mean):
        return ""
    return f"{mean:.1f}" + ("" if math.isnan(sd) else f" ± {sd:.1f}")


def _seeds(row: Mapping) -> str:
    if math.isnan(row["seeds_needed"]):
        return ""
    number = int(row["seeds_needed"])
    shown = f"About {number}" if number < 1000 else "1,000 or more"
    return f"{shown} data sets for each setting would settle it."


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
