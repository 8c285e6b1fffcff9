"""Verdicts: their statistics, the published logs in place of our runs, planted changes."""

import csv
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sdcd import statistics, verdicts
from sdcd.errors import InputError
from sdcd.published import EXPERIMENTS, published_runs, published_table
from sdcd.verdicts import claims as claims_module
from sdcd.verdicts import evidence, falling
from sdcd.verdicts.cells import judge_cells


def logs():
    return {name: published_runs(name) for name in EXPERIMENTS}


@pytest.fixture(scope="module")
def of_logs():
    """Verdicts on the published logs in place of our runs."""
    return verdicts.judge(logs())


def claims_of(table):
    return table[table["kind"] == "claim"].set_index("id")


def cells_of(table):
    return table[table["kind"] == "cell"].set_index("id")


class TestStatistics:
    @given(st.lists(st.floats(-50, 50), min_size=3, max_size=12).filter(lambda x: np.ptp(x) > 0.1))
    def test_a_sample_agrees_with_scipy(self, values):
        estimate = statistics.of_sample(np.array(values))
        expected = stats.ttest_1samp(values, 1.5, alternative="greater").pvalue
        assert estimate.p_above(1.5) == pytest.approx(expected, abs=1e-9)
        two_sided = stats.ttest_1samp(values, 0).pvalue
        assert estimate.p_different() == pytest.approx(two_sided, abs=1e-9)
        low, high = stats.ttest_1samp(values, 0).confidence_interval(0.95)
        assert estimate.interval() == pytest.approx((low, high), abs=1e-6)

    def test_welch_agrees_with_scipy(self):
        values = np.array([10.0, 14, 9, 12])
        estimate = statistics.welch(values, 16.0, 3.0, 30)
        expected = stats.ttest_ind_from_stats(
            values.mean(), values.std(ddof=1), 4, 16.0, 3.0, 30, equal_var=False
        )
        assert estimate.p_different() == pytest.approx(expected.pvalue)
        # Without a published sd ours is taken for it, and it has our degrees of freedom.
        unknown = statistics.welch(values, 16.0, math.nan, 30)
        t = (values.mean() - 16) / (values.std(ddof=1) * math.sqrt(1 / 4 + 1 / 30))
        assert unknown.p_different() == pytest.approx(2 * stats.t.sf(abs(t), 3))

    def test_equivalence_is_two_one_sided_tests(self):
        values = np.array([0.2, -0.4, 0.1, 0.3])
        estimate = statistics.of_sample(values)
        lower = stats.ttest_1samp(values, -1, alternative="greater").pvalue
        upper = stats.ttest_1samp(values, 1, alternative="less").pvalue
        assert estimate.p_within(1) == pytest.approx(max(lower, upper))
        above = stats.ttest_1samp(values, 0.01, alternative="greater").pvalue
        below = stats.ttest_1samp(values, -0.01, alternative="less").pvalue
        assert estimate.p_outside(0.01) == pytest.approx(2 * min(above, below))
        assert estimate.p_outside(1) == 1

    def test_no_spread_leaves_no_doubt_and_one_value_leaves_all(self):
        same = statistics.of_sample(np.array([3.0, 3.0]))
        assert (same.p_above(0), same.p_below(0), same.p_within(4), same.p_within(3)) == (
            0,
            1,
            0,
            1,
        )
        single = statistics.of_sample(np.array([3.0]))
        assert math.isnan(single.p_above(0)) and math.isnan(single.p_within(4))
        assert math.isnan(single.p_different()) and math.isnan(single.p_outside(4))

    def test_seeds_to_settle_is_the_smallest_number(self):
        estimate = statistics.of_sample(np.array([1.0, -1.0, 3.0]))
        n = estimate.seeds_to_settle(0.0)

        def p(count):
            return stats.t.sf(estimate.value / (estimate.sd / math.sqrt(count)), count - 1)

        assert p(n) < statistics.SETTLED <= p(n - 1)
        # Also where both sides count, as for a cell outside of its margin.
        assert 2 * p(n) < 0.05
        assert statistics.of_sample(np.array([1.0, -1.0])).seeds_to_settle(0.0) == 1000

    @pytest.mark.parametrize("correlation", [0, 0.5, 0.99])
    def test_twins_and_others_together_err_as_often_as_they_should(self, correlation):
        rng = np.random.default_rng(0)
        draws, p, q, n = 1500, 3, 7, 3
        different = equivalent = 0
        for _ in range(draws):
            common = np.sqrt(correlation) * rng.standard_normal(p)
            alone = np.sqrt(1 - correlation)
            log, twin = (common + alone * rng.standard_normal(p) for _ in range(2))
            others = rng.standard_normal(q)
            ours = np.append(twin, others)
            spreads = statistics.Spreads(
                np.std(twin - log, ddof=1), ours.std(ddof=1), log.std(ddof=1), p, n
            )
            estimate = statistics.partly_paired(twin - log, others, log.mean(), spreads)
            different += estimate.p_different() < 0.05
            shifted = statistics.partly_paired(twin + 1 - log, others + 1, log.mean(), spreads)
            assert shifted.value == pytest.approx(estimate.value + 1)
            equivalent += shifted.p_within(1) < 0.05
        assert 0.01 < different / draws < 0.09
        assert equivalent / draws < 0.08

    def test_seeds_to_settle_where_some_have_a_twin_are_those_and_the_fewest_others(self):
        spreads = statistics.Spreads(1.0, 3.0, 3.0, pairs=3, n_published=50)
        estimate = statistics.partly_paired(np.array([0, 1, 2]), np.array([5, 8]), 5.0, spreads)
        n = estimate.seeds_to_settle(0.0)

        def p(others):
            error, freedom = spreads.error(others)
            return stats.t.sf(estimate.value / error, freedom)

        assert p(n - 3) < statistics.SETTLED <= p(n - 4)

    def test_an_exponent_is_the_slope_of_logarithms(self):
        d, values = np.array([10, 20, 40, 80]), np.array([3.0, 14, 40, 230])
        estimate = statistics.fitted_exponent(d, values)
        expected = stats.linregress(np.log(d), np.log(values), alternative="greater")
        assert (estimate.value, estimate.error) == pytest.approx((expected.slope, expected.stderr))
        assert estimate.p_above(0) == pytest.approx(expected.pvalue)

    def test_a_failure_is_the_largest_distance_and_at_least_twice_the_margin(self):
        far, near = [0.3, -0.4], [0.01]
        below, above = (
            evidence.with_failures(far, 1, 1, kind, 0.0, False).tolist()
            for kind in ("below", "above")
        )
        assert below == [*far, 0.4, -0.4] and above == [*far, -0.4, 0.4]
        for ratio, least in ((False, 0.1), (True, math.log(2))):
            assert evidence.with_failures(near, 1, 0, "below", 0.0, ratio)[-1] == least
            assert evidence.with_failures(near, 1, 0, "within", 0.5, ratio)[-1] == 1.0

    def test_corrections_by_hand(self):
        p = np.array([0.01, 0.04, np.nan, 0.03])
        assert statistics.holm(p) == pytest.approx([0.03, 0.06, np.nan, 0.06], nan_ok=True)
        adjusted = statistics.benjamini_hochberg(p)
        assert adjusted == pytest.approx([0.03, 0.04, np.nan, 0.04], nan_ok=True)

    @given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
    def test_corrections_agree_with_scipy_and_keep_the_order(self, p):
        p = np.array(p)
        adjusted = statistics.benjamini_hochberg(p)
        assert adjusted == pytest.approx(stats.false_discovery_control(p))
        assert (statistics.holm(p) >= adjusted - 1e-12).all()


