"""The published numbers, and the aggregation that makes the paper's tables of the logs."""

import numpy as np
import pandas as pd
import pytest

from sdcd import published
from sdcd.errors import InputError
from sdcd.published import EXPERIMENTS, published_runs, published_table
from sdcd.runs import summaries
from sdcd.runs.table import RUN_COLUMNS

CELL = list(summaries.CELL)


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_logged_runs_have_the_columns_and_types_of_our_own(experiment):
    runs = published_runs(experiment)
    assert tuple(runs.columns) == RUN_COLUMNS
    assert set(runs["experiment"]) == {experiment}
    assert set(runs["status"]) <= {"ok", "error"}
    assert runs.loc[runs["status"] == "error", "shd"].isna().all()
    assert (
        runs.loc[runs["status"] == "error", "reason"].str.len().min() > 0
        or (runs["status"] == "ok").all()
    )
    assert not runs.duplicated([*CELL, "seed"]).any()
    pd.testing.assert_frame_equal(summaries.tidy(runs)[CELL], runs[CELL])


def test_each_experiment_has_the_number_of_logged_runs_its_table_rests_on():
    counts = {name: len(published_runs(name)) for name in EXPERIMENTS}
    assert counts == {
        "observational": 253,
        "observational_large": 10,
        "interventional": 200 * 5 - 80 * 2 - 25,
        "ablation_stage1": 6 * 4 * 3,
        "ablation_stage2": 4 * 5 + 3,
        "dcdi_simulations": 120,
    }
    assert len(published_runs("interventional", complete=True)) == 931


def test_methods_have_the_projects_names():
    names = set().union(*(published_table(name)["method"] for name in EXPERIMENTS))
    assert names == {
        *("SDCD", "SDCD-GPU", "DCDI-G", "DCDI-DSF", "DCD-FG", "GIES", "DAGMA", "NOTEARS"),
        *("NOBEARS", "SCORE", "sortnregress", "AVICI", "NOCURL"),
        *("SDCD-warm", "SDCD-warm-nomask", "SDCD-no-s1", "SDCD-no-s1-2", "SDCD-exp", "SDCD-log"),
    }
    assert set(published_runs("observational")["method"]) < names


def test_every_published_cell_is_there_with_its_mark():
    sizes = {name: published_table(name)["status"].value_counts().to_dict() for name in EXPERIMENTS}
    assert sizes == {
        "observational": {"ok": 80, "failed": 28, "not_tested": 12},
        "observational_large": {"ok": 4},
        "interventional": {"ok": 200, "failed": 40},
        "ablation_stage1": {"ok": 24},
        "ablation_stage2": {"ok": 15},
        "dcdi_simulations": {"ok": 36},
    }


def test_cells_have_the_number_of_data_sets_that_the_captions_state():
    stated = {name: published_table(name).groupby("d")["n"].agg(set) for name in EXPERIMENTS}
    large = stated.pop("observational_large")
    assert large.to_dict() == {1000: {3}, 2000: {3}, 3000: {2}, 4000: {2}}
    observational = stated.pop("observational").to_dict()
    assert observational == {d: {30} if d <= 50 else {5} for d in observational}
    assert {name: set().union(*sizes) for name, sizes in stated.items()} == {
        "interventional": {5},
        "ablation_stage1": {3},
        "ablation_stage2": {5},
        "dcdi_simulations": {10},
    }


def test_f1_is_computed_from_precision_and_recall():
    runs = published_runs("observational").set_index(["method", "d", "seed"])
    run = runs.loc[("DAGMA", 10, 0)]
    assert run["f1"] == pytest.approx(2 * 0.846154 * 0.275 / (0.846154 + 0.275))
    assert runs.loc[runs["status"] == "ok", "f1"].between(0, 1).all()


def test_an_unknown_experiment_is_refused():
    with pytest.raises(InputError, match="no published experiment 'obs'"):
        published_runs("obs")
    with pytest.raises(InputError, match="no published experiment 'obs'"):
        published_table("obs")


def test_what_is_returned_is_the_callers_own():
    published_runs("observational")["shd"] = 0.0
    assert published_runs("observational")["shd"].max() > 1000


def _printed_and_recomputed(name):
    table = published_table(name)
    ours = summaries.summarise(published_runs(name))
    return table.merge(ours, on=CELL, how="left", suffixes=("_printed", ""))


def _as_printed(value, decimals):
    return "nan" if np.isnan(value) else f"{value:.{decimals}f}"


@pytest.mark.parametrize(
    ("name", "condition", "cells"),
    [
        ("observational", "d >= 100", 27),
        ("observational", "method == 'SDCD-GPU' and d == 50", 1),
        ("observational_large", "d > 0", 4),
        ("interventional", "status_printed == 'ok'", 200),
        ("ablation_stage1", "d > 0", 24),
        ("dcdi_simulations", "method == 'SDCD'", 12),
    ],
)
def test_the_logs_give_the_printed_tables(name, condition, cells):
    compared = _printed_and_recomputed(name).query(condition).query("n > 0")
    assert len(compared) == cells
    for cell in compared.itertuples():
        where = f"{name}: {cell.method} d={cell.d} s={cell.s} fraction={cell.fraction}"
        printed = _as_printed(cell.mean_printed, cell.decimals)
        assert _as_printed(cell.mean, cell.decimals) == printed, where
        if not np.isnan(cell.sd_printed):
            printed = _as_printed(cell.sd_printed, cell.decimals)
            assert _as_printed(cell.sd, cell.decimals) == printed, where


@pytest.mark.parametrize("name", ["observational", "interventional"])
def test_cells_that_the_paper_marks_as_failed_have_no_finished_run(name):
    compared = _printed_and_recomputed(name)
    failed = compared[compared["status_printed"] == "failed"]
    assert len(failed) >= 28
    assert not (failed["n"] > 0).any()


def test_the_logs_contradict_two_printed_cells_of_dagma():
    compared = _printed_and_recomputed("observational")
    dagma = compared[(compared["method"] == "DAGMA") & compared["d"].isin([30, 40])]
    assert (dagma["status_printed"] == "ok").all()
    assert (dagma["status"] == "failed").all()


def test_twins_exist_only_where_data_sets_replay():
    assert published.has_twins("interventional")
    assert not published.has_twins("dcdi_simulations")


def test_ten_printed_cells_of_dcdi_with_interventions_rest_on_fewer_than_five_data_sets():
    runs = published_runs("interventional").dropna(subset=["shd"])
    cell = ["d", "s", "fraction"]
    shd = runs.pivot_table(index=[*cell, "seed"], columns="method", values="shd")
    logged = shd.groupby(cell)[["SDCD", "DCDI-G"]].count()
    assert (logged["SDCD"] == 5).all()
    few = logged.loc[logged["DCDI-G"] < 5, "DCDI-G"]
    assert sorted(few) == [1, 2, 2, 2, 2, 3, 3, 3, 3, 4]
    assert few.reset_index()[["d", "fraction"]].min().tolist() == [30, 0.75]
    # On the data sets of both, SDCD still leads.
    shared = shd[["SDCD", "DCDI-G"]].dropna().groupby(cell).mean().loc[few.index]
    ratio = shared["DCDI-G"] / shared["SDCD"]
    assert [round(ratio.min(), 1), round(ratio.max(), 1)] == [1.4, 2.5]
    increase = shared["SDCD"] - shd["SDCD"].groupby(cell).mean().loc[few.index]
    assert increase.max() == pytest.approx(8)
