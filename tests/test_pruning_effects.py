"""What the report says of held-out pruning, on planted runs."""

import numpy as np
import pandas as pd
import pytest

from sdcd.data.dataset import Dataset, write_dataset
from sdcd.files import write_npz
from sdcd.methods.pruned import base_of
from sdcd.report.pruning_effects import METRICS, ORDERING, effects, leads, overall, section
from sdcd.runs.table import RUN_COLUMNS

NOISE = (-2.0, 1.0, 0.0, -1.0, 2.0)

SCALES = {"SDCD": 1.0, "DCDI-G": 0.2, "DCDI-G+prune": -0.3, "GIES": 0.1, "GIES+prune": 0.0}
"""Of the noise, so that the differences between methods vary by seed; 0.5 for others."""


def runs_of(*cells, experiment="observational", s=3):
    """A run for each of five seeds of cells (method, d, SHD or None for failures, fraction)."""
    rows = []
    for method, d, shd, *fraction in cells:
        for seed, noise in enumerate(NOISE):
            row = dict.fromkeys(RUN_COLUMNS) | {"experiment": experiment, "method": method}
            row |= {"d": d, "s": s, "seed": seed, "fraction": fraction[0] if fraction else np.nan}
            row |= {"status": "ok" if shd is not None else "nan", "reason": "" if shd else "broke"}
            if shd is not None:
                # Seeds differ much, and the methods differ by seed a little.
                own = noise * SCALES.get(method, 0.5)
                row["shd"] = row["shd_cpdag"] = shd + 10 * seed + own
                row |= {"precision": 1 - shd / 100, "recall": 0.5 + noise / 100}
                row["average_precision"] = np.nan if method.startswith("GIES") else shd / 100
            rows.append(row)
    return pd.DataFrame(rows, columns=list(RUN_COLUMNS))


@pytest.fixture
def planted():
    """Pruning helps at d = 20, hurts at d = 10, and does nothing at d = 30."""
    before = [("SDCD", 10, 20), ("SDCD", 20, 40), ("SDCD", 30, 60)]
    after = [("SDCD-pruned", 10, 29), ("SDCD-pruned", 20, 15), ("SDCD-pruned", 30, 60)]
    return runs_of(*before, *after)


def answer(table, metric, **where):
    row = table[(table["metric"] == metric) & (table[list(where)] == pd.Series(where)).all(axis=1)]
    assert len(row) == 1
    return row.iloc[0]


def test_what_helps_and_what_hurts_is_told_apart(planted):
    table = effects(planted)
    helped, hurt, same = (answer(table, "shd", d=d) for d in (20, 10, 30))
    assert (helped["before"], helped["after"], helped["n"]) == (60, 35, 5)
    assert helped["difference"] == pytest.approx(-25)
    assert helped["low"] < -25 < helped["high"] < 0
    assert [row["answer"] for row in (helped, hurt, same)] == ["better", "worse", "undecided"]
    # Precision is better where it is higher: by the planting, where SHD is lower.
    assert answer(table, "precision", d=20)["answer"] == "undecided"  # equal differences, 5 of them
    assert answer(table, "average_precision", d=20)["difference"] == pytest.approx(-0.25)
    assert set(table["metric"]) == set(METRICS)


def test_a_higher_precision_is_better():
    runs = runs_of(("SDCD", 20, 40), ("SDCD-pruned", 20, 15))
    runs["precision"] += np.tile(np.array(NOISE) / 1000, 2) * np.repeat([1, 2], 5)
    row = answer(effects(runs), "precision", d=20)
    assert row["difference"] == pytest.approx(0.25) and row["answer"] == "better"


def test_only_data_sets_that_both_have_count_and_failures_are_told(planted):
    failed = (planted["method"] == "SDCD-pruned") & (planted["seed"] == 3) & (planted["d"] == 20)
    planted.loc[failed, ["status", "shd"]] = "timeout", np.nan
    row = answer(effects(planted), "shd", d=20)
    assert (row["n"], row["failed"], row["seeds"]) == (4, 1, (0, 1, 2, 4))
    ((_, table),) = section(planted).tables
    assert "4 (1 failed)" in [row[1] for row in table.rows]


def test_equal_differences_of_few_data_sets_show_nothing():
    runs = runs_of(("SDCD", 20, 40), ("SDCD-pruned", 20, 15))
    runs["shd"] = np.where(runs["method"] == "SDCD", 40, 15)
    row = answer(effects(runs), "shd", d=20)
    assert row["p"] == pytest.approx(2 / 32) and row["answer"] == "undecided"
    assert np.isnan(row["low"])
    one = effects(runs[runs["seed"] == 0])
    assert set(one["answer"]) == {"one data set"}


