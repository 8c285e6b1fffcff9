"""Aggregation over seeds, differences by seed, and the tables' three files."""

import numpy as np
import pandas as pd
import pytest
from support.exhibited import make

from sdcd.acyclicity import CONSTRAINTS
from sdcd.errors import InputError
from sdcd.exhibits import TABLES
from sdcd.published import published_runs, published_table
from sdcd.runs import summaries
from sdcd.runs.table import RUN_COLUMNS
from sdcd.studies import constraint_costs
from sdcd.tables import comparison, layout, method_comparison, pst_constraints

OF_RUNS = (
    "observational",
    "observational_large",
    "interventional",
    "ablation_stage1",
    "ablation_stage2",
    "dcdi_simulations",
)


def runs_of(*rows):
    """Runs from (method, d, seed, status, shd) and optionally shortened."""
    table = pd.DataFrame(index=range(len(rows)), columns=list(RUN_COLUMNS))
    for index, (method, d, seed, status, shd, *shortened) in enumerate(rows):
        table.loc[index, ["experiment", "method", "d", "s", "seed"]] = [
            "observational",
            method,
            d,
            4,
            seed,
        ]
        table.loc[index, ["status", "shd", "reason"]] = [
            status,
            shd,
            "" if status == "ok" else f"{status} after 60 s",
        ]
        table.loc[index, "shortened"] = shortened[0] if shortened else np.nan
    return table


def cell_of(table, method, d):
    row = table[(table["method"] == method) & (table["d"] == d)]
    assert len(row) == 1
    return row.iloc[0]


class TestSummarise:
    def test_mean_and_sd_by_hand(self):
        runs = runs_of(*[("SDCD", 10, seed, "ok", shd) for seed, shd in enumerate((10, 14, 18))])
        cell = summaries.summarise(runs).iloc[0]
        assert (cell["mean"], cell["sd"], cell["n"], cell["status"]) == (14, 4, 3, "ok")

    def test_one_run_has_no_sd(self):
        cell = summaries.summarise(runs_of(("SDCD", 10, 0, "ok", 7))).iloc[0]
        assert cell["mean"] == 7
        assert np.isnan(cell["sd"])

    def test_failed_runs_leave_the_mean_alone_and_are_counted(self):
        runs = runs_of(
            ("GIES", 10, 0, "ok", 20), ("GIES", 10, 1, "timeout", np.nan), ("GIES", 10, 2, "ok", 30)
        )
        cell = summaries.summarise(runs).iloc[0]
        assert (cell["mean"], cell["n"], cell["n_runs"]) == (25, 2, 3)
        assert cell["reason"] == "timeout after 60 s"

    def test_a_number_left_in_a_failed_run_does_not_count(self):
        runs = runs_of(("GIES", 10, 0, "ok", 20), ("GIES", 10, 1, "timeout", 0))
        assert summaries.summarise(runs).iloc[0]["mean"] == 20

    def test_a_cell_of_failures_only_is_failed(self):
        runs = runs_of(("GIES", 30, 0, "timeout", np.nan), ("GIES", 30, 1, "oom", np.nan))
        cell = summaries.summarise(runs).iloc[0]
        assert cell["status"] == "failed"
        assert np.isnan(cell["mean"])
        assert cell["reason"] == "timeout after 60 s; oom after 60 s"

    def test_runs_read_back_from_csv_aggregate_alike(self, tmp_path):
        runs = published_runs("observational")
        runs.to_csv(tmp_path / "runs.csv", index=False)
        back = summaries.summarise(pd.read_csv(tmp_path / "runs.csv"))
        pd.testing.assert_frame_equal(back, summaries.summarise(runs))

    @pytest.mark.parametrize("metric", summaries.METRICS)
    def test_every_metric(self, metric):
        runs = runs_of(("SDCD", 10, 0, "ok", 1), ("SDCD", 10, 1, "ok", 1))
        runs[metric] = [0.25, 0.75]
        assert summaries.summarise(runs, metric).iloc[0]["mean"] == 0.5

    def test_the_callers_runs_are_left_alone(self):
        runs = runs_of(("SDCD", 10, 0, "ok", 1))
        before = runs.copy()
        summaries.summarise(runs)
        pd.testing.assert_frame_equal(runs, before)

    def test_bad_runs_are_refused_in_one_clear_line(self):
        runs = runs_of(("SDCD", 10, 0, "ok", 1), ("SDCD", 10, 0, "ok", 2))
        with pytest.raises(InputError, match="SDCD on d=10, s=4, fraction=0, seed=0 occurs more"):
            summaries.summarise(runs)
        with pytest.raises(InputError, match="column 'status' is missing"):
            summaries.summarise(runs.drop(columns="status"))
        runs.loc[1, "seed"] = "one"
        with pytest.raises(InputError, match="row 2, column 'seed' is 'one'"):
            summaries.summarise(runs)
        with pytest.raises(InputError, match="row 2, column 'fraction' is 'half', expected a numb"):
            summaries.summarise(runs.assign(seed=[0, 1], fraction=[None, "half"]))
        with pytest.raises(InputError, match="unknown metric 'SHD'"):
            summaries.summarise(runs, "SHD")


