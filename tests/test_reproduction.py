"""The ledger of fits: what is missing is made once, and the report is drawn from it alone."""

import copy
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import yaml

from sdcd import published, verdicts
from sdcd.data.dataset import write_dataset
from sdcd.errors import FitKilled, InputError
from sdcd.experiments.datasets import DatasetKey
from sdcd.experiments.plan import make_plan
from sdcd.files import atomic_path, read_json
from sdcd.fits.provenance import fit_fingerprint
from sdcd.fits.run import run_fit
from sdcd.methods import contract
from sdcd.methods.outside import register_outside
from sdcd.reproduction import ledger
from sdcd.reproduction.__main__ import main
from sdcd.reproduction.look import look, older_than_the_code
from sdcd.reproduction.run import adopt, missing, run
from sdcd.reproduction.standing import BEGIN, END, standing, write_standing
from sdcd.simulation import simulate

ROOT = Path(__file__).resolve().parents[1]
SCHEMA = yaml.safe_load((ROOT / "workflow/schemas/config.schema.yaml").read_text())


def _scale(name):
    config = yaml.safe_load((ROOT / "config.yaml").read_text())
    return make_plan(config | {"scale": name}, SCHEMA)


@pytest.fixture(scope="module")
def plan():
    config = yaml.safe_load((ROOT / "config.yaml").read_text())
    config = copy.deepcopy(config) | {"methods": ["sortnregress", "GIES"], "scale": "tiny"}
    config["scales"]["tiny"] = {
        "n_observational": 300,
        "n_per_intervention": 30,
        "time_limit_s": 100,
        "memory_limit_mb": 4000,
        "method_options": {"sortnregress": {"settings": {"threshold": 0.2}}},
        "grids": {"observational": [{"d": [4], "s": [1], "seeds": [0, 4]}]},
    }
    return make_plan(config, SCHEMA)


@pytest.fixture(scope="module")
def filled(plan, tmp_path_factory):
    """A ledger with the three fits that a run, stopped and begun again, has made."""
    folder = tmp_path_factory.mktemp("ledger")
    assert run(plan, folder, hours=0.0) == 0
    assert run(plan, folder, only=("sortnregress",)) == 2
    assert run(plan, folder, only=("sortnregress",)) == 0
    return folder


def test_cells_with_few_data_sets_come_before_further_seeds(plan, tmp_path):
    found = missing(plan, tmp_path)
    assert [key.seed for _, key, _ in found] == [0, 0, 4, 4]
    costs = [cost for cost, _, _ in found]
    assert costs[0] < costs[1] and costs[2] < costs[3]


def test_a_fit_is_expected_to_take_no_longer_than_its_limit(tmp_path):
    config = yaml.safe_load((ROOT / "config.yaml").read_text()) | {"methods": ["DAGMA"]}
    config |= {"scale": "tiny"}
    config["scales"]["tiny"] = {
        "n_observational": 10_000,
        "n_per_intervention": 500,
        "time_limit_s": 5,
        "memory_limit_mb": 4000,
        "grids": {"observational": [{"d": [50], "s": [4], "seeds": [0]}]},
    }
    assert [cost for cost, _, _ in missing(make_plan(config, SCHEMA), tmp_path)] == [5.0]


def test_a_fit_has_the_limits_and_threads_of_the_plan(plan, tmp_path, monkeypatch):
    asked = {}

    def refuse(data, name, **how):
        asked.update(how, name=name)
        raise InputError("as planned")

    monkeypatch.setattr("sdcd.reproduction.run.run_fit", refuse)
    method = replace(plan.methods["sortnregress"], threads=3)
    planned = replace(plan, methods={**plan.methods, "sortnregress": method})
    with pytest.raises(InputError, match="as planned"):
        run(planned, tmp_path, only=("sortnregress",))
    expected = {"name": "sortnregress", "settings": {"threshold": 0.2}, "threads": 3}
    expected |= {"time_limit_s": 100, "memory_limit_mb": 4000}
    assert {key: asked[key] for key in expected} == expected


def test_no_fit_begins_after_so_many_hours(plan, tmp_path, monkeypatch):
    clock = [0.0]

    def fit(*_):
        clock[0] += 1000

    monkeypatch.setattr("sdcd.reproduction.run._fit", fit)
    monkeypatch.setattr("sdcd.reproduction.run.time", SimpleNamespace(monotonic=lambda: clock[0]))
    # They begin after 0, 1000 and 2000 seconds; the last would after 3000.
    assert run(plan, tmp_path, hours=0.75) == 3