class TestCells:
    def test_every_printed_value_has_one_row(self, of_logs):
        cells = cells_of(of_logs)
        assert cells.index.is_unique
        printed = sum(
            (published_table(name)["status"] != "not_tested").sum() for name in EXPERIMENTS
        )
        assert len(cells) == printed
        assert set(of_logs["verdict"]) <= set(verdicts.VERDICTS)
        assert tuple(of_logs.columns) == verdicts.COLUMNS

    def test_the_logs_reproduce_every_cell_that_they_cover(self, of_logs):
        counts = verdicts.count(of_logs)
        assert counts.loc["ablation_stage2", "not reproduced"] == 0
        assert counts.loc["interventional"].tolist() == [200, 0, 0, 40]
        assert counts.loc["observational_large"].tolist() == [4, 0, 0, 0]
        assert counts.loc["ablation_stage1"].tolist() == [24, 0, 0, 0]
        assert counts.loc["dcdi_simulations"].tolist() == [12, 0, 0, 24]
        cells = cells_of(of_logs)
        covered = cells[(cells["experiment"] == "observational") & (cells["verdict"] != "not run")]
        large = covered[covered["d"] >= 100]
        assert set(large["verdict"]) == {"reproduced"}
        assert (large["published"].notna()).sum() == 27
        # The two that remain are values that the logs contradict.
        refuted = covered[covered["verdict"] != "reproduced"]
        assert refuted.index.tolist() == [
            "observational/DAGMA/d30/s4",
            "observational/DAGMA/d40/s4",
        ]
        assert refuted["contradiction"].str.contains("all 3 logged runs failed").all()

    def test_cells_whose_runs_failed_here_and_there_are_reproduced(self, of_logs):
        cell = cells_of(of_logs).loc["observational/DCDI-G/d100/s4"]
        assert cell["verdict"] == "reproduced"
        assert "Failed in the paper and here" in cell["note"]

    @pytest.mark.parametrize(
        ("experiment", "method"),
        [("interventional", "SDCD"), ("observational", "NOTEARS"), ("dcdi_simulations", "SDCD")],
    )
    def test_a_shift_of_two_standard_deviations_turns_the_verdicts(self, experiment, method):
        runs = published_runs(experiment)
        table = published_table(experiment)
        keys = ["method", "d", "s", "fraction", "mechanism"]
        sd = runs[keys].merge(table[[*keys, "sd"]], on=keys, how="left")["sd"].to_numpy()
        shifted = runs["method"] == method
        runs.loc[shifted, "shd"] += 2 * np.round(sd)[shifted]
        cells = judge_cells({experiment: runs})
        cells = cells[(cells["experiment"] == experiment) & (cells["verdict"] != "not run")]
        touched = cells[(cells["method"] == method) & cells["ours"].notna()]
        assert len(touched) > 6
        assert set(touched["verdict"]) == {"not reproduced"}
        others = cells[(cells["method"] != method) & cells["published"].notna()]
        others = others[~((others["method"] == "DAGMA") & others["d"].isin([30, 40]))]
        assert set(others["verdict"]) <= {"reproduced"}

    def test_a_noisy_handful_is_inconclusive_and_says_how_many_would_do(self):
        runs = published_runs("observational")
        runs = runs[(runs["method"] == "SDCD") & (runs["d"] == 20) & (runs["seed"] < 3)]
        runs["shd"] += [9, -8, 6]
        cell = judge_cells({"observational": runs}).set_index("id")
        cell = cell.loc["observational/SDCD/d20/s4"]
        assert cell["verdict"] == "inconclusive"
        assert 3 < cell["seeds_needed"] < 1000
        assert cell["low"] < cell["estimate"] < cell["high"]

    def test_runs_with_and_without_a_twin_are_both_used(self):
        runs = published_runs("observational")
        runs = runs[(runs["method"] == "SDCD") & (runs["d"] == 100)].sort_values("seed")
        assert len(runs) == 3
        cell = "observational/SDCD/d100/s4"
        more = pd.concat([runs, *(runs.assign(seed=runs["seed"] + 10 * k) for k in (1, 2))])
        more["shd"] += [4.0, -2, 1, 30, -10, 12, 25, -14, 9]
        few = judge_cells({"observational": more[more["seed"] < 10]}).set_index("id").loc[cell]
        all_ = judge_cells({"observational": more}).set_index("id").loc[cell]
        assert few["test"] == "paired by seed, 3 pairs"
        assert few["estimate"] == pytest.approx(1.0)
        assert all_["test"] == "paired by seed, 3 pairs, and 6 without a twin"
        # By hand: p = 3, q = 6, n = 3, as the printed value rests on the three that were logged.
        weight = (1 / 6 + 1 / 3 - 1 / 6) / (1 / 3 + 1 / 6 + 1 / 3 - 2 / 6)
        others = more.loc[more["seed"] >= 10, "shd"].mean() - all_["published"]
        assert all_["estimate"] == pytest.approx(weight * 1.0 + (1 - weight) * others)

    def test_no_number_of_data_sets_is_named_where_none_would_do(self):
        runs = published_runs("observational")
        runs = runs[(runs["method"] == "SDCD") & (runs["d"] == 100)]
        runs = pd.concat([runs, *(runs.assign(seed=runs["seed"] + 10 * k) for k in range(1, 9))])
        table = published_table("observational").set_index(["method", "d"])
        spread = table.loc[("SDCD", 100), "sd"]
        runs["shd"] += 0.8 * spread + spread * np.tile([1, -1.5, 0.5], 9)
        cell = judge_cells({"observational": runs}).set_index("id")
        cell = cell.loc["observational/SDCD/d100/s4"]
        assert cell["verdict"] == "inconclusive" and cell["ours_n"] == 27
        assert np.isnan(cell["seeds_needed"])
        assert cell["note"] == "Even 1,000 data sets of ours would hardly settle it."

    def test_with_more_seeds_the_same_noise_is_settled(self):
        runs = published_runs("dcdi_simulations")
        cell = "dcdi_simulations/SDCD/d10/s4/NL-Add"
        few = judge_cells({"dcdi_simulations": runs[runs["seed"] <= 3]}).set_index("id").loc[cell]
        all_ = judge_cells({"dcdi_simulations": runs}).set_index("id").loc[cell]
        assert few["verdict"] == "inconclusive"
        assert all_["verdict"] == "reproduced"
        assert "Welch" in all_["test"]

    @pytest.mark.parametrize("shift", [0, 30])
    def test_shortened_runs_are_shown_but_not_judged(self, shift):
        runs = published_runs("observational")
        runs = runs[(runs["method"] == "DCDI-G") & (runs["d"] == 10)]
        runs["shd"] += shift
        whole = judge_cells({"observational": runs}).set_index("id")
        whole = whole.loc["observational/DCDI-G/d10/s4"]
        assert whole["verdict"] == ("not reproduced" if shift else "reproduced")
        runs["shortened"] = "300 of 600 epochs"
        short = judge_cells({"observational": runs}).set_index("id")
        short = short.loc["observational/DCDI-G/d10/s4"]
        assert short["verdict"] == "not run" and np.isnan(short["p_refute"])
        assert short["estimate"] == whole["estimate"] == shift
        assert "shown, not judged" in short["note"]

    def test_cells_say_how_many_of_their_runs_failed(self):
        runs = published_runs("interventional")
        runs = runs[(runs["method"] == "SDCD") & (runs["d"] == 20) & (runs["s"] == 2)]
        failed = runs["seed"] < 2
        runs.loc[failed, ["status", "shd"]] = ["oom", np.nan]
        cells = judge_cells({"interventional": runs}).set_index("id")
        cell = cells.loc["interventional/SDCD/d20/s2/f0.5"]
        assert (cell["ours_n"], cell["ours_failed"]) == (3, 2)
        assert cell["verdict"] == "reproduced"
        assert "2 of 5 runs failed; the verdict rests on the 3 that finished." in cell["note"]
        runs.loc[runs["seed"] < 3, ["status", "shd"]] = ["oom", np.nan]
        cells = judge_cells({"interventional": runs}).set_index("id")
        cell = cells.loc["interventional/SDCD/d20/s2/f0.5"]
        assert cell["verdict"] == cell["half_margin"] == "inconclusive"
        assert "most of the runs failed" in cell["note"]

    def test_half_the_margin_is_harder_to_meet(self):
        runs = published_runs("interventional")
        table = published_table("interventional")
        keys = ["method", "d", "s", "fraction"]
        sd = runs[keys].merge(table[[*keys, "sd"]], on=keys, how="left")["sd"].to_numpy()
        # Three quarters of a standard deviation, nearly the same on every data set.
        runs["shd"] += 0.75 * sd + 0.05 * sd * np.where(runs["seed"] % 2, 1, -1)
        table = judge_cells({"interventional": runs})
        counts = verdicts.count_half_margin(table).loc["interventional"]
        assert counts["reproduced"] > 150 and counts["paired"] == counts["reproduced"]
        assert counts["half_margin"] == 0
        reproduced = table[table["verdict"] == "reproduced"]
        assert set(reproduced["half_margin"]) == {"not reproduced"}
        assert "0 also pass with half a standard deviation" in verdicts.margin_sentence(table)

    def test_the_margin_is_the_spread_printed_or_else_logged(self, of_logs):
        cells = cells_of(of_logs)
        printed = cells[cells["published_sd"].notna() & cells["threshold"].notna()]
        assert len(printed) > 200
        assert (printed["threshold"] == printed["published_sd"]).all()
        # The ablation prints none, and ours is twice that of the logs.
        logged = published_runs("ablation_stage1")
        cells = judge_cells({"ablation_stage1": logged.assign(shd=2 * logged["shd"])})
        found = cells.dropna(subset="threshold").set_index(["method", "d"])["threshold"]
        expected = logged.groupby(["method", "d"])["shd"].std()
        assert len(found) == 24 and found.to_dict() == pytest.approx(expected.to_dict())

    def test_a_margin_is_half_an_edge_or_more(self):
        table = published_table("ablation_stage2").set_index(["method", "d"])
        mean = table.loc[("SDCD-exp", 10), "mean"]
        runs = published_runs("ablation_stage2").query("d == 10")[:5]
        runs = runs.assign(method="SDCD-exp", seed=range(5))
        for away, verdict in ((0.4, "reproduced"), (0.6, "not reproduced")):
            cells = judge_cells({"ablation_stage2": runs.assign(shd=mean + away)})
            cell = cells.set_index("id").loc["ablation_stage2/SDCD-exp/d10/s4"]
            assert (cell["verdict"], cell["threshold"]) == (verdict, 0.5)

    def test_without_twins_the_logged_spread_is_the_published(self):
        logged = published_runs("ablation_stage1").query("method == 'SDCD' and d == 20")
        printed = published_table("ablation_stage1").set_index(["method", "d"]).loc[("SDCD", 20)]
        sd = logged["shd"].std()
        shd = printed["mean"] + sd * np.array([-0.7, 0.5, 1.7])
        cells = judge_cells({"ablation_stage1": logged.assign(seed=[100, 101, 102], shd=shd)})
        cell = cells.set_index("id").loc["ablation_stage1/SDCD/d20/s4"]
        expected = statistics.welch(shd, printed["mean"], sd, 3)
        assert cell["test"] == "Welch"
        assert cell["p_support"] == pytest.approx(expected.p_within(sd))
        assert cell["p_refute"] == pytest.approx(expected.p_different())

    @pytest.mark.parametrize("away", [0.1, -1.5])
    def test_the_data_sets_that_would_settle_it_show_it_within_or_different(self, away):
        name, keys = "dcdi_simulations", ["d", "s", "mechanism"]
        printed = published_table(name).query("method == 'SDCD'").set_index(keys)
        mean, sd, n = printed.loc[(20, 4, "L"), ["mean", "sd", "n"]]
        runs = published_runs(name).query("d == 20 and s == 4 and mechanism == 'L' and seed < 4")
        shd = mean + sd * (away + np.array([-1.2, 0, 1.2]))
        cell = (
            judge_cells({name: runs.assign(shd=shd)}).set_index("id").loc[f"{name}/SDCD/d20/s4/L"]
        )
        assert cell["verdict"] == "inconclusive"
        bound = sd if away == 0.1 else 0.0
        assert cell["seeds_needed"] == statistics.welch(shd, mean, sd, n).seeds_to_settle(bound) > 4

    def test_p_values_are_adjusted_for_the_cells_of_the_table(self):
        runs = published_runs("ablation_stage1").query("method == 'SDCD-warm' and d <= 20")
        runs["shd"] += np.array([2.0, -3, 1, 4, 9, -2])

        def p_values(runs):
            cells = judge_cells({"ablation_stage1": runs})
            return cells.dropna(subset="p_support")[["p_support", "p_refute"]].to_numpy()

        alone = np.concatenate([p_values(runs[runs["d"] == d]) for d in (10, 20)])
        together = p_values(runs)
        assert together.shape == (2, 2) and not np.allclose(alone, together)
        for own, found in zip(alone.T, together.T, strict=True):
            assert found == pytest.approx(stats.false_discovery_control(own))

    def test_what_is_impossible_here_is_no_failure_of_the_method(self):
        runs = published_runs("observational")
        runs = runs[(runs["method"] == "DAGMA") & (runs["d"] == 10)]
        runs[["status", "shd"]] = ["unavailable", np.nan]
        for reason in ("no weights", "killed by SIGKILL, by the system, probably for memory"):
            cells = judge_cells({"observational": runs.assign(reason=reason)}).set_index("id")
            cell = cells.loc["observational/DAGMA/d10/s4"]
            assert cell["verdict"] == "not run"
            assert cell["note"] == f"Could not be run here: {reason}"

    def test_finishing_where_the_paper_failed_is_said(self):
        runs = published_runs("observational")
        runs = runs[(runs["method"] == "GIES") & (runs["d"] == 20)].assign(d=30)
        cells = judge_cells({"observational": runs}).set_index("id")
        assert cells.loc["observational/GIES/d30/s4", "verdict"] == "not reproduced"

    def test_captions_that_state_other_numbers_of_seeds_are_named(self, of_logs):
        cells = cells_of(of_logs)
        text = cells.loc["observational/SDCD-GPU/d300/s4", "contradiction"]
        assert text == (
            "The caption says 5 data sets; the printed value is the mean of the 1 that the authors "
            "logged."
        )
        assert "no mean of five" in cells.loc["ablation_stage2/SDCD/d10/s4", "contradiction"]
        text = cells.loc["observational/SDCD/d40/s4", "contradiction"]
        assert text == "The caption says 30 data sets; the authors logged 5, whose mean is 73.2."
        assert cells.loc["interventional/SDCD/d20/s2/f0", "contradiction"] == ""


