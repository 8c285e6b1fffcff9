"""A verdict on every cell of the paper's tables."""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

from sdcd import published
from sdcd.runs import summaries
from sdcd.verdicts import statistics
from sdcd.verdicts.statistics import ALPHA

FLOOR = 0.5
"""Smallest margin, in edges: below it, differences are of rounding."""


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
    logged = summaries.summarise(logs).set_index(cell)
    # The printed row of SDCD in the second ablation is of other runs than those logged.
    pairs = (
        summaries.pair_with_published(ours, logs)
        if published.has_twins(name) and name != "ablation_stage2"
        else pd.DataFrame(columns=[*cell, "difference"])
    )
    our_groups = dict(iter(ours.groupby(cell)))
    pair_groups = dict(iter(pairs.groupby(cell)))
    rows = []
    for printed in table.to_dict("records"):
        key = tuple(printed[column] for column in cell)
        log = logged.loc[key] if key in logged.index else None
        row = _describe(name, printed, our_groups.get(key), log)
        row.update(_judge_cell(printed, our_groups.get(key), pair_groups.get(key), log))
        rows.append(row)
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
    }
    if ours is not None:
        finished = ours.loc[ours["status"] == "ok", "shd"].astype(float).dropna()
        row["ours"] = finished.mean()
        row["ours_sd"] = finished.std()
        row["ours_n"] = len(finished)
        row["shortened"] = "; ".join(dict.fromkeys(text for text in ours["shortened"] if text))
    else:
        row |= {"ours": math.nan, "ours_sd": math.nan, "ours_n": 0, "shortened": ""}
    return row


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
        logged = f"{log['mean']:.{printed['decimals']}f}"
        exact = logged == f"{printed['mean']:.{printed['decimals']}f}"
        if not exact:
            found.append(
                f"The caption says {printed['n']} data sets; the authors logged {log['n']}, whose "
                f"mean is {logged}."
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


def _judge_cell(printed, ours, pairs, log) -> dict:
    """The test of a cell: estimate, margin and unadjusted p values, or a verdict without a test."""
    if ours is None or (ours["status"] == "unavailable").all():
        note = "" if ours is None else "The method's software or weights were not available."
        return _untested("not run", note)
    finished = ours[(ours["status"] == "ok") & ours["shd"].notna()]
    if printed["status"] == "failed":
        return _judge_failure(ours, finished)
    if not len(finished):
        if (ours["shortened"] != "").any():
            return _untested(
                "inconclusive", "Every run of ours failed, under limits that were shortened."
            )
        return _untested("not reproduced", "The paper has a value; every run of ours failed.")
    margin = _margin(printed, finished, log)
    result = {"margin": margin, "verdict": "", "note": "", "all_paired": False}
    if pairs is not None and len(pairs):
        differences = pairs["difference"].to_numpy(dtype=float)
        estimate = statistics.of_sample(differences)
        result["test"] = f"paired by seed, {len(pairs)} pairs"
        result["all_paired"] = log is not None and len(pairs) == log["n"]
        if not differences.any():
            # Nothing is left to chance: the same numbers on the same data.
            result |= {"verdict": "reproduced", "note": "Identical to the log on every data set."}
    else:
        estimate = statistics.welch(
            finished["shd"].to_numpy(dtype=float), printed["mean"], printed["sd"], printed["n"]
        )
        result["test"] = (
            "Welch" if not math.isnan(printed["sd"]) else "one sample (no published sd)"
        )
    low, high = estimate.interval()
    spread = _spread(printed, finished, log)
    return result | {
        "estimate": estimate.value,
        "low": low,
        "high": high,
        "effect_size": estimate.value / spread if spread > 0 else math.nan,
        "p_support": estimate.p_within(margin),
        "p_refute": estimate.p_different(),
        "seeds_needed": _seeds(estimate, margin),
    }


def _untested(verdict: str, note: str) -> dict:
    return {"verdict": verdict, "note": note, "test": "", "all_paired": False}


def _judge_failure(ours, finished) -> dict:
    if not len(finished):
        reasons = "; ".join(dict.fromkeys(text for text in ours["reason"] if text))
        if (ours["shortened"] != "").any():
            return _untested("inconclusive", f"Failed under limits that were shortened: {reasons}")
        return _untested("reproduced", f"Failed in the paper and here: {reasons}")
    if len(finished) == len(ours):
        return _untested("not reproduced", "NA in the paper; every run of ours finished.")
    return _untested(
        "inconclusive", f"NA in the paper; {len(finished)} of our {len(ours)} runs finished."
    )


def _spread(printed, finished, log) -> float:
    """Standard deviation of SHD between data sets: printed, else logged, else ours."""
    candidates = [printed["sd"], math.nan if log is None else log["sd"]]
    candidates.append(finished["shd"].astype(float).std())
    return next((sd for sd in candidates if not math.isnan(sd)), math.nan)


def _margin(printed, finished, log) -> float:
    spread = _spread(printed, finished, log)
    if math.isnan(spread):
        spread = 0.1 * printed["mean"]
    return max(spread, FLOOR)


def _seeds(estimate, margin) -> float:
    inside = abs(estimate.value) < margin
    nearest = math.copysign(margin, estimate.value) if inside else 0.0
    return max(estimate.seeds_to_settle(nearest), estimate.n + 1)


def _decide(cells: pd.DataFrame) -> pd.DataFrame:
    """Adjust the p values of a table for multiplicity and decide the tested cells."""
    for column in ("p_support", "p_refute"):
        if column not in cells:
            cells[column] = np.nan
        cells[column] = statistics.benjamini_hochberg(cells[column].to_numpy(dtype=float))
    for column in ("estimate", "low", "high", "effect_size", "margin", "seeds_needed"):
        if column not in cells:
            cells[column] = np.nan
    undecided = cells["verdict"] == ""
    supported = undecided & (cells["p_support"] < ALPHA)
    beyond = cells["estimate"].abs() >= cells["margin"]
    refuted = undecided & ~supported & (cells["p_refute"] < ALPHA) & beyond
    cells.loc[undecided, "verdict"] = "inconclusive"
    cells.loc[supported, "verdict"] = "reproduced"
    cells.loc[refuted, "verdict"] = "not reproduced"
    # A run that was shortened cannot speak against the paper.
    spared = refuted & (cells["shortened"] != "")
    cells.loc[spared, "verdict"] = "inconclusive"
    cells.loc[spared, "note"] = "Differs, but ours were shortened."
    small = supported & (cells["p_refute"] < ALPHA)
    cells.loc[small, "note"] = "A small but clear difference, within the margin."
    settled = (cells["verdict"] != "inconclusive") | spared
    cells.loc[settled, "seeds_needed"] = np.nan
    # More data sets of ours would have no run of the authors' to be paired with.
    stuck = undecided & ~settled & cells["all_paired"]
    cells.loc[stuck, "seeds_needed"] = np.nan
    cells.loc[stuck, "note"] = (
        "Every run that the authors logged is paired: more data sets would not settle it."
    )
    cells["threshold"] = cells["margin"]
    return cells.drop(columns=["margin", "all_paired"])
