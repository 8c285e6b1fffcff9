"""The report: one page made from results alone, the same bytes each time."""

import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sdcd import verdicts
from sdcd.errors import InputError
from sdcd.exhibits import EXHIBITS, IN_PAPER, file_stem
from sdcd.files import write_json
from sdcd.published import published_runs
from sdcd.report import inputs, judgement
from sdcd.report import page as report
from sdcd.report.overview import failures, fit_names
from sdcd.report.redraw import redraw
from sdcd.tables.layout import Layout

PLAN = {
    "scale": "tiny <b>",
    "n_observational": 10_000,
    "n_per_intervention": 500,
    "experiments": {"ablation_stage1": {}},
    "studies": {},
}


def record(seconds, **changes):
    return {
        "method": "SDCD",
        "status": "ok",
        "seconds": seconds,
        "threads": 2,
        "code": {"fingerprint": "f" * 16, "commit": "c" * 40},
        "finished": "2030-01-02T03:04:05+00:00",
        "versions": {"numpy": "2.0"},
        "machine": {"cpu": "a <processor>", "cores": 4, "platform": "Linux"},
        **changes,
    }


@pytest.fixture
def results(tmp_path) -> Path:
    """Runs of one experiment, two of them failed, with records of three fits."""
    folder = tmp_path / "results"
    runs = published_runs("ablation_stage1").reset_index(drop=True)
    runs["seconds"] = 1.0
    runs.loc[:1, ["status", "reason"]] = "error", "<script>alert(1)</script> broke"
    runs.loc[:1, "shd"] = np.nan
    (folder / "runs").mkdir(parents=True)
    runs.to_csv(folder / "runs/ablation_stage1.csv", index=False)
    write_json(folder / "plan.json", PLAN)
    for name, fit in zip(fit_names(runs), (record(3600), record(1800), record(0)), strict=False):
        write_json(folder / f"fits/{name}.json", fit)
    return folder


def test_a_redrawn_folder_has_everything_and_the_same_bytes_again(results, tmp_path):
    first, second = (
        {path.relative_to(folder): path.read_bytes() for path in redraw(results, folder / "r.html")}
        for folder in (tmp_path / "a", tmp_path / "b")
    )
    assert first == second
    assert {str(path) for path in first} == {
        # The second table is of the constraints, and needs no runs.
        *(f"tables/ablation_stage1{suffix}" for suffix in (".csv", ".tex")),
        *(f"tables/pst_constraints{suffix}" for suffix in (".csv", ".tex")),
        *("verdicts.csv", "failures.csv", "r.html"),
    }
    # Nothing else was written, and nothing where the results lie.
    assert {path for path in (tmp_path / "a").rglob("*") if path.is_file()} == {
        tmp_path / "a" / path for path in first
    }
    assert {path.name for path in results.iterdir()} == {"fits", "plan.json", "runs"}


def test_the_page_says_what_was_run_and_what_became_of_it(results, tmp_path):
    runs = pd.read_csv(results / "runs/ablation_stage1.csv")
    text = redraw(results, tmp_path / "out/report.html")[-1].read_text()
    assert "<title>SDCD, reproduced at scale tiny &lt;b&gt;</title>" in text
    assert f"{len(runs)}, of which 2 failed" in text
    # One hour and half an hour on two threads.
    assert "3.00 core-hours" in text
    assert "a &lt;processor&gt;, 4 cores" in text
    assert "c" * 40 in text and "2030-01-02 03:04" in text and "numpy 2.0" in text
    assert "<script" not in text and "&lt;script&gt;alert(1)&lt;/script&gt; broke" in text
    assert failures(runs)["log"][0] in text
    assert "SHD of SDCD and of its stage 1 variants" in text
    digest = hashlib.sha256((results / "runs/ablation_stage1.csv").read_bytes()).hexdigest()[:12]
    assert f"<code>runs/ablation_stage1.csv</code> ({digest})" in text
    assert "<code>snakemake table_ablation_stage1</code>" in text
    assert "Verdicts on its" in text
    # Every link into the page has its target, and every link out of it its file.
    targets = set(re.findall(r'id="([^"]+)"', text))
    for link in re.findall(r'href="([^"]+)"', text):
        assert link[1:] in targets if link[0] == "#" else (tmp_path / "out" / link).exists(), link
    # Nothing is loaded.
    assert not re.search(r'<link|src="(?!data:)|url\(|@import', text)


