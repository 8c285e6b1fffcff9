"""What was run, at which cost, and what failed: a page to open first."""

import html
from collections.abc import Sequence

import pandas as pd

from sdcd.errors import InputError
from sdcd.experiments.datasets import DatasetKey
from sdcd.experiments.plan import FAMILIES

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 62rem; margin: 2rem auto;
       padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
div { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; text-align: left; border-bottom: 1px solid #ddd; }
th { border-bottom: 2px solid #888; } td.number, th.number { text-align: right; }
"""


def failures(runs: pd.DataFrame) -> pd.DataFrame:
    """Failed fits grouped by method, status and reason.

    Parameters
    ----------
    runs : DataFrame
        Columns :data:`sdcd.runs.table.RUN_COLUMNS`, of any number of experiments.

    Returns
    -------
    DataFrame
        Columns ``experiment``, ``method``, ``status``, ``reason``, ``fits`` (how many), ``d``
        (the numbers of variables, ascending, separated by spaces) and ``log`` (of the first of
        them, in the folder of results).
    """
    failed = runs[runs["status"] != "ok"].fillna({"reason": ""})
    failed = failed.assign(log=[f"logs/fit/{name}.log" for name in fit_names(failed)])
    keys = ["experiment", "method", "status", "reason"]
    groups = failed.groupby(keys, sort=False)
    return groups.agg(
        fits=("d", "size"),
        d=("d", lambda d: " ".join(str(int(value)) for value in sorted(set(d)))),
        log=("log", "first"),
    ).reset_index()


def fit_names(runs: pd.DataFrame) -> list[str]:
    """For each run the path of its fit in ``fits/``, without suffix.

    Such as ``observational/d10_s4_seed0/SDCD``. Two runs have the same name if they are the same
    fit, counted in two experiments. :class:`~sdcd.errors.InputError` for an unknown experiment.
    """
    names = []
    for row in runs.to_dict("records"):
        if row["experiment"] not in FAMILIES:
            raise InputError(
                f"runs: found experiment {row['experiment']!r}, expected one of "
                f"{', '.join(FAMILIES)}"
            )
        mechanism = row["mechanism"] if isinstance(row["mechanism"], str) else ""
        fraction = 0.0 if pd.isna(row["fraction"]) else float(row["fraction"])
        family = FAMILIES[row["experiment"]]
        numbers = (int(row[key]) for key in ("d", "s", "seed"))
        key = DatasetKey(family, *numbers, fraction, mechanism)
        names.append(f"{key.name}/{row['method']}")
    return names


def summary(runs: pd.DataFrame) -> pd.DataFrame:
    """How many fits each method has in each experiment, and what they cost.

    Returns
    -------
    DataFrame
        Columns ``experiment``, ``method``, ``fits``, ``failed``, ``hours`` (sum over fits),
        ``peak_rss_mb`` (largest) and ``shortened`` (in words, empty if as in the paper).
    """
    grouped = runs.assign(failed=runs["status"] != "ok").groupby(
        ["experiment", "method"], sort=False
    )
    table = grouped.agg(
        fits=("status", "size"),
        failed=("failed", "sum"),
        hours=("seconds", lambda seconds: seconds.sum() / 3600),
        peak_rss_mb=("peak_rss_mb", "max"),
        shortened=("shortened", lambda texts: "; ".join(dict.fromkeys(texts.dropna()))),
    )
    return table.reset_index()


def page(tables: Sequence[pd.DataFrame], scale: str) -> str:
    """The overview as one HTML page.

    Parameters
    ----------
    tables : sequence of DataFrame
        A table of runs for each experiment.
    scale : str
        Name of the scale.
    """
    runs = pd.concat(tables, ignore_index=True)
    # A fit may belong to several experiments; its cost counts once.
    fits = runs[~pd.Series(fit_names(runs)).duplicated().to_numpy()]
    failed = failures(runs)
    n_failed = int((fits["status"] != "ok").sum())
    parts = [
        f"<h1>What was run at scale {html.escape(scale)}</h1>",
        f"<p>{len(fits):,} fits, {fits['seconds'].sum() / 3600:.2f} hours in all; "
        f"{n_failed:,} of them failed.</p>",
        "<h2>Fits by experiment and method</h2>",
        costs_table(runs),
        "<h2>Failures by reason</h2>",
        failures_table(failed),
    ]
    title = f"What was run at scale {html.escape(scale)}"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def costs_table(runs: pd.DataFrame) -> str:
    """:func:`summary` as an HTML table."""
    return _table(
        summary(runs),
        {
            "experiment": "experiment",
            "method": "method",
            "fits": "fits",
            "failed": "failed",
            "hours": "hours",
            "peak_rss_mb": "peak memory (MB)",
            "shortened": "shorter than in the paper",
        },
    )


def failures_table(failed: pd.DataFrame) -> str:
    """What :func:`failures` returns as an HTML table."""
    if not len(failed):
        return "<p>None.</p>"
    headings = ("experiment", "method", "d", "fits", "status", "reason", "log")
    return _table(failed, {heading: heading for heading in headings})


def _table(table: pd.DataFrame, headings: dict[str, str]) -> str:
    numeric = {column for column in headings if pd.api.types.is_numeric_dtype(table[column].dtype)}

    def cell(tag: str, column: str, text: str) -> str:
        kind = ' class="number"' if column in numeric else ""
        return f"<{tag}{kind}>{html.escape(text)}</{tag}>"

    head = "".join(cell("th", column, heading) for column, heading in headings.items())
    rows = [
        "<tr>" + "".join(cell("td", column, _text(row[column])) for column in headings) + "</tr>"
        for _, row in table.iterrows()
    ]
    parts = [
        "<div class='scroll'><table>",
        f"<thead><tr>{head}</tr></thead>",
        "<tbody>",
        *rows,
        "</tbody>",
        "</table></div>",
    ]
    return "\n".join(parts)


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.3f}" if value < 10 else f"{value:,.0f}"
    return str(value)