class TestPairs:
    def test_mean_difference_and_interval_by_hand(self):
        theirs = runs_of(*[("SDCD", 10, seed, "ok", 20) for seed in range(4)])
        ours = runs_of(
            *[("SDCD", 10, seed, "ok", shd) for seed, shd in enumerate((21, 23, 21, 23))]
        )
        cell = summaries.paired_differences(ours, theirs).iloc[0]
        assert (cell["difference"], cell["n_pairs"]) == (2, 4)
        # sd = sqrt(4/3); Student's 97.5 % quantile with 3 degrees of freedom is 3.182446.
        assert cell["high"] - 2 == pytest.approx(3.182446 * np.sqrt(4 / 3) / 2, rel=1e-6)
        assert cell["low"] + cell["high"] == pytest.approx(4)

    def test_only_common_seeds_that_finished_count(self):
        theirs = runs_of(("SDCD", 10, 0, "ok", 20), ("SDCD", 10, 1, "error", np.nan))
        ours = runs_of(*[("SDCD", 10, seed, "ok", 25) for seed in range(3)])
        cell = summaries.paired_differences(ours, theirs).iloc[0]
        assert (cell["difference"], cell["n_pairs"]) == (5, 1)
        assert np.isnan(cell["low"])

    def test_methods_are_paired_on_the_same_data(self):
        runs = runs_of(
            ("SDCD", 10, 0, "ok", 5),
            ("SDCD", 10, 1, "ok", 6),
            ("GIES", 10, 1, "ok", 16),
            ("GIES", 20, 1, "ok", 99),
        )
        pairs = summaries.pair_methods(runs, "SDCD", "GIES")
        assert pairs["difference"].tolist() == [-10]


@pytest.mark.parametrize("name", OF_RUNS)
def test_published_logs_in_place_of_our_runs_give_the_papers_table(name):
    table, _ = make(name, published_runs(name))
    assert tuple(table.columns) == comparison.COLUMNS
    assert len(table) == len(published_table(name))
    covered = table[(table["n"] > 0) & (table["published_status"] == "ok")]
    if name == "observational":
        covered = covered[(covered["d"] >= 100)]
    if name == "ablation_stage2":
        covered = covered[:0]  # the logs of its SDCD row are of other runs
    expected = {"observational": 27, "ablation_stage2": 0, "dcdi_simulations": 12}
    whole = (published_table(name)["status"] == "ok").sum()
    assert len(covered) == expected.get(name, whole)
    for _, row in covered.iterrows():
        ours = comparison.ours_text(row).partition(" (")[0]
        if np.isnan(row["published_sd"]):
            ours = ours.partition(" ±")[0]
        assert ours == comparison.published_text(row)
        if row["n_pairs"]:
            assert row["difference"] == 0