def test_a_row_says_what_was_fitted_and_by_which_code(plan, filled):
    table = ledger.read(filled)
    assert table["dataset"].tolist() == [f"observational/d4_s1_seed{seed}" for seed in (0, 4)]
    assert set(table["settings"]) == {'{"threshold":0.2}'}
    assert set(table["status"]) == {"ok"} and (table["shd"] >= 0).all()
    assert "300 rows instead of 10,000" in table["shortened"][0]
    assert table["fingerprint"].str.fullmatch("[0-9a-f]{16}").all()
    assert [name for _, _, name in missing(plan, filled)] == ["GIES", "GIES"]
    assert older_than_the_code(table) == {}


def test_fits_by_other_code_are_told_and_made_again_if_asked(plan, filled, tmp_path):
    table = ledger.read(filled)
    table.loc[0, "fingerprint"] = "0" * 16
    ledger.add(tmp_path, table.to_dict("records"))
    assert older_than_the_code(ledger.read(tmp_path)) == {"sortnregress": (1, 2)}
    assert len(missing(plan, tmp_path)) == 2
    stale = missing(plan, tmp_path, stale=True)
    assert [(key.seed, name) for _, key, name in stale if name == "sortnregress"] == [
        (0, "sortnregress")
    ]


def test_a_file_that_a_setting_names_is_part_of_the_code(tmp_path):
    file, name = tmp_path / "prior.txt", "outside-of-test-reproduction"
    file.write_text("one")
    command = ["program", "{prior}", "{input}", "{output}"]
    chosen = register_outside({"name": name, "command": command, "settings": {"prior": ""}})
    try:
        settings = {"prior": str(file)}
        row = {"method": name, "settings": ledger.settings_text(settings)}
        table = pd.DataFrame([{**row, "fingerprint": fit_fingerprint(chosen, settings)}])
        assert older_than_the_code(table) == {}
        file.write_text("another")
        assert older_than_the_code(table) == {name: (1, 1)}
    finally:
        del contract.REGISTERED[name]


def test_fits_that_were_impossible_where_they_were_tried_are_made_again_if_asked(
    plan, filled, tmp_path
):
    table = ledger.read(filled)
    table.loc[1, "status"] = "unavailable"
    ledger.add(tmp_path, table.to_dict("records"))
    assert [name for _, _, name in missing(plan, tmp_path)] == ["GIES", "GIES"]
    again = [key.seed for _, key, name in missing(plan, tmp_path, stale=True) if name != "GIES"]
    assert again == [4]


def test_adding_keeps_the_digits_that_are_there_and_the_order(filled, tmp_path):
    rows = ledger.read(filled).to_dict("records")
    # The default reader of pandas is one unit in the last place off here.
    rows[1]["precision"] = 0.47058823529411764
    ledger.add(tmp_path, rows)
    before = (tmp_path / ledger.FILE).read_bytes()
    assert b",0.47058823529411764," in before
    (tmp_path / ledger.FILE).unlink()
    ledger.add(tmp_path, rows[1:])
    ledger.add(tmp_path, rows[:1])
    ledger.add(tmp_path, rows[:1])
    assert (tmp_path / ledger.FILE).read_bytes() == before


def test_programs_that_add_at_once_lose_no_row(filled, tmp_path):
    row = ledger.read(filled).to_dict("records")[0]

    def add(number):
        ledger.add(tmp_path, [{**row, "dataset": f"observational/d4_s1_seed{number}"}])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(24)))
    assert len(ledger.read(tmp_path)) == 24


def test_fits_of_the_workflow_are_adopted(plan, filled, tmp_path):
    key, name = DatasetKey("observational", 4, 1, 0), "sortnregress"
    dataset = simulate(4, 1, 0, n_observational=300)
    write_dataset(tmp_path / f"data/{key.name}.npz", dataset)
    out = tmp_path / f"fits/{key.name}/{name}.npz"
    run_fit(tmp_path / f"data/{key.name}.npz", name, out=out, settings={"threshold": 0.2})
    assert adopt(plan, tmp_path / "ledger", tmp_path) == 1
    adopted, made = (ledger.read(folder).iloc[0] for folder in (tmp_path / "ledger", filled))
    own = ["seconds", "peak_rss_mb", "finished", "commit"]
    assert adopted.drop(own).equals(made.drop(own))


