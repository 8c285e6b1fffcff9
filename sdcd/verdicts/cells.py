"""A verdict on every cell of the paper's tables."""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

from sdcd import published, statistics
from sdcd.runs import summaries
from sdcd.statistics import ALPHA
from sdcd.verdicts.evidence import rests_on_logs
from sdcd.verdicts.table import decide

FLOOR = 0.5
"""Smallest margin, in edges: below it, differences are of rounding."""

MOSTLY_FAILED = "They agree with the paper, but most of the runs failed."


def judge_cells(runs: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row for each cell that the paper prints: see :func:`sdcd.verdicts.judge`."""
    tables = [_judge_table(name, runs.get(name)) for name in published.EXPERIMENTS]
    return pd.concat(tables, ignore_index=True)


def _judge_table(name: str, runs: pd.DataFrame | None) -> pd.DataFrame:
    cell = list(summaries.CELL)
    table = published.published_table(name)
    table = table[table["status"] != "not_tested"].reset_index(drop=True)
    logs = published.published_runs(name)
    ours = summaries.tidy(runs if runs is not None else logs.iloc[:0])
    ours = ours[[*cell, "seed", "status", "reason", "shortened", "shd"]]
    logged = summaries.summarise(logs).set_index(cell)
    # The printed row of SDCD in the second ablation is of other runs than those logged.
    pairs = (
        summaries.pair_with_published(ours, logs)
        if published.has_twins(name) and name != "ablation_stage2"
        else pd.DataFrame(columns=[*cell, "seed", "difference"])
    )
    our_groups = dict(iter(ours.groupby(cell)))
    pair_groups = {key: group.set_index("seed") for key, group in pairs.groupby(cell)}
    rows = []
    for printed in table.to_dict("records"):
        key = tuple(printed[column] for column in cell)
        log = logged.loc[key] if key in logged.index else None
        described = _describe(name, printed, our_groups.get(key), log)
        judged = _judge_cell(printed, our_groups.get(key), pair_groups.get(key), log)
        rows.append({**_SHOWN, **_WORKING, **described, **judged})
    return _decide(pd.DataFrame(rows))


def _describe(name, printed, ours, log) -> dict:
    row = {
        "kind": "cell",
        "id": "/".join(
            str(part)
            for part in (
                name,
                printed["method"],
                f"d{printed['d']}",
                f"s{printed['s']}",
                *([f"f{printed['fraction']:g}"] if name == "interventional" else []),
                *([printed["mechanism"]] if printed["mechanism"] else []),
            )
        ),
        "experiment": name,
        "place": f"table {name}",
        "statement": _statement(printed),
        **{column: printed[column] for column in summaries.CELL},
        "metric": "shd",
        "published": printed["mean"],
        "published_sd": printed["sd"],
        "published_n": printed["n"],
        "contradiction": _contradiction(name, printed, log),
        "note": "",
        **{"ours": math.nan, "ours_sd": math.nan, "ours_n": 0, "ours_failed": 0, "shortened": ""},
    }
    if ours is not None:
        tried = _tried_in_full(ours)
        finished = _finished(tried if len(tried) else ours)
        row["ours"] = finished["shd"].mean()
        row["ours_sd"] = finished["shd"].std()
        row["ours_n"] = len(finished)
        row["ours_failed"] = int((tried["status"] != "ok").sum())
        if not len(tried):
            row["shortened"] = summaries.each_once(ours["shortened"])
    return row


def _tried_in_full(ours: pd.DataFrame) -> pd.DataFrame:
    """Runs that count: neither shortened nor impossible here."""
    return ours[(ours["shortened"] == "") & (ours["status"] != "unavailable")]


def _finished(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs that ended, with SHD as a number."""
    runs = runs[(runs["status"] == "ok") & runs["shd"].notna()]
    return runs.assign(shd=runs["shd"].astype(float))


def _statement(printed) -> str:
    if printed["status"] == "failed":
        return f"{printed['method']}: NA"
    sd = "" if math.isnan(printed["sd"]) else f" ± {printed['sd']:.{printed['decimals']}f}"
    return f"{printed['method']}: SHD {printed['mean']:.{printed['decimals']}f}{sd}"


def _contradiction(name, printed, log) -> str:
    """Where the printed cell, its caption and the authors' logs disagree."""
    found = []
    if log is not None and printed["status"] == "ok" and log["n"] == 0:
        found.append(f"The paper prints {printed['mean']}; all {log['n_runs']} logged runs failed.")
    if log is not None and log["n"] > 0 and printed["status"] == "ok":
        if not rests_on_logs(printed, log):
            found.append(
                f"The caption says {printed['n']} data sets; the authors logged {log['n']}, whose "
                f"mean is {log['mean']:.{printed['decimals']}f}."
            )
        elif log["n"] != printed["n"] and (printed["d"] >= 50 or name != "observational"):
            found.append(
                f"The caption says {printed['n']} data sets; the printed value is the mean of the "
                f"{log['n']} that the authors logged."
            )
    if name == "ablation_stage2":
        fifteenths = printed["mean"] * 15
        if abs(printed["mean"] * 5 - round(printed["mean"] * 5)) > 0.03 and (
            abs(fifteenths - round(fifteenths)) < 0.1
        ):
            found.append(
                f"The caption says five data sets, but {printed['mean']:.2f} is no mean of five "
                "integers; it is one of fifteen."
            )
    return " ".join(found)


def _judge_cell(printed, ours, twins, log) -> dict:
    """The test of a cell: estimate, margin and unadjusted p values, or a verdict without a test.

    ``twins`` has the column ``difference`` (ours - logged), indexed by seed.
    """
    if ours is None:
        return _untested("not run", "")
    tried = _tried_in_full(ours)
    if not len(tried):
        return _judge_shortened(printed, ours, twins, log)
    finished = _finished(tried)
    failed = int((tried["status"] != "ok").sum())
    if printed["status"] == "failed":
        return _judge_failure(tried, finished)
    if not len(finished):
        if not failed:
            return _untested("not run", "Our runs have no SHD.")
        return _untested(
            "not reproduced", f"The paper has a value; all our runs failed ({failed})."
        )
    result = _compare(printed, finished, twins, log)
    notes = []
    mostly_failed = failed > len(finished)
    if result.pop("exact"):
        notes.append("Identical to the log on every data set.")
        verdict = "inconclusive" if mostly_failed else "reproduced"
        if mostly_failed:
            notes.append(MOSTLY_FAILED)
        result["verdict"] = result["half_margin"] = verdict
    else:
        result["verdict"] = ""
    if failed:
        notes.append(
            f"{failed} of {len(tried)} runs failed; the verdict rests on the {len(finished)} that "
            "finished."
        )
    if len(tried) < len(ours):
        notes.append(f"{len(ours) - len(tried)} shortened or impossible runs were left out.")
    result["mostly_failed"] = mostly_failed
    return result | {"note": " ".join(notes)}


def _compare(printed, finished, twins, log) -> dict:
    """Ours beside the published: the estimate, its test, and unadjusted p values."""
    spread = _spread(printed, finished, log)
    margin = max(0.1 * printed["mean"] if math.isnan(spread) else spread, FLOOR)
    half = max(margin / 2, FLOOR)
    shd = finished.set_index("seed")["shd"]
    differences = pd.Series(dtype=float) if twins is None else twins["difference"].astype(float)
    differences = differences[differences.index.isin(shd.index)]
    unpaired = shd[~shd.index.isin(differences.index)]
    rests = rests_on_logs(printed, log)
    n_published = int(log["n"] if rests else printed["n"])
    p, q = len(differences), len(unpaired)
    logged = 0 if log is None else int(log["n"])
    exact = p > 0 and not q and not differences.any() and (p > 1 or p == logged)
    if p > 1:
        spreads = statistics.Spreads(
            float(differences.std()), float(shd.std()), spread, p, max(n_published, p)
        )
        estimate = statistics.partly_paired(
            differences.to_numpy(), unpaired.to_numpy(), printed["mean"], spreads
        )
        if not q and p < logged:
            # The next data sets of ours have twins as well.
            estimate = statistics.of_sample(differences.to_numpy())
        test = f"paired by seed, {p} pairs" + (f", and {q} without a twin" if q else "")
    elif exact:
        estimate, test = statistics.of_sample(differences.to_numpy()), "paired by seed, 1 pair"
    else:
        sd = spread if math.isnan(printed["sd"]) and rests else printed["sd"]
        estimate = statistics.welch(shd.to_numpy(), printed["mean"], sd, n_published)
        test = "Welch" if not math.isnan(sd) else "Welch, with our sd for the published"
    low, high = estimate.interval()
    seeds = _seeds(estimate, margin)
    stuck = seeds >= statistics.MOST_SEEDS
    return {
        "test": test,
        "exact": exact,
        "margin": margin,
        "estimate": estimate.value,
        "low": low,
        "high": high,
        "effect_size": estimate.value / spread if spread > 0 else math.nan,
        "p_support": estimate.p_within(margin),
        "p_half": estimate.p_within(half),
        "p_refute": estimate.p_different(),
        "beyond": abs(estimate.value) >= margin,
        "beyond_half": abs(estimate.value) >= half,
        "seeds_needed": math.nan if stuck else seeds,
        "stuck": f"Even {seeds:,} data sets of ours would hardly settle it." if stuck else "",
    }


def _untested(verdict: str, note: str) -> dict:
    return {"verdict": verdict, "half_margin": verdict, "note": note, "test": ""}


def _judge_shortened(printed, ours, twins, log) -> dict:
    """No run counts: the difference is shown where there is one, without a verdict."""
    finished = _finished(ours)
    if not (ours["shortened"] != "").any():
        return _untested("not run", f"Could not be run here: {summaries.each_once(ours['reason'])}")
    if not len(finished) or printed["status"] == "failed":
        return _untested("not run", "All our runs were shortened.")
    shown = _compare(printed, finished, twins, log)
    kept = ("margin", "estimate", "low", "high", "effect_size")
    note = "All our runs were shortened: the difference is shown, not judged."
    return _untested("not run", note) | {name: shown[name] for name in kept}


def _judge_failure(tried, finished) -> dict:
    if not len(finished):
        reasons = summaries.each_once(tried["reason"])
        return _untested("reproduced", f"Failed in the paper and here: {reasons}")
    if len(finished) == len(tried):
        return _untested("not reproduced", "NA in the paper; all our runs finished.")
    return _untested(
        "inconclusive", f"NA in the paper; {len(finished)} of our {len(tried)} runs finished."
    )


def _spread(printed, finished, log) -> float:
    """Standard deviation of SHD between data sets: printed, else logged, else ours."""
    candidates = [printed["sd"], math.nan if log is None else log["sd"], finished["shd"].std()]
    return next((sd for sd in candidates if not math.isnan(sd)), math.nan)


def _seeds(estimate, margin) -> float:
    inside = abs(estimate.value) < margin
    nearest = math.copysign(margin, estimate.value) if inside else 0.0
    return max(estimate.seeds_to_settle(nearest), estimate.n + 1)


def _decide(cells: pd.DataFrame) -> pd.DataFrame:
    """Adjust the p values of a table for multiplicity and decide the tested cells."""
    for column in ("p_support", "p_refute", "p_half"):
        cells[column] = statistics.benjamini_hochberg(cells[column].to_numpy(dtype=float))
    for index in cells.index[cells["verdict"] == ""]:
        row = cells.loc[index]
        verdict = decide(row["p_support"], row["p_refute"], row["beyond"])
        notes = [row["note"]]
        if verdict == "reproduced" and row["p_refute"] < ALPHA:
            notes.append("A small but clear difference, within the margin.")
        if verdict == "reproduced" and row["mostly_failed"]:
            verdict = "inconclusive"
            notes.append(MOSTLY_FAILED)
        elif verdict == "inconclusive":
            notes.append(row["stuck"])
        cells.loc[index, "verdict"] = verdict
        half = decide(row["p_half"], row["p_refute"], row["beyond_half"])
        cells.loc[index, "half_margin"] = (
            "inconclusive" if half == "reproduced" and row["mostly_failed"] else half
        )
        cells.loc[index, "note"] = " ".join(filter(None, notes))
    settled = (cells["verdict"] != "inconclusive") | cells["mostly_failed"]
    cells.loc[settled, "seeds_needed"] = np.nan
    cells["threshold"] = cells["margin"]
    return cells.drop(columns=list(_WORKING))


_SHOWN = dict.fromkeys(
    ("p_support", "p_refute", "estimate", "low", "high", "effect_size", "seeds_needed"), np.nan
)
"""What a cell's test finds, as it is where a cell has no test."""

_WORKING = {
    **dict.fromkeys(("p_half", "margin"), np.nan),
    **dict.fromkeys(("beyond", "beyond_half", "mostly_failed"), False),
    "stuck": "",
}
"""The same for what :func:`_decide` needs and does not return."""