@pytest.mark.parametrize("name", OF_RUNS)
def test_a_table_without_any_run_of_ours_is_the_papers(name):
    empty = pd.DataFrame(columns=list(RUN_COLUMNS))
    table, _ = make(name, empty)
    assert (table["status"] == "not_run").all()
    assert len(table) == len(published_table(name))


@pytest.mark.parametrize("name", OF_RUNS)
def test_the_files_are_well_formed_and_repeatable(name, tmp_path):
    runs = published_runs(name)
    paths = layout.write(*make(name, runs), tmp_path / "a")
    again = layout.write(*make(name, runs), tmp_path / "b")
    assert [path.suffix for path in paths] == [".csv", ".tex"]
    for first, second in zip(paths, again, strict=True):
        assert first.read_bytes() == second.read_bytes()
    back = pd.read_csv(paths[0])
    assert tuple(back.columns) == comparison.COLUMNS
    _check_latex(paths[1].read_text())


def _check_latex(text):
    """Braces balance, environments close, and every row has as many columns as are declared."""
    bare = text.replace("\\{", "").replace("\\}", "")
    assert bare.count("{") == bare.count("}")
    for environment in ("table", "tabular", "minipage"):
        assert text.count(rf"\begin{{{environment}}}") == text.count(rf"\end{{{environment}}}")
    columns = None
    for line in text.splitlines():
        if line.startswith(r"\begin{tabular}{"):
            columns = len(line.removeprefix(r"\begin{tabular}{").rstrip("}"))
        elif line.endswith(r"\\"):
            assert line.replace(r"\&", "").count("&") == columns - 1
    # Of what is not ASCII, LaTeX takes the dash as it is, but not ± or a superscript minus.
    assert {character for character in text if ord(character) > 127} <= {"–"}


def test_failed_untested_and_shortened_runs_are_marked():
    runs = runs_of(
        ("SDCD", 10, 0, "ok", 10),
        ("SDCD", 10, 1, "ok", 12, "2,000 of 10,000 rows"),
        ("GIES", 10, 0, "timeout", np.nan),
        ("new<method>", 10, 0, "ok", 3),
    )
    table, laid_out = make("observational", runs)
    assert comparison.ours_text(cell_of(table, "SDCD", 10)) == "11.0 ± 1.4 (2)*"
    assert comparison.ours_text(cell_of(table, "GIES", 10)) == "NA"
    assert comparison.published_text(cell_of(table, "GIES", 30)) == "NA"
    assert comparison.published_text(cell_of(table, "SDCD-GPU", 10)) == "NT"
    assert cell_of(table, "new<method>", 10)["published_status"] == "absent"
    notes = " ".join(laid_out.notes)
    assert "* shortened: 2,000 of 10,000 rows." in notes
    assert "Failures of ours: GIES at d = 10: timeout after 60 s." in notes
    runs.loc[runs["method"] == "GIES", "status"] = "unavailable"
    _, impossible = make("observational", runs)
    assert "Not run: GIES at d = 10: timeout after 60 s." in impossible.notes
    (bold,) = (at for at in laid_out.best if laid_out.rows[at[0]][0] == ("10",))
    assert laid_out.rows[bold[0]][1][bold[1]]["ours"] == "3.0 (1)"
    assert r"\textbf{3.0 (1)}" in layout.to_latex(laid_out)
    # Of a cell in bold the line of ours alone.
    runs = runs_of(("SDCD", 10, 0, "ok", 10))
    tex = layout.to_latex(make("observational", runs)[1])
    assert tex.count(r"\textbf{") == 1 and r"\textbf{10.0 (1)}" in tex