def test_a_figure_is_embedded_and_links_to_its_pdf(results, tmp_path):
    study = {"d": [200, 400], "constraint": ["h_rho", "h_rho"], "seconds": [1.0, 2.0]}
    pd.DataFrame(study).to_csv(results / "runs/constraint_costs.csv", index=False)
    png = b"\x89PNG\r\n\x1a\n" + bytes(8) + (800).to_bytes(4, "big") + (600).to_bytes(4, "big")
    (results / "figures").mkdir()
    for suffix, content in ((".png", png), (".pdf", b"%PDF")):
        (results / f"figures/runtime{suffix}").write_bytes(content)
    # A figure whose runs are not in the plan is left over from earlier.
    assert "data:image/png" not in report.page(results)
    runs = published_runs("observational")
    runs.to_csv(results / "runs/observational.csv", index=False)
    plan = {**PLAN, "experiments": {"observational": {}}}
    write_json(results / "plan.json", plan)
    text = report.page(results)
    assert 'width="400" height="300" src="data:image/png;base64,iVBOR' in text
    assert 'href="figures/runtime.pdf"' in text
    (results / "figures/runtime.png").write_bytes(b"GIF")
    with pytest.raises(InputError, match=r"runtime\.png: not a PNG"):
        report.page(results)


def test_of_the_best_cell_what_is_ours_is_bold():
    entry = {"ours": "1.0", "paper": "2.0", "difference": "−1.0"}
    laid_out = Layout("", ["d"], ["a", "b"], [(("10",), [entry, entry])], best=frozenset({(0, 1)}))
    key, other, best = report._of_layout(laid_out).rows[0]
    assert key == "10" and [span.text for span in best] == ["1.0", "paper 2.0", "Δ −1.0"]
    assert [span.bold for span in (*other, *best)] == [False] * 3 + [True, False, False]


def test_exhibits_are_in_the_paper_s_order(results):
    for name in ("observational", "interventional"):
        published_runs(name).to_csv(results / f"runs/{name}.csv", index=False)
    plan = {**PLAN, "experiments": {key: {} for key in ("observational", "interventional")}}
    write_json(results / "plan.json", plan)
    redraw(results, results / "report.html")
    text = (results / "report.html").read_text()
    shown = re.findall(r'id="((?:fig|table)_\w+)"', text)
    assert shown == [rule for rule in EXHIBITS if rule in shown]
    assert "fig_observational" in shown and "table_interventional" in shown
    assert len(shown) == len({file_stem(rule) + rule[0] for rule in shown})


def test_the_paper_s_numbers_are_given_and_what_is_missing_is_said(results):
    redraw(results, results / "report.html")
    text = (results / "report.html").read_text()
    here = "Table 7 of the paper, app:tab:empirical:ablation"
    assert f'Ablation of stage 1, SHD <span class="place">{here}</span></h3>' in text
    missing = re.search(r'<p class="lacking">(.+?)</p>', text)[1]
    assert "Figure 3, SHD on observational data with increasing d; Figure 4, " in missing
    assert "Table 7" not in missing and "Table 8, Ablation of stage 2" in missing
    # Those with runs here are the tables of the ablation and of the constraints.
    assert missing.count("; ") + 1 == len(IN_PAPER) - 2
    numbers = {EXHIBITS[rule].label: number for rule, number in IN_PAPER.items()}
    assert len(numbers) == 14 + 8
    assert numbers["fig:cartoon"] == "Figure 1" and numbers["tab:pst-constraints"] == "Table 2"
    assert numbers["app:fig:empirical:observational-large"] == "Figure 8"
    assert numbers["app:fig:empirical:interventional_full_recall"] == "Figure 14"
    assert numbers["app:tab:empirical:ablation2"] == "Table 8"


def test_without_plan_and_records_the_page_still_stands(results):
    (results / "plan.json").unlink()
    for path in results.glob("fits/**/*.json"):
        path.unlink()
    redraw(results, results / "report.html")
    text = report.page(results)
    assert "scale results" in text and "Git commit" not in text
    assert "Ablation of stage 1, SHD" in text