class TestClaims:
    def test_the_file_is_complete(self):
        claims = verdicts.read_claims()
        assert len(claims) >= 20
        for claim in claims:
            assert claim.place and claim.quote
            assert claim.test in claims_module.TESTS
        with open(
            Path(claims_module.__file__).with_name("claims.csv"), encoding="utf-8", newline=""
        ) as stream:
            assert len(list(csv.DictReader(stream))) == len(claims)

    def test_every_test_is_used_and_explained(self):
        used = {claim.test for claim in verdicts.read_claims()}
        assert used == set(claims_module.TESTS)
        assert all(test.__doc__ for test in claims_module.TESTS.values())

    def test_what_the_logs_show_clearly_is_reproduced(self, of_logs):
        claims = claims_of(of_logs)
        for name in (
            *("dcdi-crashes", "dagma-fails", "dcdfg-scales", "scaling-sdcd", "large-time"),
            *("beats-sortnregress", "interventions-help", "interventions-help-sdcd"),
            *("stages-essential", "mask-needed", "warm-start", "quadratic-cost"),
            *("unstable-exp", "unstable-binom", "d-unstable-inv", "stable-rho"),
        ):
            assert claims.loc[name, "verdict"] == "reproduced", name
        # How runs ended, in words.
        assert " failed (error)." in claims.loc["dcdi-crashes", "note"]
        assert claims.loc["dcdfg-scales", "note"].endswith(" ok.")

    def test_what_the_logs_contradict_is_not_reproduced(self, of_logs):
        claims = claims_of(of_logs)
        refuted = claims.index[claims["verdict"] == "not reproduced"].tolist()
        assert refuted == ["speed", "gamma-freezes", "stage1-speed"]
        assert (claims.loc[refuted, "contradiction"] != "").all()

    def test_claims_that_the_papers_own_table_contradicts_are_not_reproduced(self, of_logs):
        claims = claims_of(of_logs)
        for name in ("accuracy", "best-when-sparse", "best-constraint", "dcdi-dense"):
            assert claims.loc[name, "verdict"] == "inconclusive"
            assert claims.loc[name, "contradiction"]
            assert claims.loc[name, "seeds_needed"] >= 3

    def test_most_settings_cannot_be_judged_on_data_sets_without_all_methods(self, of_logs):
        # In five settings at d = 40 the logs have DCDI and DCD-FG on different data sets.
        claim = claims_of(of_logs).loc["best-in-most"]
        assert claim["verdict"] == "inconclusive" and claim["p_support"] < 0.05
        assert "55 of 60 comparisons were run. It holds for those." in claim["note"]

    def test_a_planted_shift_turns_claims(self):
        runs = logs()
        table = runs["observational"]
        table.loc[(table["method"] == "SDCD"), "shd"] += 0.9 * 4 * table["d"]
        claims = claims_of(verdicts.judge(runs))
        for name in ("accuracy", "scaling-sdcd", "beats-sortnregress"):
            assert claims.loc[name, "verdict"] == "not reproduced", name

    def test_a_method_that_the_paper_does_not_compare_changes_no_verdict(self, of_logs):
        runs = logs()
        for name, table in runs.items():
            better = table[table["method"].str.startswith("SDCD")].assign(shd=0, seconds=0.0)
            better["method"] += "+prune"
            runs[name] = pd.concat([table, better], ignore_index=True)
        pd.testing.assert_frame_equal(verdicts.judge(runs), of_logs)

    def test_part_of_the_grid_can_refute_but_not_support(self):
        runs = logs()
        table = runs["observational"]
        runs["observational"] = table[table["d"] == 50]
        claims = claims_of(verdicts.judge(runs))
        assert claims.loc["beats-sortnregress", "verdict"] == "inconclusive"
        assert (
            "1 of 10 comparisons were run. It holds for those."
            in (claims.loc["beats-sortnregress", "note"])
        )
        assert claims.loc["speed", "verdict"] == "not reproduced"

    def test_shortened_runs_do_not_count(self):
        runs = logs()
        runs["observational"]["shortened"] = "fewer rows"
        claims = claims_of(verdicts.judge({"observational": runs["observational"]}))
        of_runs = claims[claims["experiment"] == "observational"]
        assert set(of_runs["verdict"]) == {"not run"}
        assert of_runs["note"].str.contains("Shortened runs were left out: ").all()

    @pytest.mark.parametrize("name", ["beats-sortnregress", "notears-like-sortnregress"])
    def test_one_data_set_has_no_p_value(self, name):
        runs = published_runs("observational")
        one = runs[(runs["d"] == 10) & (runs["seed"] == 0)]
        claim = claims_of(verdicts.judge({"observational": one})).loc[name]
        assert claim["verdict"] == "inconclusive"
        assert np.isnan(claim["p_support"]) and np.isnan(claim["p_refute"])

    def test_a_published_mean_rests_on_the_data_sets_that_were_logged(self, monkeypatch):
        claim = next(c for c in verdicts.read_claims() if c.id == "beats-sortnregress")
        monkeypatch.setattr(claims_module, "read_claims", lambda: [claim])
        runs = published_runs("observational")
        runs = runs[(runs["method"] == "SDCD") & (runs["d"] == 100)]
        row = claims_module.judge_claims({"observational": runs}).iloc[0]
        table = published_table("observational").set_index(["method", "d"])
        printed = table.loc[("sortnregress", 100)]
        # The caption says five; the logs have three, with the printed mean.
        assert printed["n"] == 5
        shd = runs["shd"].to_numpy(float)
        log = math.log1p(shd.mean()) + (shd - shd.mean()) / (1 + shd.mean())
        mean, sd = printed["mean"], printed["sd"]
        distance = log - math.log1p(mean) - math.log(0.75)
        expected = statistics.welch(distance, 0.0, sd / (1 + mean), 3).p_below(0)
        assert row["p_support"] == pytest.approx(expected)
        # A run that failed counts as the largest distance against the claim.
        lost = runs[:1].assign(seed=9, status="timeout", shd=np.nan)
        row = claims_module.judge_claims({"observational": pd.concat([runs, lost])}).iloc[0]
        distance = np.append(distance, max(np.abs(distance).max(), math.log(2)))
        expected = statistics.welch(distance, 0.0, sd / (1 + mean), 3).p_below(0)
        assert row["p_support"] == pytest.approx(expected)

    def test_nothing_run_is_not_run(self):
        table = verdicts.judge({})
        assert set(cells_of(table)["verdict"]) == {"not run"}
        claims = claims_of(table)
        assert set(claims.loc[claims["experiment"] != "", "verdict"]) == {"not run"}
        assert set(claims.loc[claims["experiment"] == "", "verdict"]) == {"reproduced"}

    def test_constraints_that_were_optimised_and_timed(self):
        def end(mode, constraint, epoch, why):
            return {"mode": mode, "constraint": constraint, "epoch": epoch, "end": why}

        names = ("h_exp", "h_log", "h_inv", "h_rho", "h_rho+")
        behaviours = pd.DataFrame(
            [end("penalty", name, 0, "") for name in names]
            + [
                end("penalty", name, epochs, why)
                for name, epochs, why in zip(
                    names,
                    (8000, 5000, 300, 1200, 900),
                    ("epochs", "dag", "escape", "dag", "dag"),
                    strict=True,
                )
            ]
        )
        sizes = np.array([128, 256, 512, 1024])
        costs = pd.concat(
            pd.DataFrame({"constraint": name, "d": sizes, "seconds": 1e-9 * sizes**power})
            for name, power in (("h_rho", 2.0), ("h_exp", 3.0), ("h_log", 2.0))
        )
        claims = claims_of(
            verdicts.judge({"optimisation_behaviours": behaviours, "constraint_costs": costs})
        )
        assert claims.loc["fastest-penalty-rho-plus", "verdict"] == "reproduced"
        assert claims.loc["fastest-penalty-rho", "verdict"] == "reproduced"
        assert "h_inv never" in claims.loc["fastest-penalty-rho", "note"]
        assert claims.loc["fastest-lagrangian-rho", "verdict"] == "not run"
        assert claims.loc["cost-rho", "verdict"] == "reproduced"
        assert claims.loc["cost-exp", "estimate"] == pytest.approx(3)
        assert claims.loc["cost-log", "verdict"] == "not reproduced"

    def test_times_at_small_d_decide_nothing(self):
        costs = pd.DataFrame({"constraint": "h_exp", "d": [20, 40, 80, 200, 400], "seconds": 1.0})
        claim = claims_of(verdicts.judge({"constraint_costs": costs})).loc["cost-exp"]
        assert claim["verdict"] == "not run"
        assert claim["note"] == "An exponent needs three values of d from 200 on."

    def test_a_malformed_file_is_refused(self, tmp_path, monkeypatch):
        bad = Path(claims_module.__file__).with_name("claims.csv").read_text(encoding="utf-8")
        tmp_path.joinpath("claims.csv").write_text(bad.replace(",lower,", ",less,", 1))
        monkeypatch.setattr(claims_module, "files", lambda _: tmp_path)
        with pytest.raises(InputError, match=r"claims\.csv: line 2, unknown test 'less'"):
            verdicts.read_claims()


def test_what_makes_each_claim_fall_is_on_the_page():
    page = Path(__file__).parents[1] / "docs" / "verdicts.md"
    listed = falling.as_markdown()
    assert listed in page.read_text(encoding="utf-8")
    assert listed.count("\n") == len(verdicts.read_claims()) + 1


def test_files_are_complete_and_repeatable(of_logs, tmp_path):
    verdicts.write(of_logs, tmp_path / "a.csv")
    assert len(verdicts.read(tmp_path / "a.csv")) == len(of_logs)
    runs = {"interventional": published_runs("interventional")}
    for name in ("b.csv", "c.csv"):
        verdicts.write(verdicts.judge(runs), tmp_path / name)
    assert (tmp_path / "b.csv").read_bytes() == (tmp_path / "c.csv").read_bytes()
