"""The table of what fits cost: larger problems take longer, measured rows come from records."""

import csv

import pytest

from sdcd.files import write_json
from sdcd.fits import costs
from sdcd.fits.costs import COLUMNS, TABLE, expected, expected_seconds
from sdcd.fits.measured import falling, main, usual_rows
from sdcd.methods.registry import method


def rows_of(path):
    with open(path, newline="") as stream:
        return list(csv.DictReader(stream))


def test_a_larger_problem_never_takes_less_time():
    table = rows_of(TABLE)
    assert falling(table) == []
    for name in {row["method"] for row in table}:
        sizes = [5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 75, 100, 200, 500, 1000]
        seconds = [expected(name, d, 10_000)[0] for d in sizes]
        assert seconds == sorted(seconds), name


def test_each_method_and_size_has_one_row_in_order():
    table = rows_of(TABLE)
    assert list(table[0]) == list(COLUMNS)
    keys = [(row["method"], int(row["d"])) for row in table]
    assert len(set(keys)) == len(keys)
    order = list(dict.fromkeys(name for name, _ in keys))
    assert keys == sorted(keys, key=lambda key: (order.index(key[0]), key[1]))


def test_what_is_expected_is_bounded_by_the_limit(monkeypatch):
    monkeypatch.setattr(costs, "expected", lambda name, d, n: (100.0 * d, 1.0) if name else None)
    assert expected_seconds("a", 10, 1, 5000) == 1000
    assert expected_seconds("a", 10, 1, 600) == 600
    assert expected_seconds("a", 10, 1, 600, share=0.5) == 500
    assert expected_seconds("", 10, 1, 600) is None


def test_a_step_after_a_method_costs_a_share_of_sdcd_whatever_the_method():
    sdcd, _ = expected("SDCD", 20, 10_000)
    for name in ("sortnregress", "DCDI-G", "SDCD"):
        base, memory = expected(name, 20, 10_000)
        assert expected(f"{name}+prune", 20, 10_000)[0] == pytest.approx(base + sdcd / 4)
        assert expected(f"{name}+order", 20, 10_000)[0] == pytest.approx(base + 2 * sdcd)
        assert expected(f"{name}+order", 20, 10_000)[1] >= memory
    assert expected("SDCD-pruned", 20, 10_000) == expected("SDCD+prune", 20, 10_000)
    assert expected("no such method+prune", 20, 10_000) is None


def test_each_known_point_has_rows_of_its_own():
    """Data with interventions have more rows the more variables there are."""
    known = [row for row in rows_of(TABLE) if row["method"] == "dotears"]
    assert len({row["n"] for row in known}) > 2
    for row in known:
        seconds, _ = expected("dotears", int(row["d"]), int(row["n"]))
        assert seconds == pytest.approx(float(row["seconds"]))
        assert expected("dotears", int(row["d"]), 2 * int(row["n"]))[0] == pytest.approx(
            2 * seconds
        )


def test_a_record_counts_with_the_rows_that_its_method_has_at_its_d():
    rows = usual_rows(rows_of(TABLE))
    assert [rows("dotears", d) for d in (10, 20, 100)] == [15_000, 20_000, 60_000]
    assert [rows("CAM", d) for d in (10, 100)] == [rows("of nobody", 10)] * 2 == [10_000] * 2


@pytest.fixture
def results(tmp_path):
    """Two fits that count, and one of each kind that does not."""
    fit = {
        "method": "NOTEARS",
        "status": "ok",
        "seconds": 7.0,
        "peak_rss_mb": 90.2,
        "params": method("NOTEARS").parameters({}),
        "threads": 1,
        "n_rows": 10_000,
        "n_variables": 20,
        "machine": {"cpu": "a processor"},
        "diagnostics": {},
    }
    # One that waited for a core, and one whose imports took longer than the fit.
    fits = [
        {**fit, "seconds": 20.0, "processor_seconds": 7.0},
        {**fit, "seconds": 9.0, "processor_seconds": 11.0, "peak_rss_mb": 95.7},
    ]
    for change in (
        {"status": "timeout"},
        {"threads": 2},
        {"n_rows": 500},
        {"params": {**fit["params"], "lambda_1": 0.5}},
        {"diagnostics": {"resumed_after_s": 3.0}},
        {"targets": [0, 4]},
        {"first_stage": {"parts": 2}},
        {"method": "of somebody"},
    ):
        fits.append({**fit, "seconds": 1000.0, **change})
    for k, record in enumerate(fits):
        write_json(tmp_path / f"results/fits/x/{k}.json", record)
    return tmp_path / "results"


def test_measured_rows_are_written_from_records_and_others_stay(results, tmp_path):
    table = tmp_path / "costs.csv"
    table.write_text(
        "method,d,n,seconds,peak_rss_mb,source\n"
        "SDCD,500,10000,1700,311,authors' log\n"
        "NOTEARS,10,10000,1.0,88,measured elsewhere\n"
        "NOTEARS,20,10000,5.2,88,measured elsewhere\n"
        "NOTEARS,100,10000,6500,600,assumed\n"
    )
    before = rows_of(table)
    assert main([str(results), "--table", str(table)]) == 0
    new = {
        **{"method": "NOTEARS", "d": "20", "n": "10000", "seconds": "8", "peak_rss_mb": "96"},
        "source": "measured: one core of a processor, mean of 2 fits",
    }
    assert rows_of(table) == [before[0], before[1], new, before[3]]


def test_a_table_that_falls_is_not_written(results, tmp_path, capsys):
    table = tmp_path / "costs.csv"
    table.write_text("method,d,n,seconds,peak_rss_mb,source\nNOTEARS,10,10000,9,88,measured\n")
    before = table.read_text()
    assert main([str(results), "--table", str(table)]) == 1
    assert "NOTEARS: 8 s at d = 20, after 9 s at d = 10" in capsys.readouterr().out
    assert table.read_text() == before
