"""The paper's numbers: its tables, and the run logs that its authors published.

The CSV files beside this module hold them as published, under the paper's method names; what is
returned here has the project's method names and the columns of the project's own results, so that
whatever reads our runs reads the published ones as well.

Which logged runs a table of the paper rests on was found by recomputing the tables (the tests do it
again): the table of SHD for interventional data uses seeds 0 to 4 of SDCD and DCDI and 0 to 2 of
DCD-FG and GIES, the ablation of stage 1 seeds 0 to 2, and the observational cells from d = 100 on,
and that of SDCD-GPU at d = 50, every logged seed (three; SDCD-GPU at d = 300 one, and two at
d = 3000 and 4000). A mean leaves failed runs out. The standard deviation has ddof 1.
"""

from functools import cache
from importlib.resources import files

import numpy as np
import pandas as pd

from sdcd.errors import InputError
from sdcd.runs.table import RUN_COLUMNS

EXPERIMENTS = (
    "observational",
    "observational_large",
    "interventional",
    "ablation_stage1",
    "ablation_stage2",
    "dcdi_simulations",
)
"""Experiments of which the paper has a table, and its authors at least some logged runs."""

TWIN_EXPERIMENTS = tuple(name for name in EXPERIMENTS if name != "dcdi_simulations")
"""Experiments whose data sets replay seed for seed: a run of ours and the logged run of the same
method, d, s, fraction and seed saw the same data. The DCDI simulations are new draws."""

TABLE_COLUMNS = (
    "method",
    "d",
    "s",
    "fraction",
    "mechanism",
    "mean",
    "sd",
    "status",
    "n",
    "decimals",
)
"""Columns of a published table, one row per cell: see :func:`published_table`."""

_METHOD_NAMES = {"DCDI": "DCDI-G", "DCDFG": "DCD-FG"}

_OBSERVATIONAL_METHODS = (
    "SDCD",
    "SDCD-GPU",
    "DCDI-G",
    "DCD-FG",
    "GIES",
    "DAGMA",
    "NOTEARS",
    "NOBEARS",
    "SCORE",
    "sortnregress",
    "AVICI",
    "NOCURL",
)
_ABLATION_METHODS = (
    "SDCD",
    "SDCD-warm",
    "SDCD-warm-nomask",
    "SDCD-no-s1",
    "SDCD-no-s1-2",
    "DCDI-G",
)


def published_runs(experiment: str, *, complete: bool = False) -> pd.DataFrame:
    """The authors' logged runs of an experiment.

    Parameters
    ----------
    experiment : str
        One of :data:`EXPERIMENTS`.
    complete : bool, default False
        Also return the logged runs of that experiment's methods that no table of the paper uses
        (further seeds, and values of d outside the table).

    Returns
    -------
    DataFrame
        Columns :data:`~sdcd.runs.table.RUN_COLUMNS`, one row per run, sorted by cell and
        seed. What the logs do not hold (``shd_cpdag``, ``average_precision``, ``is_dag``, ...) is
        NaN. ``f1`` is computed from precision and recall. A run that did not finish has status
        ``error``, its logged state as the reason, and no metrics. In the DCDI simulations ``seed``
        is the number of the graph, 1 to 10, and SHD is the only metric.

    Raises
    ------
    InputError
        If there is no such experiment.
    """
    _check(experiment)
    if experiment == "interventional":
        runs = _read("interventional_runs").rename(columns={"fraction_intervened": "fraction"})
        if not complete:
            runs = runs[runs["seed"] < 5]
    elif experiment == "dcdi_simulations":
        runs = _read("dcdi_simulations_runs").rename(
            columns={
                "graph": "seed",
                "recall_mask": "stage1_mask_recall",
                "fraction_edges_mask": "stage1_mask_density",
            }
        )
        runs["method"] = "SDCD"
    else:
        runs = _select_observational(_read("observational_runs"), experiment, complete)
    return _as_runs(runs, experiment)


def published_table(name: str) -> pd.DataFrame:
    """A table of the paper: SHD by method and setting.

    Parameters
    ----------
    name : str
        One of :data:`EXPERIMENTS`.

    Returns
    -------
    DataFrame
        Columns :data:`TABLE_COLUMNS`. ``mean`` and ``sd`` (ddof 1, over data sets) are as printed,
        ``decimals`` is the number of decimals printed, ``sd`` is NaN where the paper prints none.
        ``status`` is ``ok``, ``failed`` (printed NA) or ``not_tested`` (printed NT). ``n`` is the
        number of data sets that the table's caption or text states.

    Raises
    ------
    InputError
        If there is no such table.
    """
    _check(name)
    return _table(name).copy()


