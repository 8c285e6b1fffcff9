"""Every fit that was made for the reproduction as one row of a text file.

A row says what was fitted (data set, method, settings), what came out (the scores of a table of
runs), and where it comes from (fingerprint of the code, commit, processor, date), so that runs of
many days and machines can stand in one file and be told apart. Rows are sorted, so that two
people's additions merge.
"""

import contextlib
import fcntl
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pandas as pd

from sdcd.errors import InputError
from sdcd.experiments.plan import DERIVED, FROM_DATA, STUDIES, Experiment, Plan
from sdcd.runs.table import RUN_COLUMNS, read_runs, write_csv

FILE = "fits.csv"

OF_DATA = ("d", "s", "fraction", "mechanism", "seed")

SCORES = tuple(name for name in RUN_COLUMNS if name not in ("experiment", "method", *OF_DATA))
"""Columns of a table of runs that are the fit's own, not its data set's."""

KEY = ["dataset", "method", "settings"]

COLUMNS = (*KEY, *SCORES, "fingerprint", "commit", "cpu", "threads", "finished")
"""Columns of the ledger: ``dataset`` names the data (see :mod:`sdcd.experiments.datasets`),
``settings`` is JSON, the parameters that differ from the method's defaults."""


def read(folder: str | Path) -> pd.DataFrame:
    """The ledger in a folder, text as it was written; without rows if there is none."""
    path = Path(folder) / FILE
    if not path.exists():
        return pd.DataFrame(columns=list(COLUMNS))
    table = pd.read_csv(
        path,
        keep_default_na=False,
        na_values=[""],
        # Some consist of digits.
        dtype={"commit": str, "fingerprint": str},
        float_precision="round_trip",
    )
    missing = [name for name in COLUMNS if name not in table]
    if missing:
        raise InputError(f"{path}: column {missing[0]!r} is missing, expected a ledger of fits")
    return table[list(COLUMNS)]


def add(folder: str | Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Add rows, each in place of one for the same data, method and settings.

    Programs that add at once wait for each other.
    """
    added = pd.DataFrame(list(rows), columns=list(COLUMNS))
    added = _as_text(added.to_csv(index=False, lineterminator="\n"))
    with _alone(folder):
        path = Path(folder) / FILE
        kept = _as_text(path.read_text(encoding="utf-8")) if path.exists() else None
        table = pd.concat([kept, added])
        table = table.drop_duplicates(KEY, keep="last").sort_values(KEY, kind="stable")
        write_csv(path, table)


@contextlib.contextmanager
def _alone(folder: str | Path) -> Iterator[None]:
    """Hold the folder's lock, which ends with the process that holds it."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _as_text(table: str) -> pd.DataFrame:
    """A CSV file's cells as they are written."""
    return pd.read_csv(io.StringIO(table), dtype=str, keep_default_na=False)


def settings_text(settings: Mapping[str, object]) -> str:
    """Settings as the ledger writes them."""
    return json.dumps(dict(sorted(settings.items())), separators=(",", ":"))


def row_of(
    dataset: str, settings: Mapping[str, object], run: Mapping[str, object], record: Mapping
) -> dict[str, object]:
    """The row of a fit from its row in a table of runs and from its record."""
    return {
        "dataset": dataset,
        "method": record["method"],
        "settings": settings_text(settings),
        **{name: run[name] for name in SCORES},
        "fingerprint": record["code"]["fingerprint"],
        "commit": record["code"]["commit"],
        "cpu": record["machine"].get("cpu", ""),
        "threads": record["threads"],
        "finished": record["finished"],
    }


def planned(plan: Plan, ledger: pd.DataFrame) -> pd.DataFrame:
    """The rows of a ledger whose method has the plan's settings; others are of other scales.

    Raises
    ------
    InputError
        If one that the plan has was made from another number of rows: a ledger has one or the
        other.
    """
    settings = {name: settings_text(method.settings) for name, method in plan.methods.items()}
    rows = ledger[ledger["settings"] == ledger["method"].map(settings)]
    made = rows.set_index(["dataset", "method"])["shortened"].fillna("").to_dict()
    for (key, name), shortened in plan.fits().items():
        wanted = _fewer_rows(shortened)
        found = _fewer_rows(made.get((key.name, name), wanted))
        if found != wanted:
            raise InputError(
                f"{FILE}: {key.name} {name} has {found or 'all rows'}, expected "
                f"{wanted or 'all rows'} as at scale {plan.scale!r}; --folder names another ledger"
            )
    return rows


def _fewer_rows(shortened: str) -> str:
    """The part of what was shortened in a fit that is about the rows of its data set."""
    return "; ".join(re.findall(r"(?:^|; )([\d,]+ rows [^;]*)", shortened))


def table_of(experiment: Experiment, plans: Mapping, ledger: pd.DataFrame) -> pd.DataFrame:
    """The runs of an experiment that the ledger has, as :func:`sdcd.runs.collect.collect` has them.

    Parameters
    ----------
    experiment : Experiment
        Says which fits there are.
    plans : mapping of str to MethodPlan
        The settings of each method.
    ledger : DataFrame
        From :func:`read`.
    """
    known = ledger.set_index(KEY)
    rows = []
    for key, method in experiment.fits():
        at = (key.name, method, settings_text(plans[method].settings))
        if at not in known.index:
            continue
        found = known.loc[at]
        rows.append(
            {
                "experiment": experiment.name,
                "method": method,
                **{name: getattr(key, name) for name in OF_DATA},
                **{name: found[name] for name in SCORES},
            }
        )
    return pd.DataFrame(rows, columns=list(RUN_COLUMNS))


def kept_runs(plan: Plan, folder: str | Path) -> dict[str, pd.DataFrame]:
    """Every table of runs that a folder has, by name; tables without a row are left out.

    Parameters
    ----------
    plan : Plan
        Says which fits each experiment has.
    folder : path
        Where the ledger lies, and beside it ``runs/`` with the tables of the studies and those made
        from the fits' weights.
    """
    fits = planned(plan, read(folder))
    tables = {
        name: table_of(experiment, plan.methods, fits)
        for name, experiment in plan.experiments.items()
    }
    for name in (*STUDIES, *DERIVED, *FROM_DATA):
        path = Path(folder) / f"runs/{name}.csv"
        if path.exists():
            tables[name] = read_runs(path)
    return {name: table for name, table in tables.items() if len(table)}