@pytest.mark.parametrize(
    ("threshold", "rows", "message"),
    [(0.3, 300, "threshold = 0.3, expected 0.2"), (0.2, 200, "n_rows = 200, expected 300")],
)
def test_fits_of_another_scale_are_not_adopted(plan, tmp_path, threshold, rows, message):
    for seed, (t, n) in ((0, (0.2, 300)), (4, (threshold, rows))):
        key = DatasetKey("observational", 4, 1, seed)
        data = tmp_path / f"data/{key.name}.npz"
        write_dataset(data, simulate(4, 1, seed, n_observational=n))
        out = tmp_path / f"fits/{key.name}/sortnregress.npz"
        run_fit(data, "sortnregress", out=out, settings={"threshold": t})
    with pytest.raises(InputError, match=message):
        adopt(plan, tmp_path / "ledger", tmp_path)
    assert not len(ledger.read(tmp_path / "ledger"))


def test_a_fit_that_passed_a_lower_limit_is_not_adopted(plan, tmp_path):
    key = DatasetKey("observational", 4, 1, 0)
    data = tmp_path / f"data/{key.name}.npz"
    write_dataset(data, simulate(4, 1, 0, n_observational=300))
    out = tmp_path / f"fits/{key.name}/sortnregress.npz"
    # The plan's is 100 s.
    run_fit(data, "sortnregress", out=out, settings={"threshold": 0.2}, time_limit_s=1e-6)
    with pytest.raises(InputError, match=r"found time_s = 1e-06, expected 100 as at scale 'tiny'"):
        adopt(plan, tmp_path / "ledger", tmp_path)


def test_fits_from_other_rows_count_for_nothing_and_are_not_replaced(plan, filled, tmp_path):
    rows = ledger.read(filled).to_dict("records")
    rows[0]["shortened"] = "threshold = 0.2 instead of 0.3"
    ledger.add(tmp_path, rows)
    message = r"fits\.csv: observational/d4_s1_seed0 sortnregress has all rows, expected 300 "
    for use in (missing, run, standing):
        with pytest.raises(InputError, match=message):
            use(plan, tmp_path)
    with pytest.raises(InputError, match=message):
        adopt(plan, tmp_path, tmp_path)


def test_a_fingerprint_of_digits_stays_one(filled, tmp_path):
    rows = ledger.read(filled).to_dict("records")
    ledger.add(tmp_path, [{**row, "fingerprint": "0" * 15 + "1"} for row in rows])
    assert set(ledger.read(tmp_path)["fingerprint"]) == {"0" * 15 + "1"}


def test_the_report_is_drawn_without_a_fit(plan, filled, tmp_path):
    older = tmp_path / "results/report.html"
    older.parent.mkdir()
    older.touch()
    # Of one who was killed while it was written.
    with atomic_path(older) as left:
        pass
    left.touch()
    report = look(plan, filled, tmp_path / "results")
    runs = pd.read_csv(tmp_path / "results/runs/observational.csv")
    assert runs["method"].tolist() == ["sortnregress"] * 2
    assert "2, of which 0 failed" in report.read_text()
    assert (tmp_path / "results/figures/observational.png").exists()
    with pytest.raises(InputError, match=r"fits\.csv: no fits"):
        look(plan, tmp_path / "none", tmp_path / "results")
    # Only what it has drawn itself is replaced.
    (tmp_path / "results/thesis.tex").touch()
    with pytest.raises(InputError, match=r"results: not a report drawn before"):
        look(plan, filled, tmp_path / "results")
    assert (tmp_path / "results/thesis.tex").exists() and report.exists()