def test_the_p_values_are_adjusted_for_the_number_of_kinds_of_data():
    cells = [(d, 60) for d in range(10, 30)]
    before = [("SDCD", d, shd) for d, shd in cells]
    after = [("SDCD+prune", d, shd - (1 if d == 10 else 0)) for d, shd in cells]
    # By itself the planted difference would count.
    alone = effects(runs_of(before[0], after[0]))
    assert answer(alone, "shd", d=10)["p"] < 0.25
    many = answer(effects(runs_of(*before, *after)), "shd", d=10)
    assert many["p"] == pytest.approx(min(1, 20 * answer(alone, "shd", d=10)["p"]))


def test_fractions_of_one_graph_are_one_observation_overall():
    runs = runs_of(
        *[("SDCD", 20, 40, f) for f in (0.0, 0.5, 1.0)],
        *[("SDCD-pruned", 20, 30, f) for f in (0.0, 0.5, 1.0)],
        experiment="interventional",
    )
    row = answer(overall(runs), "shd", experiment="interventional")
    assert (row["n"], row["kinds"], row["answer"]) == (5, 3, "better")
    assert row["difference"] == pytest.approx(-10)


def test_whether_sdcd_leads_is_asked_with_all_pruned(planted):
    assert not len(leads(planted))
    assert section(planted).leads is None
    others = runs_of(
        ("DCDI-G", 20, 30), ("DCDI-G+prune", 20, 27), ("GIES", 20, 90), ("GIES+prune", 20, 5)
    )
    table = leads(pd.concat([planted, others])).set_index("other")
    assert (table["n"] == 5).all() and set(table["d"]) == {20}
    # SDCD is 10 behind DCDI-G and, both pruned, 12 ahead; the reverse with GIES.
    assert table.loc["DCDI-G", "before_difference"] == pytest.approx(10)
    assert table.loc["DCDI-G", "after_difference"] == pytest.approx(-12)
    found = table.loc["GIES", ["before_difference", "after_difference"]].tolist()
    assert found == pytest.approx([-50, 10])
    assert table["before_answer"].to_dict() == {"DCDI-G": "worse", "GIES": "better"}
    assert table["after_answer"].to_dict() == {"DCDI-G": "better", "GIES": "worse"}
    shown = section(pd.concat([planted, others]))
    text = shown.leads_sentence
    assert "Of 2 comparisons" in text and "lower SHD in 1 (1 with neither pruned)" in text
    words = [cell[-1].text for row in shown.leads.rows for cell in row[3:]]
    assert words == [f"{name} leads" for name in ("DCDI-G", "SDCD", "SDCD", "GIES")]


def test_the_page_says_which_is_which(planted):
    shown = section(planted)
    assert {answer.title: answer.kinds for answer in shown.answers} == {
        "Helps: SHD is lower": ["observational, d = 20, s = 3 (−25.0)"],
        "Hurts: SHD is higher": ["observational, d = 10, s = 3 (+9.0)"],
        "Undecided": ["observational, d = 30, s = 3 (0.0)"],
    }
    assert {answer.count for answer in shown.answers} == {"1 of 3"}
    assert not shown.chosen_on


def test_answers_are_counted_by_experiment():
    sizes = range(10, 22)
    runs = runs_of(*[("SDCD", d, 60) for d in sizes], *[("SDCD+prune", d, 20) for d in sizes])
    shown = section(runs)
    assert next(answer.count for answer in shown.answers) == "12 of 12"
    (row,) = shown.by_experiment.rows
    assert row[:3] == ("observational", "SDCD+prune", "12") and row[4] == "60"
    assert row[3][0].text == "80.0 → 40.0"


def test_the_graphs_that_settings_were_chosen_on_are_marked():
    cells = (("SDCD", 20, 40), ("SDCD-pruned", 20, 15))
    shown = section(runs_of(*cells, s=4))
    assert "d = 20, s = 4 §" in shown.answers[0].kinds[0] and shown.chosen_on
    fresh = runs_of(*cells, s=4)
    fresh["seed"] += 5
    assert not section(fresh).chosen_on and "§" not in section(fresh).answers[0].kinds[0]