@cache
def _table(name: str) -> pd.DataFrame:
    printed = _read(f"{name}_shd", dtype=str)
    table = pd.DataFrame(
        {
            "method": printed["method"].replace(_METHOD_NAMES),
            "d": printed["d"].astype(int),
            "s": printed["s"].astype(int),
            "fraction": printed.get("fraction_intervened", pd.Series("0", printed.index)).astype(
                float
            ),
            "mechanism": printed.get("mechanism", pd.Series("", printed.index)),
            "mean": printed["shd_mean"].astype(float),
            "sd": printed.get("shd_std", pd.Series(np.nan, printed.index)).astype(float),
            "status": printed.get("status", pd.Series("ok", printed.index)),
        }
    )
    table["n"] = [_stated_seeds(name, d) for d in table["d"]]
    decimals = printed["shd_mean"].str.partition(".")[2].str.len()
    table["decimals"] = decimals.fillna(1).astype(int)
    return table[list(TABLE_COLUMNS)]


def has_twins(experiment: str) -> bool:
    """Whether a run can be paired with the logged run of the same method, setting and seed."""
    return experiment in TWIN_EXPERIMENTS


def _check(experiment: str) -> None:
    if experiment not in EXPERIMENTS:
        raise InputError(
            f"no published experiment {experiment!r} (known: {', '.join(EXPERIMENTS)})"
        )


def _read(stem: str, **options) -> pd.DataFrame:
    return _read_cached(stem, tuple(options.items())).copy()


@cache
def _read_cached(stem: str, options: tuple) -> pd.DataFrame:
    with (files(__name__) / f"{stem}.csv").open(encoding="utf-8") as stream:
        return pd.read_csv(stream, **dict(options))


def _select_observational(runs: pd.DataFrame, experiment: str, complete: bool) -> pd.DataFrame:
    method = runs["method"].replace(_METHOD_NAMES)
    if experiment == "observational":
        return runs[method.isin(_OBSERVATIONAL_METHODS) & (runs["d"] <= 500)]
    if experiment == "observational_large":
        large = runs[(method == "SDCD-GPU") & (runs["d"] > 500)]
        return large if complete else large[large["d"] >= 1000]
    if experiment == "ablation_stage2":
        # The logs hold no run of the two other constraints.
        return runs[(method == "SDCD") & (runs["d"] <= 50)]
    ablation = runs[method.isin(_ABLATION_METHODS)]
    return ablation if complete else ablation[(ablation["d"] <= 40) & (ablation["seed"] < 3)]


def _as_runs(logged: pd.DataFrame, experiment: str) -> pd.DataFrame:
    logged = logged.rename(columns={"n_edges_pred": "n_edges", "train_time_s": "seconds"})
    runs = logged.reindex(columns=list(RUN_COLUMNS))
    state = logged.get("run_state", pd.Series("finished", logged.index))
    runs["experiment"] = experiment
    runs["method"] = runs["method"].replace(_METHOD_NAMES)
    runs["fraction"] = runs["fraction"].astype(float).fillna(0.0)
    runs["mechanism"] = runs["mechanism"].fillna("").astype(str)
    runs["status"] = np.where(state == "finished", "ok", "error")
    runs["reason"] = np.where(state == "finished", "", "in the authors' log: " + state)
    runs["shortened"] = ""
    precision, recall = runs["precision"].astype(float), runs["recall"].astype(float)
    runs["f1"] = (2 * precision * recall / (precision + recall)).mask(precision + recall == 0, 0.0)
    return runs.sort_values(
        ["method", "s", "d", "fraction", "mechanism", "seed"], ignore_index=True
    )


def _stated_seeds(name: str, d: int) -> int:
    return {
        "observational": 30 if d <= 50 else 5,
        "observational_large": 3 if d <= 2000 else 2,
        "interventional": 5,
        "ablation_stage1": 3,
        "ablation_stage2": 5,
        "dcdi_simulations": 10,
    }[name]
