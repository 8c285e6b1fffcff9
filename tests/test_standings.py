"""Who leads: ranks, ties, failures, and leaders that data sets cannot tell apart."""

import numpy as np
import pandas as pd
import pytest
from support.exhibited import make

from sdcd.runs.standings import COLUMNS, standings
from sdcd.runs.table import RUN_COLUMNS
from sdcd.tables import layout


def runs_of(shds, **more):
    """Runs from a list of SHD by seed for each method; None is a failed fit."""
    rows = []
    for method, values in shds.items():
        for seed, shd in enumerate(values):
            row = dict.fromkeys(RUN_COLUMNS) | {"method": method, "d": 20, "s": 4, "seed": seed}
            failed = {"status": "timeout", "reason": "too long"}
            row |= failed if shd is None else {"status": "ok", "reason": "", "shd": shd, "aid": 0.5}
            rows.append(row | more)
    return pd.DataFrame(rows, columns=list(RUN_COLUMNS))


def by_method(table):
    return table.set_index("method")


def test_ranks_share_ties_and_put_failures_last():
    table = by_method(standings(runs_of({"a": [5, 9], "b": [5, 3], "c": [7, None], "e": [8, 4]})))
    # On the first data set a and b share ranks 1 and 2; on the second c is behind the three.
    assert table["rank"].to_dict() == {"b": 1.25, "a": 2.25, "e": 3.0, "c": 3.5}
    assert list(table.index) == ["b", "a", "e", "c"]
    assert table.loc["c", ["n", "n_datasets", "shd"]].tolist() == [1, 2, 7]


def test_the_difference_to_the_first_is_paired_by_data_set():
    # Data sets differ by far more than the methods, and b is always 2 to 3 behind.
    hard = np.array([10, 60, 200, 35, 90])
    second, third = np.add(hard, [2, 3, 2, 3, 2]), np.add(hard, [9, -6, 4, -5, 1])
    table = by_method(standings(runs_of({"a": hard, "b": second, "c": third})))
    assert table.loc["b", "behind"] == pytest.approx(2.4)
    half = 2.776 * np.std([2, 3, 2, 3, 2], ddof=1) / np.sqrt(5)
    assert table.loc["b", "behind_high"] == pytest.approx(2.4 + half, abs=1e-3)
    assert table["leads"].to_dict() == {"a": True, "b": False, "c": True}


def test_one_data_set_has_no_leader():
    table = standings(runs_of({"a": [1], "b": [100]}))
    assert table["rank"].tolist() == [1, 2] and not table["leads"].any()
    assert table[["rank_low", "behind_low"]].isna().all(axis=None)


def test_a_method_that_failed_somewhere_is_not_the_first():
    table = by_method(standings(runs_of({"a": [1, 1, None], "b": [2, 3, 2]})))
    assert table.loc["b", "behind"] == 0 and table.loc["a", "behind"] == -1.5
    assert table.loc["b", "leads"]


def test_who_was_run_on_fewer_data_sets_is_first_only_if_ahead_beyond_doubt():
    shds = {"a": [40, 50, 45, 52], "b": [20, 31, 24], "c": [39, 50, 41], "e": [10], "f": [44, 70]}
    table = by_method(standings(runs_of(shds)))
    # c's rank is lower than a's and e has the lowest, but neither is known to be ahead of a.
    assert list(table.index) == ["b", "c", "a", "f", "e"]
    assert table["behind"].to_dict() == {"b": 0, "c": 55 / 3, "a": 20, "f": 31.5, "e": -10}
    assert table["leads"].to_dict() == {"b": True, "c": False, "a": False, "f": True, "e": False}
    # On two data sets, equal differences are an interval of no width.
    shds["b"] = [20, 30]
    table = by_method(standings(runs_of(shds)))
    assert table.loc["b", ["behind_low", "behind_high"]].tolist() == [-20, -20]
    assert table.index[table["first"]].tolist() == ["a"]
    shds["b"] = [20, 31, 24, None]
    assert by_method(standings(runs_of(shds))).loc["a", "behind"] == 0


def test_kinds_of_data_stand_apart():
    runs = pd.concat([runs_of({"a": [1, 2]}), runs_of({"a": [3, 4]}, d=50)], ignore_index=True)
    assert standings(runs)["shd"].tolist() == [1.5, 3.5]


@pytest.mark.parametrize("kind", ["observational", "interventional", "dcdi"])
def test_the_table_marks_who_leads_and_who_failed(kind, tmp_path):
    runs = runs_of({"SDCD": [5, 6, 5], "b": [5, 7, 6], "c": [50, 50, None]}, fraction=0.5)
    table, shown = make(f"rivals_{kind}", runs)
    assert tuple(table.columns) == COLUMNS
    assert [keys for keys, _ in shown.rows] == [
        ("d = 20, s = 4, fraction 0.5", name) for name in ("SDCD", "b", "c")
    ]
    assert shown.best == {(0, 1), (1, 1)}
    assert [entries[0][""] for _, entries in shown.rows] == ["3", "3", "2, 1 failed"]
    assert [entries[2][""] for _, entries in shown.rows][:2] == ["first", "0.7 [-0.8, 2.1]"]
    assert shown.notes[0].endswith("it. d = 20, s = 4, fraction 0.5: SDCD, b.")
    assert (table["rank_low"] >= 1).all() and (table["rank_high"] <= 3).all()
    text = layout.write(table, shown, tmp_path / "t")[1].read_text()
    assert r"\textbf{1.2" in text and "Several bold ranks are no winner" in text


def test_means_stand_under_their_headings():
    more = {"shd_cpdag": 3.0, "average_precision": 0.25, "seconds": 12.0}
    _, shown = make("rivals_observational", runs_of({"a": [5, 7]}, **more))
    assert shown.columns[3:] == ["SHD", "SHD-CPDAG", "AID", "AP", "seconds"]
    assert [entry[""] for entry in shown.rows[0][1][3:]] == ["6.0", "3.0", "0.500", "0.250", "12"]


def test_a_number_left_in_a_failed_run_does_not_count():
    runs = runs_of({"a": [1, 1], "b": [2, None]})
    left = runs.assign(shd=runs["shd"].fillna(0), aid=0.5)
    pd.testing.assert_frame_equal(standings(left), standings(runs))


def test_without_runs_the_table_is_empty():
    table, shown = make("rivals_observational", pd.DataFrame(columns=list(RUN_COLUMNS)))
    assert table.empty and shown.rows == []