def test_the_readme_says_what_the_kept_runs_say():
    sentence = standing(_scale("weekend"), ROOT / "reproduction")
    assert f"{BEGIN}{sentence}\n{END}" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_findings_count_what_the_kept_runs_say():
    weekend = _scale("weekend")
    fits = ledger.read(ROOT / "reproduction")
    judged = verdicts.judge(ledger.kept_runs(weekend, ROOT / "reproduction"))
    cells = judged[judged["kind"] == "cell"]
    notes = judged.set_index("id")["note"]

    def of(condition, verdict="reproduced"):
        chosen = cells.query(condition)
        return (chosen["verdict"] == verdict).sum(), len(chosen)

    def own(method):
        return of(f"experiment == 'observational' and d <= 50 and method == '{method}'")

    interventional = "experiment == 'interventional' and method == "
    sdcd, of_sdcd = of(f"{interventional}'SDCD'")
    dcdi = "experiment == 'dcdi_simulations' and d == "
    half = int(verdicts.count_half_margin(cells)["half_margin"].sum())
    variants = "experiment == 'ablation_stage1' and method not in ('SDCD', 'DCDI-G')"
    no_crash = [notes[f"no-crash-{name}"].partition(" runs: ") for name in ("exp", "log")]
    dagma = fits[(fits["method"] == "DAGMA") & fits["dataset"].str.contains("/d[34]0_")]
    text = " ".join((ROOT / "docs/findings.md").read_text(encoding="utf-8").split())
    for sentence in (
        f"({len(fits):,} of them; `make look`",
        "at {} of the {} d up to 50, ".format(*own("SDCD")),
        f"and in {sdcd} of {of_sdcd} cells with interventions; "
        f"{of(interventional + repr('SDCD'), 'not reproduced')[0]} of the other {of_sdcd - sdcd} ",
        f"by half of it, {half} cells of the {of('d > 0')[0]} reproduced would remain",
        "NOTEARS at {} of {} d, ".format(*own("NOTEARS")),
        "NOBEARS at {} of {}, ".format(*own("NOBEARS")),
        "GIES in {} of {} cells with".format(*of(f"{interventional}'GIES' and d == 20")),
        "the variants of stage 1 in {} of {} cells.".format(*of(variants)),
        f"{of('published.isna()', 'not reproduced')[0]} cells in which the paper has NA",
        f"{(dagma['status'] == 'ok').sum()} of {len(dagma)} runs ended there",
        "{} of {} cells are found to differ".format(*of(f"{dcdi}20", "not reproduced")),
        f"and {of(f'{dcdi}20')[0]} are found to agree",
        "at d = 10, {} of {} differ".format(*of(f"{dcdi}10", "not reproduced")),
        notes["gamma-freezes"].partition(" runs.")[0] + " runs, ",
        notes["interventions-help-sdcd"].partition(";")[0].replace("Falls", "density, holds"),
        "{} of {} runs. - **Not".format(
            sum(int(ok.removesuffix(" ok.")) for *_, ok in no_crash),
            sum(int(count) for count, *_ in no_crash),
        ),
    ):
        assert sentence in text


def test_the_findings_count_the_runs_of_notears_that_equal_their_logs():
    runs = ledger.kept_runs(_scale("weekend"), ROOT / "reproduction")["observational"]
    ours = runs.query("method == 'NOTEARS' and d <= 50")
    logged = published.published_runs("observational").query("method == 'NOTEARS'")
    both = ours.merge(logged, on=["d", "s", "seed"], suffixes=("", "_logged"))
    same = np.isclose(both["recall"], both["recall_logged"], atol=1e-6)
    for metric in ("shd", "n_edges"):
        same &= both[metric] == both[f"{metric}_logged"]
    assert (both["n_edges"] - both["n_edges_logged"]).abs().max() == 2
    text = " ".join((ROOT / "docs/findings.md").read_text(encoding="utf-8").split())
    assert f"edges in {same.sum()} of the {len(both)} twins at d = 10 to 50" in text
    cyclic = (both.loc[same, "is_dag"].astype(str) == "False").sum()
    assert f"{cyclic} of the {same.sum()} graphs have one" in text


def test_the_standing_counts_the_verdicts(plan, filled):
    # Two fits at d = 4, of which the paper has no cell. Seven claims need no fit.
    found = standing(plan, filled)
    assert found.startswith("**0 of the 427 cells of the paper's tables and 7 of its 58 claims are")
    assert "cells 0 are reproduced (0 of them within half the margin as well), 0 are not" in found
    assert "claims 7 are reproduced (7 of them about the constraints alone" in found


def test_the_standing_tells_apart_what_is_reproduced_easily(plan, monkeypatch):
    rows = [
        ("cell", "observational", "reproduced", 3.0, "reproduced", "Welch"),
        ("cell", "observational", "reproduced", 3.0, "inconclusive", "paired by seed"),
        ("cell", "observational", "not reproduced", 3.0, "not reproduced", "Welch"),
        ("cell", "interventional", "not reproduced", None, None, ""),
        # Failed in the paper and here: there is no margin.
        ("cell", "interventional", "reproduced", None, "reproduced", ""),
        ("cell", "interventional", "not run", None, None, ""),
        ("claim", "observational", "reproduced", None, None, "lower"),
        ("claim", "constraint_costs", "reproduced", None, None, "cost_below"),
        ("claim", None, "inconclusive", None, None, "unstable"),
    ]
    columns = ["kind", "experiment", "verdict", "published", "half_margin", "test"]
    judged = pd.DataFrame(rows, columns=columns)
    monkeypatch.setattr("sdcd.reproduction.standing.kept_runs", lambda *_: None)
    monkeypatch.setattr("sdcd.verdicts.judge", lambda _: judged)
    found = standing(plan, "nowhere")
    assert "5 of the 6 cells of the paper's tables and 3 of its 3 claims" in found
    assert "3 are reproduced (1 of them within half" in found
    assert "2 are not (1 of them because the method ends here where the paper has NA)" in found
    assert "2 are reproduced (1 of them about the constraints alone" in found


