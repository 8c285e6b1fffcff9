"""Tables of runs: what a row says about a fit, and that reading gives back what was written."""

import numpy as np
import pandas as pd
import pytest

from sdcd.data.dataset import Dataset, write_dataset
from sdcd.errors import InputError
from sdcd.experiments.datasets import DatasetKey
from sdcd.experiments.plan import Experiment
from sdcd.files import write_json, write_npz
from sdcd.report.overview import (
    costs,
    facts,
    failures,
    failures_by_reason,
    grids,
    summary,
    versions,
)
from sdcd.runs.collect import collect, run_row
from sdcd.runs.table import RUN_COLUMNS, read_runs

TRUTH = np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]], dtype=np.int8)
LEARNED = np.array([[0, 1, 0], [0, 0, 0], [0, 1, 0]], dtype=np.int8)
SELECTED = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=bool)
BOUNDS = {
    "min_d": None,
    "max_d": None,
    "max_seeds": None,
    "fewer_seeds": None,
    "shortened": "fewer rows",
}
EXPERIMENT = Experiment(
    "observational", [{"d": [3], "s": [1], "seeds": 1}], {"SDCD": BOUNDS, "GIES": BOUNDS}
)


def record(method, status="ok", reason="", **more):
    return {
        "method": method,
        "status": status,
        "reason": reason,
        "seconds": 1.5,
        "peak_rss_mb": 100.0,
        "limits": {"time_s": 60.0, "memory_mb": None},
        "diagnostics": {},
        **more,
    }


@pytest.fixture
def results(tmp_path):
    names = np.array(["a", "b", "c"])
    write_dataset(
        tmp_path / "data/observational/d3_s1_seed0.npz",
        Dataset(np.zeros((4, 3)), np.zeros((4, 3), bool), ("a", "b", "c"), TRUTH),
    )
    fits = tmp_path / "fits/observational/d3_s1_seed0"
    write_npz(
        fits / "SDCD.npz",
        adjacency=LEARNED,
        weights=LEARNED * 0.5,
        names=names,
        selected=SELECTED,
    )
    more = {"epochs": {"stage1": 40, "stage2": 30}, "diagnostics": {"last_gamma": 0.5}}
    write_json(fits / "SDCD.json", record("SDCD", **more))
    write_npz(fits / "GIES.npz", names=names)
    write_json(fits / "GIES.json", record("GIES", "nan", "a loss is NaN"))
    return tmp_path


def test_a_row_has_the_fit_and_its_scores(results):
    runs = collect(EXPERIMENT, results)
    assert list(runs) == list(RUN_COLUMNS)
    row = runs.iloc[0]
    assert row["method"] == "SDCD"
    # 0 -> 1 is right, 1 -> 2 is reversed, 0 -> 2 is missing.
    assert (row["shd"], row["n_edges"], row["precision"], row["recall"]) == (2, 2, 0.5, 1 / 3)
    assert row["is_dag"]
    assert (row["stage1_epochs"], row["stage2_epochs"], row["last_gamma"]) == (40, 30, 0.5)
    # As in the authors' logs: edges over d^2, and the share of true edges among them.
    assert row["stage1_mask_density"] == pytest.approx(4 / 9)
    assert row["stage1_mask_recall"] == pytest.approx(2 / 3)
    assert row["shortened"] == "fewer rows"


def test_a_failed_fit_has_a_reason_and_no_scores(results):
    row = collect(EXPERIMENT, results).iloc[1]
    assert (row["method"], row["status"], row["reason"]) == ("GIES", "nan", "a loss is NaN")
    assert row[["shd", "precision", "average_precision", "is_dag"]].isna().all()


def test_reading_gives_back_the_status_nan(results, tmp_path):
    runs = collect(EXPERIMENT, results)
    runs.to_csv(tmp_path / "runs.csv", index=False)
    again = read_runs(tmp_path / "runs.csv")
    assert list(again["status"]) == ["ok", "nan"]
    assert again["shd"].isna().tolist() == [False, True]
    assert again["mechanism"].isna().all()
    failed = failures(again)
    assert failed.to_dict("records") == [
        {
            "experiment": "observational",
            "method": "GIES",
            "status": "nan",
            "reason": "a loss is NaN",
            "fits": 1,
            "d": "3",
            "log": "logs/fit/observational/d3_s1_seed0/GIES.log",
        }
    ]
    assert summary(again)["failed"].tolist() == [0, 1]