@pytest.mark.parametrize(
    ("path", "content", "message"),
    [
        ("plan.json", '{"scale": 3}', "plan.json: not a plan of runs"),
        ("plan.json", "[1]", "plan.json: not a plan of runs"),
        ("verdicts.csv", "a,b\n1,2\n", "verdicts.csv: column 'kind' is missing"),
        ("runs", None, "no table of runs"),
    ],
)
def test_what_is_not_as_it_must_be_is_said(results, path, content, message):
    if content is None:
        (results / "runs/ablation_stage1.csv").unlink()
    else:
        (results / path).write_text(content)
    with pytest.raises(InputError, match=re.escape(message)):
        report.page(results)


def test_a_record_that_is_none_is_said(results):
    path = next(results.glob("fits/**/*.json"))
    path.write_text(json.dumps({"seconds": "long"}))
    with pytest.raises(InputError, match="not the record of a fit"):
        report.page(results)


def test_one_fit_in_two_experiments_has_one_name_and_different_data_have_two():
    rows = [
        ("observational", 20, 4, np.nan, np.nan),
        ("ablation_stage1", 20, 4, 0.0, np.nan),
        ("interventional", 20, 4, 0.0, np.nan),
        ("interventional", 20, 4, 0.25, np.nan),
        ("dcdi_simulations", 20, 4, 0.0, "L"),
    ]
    runs = pd.DataFrame(rows, columns=["experiment", "d", "s", "fraction", "mechanism"])
    names = fit_names(runs.assign(seed=3, method="SDCD"))
    assert names == [
        "observational/d20_s4_seed3/SDCD",
        "observational/d20_s4_seed3/SDCD",
        "interventional/d20_s4_f0_seed3/SDCD",
        "interventional/d20_s4_f0.25_seed3/SDCD",
        "dcdi/L_d20_s4_seed3/SDCD",
    ]
    with pytest.raises(InputError, match="found experiment 'other', expected one of observ"):
        fit_names(runs.assign(seed=3, method="SDCD", experiment="other"))


def test_tables_from_the_fits_weights_count_with_their_experiment(tmp_path):
    (tmp_path / "runs").mkdir()
    for name in ("thresholds_interventional", "thresholds_observational", "interventional"):
        (tmp_path / f"runs/{name}.csv").write_text("d\n5\n")
    plan = {"experiments": {"interventional": {}}, "studies": {}}
    found = set(inputs.read_tables(tmp_path, plan))
    assert found == {"interventional", "thresholds_interventional"}
    assert len(inputs.read_tables(tmp_path)) == 3


@pytest.mark.parametrize(
    ("name", "part", "title"),
    [
        ("SDCD-pruned", "pruning", "Held-out pruning"),
        ("SDCD-ordered", "ordering", "Search over causal orders"),
    ],
)
def test_steps_after_a_method_have_parts_of_the_report_and_without_them_there_is_none(
    results, name, part, title
):
    assert f'id="{part}"' not in report.page(results)
    path = results / "runs/ablation_stage1.csv"
    runs = pd.read_csv(path)
    pruned = runs[(runs["method"] == "SDCD") & (runs["status"] == "ok")]
    pruned = pruned.assign(method=name, shd=pruned["shd"] / 2, shortened="40 <epochs>")
    pd.concat([runs, pruned]).to_csv(path, index=False)
    text = report.page(results)
    assert f'<section id="{part}">' in text and f'<a href="#{part}">' in text
    assert f"{title}, not in the paper" in text
    assert text.count("<strong>Not in the paper.</strong>") == 1
    assert f"<li>Shortened: {name}: 40 &lt;epochs&gt;.</li>" in text


def test_a_method_that_is_unavailable_is_not_counted_as_failed(results):
    path = results / "runs/ablation_stage1.csv"
    runs = pd.read_csv(path)
    runs.loc[1, "status"] = "unavailable"
    runs.to_csv(path, index=False)
    text = report.page(results)
    assert "of which 1 failed and 1 could not be run here" in text
    assert "passed a time limit" not in text


def test_the_report_says_how_many_fits_the_clock_ended(results):
    path = results / "runs/ablation_stage1.csv"
    runs = pd.read_csv(path)
    runs.loc[1, ["status", "reason"]] = "timeout", "time limit of 300 s passed"
    runs.to_csv(path, index=False)
    assert "passed a time limit (on a faster machine they may finish): 1" in report.page(results)