def test_the_standing_is_written_between_its_lines(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"above\n{BEGIN}old\nlines\n{END}below\n", encoding="utf-8")
    write_standing(page, "new")
    assert page.read_text(encoding="utf-8") == f"above\n{BEGIN}new\n{END}below\n"
    page.write_text("nothing\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"page\.md: no lines"):
        write_standing(page, "new")


def test_every_fit_of_laptop_is_one_of_weekend():
    laptop, weekend = _scale("laptop"), _scale("weekend")
    for name, experiment in laptop.experiments.items():
        assert set(experiment.fits()) <= set(weekend.experiments[name].fits())
    for name, method in laptop.methods.items():
        assert method.settings == weekend.methods[name].settings


def _command(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["sdcd.reproduction", *map(str, arguments)])
    return main()


def test_the_command_says_what_is_missing_at_the_scale(monkeypatch, capsys, tmp_path):
    fits = {}
    for scale in ("smoke", "quick"):
        assert _command(monkeypatch, "--scale", scale, "--folder", tmp_path, "missing") == 0
        *methods, total = (line.split() for line in capsys.readouterr().out.splitlines())
        assert total[0] == "all" and int(total[1]) == sum(int(line[1]) for line in methods)
        fits[scale] = len(missing(_scale(scale), tmp_path))
        assert int(total[1]) == fits[scale]
    assert fits["smoke"] < fits["quick"]


def test_the_command_draws_the_ledger_and_tells_of_older_code(
    monkeypatch, capsys, plan, filled, tmp_path
):
    table = ledger.read(filled)
    table.loc[0, "fingerprint"] = "0" * 16
    # Fits of another scale count for nothing.
    other = table.assign(settings='{"threshold":0.9}', cpu="another", fingerprint="1" * 16)
    ledger.add(tmp_path, pd.concat([table, other]).to_dict("records"))
    monkeypatch.setattr("sdcd.reproduction.__main__._plan", lambda scale: plan)
    look = ("--folder", tmp_path, "look", "--results", tmp_path / "drawn")
    assert _command(monkeypatch, *look) == 0
    said = capsys.readouterr().out
    assert "1 of 2 fits of sortnregress" in said
    assert f"report: {tmp_path}/drawn/report.html" in said
    assert (tmp_path / "drawn/report.html").exists()
    for row in table.itertuples():
        record = read_json(tmp_path / f"drawn/fits/{row.dataset}/{row.method}.json")
        assert record["machine"]["cpu"] == row.cpu


def test_the_command_says_what_it_cannot_do_in_one_line(monkeypatch, capsys, plan, tmp_path):
    run_sddc = ("--folder", tmp_path, "run", "--methods", "SDDC")
    assert _command(monkeypatch, "--scale", "smoke", *run_sddc) == 2
    line = capsys.readouterr().err
    assert "method 'SDDC': not at scale 'smoke', expected one that is (did you mean 'SDCD'" in line
    monkeypatch.setattr("sdcd.reproduction.__main__._plan", lambda scale: plan)
    for error, code in ((FitKilled("killed by SIGKILL"), 4), (KeyboardInterrupt(), 130)):

        def fail(*args, error=error, **options):
            raise error

        monkeypatch.setattr("sdcd.reproduction.run.run_fit", fail)
        assert _command(monkeypatch, "--folder", tmp_path, "run") == code
        assert capsys.readouterr().err.count("\n") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "--hours", "nan"), "hours: found nan, expected a number from 0 on"),
        (("run", "--hours", "-1"), "hours: found -1.0"),
        (("adopt", "."), ".: no folder 'fits' in it"),
        (("missing",), "no such folder"),
        (("standing",), "no such folder"),
    ],
)
def test_the_command_refuses_what_would_mean_nothing(
    arguments, message, monkeypatch, capsys, tmp_path
):
    monkeypatch.chdir(tmp_path)
    assert _command(monkeypatch, "--folder", tmp_path / "ledger", *arguments) == 2
    said = capsys.readouterr()
    assert message in said.err and said.err.count("\n") == 1 and not said.out
    assert not list(tmp_path.iterdir())


def test_the_command_refuses_an_empty_ledger_in_one_line(monkeypatch, capsys, tmp_path):
    assert _command(monkeypatch, "--folder", tmp_path, "look") == 2
    assert capsys.readouterr().err.count("\n") == 1