def test_differences_and_intervals_by_hand():
    row = pd.Series({"difference": -0.5, "low": -1.5, "high": 0.5, "n_pairs": 3}, dtype=object)
    assert comparison.difference_text(row) == "−0.5 (3)"
    assert comparison.interval_text(row) == "[−1.5, +0.5]"
    row["n_pairs"] = 1
    assert (comparison.difference_text(row), comparison.interval_text(row)) == ("−0.5 (1)", "")
    row["n_pairs"] = 0
    assert comparison.difference_text(row) == ""


def test_where_columns_are_sizes_the_lowest_of_each_column_is_bold():
    shds = {"SDCD": (5, 3), "SDCD-exp": (9, 4)}
    runs = runs_of(
        *[
            (name, d, 0, "ok", shd)
            for name in shds
            for d, shd in zip((10, 20), shds[name], strict=True)
        ]
    )
    _, laid_out = make("ablation_stage2", runs)
    bold = {(laid_out.rows[row][0][0], laid_out.columns[column]) for row, column in laid_out.best}
    assert bold == {("SDCD", "d=10"), ("SDCD", "d=20")}


def test_the_density_is_the_share_of_pairs_that_are_edges():
    _, laid_out = make("interventional", pd.DataFrame(columns=list(RUN_COLUMNS)))
    keys = [key for key, _ in laid_out.rows if key[0] == "2"]
    # 40 of the 190 pairs.
    assert keys[0] == ("2", "20", "21.1 %", "0.00")


def test_published_digits_are_kept_as_printed():
    table = published_table("observational").assign(published_mean=lambda t: t["mean"])
    avici = table[(table["method"] == "AVICI") & (table["d"] == 100)].iloc[0]
    assert f"{avici['mean']:.{avici['decimals']}f}" == "366.50"


class TestConstraints:
    @pytest.mark.parametrize("name", [name for name in CONSTRAINTS if name != "h_rho"])
    def test_the_written_series_is_the_implemented_one(self, name):
        written, constraint = pst_constraints.WRITTEN[name], CONSTRAINTS[name]
        d, x = 7, 0.3
        for k in range(1, d + 1):
            assert written.a(k, d) == pytest.approx(constraint.coefficient(k, d), rel=1e-12)
        assert written.f(x, d) == pytest.approx(
            constraint.function(np.array([x + 0j]), d).real.item(), rel=1e-12
        )

    def test_only_the_spectral_radius_is_stable(self):
        table = pst_constraints.measured(d=12).set_index("name")
        stable = table[["e_stable", "v_stable", "d_stable"]].all(axis=1)
        assert stable[stable].index.tolist() == ["h_rho"]
        assert table.loc["h_exp", "vanishing"] == pytest.approx(12, abs=0.01)
        assert table.index[table["domain_end"].notna()].tolist() == ["h_log", "h_inv"]

    def test_growth_stands_under_its_headings(self):
        table, laid_out = pst_constraints.make(caption="", d=8)
        assert laid_out.columns[4:] == ["vanishing", "exploding", "defined for", "stable"]
        shown = {str(key): [text[""] for text in texts[4:]] for (key,), texts in laid_out.rows}
        assert shown["h_rho"] == ["1.00", "1.00", "all s", "yes"]
        assert shown["h_log"][2:] == ["s < 1", "no"]
        growth = table.set_index("name").loc["h_exp", ["vanishing", "exploding"]]
        assert growth["exploding"] > growth["vanishing"] + 1
        assert shown["h_exp"] == [*(f"{value:.2f}" for value in growth), "all s", "no"]

    def test_print(self):
        caption = TABLES["table_pst_constraints"].caption
        text = layout.to_latex(pst_constraints.make(caption=caption, d=8)[1])
        _check_latex(text)
        assert r"$\mathrm{Tr}\exp(A) - d$" in text
        assert "all d = 8 nodes" in text
        assert "the paper's table has it without $-$ d" in text


