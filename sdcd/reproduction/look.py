"""The report from the ledger alone: every figure and table, without a fit."""

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from sdcd.errors import InputError
from sdcd.experiments.plan import STUDIES, Plan
from sdcd.files import write_json
from sdcd.fits.provenance import fit_fingerprint
from sdcd.methods.registry import methods
from sdcd.report.redraw import redraw
from sdcd.reproduction import ledger
from sdcd.runs.table import write_runs


def look(plan: Plan, folder: str | Path, results: str | Path) -> Path:
    """Draw the report of what the ledger has; where it is.

    Parameters
    ----------
    plan : Plan
        The scale that the ledger is filled from.
    folder : path
        Where the ledger lies (:func:`sdcd.reproduction.ledger.kept_runs`).
    results : path
        Gets ``runs/``, ``fits/`` (records), figures, tables and the report. Only a report drawn
        before is replaced: a folder with anything else in it is refused.
    """
    folder, results = Path(folder), Path(results)
    table = ledger.planned(plan, ledger.read(folder))
    if not len(table):
        raise InputError(f"{folder / ledger.FILE}: no fits")
    _clear(results)
    kept = ledger.kept_runs(plan, folder)
    for name, runs in kept.items():
        write_runs(results / f"runs/{name}.csv", runs)
    for row in table.to_dict("records"):
        write_json(results / f"fits/{row['dataset']}/{row['method']}.json", _record(row))
    write_json(
        results / "plan.json",
        {
            "scale": plan.scale,
            "n_observational": plan.n_observational,
            "n_per_intervention": plan.n_per_intervention,
            "experiments": {name: {} for name in plan.experiments if name in kept},
            "studies": {name: {} for name in STUDIES},
        },
    )
    return redraw(results, results / "report.html", partial=True)[-1]


def _clear(results: Path) -> None:
    if results.exists():
        if not results.is_dir() or not all(_is_written(path.name) for path in results.iterdir()):
            raise InputError(f"{results}: not a report drawn before, expected another folder")
        shutil.rmtree(results)


def _is_written(name: str) -> bool:
    # Whoever is killed leaves a file by its temporary name.
    return re.sub(r"^\.(\w+)\.\w+(\.\w+)$", r"\1\2", name) in _WRITTEN


_WRITTEN = {"runs", "fits", "figures", "tables"}
_WRITTEN |= {"plan.json", "verdicts.csv", "failures.csv", "report.html"}
"""What :func:`look` leaves in a folder."""


def older_than_the_code(table: pd.DataFrame) -> dict[str, tuple[int, int]]:
    """For each method how many of its fits other code than today's has made, and of how many."""
    found = {}
    for name, rows in table.groupby("method"):
        known = methods().get(name)
        # Settings of an outside command may name files that count.
        now = {
            text: fit_fingerprint(known, json.loads(text)) if known else None
            for text in set(rows["settings"])
        }
        older = int((rows["fingerprint"] != rows["settings"].map(now)).sum())
        if older:
            found[name] = (older, len(rows))
    return found


def _record(row: Mapping[str, object]) -> dict[str, object]:
    """What the report reads of a fit's record."""
    return {
        "method": row["method"],
        "status": row["status"],
        "seconds": float(row["seconds"]),
        "threads": int(row["threads"]),
        "finished": row["finished"],
        "machine": {"cpu": row["cpu"]},
        "code": {"fingerprint": row["fingerprint"], "commit": row["commit"]},
    }
