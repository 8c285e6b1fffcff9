"""What the report reads of a folder of results: the plan, tables of runs, and records of fits."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from sdcd.errors import InputError
from sdcd.experiments.plan import DERIVED, FAMILIES, FROM_DATA, STUDIES
from sdcd.files import read_json
from sdcd.runs.table import RUN_COLUMNS, read_runs


def read_plan(results: str | Path) -> Mapping[str, object]:
    """What ``plan.json`` says was run (a :class:`sdcd.experiments.plan.Plan`), or {}."""
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


def read_tables(
    results: str | Path, plan: Mapping[str, object] | None = None
) -> dict[str, pd.DataFrame]:
    """Tables in ``runs/`` by name: those of the plan, or without one all that are there."""
    folder = Path(results) / "runs"
    names = [*FAMILIES, *STUDIES, *DERIVED, *FROM_DATA]
    if plan:
        planned = {*plan["experiments"], *plan["studies"], *FROM_DATA}
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


def compared_runs(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The runs of all experiments that compare methods, one under the other."""
    found = [table for name, table in tables.items() if name in FAMILIES]
    return pd.concat(found or [pd.DataFrame(columns=RUN_COLUMNS)], ignore_index=True)


def read_records(results: str | Path, names: Sequence[str]) -> list[dict]:
    """The records that exist of the fits with these names (:func:`.overview.fit_names`)."""
    paths = (Path(results) / "fits" / f"{name}.json" for name in dict.fromkeys(names))
    records = [(path, read_json(path)) for path in paths if path.exists()]
    for path, record in records:
        if not isinstance(record, dict) or not isinstance(record.get("seconds"), int | float):
            raise InputError(f"{path}: not the record of a fit")
    return [record for _, record in records]