class TestMethodComparison:
    COSTS = pd.concat(
        pd.DataFrame({"constraint": name, "d": [100, 200, 400], "seconds": [1, 2**p, 4**p]})
        for name, p in (("h_rho", 2.0), ("h_exp", 3.0), ("h_log", 3.0))
    )

    def test_measured_entries_agree_with_the_papers(self):
        table = method_comparison.measured(self.COSTS, d=12).set_index("method")
        assert table.index.tolist() == ["SDCD", "DCDI-G", "DCD-FG", "DAGMA", "NOTEARS", "NOBEARS"]
        assert (table["stable"] == table["paper_stable"]).all()
        assert (table["interventions"] == table["paper_interventions"]).all()
        assert (table["expressive"] == table["paper_expressive"]).all()
        assert table.loc["SDCD", "cost_exponent"] == pytest.approx(2)
        assert table.loc["DAGMA", "cost_exponent"] == pytest.approx(3)

    def test_print(self):
        caption = TABLES["table_method_comparison"].caption
        _, laid_out = method_comparison.make(self.COSTS, caption=caption, d=8)
        _check_latex(layout.to_latex(laid_out))
        cost = laid_out.rows[0][1][1]
        assert cost == {"ours": "d^2.00 [2.00, 2.00]", "paper": "O(d²)"}
        assert "over d from 100 to 400" in laid_out.caption
        properties = {
            name: [entry["ours"][0] + entry["paper"][0] for entry in (stable, *others)]
            for (name,), (stable, _, *others) in laid_out.rows
        }
        assert properties["SDCD"] == ["✓✓", "✓✓", "✓✓"]
        assert properties["DAGMA"] == ["✗✗", "✗✗", "✓✓"]

    def test_the_interval_of_a_cost_goes_up(self):
        noise = pd.concat([self.COSTS, self.COSTS.assign(seconds=1.5 * self.COSTS["seconds"])])
        table, laid_out = method_comparison.make(noise, caption="", d=8)
        low, high = table.loc[0, "cost_low"], table.loc[0, "cost_high"]
        assert low < 2 < high
        assert laid_out.rows[0][1][1]["ours"] == f"d^2.00 [{low:.2f}, {high:.2f}]"

    def test_costs_that_were_not_measured_are_named_so(self):
        costs = self.COSTS[self.COSTS["d"] < 200]
        table, laid_out = method_comparison.make(costs, caption="", d=8)
        assert table["cost_exponent"].isna().all()
        assert [row[1][1]["ours"] for row in laid_out.rows] == ["not measured"] * 6


class TestConstraintCosts:
    def test_what_is_timed_is_the_constraint_and_its_gradient(self):
        d = 8
        A = np.random.default_rng(0).uniform(size=(d, d)) / (5 * d)
        for name, evaluation in constraint_costs.evaluations(d).items():
            value, gradient = evaluation(A)
            expected, expected_gradient = CONSTRAINTS[name].value_and_gradient(A)
            tolerance = 1e-4 if name == "h_rho" else 1e-9
            assert value == pytest.approx(expected, rel=tolerance, abs=1e-12)
            assert gradient == pytest.approx(expected_gradient, rel=tolerance, abs=tolerance)

    def test_records(self):
        records = constraint_costs.constraint_costs(sizes=(4, 6), repeats=2)
        assert [(r["constraint"], r["d"]) for r in records[:2]] == [("h_exp", 4), ("h_log", 4)]
        assert len(records) == 10
        assert all(record["seconds"] > 0 for record in records)
        with pytest.raises(InputError, match="repeats is 0"):
            constraint_costs.constraint_costs(repeats=0)


def test_every_table_of_cells_is_tested():
    of_cells = {name for name, exhibit in TABLES.items() if exhibit.module == "sdcd.tables.cells"}
    assert {f"table_{name}" for name in OF_RUNS} == of_cells


def test_long_latex_tables_are_split():
    rows = [((str(index),), [{"": "1"}]) for index in range(layout.LATEX_ROWS + 1)]
    text = layout.to_latex(layout.Layout("Caption.", ["key"], ["value"], rows))
    assert text.count(r"\begin{table}") == 2
    assert "Part 2 of 2" in text
    _check_latex(text)
