"""Tables of runs: one row per fit, scored against the true graph."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from sdcd.errors import InputError
from sdcd.experiments.datasets import DatasetKey
from sdcd.experiments.plan import PAPER, Experiment
from sdcd.files import read_npz
from sdcd.fits.record import load_fit
from sdcd.methods import Graph
from sdcd.metrics import score
from sdcd.runs.table import RUN_COLUMNS


def collect(experiment: Experiment, results: str | Path):
    """Score every fit of an experiment.

    Parameters
    ----------
    experiment : Experiment
        Says which fits there are.
    results : path
        The folder that holds ``data/{dataset}.npz`` and ``fits/{dataset}/{method}.npz``.

    Returns
    -------
    pandas.DataFrame
        Columns :data:`sdcd.runs.table.RUN_COLUMNS`, rows in the experiment's order of fits. A
        failed fit has its status and reason, and no scores.

    Raises
    ------
    InputError
        If a file is missing or is not what it should be.
    """
    import pandas as pd

    rows = []
    for key, graph, record, truth in fits_with_truth(experiment, results):
        shortened = experiment.methods[record["method"]]["shortened"]
        rows.append(run_row(experiment.name, key, record, graph, truth, shortened))
    return pd.DataFrame(rows, columns=list(RUN_COLUMNS))


def fits_with_truth(
    experiment: Experiment, results: str | Path
) -> Iterator[tuple[DatasetKey, Graph | None, dict, np.ndarray]]:
    """Read an experiment's fits in its order: data set, graph (None if failed), record, true graph.

    Parameters and errors as for :func:`collect`.
    """
    results = Path(results)
    truths = {}
    for key, method in experiment.fits():
        if key not in truths:
            # Fits are ordered by data set, so one truth at a time is enough.
            truths = {key: _truth(results / "data" / f"{key.name}.npz")}
        graph, record = load_fit(results / "fits" / key.name / f"{method}.npz")
        if record.get("method") != method:
            raise InputError(
                f"{results / 'fits' / key.name / method}.json: found method "
                f"{record.get('method')!r}, expected {method!r}"
            )
        yield key, graph, record, truths[key]


def run_row(
    experiment: str,
    key: DatasetKey,
    record: Mapping[str, object],
    graph: Graph | None,
    truth: np.ndarray,
    shortened: str = "",
) -> dict[str, object]:
    """One fit's row of a table of runs.

    Parameters
    ----------
    experiment, key
        The experiment's name, and the data set.
    record : mapping
        The fit's record as :func:`sdcd.fits.run.run_fit` makes it.
    graph : Graph or None
        What the method learned; ``None`` if it failed. Its array ``selected`` bool (d, d), if it
        has one, is stage 1's mask.
    truth : array (d, d)
    shortened : str
        What the plan shortened. A time limit below the paper's is added if the fit passed it, and
        that the first stage was computed in parts, which ends each part by itself.

    Returns
    -------
    dict
        Keys :data:`sdcd.runs.table.RUN_COLUMNS`; ``None`` where there is nothing to say. The
        mask's density is its number of edges over d^2, as in the authors' logs.
    """
    row = dict.fromkeys(RUN_COLUMNS)
    diagnostics = record.get("diagnostics", {})
    epochs = record.get("epochs", {})
    row.update(
        experiment=experiment,
        method=record["method"],
        d=key.d,
        s=key.s,
        fraction=key.fraction,
        mechanism=key.mechanism,
        seed=key.seed,
        status=record["status"],
        reason=record["reason"],
        shortened=shortened_in(shortened, record),
        seconds=record["seconds"],
        peak_rss_mb=record["peak_rss_mb"],
        stage1_epochs=epochs.get("stage1"),
        stage2_epochs=epochs.get("stage2"),
        last_gamma=diagnostics.get("last_gamma"),
    )
    if graph is None:
        return row
    row.update(score(graph.adjacency, graph.weights, truth))
    selected = graph.arrays.get("selected")
    if selected is not None:
        edges = truth != 0
        row["stage1_mask_density"] = float(np.count_nonzero(selected)) / key.d**2
        if edges.any():
            row["stage1_mask_recall"] = float(selected[edges].mean())
    return row


def shortened_in(plan: str, record: Mapping[str, object]) -> str:
    """All that was shortened in a fit, in words: what the plan did, and what its record shows."""
    return "; ".join(filter(None, [plan, _parts(record), _shorter_limit(record)]))


def _parts(record: Mapping[str, object]) -> str:
    parts = record.get("first_stage", {}).get("parts")
    return f"stage 1 stops early in {parts:,} parts" if parts else ""


def _shorter_limit(record: Mapping[str, object]) -> str:
    limit = record.get("limits", {}).get("time_s")
    if record["status"] != "timeout" or limit is None or limit >= PAPER["time_limit_s"]:
        return ""
    return f"time limit {limit:,g} s instead of {PAPER['time_limit_s']:,} s"


def _truth(path: Path) -> np.ndarray:
    arrays = read_npz(path)
    if "adjacency" not in arrays:
        raise InputError(f"{path}: no array 'adjacency', expected the true graph")
    return arrays["adjacency"]