@pytest.fixture
def judged():
    """Cells of one table and claims, of each verdict."""
    cell = dict.fromkeys(verdicts.COLUMNS, np.nan)
    cell |= {"kind": "cell", "experiment": "observational", "method": "SDCD", "d": 20, "s": 4}
    cell |= {"statement": "SDCD: SHD 10.0 ± 2.0", "published": 10.0, "published_sd": 2.0}
    cell |= {"ours": 11.0, "ours_sd": 1.0, "ours_n": 3, "test": "Welch"}
    cell |= {"estimate": 1.0, "low": -0.5, "high": 2.5, "verdict": "not run"}
    claim = {**cell, "kind": "claim", "metric": "shd", "test": "lower", "threshold": 0.75}
    claim |= {"estimate": 0.5, "low": 0.4, "high": 0.6}
    rows = [
        {**cell, "verdict": "reproduced"},
        {**cell, "verdict": "not reproduced", "ours": 30.0},
        {**cell, "shortened": "fewer rows"},
        {**cell, "ours": np.nan},
        {**claim, "id": "first", "verdict": "reproduced"},
        {**claim, "id": "second", "verdict": "inconclusive", "seeds_needed": 12.0},
        {**claim, "id": "third"},
    ]
    return pd.DataFrame(rows)


def test_verdicts_are_counted_without_what_was_not_run(judged):
    section = judgement.section(judged)
    assert section.summary == (
        "Of 2 claims of the text that these runs can judge, 1 reproduced, 0 not reproduced, "
        "1 inconclusive (1 more were not run); of 2 cells of the tables that these runs can judge, "
        "1 reproduced, 1 not reproduced, 0 inconclusive (2 more were not run)."
    )
    assert section.counts.rows == [
        ("observational", "1", "1", "–", "2"),
        ("claims", "1", "–", "1", "1"),
    ]
    assert section.refuted == [
        "observational, d = 20, s = 4: SDCD has SHD 10.0 ± 2.0 in the paper, 30.0 over 3 data "
        "sets here."
    ]
    assert [claim.id for claim in (*section.claims, *section.unrun)] == ["first", "second", "third"]
    found = "Ratio 0.5 [0.4, 0.6]; threshold 0.75."
    assert [claim.found for claim in section.claims] == [
        found,
        f"{found} About 12 data sets for each setting would settle it.",
    ]


def test_the_cells_that_are_farthest_off_come_first(judged):
    sizes = ((-1.5, 10), (4.0, 20), (-6.0, 30))
    each = [judged[1:2].assign(effect_size=effect, d=d) for effect, d in sizes]
    off = pd.concat(each, ignore_index=True)
    section = judgement.section(off, most=2)
    assert [text.partition(", s")[0] for text in section.refuted] == [
        f"observational, d = {d}" for d in (30, 20)
    ]
    assert section.more_refuted == 1


def test_each_cell_that_was_run_is_shown_beside_the_paper_s(judged):
    heading, table, rest = judgement.of_table("observational", judged)
    assert heading == "Verdicts on its 4 cells: 1 reproduced, 1 not reproduced, 2 not run"
    assert rest == "1 of 4 cells have no run."
    where = ("d = 20, s = 4", "SDCD", "10.0 ± 2.0")
    assert [row[:5] for row in table.rows] == [
        (*where, f"{ours} (3){star}", "+1.0 [−0.5, +2.5]")
        for ours, star in (("11.0 ± 1.0", ""), ("30.0 ± 1.0", ""), ("11.0 ± 1.0", "*"))
    ]
    assert table.rows[2][6][0].text == "* fewer rows."
    assert judgement.of_table("interventional", judged) is None


def test_a_method_that_finishes_where_the_paper_has_no_value_is_said_once():
    runs = published_runs("interventional").query("method == 'GIES' and fraction == 0")
    finished = pd.concat([runs.assign(d=30, shd=134.0), runs.assign(d=40, shd=187.0)])
    section = judgement.section(verdicts.judge({"interventional": finished}))
    assert section.refuted == [
        "interventional: GIES has NA in 8 cells of the paper (d = 30, 40); here it finishes, "
        "with mean SHD from 134 to 187."
    ]
    assert section.more_refuted == 0