def test_costs_and_grids_are_those_of_the_runs(results):
    runs = collect(EXPERIMENT, results)
    later = runs[:1].assign(d=10, seed=1, seconds=7198.5, peak_rss_mb=1200.0)
    both = pd.concat([runs, later])
    head = ("observational", "SDCD"), ("observational", "GIES")
    assert costs(both).rows == [
        (*head[0], "2", "0", "2.000", "1,200", "fewer rows"),
        (*head[1], "1", "1", "0.000", "100", "fewer rows"),
    ]
    assert grids(both).rows == [("observational", "3, 10", "1", "", "1", "SDCD, GIES")]
    again = pd.concat([both, later.assign(d=3)])
    assert grids(again).rows[0][4] == "1 to 2"


def test_a_shorter_time_limit_is_said_where_it_mattered():
    key = DatasetKey("observational", 3, 1, 0)
    row = run_row("observational", key, record("GIES", "timeout", "late"), None, TRUTH, "a")
    assert row["shortened"] == "a; time limit 60 s instead of 21,600 s"
    row = run_row("observational", key, record("GIES", "error", "broken"), None, TRUTH, "a")
    assert row["shortened"] == "a"
    late = record("GIES", "timeout", "late", limits={"time_s": 21_600.0})
    assert run_row("observational", key, late, None, TRUTH)["shortened"] == ""


def test_a_fit_of_another_method_is_refused(results):
    path = results / "fits/observational/d3_s1_seed0/GIES.json"
    write_json(path, record("SDCD", "nan", "x"))
    with pytest.raises(InputError, match=r"GIES\.json: found method 'SDCD', expected 'GIES'"):
        collect(EXPERIMENT, results)


def test_a_missing_or_truncated_file_is_named(results):
    path = results / "fits/observational/d3_s1_seed0/GIES.npz"
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(InputError, match=r"GIES\.npz"):
        collect(EXPERIMENT, results)
    path.unlink()
    with pytest.raises(InputError, match=r"GIES\.npz: no such file"):
        collect(EXPERIMENT, results)
    (results / "data/observational/d3_s1_seed0.npz").unlink()
    with pytest.raises(InputError, match=r"d3_s1_seed0\.npz: no such file"):
        collect(EXPERIMENT, results)


def test_the_overview_says_when_and_with_what_the_fits_were_made(results):
    plan = {"n_observational": 10_000, "n_per_intervention": 500}
    days = ("2030-01-03", "2030-01-02", "2030-01-04")
    records = [
        {
            "seconds": 1800,
            "finished": f"{day}T03:04:05+00:00",
            "code": {"commit": commit, "fingerprint": commit},
            "versions": {"numpy": version},
        }
        for day, commit, version in zip(days, "bab", ("2.1", "2.0", "2.1"), strict=True)
    ]
    found = facts(collect(EXPERIMENT, results), plan, records)
    each = "10,000, and 500 more for each variable that is intervened on"
    assert found["Rows of a data set"] == [each]
    assert found["Date"] == ["2030-01-02 03:04 to 2030-01-04 03:04 UTC"]
    assert found["Git commit"] == ["b (2 fits)", "a (1 fit)"]
    assert found["Code"][0].startswith("2 fingerprints")
    assert found["Cost"] == ["1.50 core-hours of fits"]
    assert versions(records) == "numpy 2.0 and 2.1"


def test_the_overview_counts_a_shared_fit_once(results):
    runs = collect(EXPERIMENT, results)
    both = pd.concat([runs, runs.assign(experiment="ablation_stage1")])
    found = facts(both, {}, [])
    assert found["Fits"] == ["2, of which 1 failed"]
    assert found["Cost"] == ["0.00 core-hours of fits"]
    assert "a loss is NaN" in failures_by_reason(runs).rows[0]
