"""What was run, where and by which code, at which cost, and what failed."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence

import pandas as pd

from sdcd.errors import InputError
from sdcd.experiments.datasets import DatasetKey
from sdcd.experiments.plan import FAMILIES
from sdcd.report.view import Table
from sdcd.runs.summaries import each_once


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
        shortened=("shortened", lambda texts: each_once(texts.dropna())),
    )
    return table.reset_index()


def costs(runs: pd.DataFrame) -> Table:
    """:func:`summary` for the page."""
    head = ("experiment", "method", "fits", "failed", "hours", "peak memory (MB)")
    head += ("shorter than in the paper",)
    rows = [
        (
            *(row.experiment.replace("_", " "), row.method, f"{row.fits:,}", f"{row.failed:,}"),
            *(_number(row.hours), _number(row.peak_rss_mb), row.shortened),
        )
        for row in summary(runs).itertuples()
    ]
    return Table(head, rows, numeric=frozenset({2, 3, 4, 5}))


def failures_by_reason(runs: pd.DataFrame) -> Table:
    """:func:`failures` for the page."""
    head = ("experiment", "method", "d", "fits", "status", "reason", "log")
    rows = [
        (
            *(row.experiment.replace("_", " "), row.method, row.d, f"{row.fits:,}"),
            *(row.status, row.reason, row.log),
        )
        for row in failures(runs).itertuples()
    ]
    return Table(head, rows, numeric=frozenset({3}))


def grids(runs: pd.DataFrame) -> Table:
    """One row for each experiment: which data sets, how many seeds, which methods."""
    rows = []
    for name, group in runs.groupby("experiment", sort=False):
        varied = [f"fraction {_listed(group['fraction'])}"] if name == "interventional" else []
        if group["mechanism"].notna().any():
            varied.append(", ".join(dict.fromkeys(group["mechanism"])))
        seeds = group.groupby(["method", "d"])["seed"].nunique()
        few, many = int(seeds.min()), int(seeds.max())
        rows.append(
            (
                name.replace("_", " "),
                _listed(group["d"]),
                _listed(group["s"]),
                "; ".join(varied),
                str(many) if few == many else f"{few} to {many}",
                ", ".join(dict.fromkeys(group["method"])),
            )
        )
    return Table(("experiment", "d", "s", "also varied", "seeds", "methods"), rows, css="grids")


def facts(
    runs: pd.DataFrame, plan: Mapping[str, object], records: Sequence[Mapping]
) -> dict[str, list[str]]:
    """How many fits there are, what they cost, and where, when and by which code they were made.

    Returns
    -------
    dict of str to list of str
        For each kind of fact its lines.
    """
    fits = runs[~pd.Series(fit_names(runs)).duplicated().to_numpy()]
    hours = fits["seconds"].sum() / 3600
    if records:
        hours = sum(record["seconds"] * record.get("threads", 1) for record in records) / 3600
    unavailable = int((fits["status"] == "unavailable").sum())
    failed = int((fits["status"] != "ok").sum()) - unavailable
    missing = f" and {unavailable:,} could not be run here" if unavailable else ""
    found = {
        "Fits": [f"{len(fits):,}, of which {failed:,} failed{missing}"],
        "Cost": [f"{hours:.2f} core-hours of fits"],
    }
    if late := int((fits["status"] == "timeout").sum()):
        found["Fits"].append(f"passed a time limit (on a faster machine they may finish): {late:,}")
    if plan:
        found["Rows of a data set"] = [
            f"{plan['n_observational']:,}, and {plan['n_per_intervention']:,} more for each "
            "variable that is intervened on"
        ]
        digest = hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()[:16]
        found["Configuration"] = [f"{digest}, digest of plan.json"]
    ends = sorted(str(record["finished"])[:16] for record in records if "finished" in record)
    if ends:
        first, last = (end.replace("T", " ") for end in (ends[0], ends[-1]))
        found["Date"] = [f"{first} to {last} UTC"]
    machines = Counter(_machine(record["machine"]) for record in records if "machine" in record)
    if machines:
        found["Machine"] = _counted(machines)
    codes = [record["code"] for record in records if "code" in record]
    if codes:
        found["Git commit"] = _counted(Counter(str(code.get("commit") or "none") for code in codes))
        different = len({str(code.get("fingerprint")) for code in codes})
        found["Code"] = [f"{different:,} fingerprints, one for each method and version of its code"]
    return found


def versions(records: Sequence[Mapping]) -> str:
    """The packages that the fits were made with, each with its versions; empty without records."""
    found: dict[str, set[str]] = {}
    for record in records:
        for name, version in record.get("versions", {}).items():
            found.setdefault(str(name), set()).add(str(version))
    return ", ".join(f"{name} {' and '.join(sorted(found[name]))}" for name in sorted(found))


def _machine(machine: Mapping) -> str:
    parts = [str(machine.get("cpu", ""))]
    parts += [f"{machine['cores']} cores"] if "cores" in machine else []
    parts += [str(machine[key]) for key in ("gpu", "platform") if key in machine]
    return ", ".join(parts)


def _counted(counts: Counter, most: int = 6) -> list[str]:
    """Texts, each with its number of fits if there are several; the rarest are only counted."""
    if len(counts) == 1:
        return list(counts)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = [
        f"{text} ({number:,} fit{'' if number == 1 else 's'})" for text, number in ordered[:most]
    ]
    if len(ordered) > most:
        shown.append(f"and {len(ordered) - most} more")
    return shown


def _listed(values: pd.Series) -> str:
    return ", ".join(f"{value:g}" for value in sorted(set(values.dropna())))


def _number(value: float) -> str:
    return f"{value:,.3f}" if value < 10 else f"{value:,.0f}"