def test_without_pruned_runs_there_is_nothing():
    assert section(runs_of(("SDCD", 20, 40), ("DCDI-G", 20, 30))) is None
    # Nor if the pruned and the unpruned method were run on different data.
    assert section(runs_of(("SDCD", 20, 40), ("SDCD-pruned", 30, 30))) is None
    assert [base_of(n) for n in ("SDCD-pruned", "GIES+prune", "SDCD-warm")] == [
        "SDCD",
        "GIES",
        None,
    ]


def test_a_search_over_orders_is_a_step_of_its_own(planted):
    assert section(planted, ORDERING) is None
    others = runs_of(("SDCD-ordered", 20, 4), ("GIES", 20, 9), ("GIES+order", 20, 30))
    both = pd.concat([planted, others])
    shown = section(both, ORDERING)
    assert shown.methods == "SDCD-ordered and GIES+order"
    kinds = {answer.title: answer.kinds for answer in shown.answers}
    assert kinds["Helps: SHD is lower"] == ["observational, d = 20, s = 3 (SDCD-ordered, −36.0)"]
    assert kinds["Hurts: SHD is higher"] == ["observational, d = 20, s = 3 (GIES+order, +21.0)"]
    assert shown.leads_sentence.startswith("Of 1 comparisons with another ordered method")
    # What pruning does is not asked of it, nor the other way round.
    assert section(both).methods == "SDCD-pruned"
    more = runs_of(("NOTEARS", 20, 9), ("NOTEARS+order", 20, 8))
    names = section(pd.concat([both, more]), ORDERING).methods
    assert names == "SDCD-ordered, GIES+order and NOTEARS+order"


def test_wrong_edges_are_told_apart_by_the_causal_order(benchmark, tmp_path, monkeypatch):
    wrong_edges = benchmark("wrong_edges")
    true = np.zeros((5, 5), dtype=np.int8)
    true[0, 1] = true[1, 2] = true[0, 3] = 1  # 0 -> 1 -> 2, 0 -> 3, and 4 apart
    found = wrong_edges.classes(true != 0)
    edges = {name: {tuple(map(int, e)) for e in np.argwhere(at)} for name, at in found.items()}
    assert edges["wrong, from an ancestor to a descendant"] == {(0, 2)}
    assert edges["wrong, reversed"] == {(1, 0), (2, 1), (3, 0)}
    assert edges["wrong, otherwise against the order"] == {(2, 0)}
    assert {(1, 3), (3, 2), (2, 4), (4, 0)} < edges["wrong, between two that neither precedes"]
    # Every pair is in one class.
    assert (sum(at.astype(int) for at in found.values()) == 1 - np.eye(5)).all()

    names, weights = tuple("abcde"), np.zeros((5, 5))
    for edge, weight in (((0, 1), 2), ((1, 2), 0.4), ((0, 2), 0.5), ((3, 0), 3)):
        weights[edge] = weight
    unpruned = (weights > 0).astype(np.int8)
    after, gain = unpruned.copy(), np.where(unpruned, 0.7, np.nan)
    after[0, 2], gain[0, 2] = 0, 0.001
    data = Dataset(np.zeros((3, 5)), np.zeros((3, 5), bool), names, true)
    write_dataset(tmp_path / "data/observational/d5_s1_seed0.npz", data)
    fits = tmp_path / "fits/observational/d5_s1_seed0"
    write_npz(fits / "SDCD.npz", weights=weights)
    write_npz(fits / "SDCD-pruned.npz", adjacency=after, unpruned=unpruned, gain=gain)
    written = tmp_path / "wrong_edges.csv"
    monkeypatch.setattr("sys.argv", ["", "--results", str(tmp_path), "--table", str(written)])
    wrong_edges.main()
    table = pd.read_csv(written).set_index("class")
    assert set(table["data"]) == {"observational, d = 5, s = 1"} and set(table["data_sets"]) == {1}
    told = ["edges", "dropped", "median_weight", "median_gain"]
    shares = ["true_edge_has_larger_weight", "true_edge_has_larger_gain"]
    assert table.loc["true", told].tolist() == [2, 0, 1.2, 0.7]
    # One of the two true edges is heavier, both have the larger gain.
    row = table.loc["wrong, from an ancestor to a descendant"]
    assert row[told].tolist() == [1, 1, 0.5, 0.001] and row[shares].tolist() == [0.5, 1.0]
    row = table.loc["wrong, reversed"]
    assert row[told].tolist() == [1, 0, 3.0, 0.7] and row[shares].tolist() == [0.0, 0.5]
