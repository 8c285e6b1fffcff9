"""Who leads: the methods of an experiment in order of their rank, kind of data by kind of data."""

import math

import pandas as pd

from sdcd.runs.standings import standings
from sdcd.runs.summaries import shortened_by_method
from sdcd.tables.layout import Layout

COLUMNS = {
    "shd": ("SHD", "{:.1f}"),
    "shd_cpdag": ("SHD-CPDAG", "{:.1f}"),
    "aid": ("AID", "{:.3f}"),
    "average_precision": ("AP", "{:.3f}"),
    "seconds": ("seconds", "{:.3g}"),
}
"""Means that are shown: heading and format."""


RANK = 1
"""The column of ranks."""


def make(runs: pd.DataFrame, *, caption: str) -> tuple[pd.DataFrame, Layout]:
    """The standings as numbers (:func:`sdcd.runs.standings.standings`) and as printed.

    Those that lead are bold in the column of ranks.
    """
    table = standings(runs)
    return table, layout(table, caption)


def layout(table: pd.DataFrame, caption: str) -> Layout:
    """What :func:`sdcd.runs.standings.standings` returns, a row for each method."""
    headings = ["n", "rank", "behind", *(heading for heading, _ in COLUMNS.values())]
    rows, best, firsts = [], set(), {}
    for index, row in enumerate(table.to_dict("records")):
        leaders = firsts.setdefault(_kind(row), [])
        entries = [str(row["n"]) + (f", {row['n_failed']} failed" if row["n_failed"] else "")]
        entries.append(_with_interval(row, "rank"))
        entries.append("first" if row["first"] else _with_interval(row, "behind"))
        entries += [_number(row[key], text) for key, (_, text) in COLUMNS.items()]
        rows.append(((_kind(row), row["method"]), [{"": text} for text in entries]))
        if row["leads"]:
            best.add((index, RANK))
            leaders.append(row["method"])
    counts = ", ".join(str(n) for n in sorted(set(table["n_datasets"]))) or "0"
    texts = [
        f"{counts} data sets of each kind; n: on how many of them a method finished. Rank: mean "
        "rank by SHD among the methods that were run on a data set, a failed fit last. Behind: "
        "mean difference in SHD to the first, paired by data set, so that it holds too for who was "
        "run on fewer. Both with their 95 % intervals (Student's t); on one data set there is "
        "none.",
        "Bold: the first, and who cannot be told from it, as the interval of the difference does "
        "not lie above 0. Several bold ranks are no winner; over few data sets intervals are wide.",
        "AID: share of the pairs of variables for which the graph is wrong about how an effect is "
        "identified, over the graphs without cycles; empty where there are none. AP: average "
        "precision; empty: no weights.",
    ]
    if firsts:
        lines = (f"{kind}: {', '.join(who) or 'nobody'}" for kind, who in firsts.items())
        texts.insert(0, f"First, and who cannot be told from it. {'; '.join(lines)}.")
    texts += [f"Shortened: {text}." for text in shortened_by_method(table)]
    return Layout(caption, ["data", "method"], headings, rows, texts, frozenset(best))


def _kind(row) -> str:
    parts = [row["mechanism"], f"d = {row['d']}", f"s = {row['s']}"]
    if row["fraction"]:
        parts.append(f"fraction {row['fraction']:g}")
    return ", ".join(filter(None, parts))


def _with_interval(row, key: str) -> str:
    if math.isnan(row[key]):
        return ""
    text = f"{row[key]:.1f}"
    low, high = row[f"{key}_low"], row[f"{key}_high"]
    return text if math.isnan(low) else f"{text} [{low:.1f}, {high:.1f}]"


def _number(value: float, text: str) -> str:
    return "" if math.isnan(value) else text.format(value)
