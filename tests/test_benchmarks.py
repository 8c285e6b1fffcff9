"""Benchmarks that are seldom run still run."""

import numpy as np
import pandas as pd
import pytest
from support.workflow import ROOT

# The worker runs with the authors' package.
MODULES = {path.stem for path in (ROOT / "benchmarks").glob("*.py")} - {"reference_worker"}


@pytest.mark.parametrize("name", sorted(MODULES))
def test_what_a_benchmark_imports_is_there(benchmark, name):
    benchmark(name)


def test_two_checkouts_are_compared_by_their_own_times_and_weights(
    benchmark, tmp_path, monkeypatch
):
    dcdi = benchmark("dcdi")

    def run(checkout, *, weights, settings, **_):
        old = checkout == tmp_path
        np.save(weights, np.full((2, 2), 0.25 if old else 0.5))
        return [{"seconds": (6.0 if old else 2.0) * of["max_epochs"]} for of in settings]

    monkeypatch.setattr(dcdi, "run", run)
    monkeypatch.setattr(dcdi, "PAIRS", tmp_path / "pairs.csv")
    dcdi.compare(tmp_path, ["DCDI-G"])
    rows = pd.read_csv(tmp_path / "pairs.csv")
    assert len(rows) == sum(name == "DCDI-G" for name, *_ in dcdi.PAIRED)
    assert set(rows["before_seconds"]) == {6} and set(rows["after_seconds"]) == {2}
    assert set(rows["ratio"]) == {3} and set(rows["largest_difference_of_P"]) == {0.25}


@pytest.mark.parametrize("stage", [1, 2])
def test_epochs_of_either_stage_are_timed(benchmark, monkeypatch, stage):
    scaling, fitting = benchmark("scaling"), benchmark("sdcd.estimator.fitting")
    monkeypatch.setattr(fitting, "make_engine", fitting.make_engine)  # is replaced
    row, fastest, _ = scaling.measure_scaling(stage, 12, 12, threads=1, epochs=4)
    assert row["epochs"] == 4 and 12 < row["edges"] <= 12 * 11
    # The median is rounded.
    assert 0 < fastest <= 1.001 * row["seconds_per_epoch"]
