"""The plan that follows from the configuration: what is run, what is refused, what it asks for."""

import base64
import copy
import csv
import datetime
import json
import math
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml
from support.workflow import SMOKE, new_clone, snakemake

from sdcd.errors import InputError
from sdcd.exhibits import EXHIBITS
from sdcd.experiments.configuration import checked
from sdcd.experiments.datasets import DatasetKey, from_short, in_short
from sdcd.experiments.origin import warnings
from sdcd.experiments.plan import (
    DERIVED,
    FAMILIES,
    FROM_DATA,
    PAPER,
    STUDIES,
    Experiment,
    make_plan,
)
from sdcd.files import write_json
from sdcd.fits import costs
from sdcd.methods.registry import methods

ROOT = Path(__file__).resolve().parents[1]
SCHEMA = yaml.safe_load((ROOT / "workflow/schemas/config.schema.yaml").read_text())
CONFIG_TEXT = (ROOT / "config.yaml").read_text()
CONFIG = yaml.safe_load(CONFIG_TEXT)


def plan_of(**changes):
    return make_plan({**copy.deepcopy(CONFIG), **changes}, SCHEMA)


# Data sets of each experiment of the paper, and who is run on them.
OBSERVATIONAL = 5 * 30 + 5 * 5
PAPER_FITS = {
    "observational": {
        **dict.fromkeys(
            ["SDCD", "DCDI-G", "DCD-FG", "GIES", "DAGMA", "NOTEARS", "NOBEARS", "SCORE"],
            OBSERVATIONAL,
        ),
        **dict.fromkeys(["sortnregress", "AVICI", "NOCURL"], OBSERVATIONAL),
        "SDCD-GPU": 30 + 5 * 5,
    },
    "observational_large": {"SDCD-GPU": 2 * 3 + 2 * 2},
    "interventional": dict.fromkeys(["SDCD", "DCDI-G", "DCD-FG", "GIES"], 3 * 4 * 5 * 5),
    "ablation_stage1": dict.fromkeys(
        ["SDCD", "SDCD-warm", "SDCD-warm-nomask", "SDCD-no-s1", "SDCD-no-s1-2", "DCDI-G"], 4 * 3
    ),
    "ablation_stage2": dict.fromkeys(["SDCD", "SDCD-exp", "SDCD-log"], 5 * 5),
    "dcdi_simulations": dict.fromkeys(["SDCD", "DCDI-G", "DCDI-DSF"], 3 * 2 * 2 * 10),
}


def test_scale_paper_is_the_paper():
    plan = plan_of(scale="paper", gpu=True)
    counts = {
        name: dict(Counter(method for _, method in experiment.fits()))
        for name, experiment in plan.experiments.items()
    }
    assert counts == PAPER_FITS
    assert plan.n_observational == PAPER["n_observational"]
    assert plan.n_per_intervention == PAPER["n_per_intervention"]
    for name, method in plan.methods.items():
        assert method.time_limit_s == PAPER["time_limit_s"], name
    for experiment in plan.experiments.values():
        assert {bounds["shortened"] for bounds in experiment.methods.values()} == {""}
    assert plan.studies == {name: {} for name in STUDIES}


def test_scale_laptop_has_every_number_of_sdcd_up_to_50_variables():
    laptop, paper = (plan_of(scale=scale) for scale in ("laptop", "paper"))
    for name, experiment in paper.experiments.items():
        wanted = {
            (key, method)
            for key, method in experiment.fits()
            if method.startswith("SDCD") and key.d <= 50
        }
        assert wanted <= set(laptop.experiments[name].fits()), name
    for name, method in laptop.methods.items():
        if name.startswith("SDCD"):
            assert method.settings == {}, name
    assert laptop.studies == paper.studies


def test_scale_laptop_takes_a_night_on_two_cores():
    plan = plan_of(scale="laptop")
    fits = {fit for experiment in plan.experiments.values() for fit in experiment.fits()}
    starting = 4
    # AVICI is unavailable without its weights.
    cost = sum(
        starting + costs.expected(method, key.d, plan.n_rows(key))[0]
        for key, method in fits
        if method != "AVICI"
    )
    assert 4 < cost / 3600 / 2 < 6.5


@pytest.mark.parametrize("scale", ["quick", "laptop", "weekend"])
def test_no_clock_decides_a_fit_of_a_scale_that_is_for_comparison(scale):
    """Also where everything takes four times as long as on the machine that was measured."""
    plan = plan_of(scale=scale)
    for experiment in plan.experiments.values():
        for key, name in experiment.fits():
            limit = plan.methods[name].time_limit_s
            seconds = costs.expected_seconds(name, key.d, plan.n_rows(key), 1e9)
            assert 4 * seconds < limit, (name, key.name, seconds, limit)


def test_every_scale_has_a_point_of_every_study_and_the_first_experiments():
    for scale in CONFIG["scales"]:
        plan = plan_of(scale=scale)
        assert {"observational", "interventional"} <= set(plan.experiments)
        assert set(plan.studies) == set(STUDIES)


def test_without_a_gpu_no_method_needs_one():
    assert "SDCD-GPU" not in plan_of(scale="paper").methods
    assert plan_of(scale="paper", gpu="true").methods["SDCD-GPU"].gpu
    assert "SDCD-GPU" not in plan_of(scale="paper", gpu="false").methods


def test_what_a_scale_shortens_is_said():
    smoke = plan_of(scale="smoke").experiments["interventional"].methods["SDCD"]["shortened"]
    assert "500 rows instead of 10,000" in smoke
    assert "50 rows per intervention instead of 500" in smoke
    assert "epochs_1 = 40 instead of 2,000" in smoke


def test_bounds_of_a_method_leave_fits_out():
    options = {"GIES": {"min_d": 20, "max_d": 30, "max_seeds": 2}}
    fits = plan_of(scale="paper", method_options=options).experiments["observational"].fits()
    found = {(key.d, key.seed) for key, method in fits if method == "GIES"}
    assert found == {(20, 0), (20, 1), (30, 0), (30, 1)}
    options["GIES"]["fewer_seeds"] = {"min_d": 30, "max_seeds": 1}
    fits = plan_of(scale="paper", method_options=options).experiments["observational"].fits()
    found = {(key.d, key.seed) for key, method in fits if method == "GIES"}
    assert found == {(20, 0), (20, 1), (30, 0)}


def test_a_grid_of_all_seeds_gives_every_method_all_of_them():
    config = copy.deepcopy(CONFIG)
    smoke = config["scales"]["smoke"]
    smoke["method_options"]["GIES"] = {"max_seeds": 1, "max_d": 5}
    (grid,) = smoke["grids"]["observational"]
    seeds_of_gies = {}
    for grid["all_seeds"] in (False, True):
        plan = make_plan({**config, "scale": "smoke"}, SCHEMA)
        fits = plan.experiments["observational"].fits()
        seeds_of_gies[grid["all_seeds"]] = [(k.d, k.seed) for k, name in fits if name == "GIES"]
    assert seeds_of_gies == {False: [(5, 0)], True: [(5, 0), (5, 1)]}
    grid["all_seeds"] = "no"
    with pytest.raises(InputError, match=r'all_seeds: found "no", expected true or false'):
        make_plan({**config, "scale": "smoke"}, SCHEMA)


def test_rivals_are_compared_on_the_same_data_sets_beyond_quick():
    """A method that was run on fewer of them could not be told from the others."""
    for scale in ("laptop", "weekend"):
        plan = plan_of(scale=scale)
        for name in ("rivals_observational", "rivals_interventional", "rivals_dcdi"):
            fits = plan.experiments[name].fits()
            for method in plan.experiments[name].methods:
                largest = plan.methods[method].max_d or 10_000
                wanted = {key for key, _ in fits if key.d <= largest}
                assert {key for key, other in fits if other == method} == wanted, method


def test_parts_of_a_scattered_first_stage():
    options = {"SDCD": {"scatter": {"targets_per_job": 20, "min_d": 50}}}
    plan = plan_of(scale="paper", method_options=options).methods["SDCD"]
    assert plan.parts(50) == [range(20), range(20, 40), range(40, 50)]
    assert plan.parts(49) == []
    options["SDCD"] = {"scatter": {"targets_per_job": 20}, "settings": {"alpha_1": 1, "eta_2": 1}}
    plan = plan_of(scale="paper", method_options=options).methods["SDCD"]
    assert plan.parts(20) == []
    assert plan.parts(21) == [range(20), range(20, 21)]
    assert plan.first_stage_settings() == {"alpha_1": 1}
    assert plan_of(scale="paper").methods["SDCD"].parts(10**6) == []


def test_a_list_of_seeds_is_taken_as_it_is():
    config = copy.deepcopy(CONFIG)
    config["scales"]["quick"]["grids"] = {"observational": [{"d": [10], "s": [4], "seeds": [7, 3]}]}
    fits = plan_of(scales=config["scales"]).experiments["observational"].fits()
    assert {key.seed for key, _ in fits} == {7, 3}


def test_experiments_survive_the_command_line():
    for experiment in plan_of(scale="paper").experiments.values():
        again = Experiment.from_json(experiment.to_json())
        assert again.fits() == experiment.fits()
        # One argument of a command holds at most 128 KiB.
        assert len(experiment.to_json()) < 10_000
    for text in ("{", "{}", '{"name": "x", "grids": [{}]}', "[1]"):
        with pytest.raises(InputError, match="not a description of an experiment"):
            Experiment.from_json(text)


def test_names_of_data_sets_say_everything():
    for scale in CONFIG["scales"]:
        for experiment in plan_of(scale=scale).experiments.values():
            for key, _ in experiment.fits():
                assert DatasetKey.parse(key.name) == key
    assert DatasetKey("interventional", 20, 2, 0, 0.25).name == "interventional/d20_s2_f0.25_seed0"
    assert DatasetKey("observational", 20, 4, 3).name == "observational/d20_s4_seed3"
    for name in (
        "observational/d20_s4",
        "other/d1_s1_seed1",
        "observational/d020_s4_seed3",
        "../x",
    ):
        with pytest.raises(InputError, match="data set"):
            DatasetKey.parse(name)


def test_names_of_many_data_sets_survive_the_command_line():
    for scale in CONFIG["scales"]:
        keys = plan_of(scale=scale).datasets()
        assert sorted(key for text in in_short(keys) for key in from_short(text)) == keys
    seeds = [DatasetKey("dcdi", 5, 1, seed, mechanism="NL-Add") for seed in (7, 0, 2, 1)]
    assert in_short(seeds) == ["dcdi/NL-Add_d5_s1_seed0-2", "dcdi/NL-Add_d5_s1_seed7"]
    config = copy.deepcopy(CONFIG)
    grid = {"d": list(range(5, 15)), "s": [1], "seeds": 1000}
    config["scales"]["quick"]["grids"] = {"observational": [grid]}
    texts = in_short(make_plan(config, SCHEMA).datasets())
    # All of a command is one argument of a shell: 128 KiB.
    assert len(" ".join(texts)) < 1000


def test_an_archive_of_another_scale_is_not_drawn_as_of_this_one(tmp_path):
    quick, results = plan_of(scale="quick"), tmp_path / "results"
    here = {key: getattr(quick, key) for key in ("scale", "n_observational", "n_per_intervention")}
    write_json(results / "plan.json", here)
    assert warnings(quick, str(results), tmp_path / "state") == []
    for key, value in (("scale", "smoke"), ("n_observational", 500)):
        write_json(results / "plan.json", {**here, key: value})
        with pytest.raises(InputError, match=f"plan.json: found {key} = {value!r}, expected "):
            warnings(quick, str(results), tmp_path / "state")
    # One that Snakemake has made is made again.
    name = base64.urlsafe_b64encode(f"{results}/plan.json".encode()).decode()
    write_json(tmp_path / "state/metadata" / name, {})
    assert warnings(quick, str(results), tmp_path / "state") == []


def test_rows_of_a_data_set():
    plan = plan_of(scale="paper")
    assert plan.n_rows(DatasetKey("observational", 30, 4, 0)) == 10_000
    # As published: 8 of 30 interventions are kept at a fraction of 0.25.
    assert plan.n_rows(DatasetKey("interventional", 30, 4, 0, 0.25)) == 10_000 + 8 * 500
    assert plan.n_rows(DatasetKey("interventional", 30, 4, 0, 0.0)) == 10_000


def at(path, value):
    def change(config):
        *parents, last = path
        for part in parents:
            config = config[part]
        if value is None:
            del config[last]
        else:
            config[last] = value

    return change


GRID = ("scales", "quick", "grids", "observational", 0)
OUTSIDE = ["run", "{input}", "{output}"]
FAULTS = [
    (
        at(["scale"], "smok"),
        "scale: found 'smok', expected one of smoke, quick, laptop, weekend, paper (did",
    ),
    (at(["scal"], "smoke"), "scal: unknown (did you mean 'scale'?)"),
    (at(["gpu"], "yes"), 'gpu: found "yes", expected true or false'),
    (at(["results"], 3), "results: found 3, expected the name of a folder"),
    (at(["methods"], ["GEIS"]), "methods: unknown method 'GEIS' (did you mean 'GIES'?)"),
    (at(["methods"], ["GIES", "GIES"]), "methods: found"),
    (at(["methods"], "GIES"), 'methods: found "GIES", expected a list of names of methods'),
    (at(["experiments", "interventional"], None), "grids.interventional: experiments.intervention"),
    (
        at(["experiments", "interventional", "methods"], ["NOTEARS"]),
        "experiments.interventional.methods: found 'NOTEARS', which takes no data with",
    ),
    (
        at(["method_options"], {"GIES": {"time_limit": 1}}),
        "method_options.GIES.time_limit: unknown (did you mean 'time_limit_s'?)",
    ),
    (
        at(["method_options"], {"GIES": {"time_limit_s": -1}}),
        "method_options.GIES.time_limit_s: found -1, expected a positive number of seconds",
    ),
    (
        at(["method_options"], {"GIES": {"memory_limit_mb": "much"}}),
        'method_options.GIES.memory_limit_mb: found "much", expected a positive number of',
    ),
    (
        at(["method_options"], {"SDCD": {"settings": {"alpha1": 1.0}}}),
        "method_options.SDCD.settings.alpha1: unknown parameter of SDCD (did you mean 'alpha_1'?)",
    ),
    (
        at(["method_options"], {"SDCD": {"settings": {"alpha_1": "x"}}}),
        "method_options.SDCD.settings.alpha_1: method SDCD: parameter 'alpha_1' is 'x', exp",
    ),
    (
        at(["method_options"], {"SDCD": {"settings": {"epochs_1": -5}}}),
        "method_options.SDCD.settings.epochs_1: found -5, expected a number from 0 on",
    ),
    (at(["method_options"], {"SDDC": {}}), "method_options: unknown method 'SDDC'"),
    (
        at(["method_options"], {"SDCD": {"settings": {"checkpoint": "x.npz"}}}),
        "method_options.SDCD.settings.checkpoint: found 'x.npz', expected none: each fit has a",
    ),
    (
        at(["method_options"], {"SDCD": {"threads": 2.0}}),
        "method_options.SDCD.threads: found 2.0, expected a whole number from 1 on",
    ),
    (
        at(["scales", "quick", "time_limit_s"], math.inf),
        "scales.quick.time_limit_s: found Infinity, expected a positive number of seconds",
    ),
    (
        at(["scales", "quick", "memory_limit_mb"], math.nan),
        "scales.quick.memory_limit_mb: found NaN, expected a positive number of megabytes",
    ),
    *(
        (
            at(["scales", "quick", "grids", "interventional", 0, "fractions"], [0, fraction]),
            f"scales.quick.grids.interventional[0].fractions: found {fraction}, expected at most",
        )
        for fraction in (1e-05, 0.3333333)
    ),
    (
        at(["method_options"], {"GIES": {"scatter": {"targets_per_job": 5}}}),
        'method_options.GIES.scatter: found {"targets_per_job": 5}, but GIES has no first stage',
    ),
    (
        at(["method_options"], {"SDCD-no-s1": {"scatter": {"targets_per_job": 5}}}),
        "method_options.SDCD-no-s1.scatter: found",
    ),
    (
        at(
            ["scales", "quick", "method_options"],
            {"SDCD": {"scatter": {"targets_per_job": 5}, "settings": {"preselect": False}}},
        ),
        "scales.quick.method_options.SDCD.scatter: found",
    ),
    (
        at(["method_options"], {"SDCD": {"scatter": {"min_d": 5}}}),
        "method_options.SDCD.scatter.targets_per_job: missing, expected",
    ),
    (
        at(["scales", "quick", "n_observational"], -5),
        "scales.quick.n_observational: found -5, expected a number of rows",
    ),
    (
        at(["scales", "quick", "n_observational"], "many"),
        'scales.quick.n_observational: found "many", expected a number of rows',
    ),
    (at(["scales", "quick", "grids"], None), "scales.quick.grids: missing, expected a mapping of"),
    (at(["scales"], None), "scales: missing, expected a mapping of scales"),
    (
        at([*GRID, "seeds"], 10**9),
        "seeds: found 1000000000, expected how many seeds (a whole number",
    ),
    (at([*GRID, "seeds"], -1), "scales.quick.grids.observational[0].seeds: found -1, expected how"),
    (
        at([*GRID, "seeds"], None),
        "scales.quick.grids.observational[0].seeds: missing, expected how",
    ),
    (at([*GRID, "d"], [10, "x"]), 'scales.quick.grids.observational[0].d[1]: found "x", expected'),
    (at([*GRID, "s"], [5]), "scales.quick.grids.observational[0]: found d = 10 with s = 5, which"),
    (at([*GRID, "fractions"], [1]), "scales.quick.grids.observational[0].fractions: unknown"),
    (at(["outside_methods"], {"a b": {}}), 'outside_methods: name of a key: found "a b", expected'),
    *(
        (at(["outside_methods"], {"mine": {"command": OUTSIDE, **keys}}), f"outside_methods.{line}")
        for keys, line in (
            ({"name": "x"}, 'mine.name: found "x", expected no name here: it is the key above'),
            ({"settings": {5: 1}}, "mine.settings: name of a key: found 5, expected a text"),
            ({"environment": {5: "1"}}, "mine.environment: name of a key: found 5, expected a t"),
            (
                {"settings": {"since": datetime.date(2020, 1, 1)}},
                'mine.settings.since: found "2020-01-01", expected a text, a number, true, false',
            ),
        )
    ),
    (
        at(["outside_methods"], {"mine": {"command": "run"}}),
        "outside_methods.mine: outside command 'mine': command is 'run', expected a list",
    ),
]


@pytest.mark.parametrize(("change", "line"), FAULTS, ids=[line[:60] for _, line in FAULTS])
def test_a_wrong_configuration_is_refused_in_one_line(change, line):
    config = copy.deepcopy(CONFIG)
    change(config)
    with pytest.raises(InputError) as caught:
        make_plan(config, SCHEMA)
    message = str(caught.value)
    assert line in message
    assert message.startswith("config key ")
    assert "\n" not in message


def test_a_scale_that_is_not_chosen_is_checked_too():
    config = copy.deepcopy(CONFIG)
    config["scales"]["paper"]["method_options"] = {"GIES": {"settings": {"no": 1}}}
    with pytest.raises(InputError, match=r"scales\.paper\.method_options\.GIES\.settings\.no"):
        make_plan({**config, "scale": "smoke"}, SCHEMA)


def test_the_schema_itself_is_a_schema():
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(SCHEMA)


def test_config_and_schema_name_the_same_keys():
    assert set(CONFIG) == set(SCHEMA["properties"])
    scale = SCHEMA["$defs"]["scale"]
    assert set(CONFIG["scales"]["smoke"]) == set(scale["properties"])
    assert set(CONFIG["experiments"]) == set(FAMILIES)
    assert set(SCHEMA["properties"]["experiments"]["properties"]) == set(FAMILIES)
    assert set(scale["properties"]["grids"]["properties"]) == set(FAMILIES)
    assert set(scale["properties"]["studies"]["properties"]) == set(STUDIES)
    of_paper = {name for name in FAMILIES if not name.startswith("rivals_")}
    assert set(CONFIG["scales"]["paper"]["grids"]) == of_paper


def test_defaults_of_the_schema_are_the_values_in_config():
    defaults = checked({"scales": CONFIG["scales"]}, SCHEMA)
    for key in ("scale", "results", "gpu", "outside_methods"):
        assert defaults[key] == CONFIG[key]


def test_every_key_of_config_has_a_comment_above_it():
    """Keys of block mappings; what repeats an earlier key at the same depth need not repeat it."""
    lines = CONFIG_TEXT.splitlines()
    explained, missing = set(), []
    for before, line in zip(["", *lines], lines, strict=False):
        match = re.match(r"( *)([A-Za-z_]\w*):", line)
        if match and match[2] not in methods() and not re.match(r" {6}", line):
            key = match.groups()
            if before.lstrip().startswith("#"):
                explained.add(key)
            elif key not in explained:
                missing.append(line)
    assert missing == []


def test_every_exhibit_has_known_runs_and_says_what_it_is_of_the_paper():
    labels = (ROOT / "tests/fixtures/paper_labels.txt").read_text().split()
    of_paper = [exhibit.label for exhibit in EXHIBITS.values() if exhibit.label]
    assert of_paper == labels
    for rule, exhibit in EXHIBITS.items():
        assert set(exhibit.runs) <= {*FAMILIES, *STUDIES, *DERIVED, *FROM_DATA}, rule
        assert exhibit.label or exhibit.caption.startswith("Not in the paper."), rule


def test_tables_derived_from_fits_are_there_with_their_experiment():
    plan = plan_of(scale="paper")
    derived = plan.derived()
    assert set(derived) == set(DERIVED)
    assert derived["thresholds_interventional"] == plan.experiments["interventional"]
    (fit,) = derived["cartoon"].fits()
    assert fit == (DatasetKey("interventional", 20, 2, 0, 1.0), "SDCD")
    config = copy.deepcopy(CONFIG)
    del config["scales"]["paper"]["grids"]["interventional"]
    assert set(make_plan({**config, "scale": "paper"}, SCHEMA).derived()) == {
        "thresholds_observational"
    }


def test_every_figure_and_table_is_a_target_at_scale_paper_or_if_not_of_the_paper_at_quick():
    plan, quick = plan_of(scale="paper", gpu=True), plan_of(scale="quick")
    available = {*plan.experiments, *plan.studies, *plan.derived(), *FROM_DATA}
    for exhibit in EXHIBITS.values():
        rivals = {run for run in exhibit.runs if run.startswith("rivals_")}
        assert not rivals or (not exhibit.label and rivals <= set(quick.experiments))
        assert set(exhibit.runs) - rivals <= available


def test_costs_are_known_for_every_method_of_the_plan():
    for name in plan_of(scale="paper", gpu=True).methods:
        if not name.startswith("SDCD-"):
            assert costs.expected(name, 20, 10_000) is not None, name


def test_expected_costs_pass_through_the_known_points():
    known = {
        int(row["d"]): (float(row["seconds"]), float(row["peak_rss_mb"]))
        for row in csv.DictReader((ROOT / "sdcd/fits/costs.csv").read_text().splitlines())
        if row["method"] == "NOTEARS"
    }
    for d, (seconds, memory) in known.items():
        assert costs.expected("NOTEARS", d, 10_000) == pytest.approx((seconds, memory))
    (d0, (y0, _)), (d1, (y1, _)) = sorted(known.items())[:2]
    middle = (d0 * d1) ** 0.5
    assert costs.expected("NOTEARS", middle, 10_000)[0] == pytest.approx((y0 * y1) ** 0.5)
    last = max(known)
    assert costs.expected("NOTEARS", 2 * last, 10_000)[0] == pytest.approx(8 * known[last][0])
    assert costs.expected("NOTEARS", d0, 20_000)[0] == pytest.approx(2 * y0)
    assert costs.expected("no such method", 30, 10_000) is None


def test_allowances_grow_with_the_attempt_up_to_the_limits():
    allowances = [
        costs.allowance("SCORE", 20, 10_000, 21_600, 32_000, attempt) for attempt in (1, 2, 3)
    ]
    with open(costs.TABLE, newline="", encoding="utf-8") as stream:
        known = {(row["method"], row["d"]): row for row in csv.DictReader(stream)}
    seconds, memory = (float(known["SCORE", "20"][key]) for key in ("seconds", "peak_rss_mb"))
    # Four times the known seconds and one and a half times the memory; then twice that.
    assert [a.time_limit_s for a in allowances] == [4 * seconds, 8 * seconds, 21_600]
    assert [a.memory_limit_mb for a in allowances] == [1.5 * memory, 3 * memory, 32_000]
    for allowance in allowances:
        assert allowance.runtime_min * 60 > allowance.time_limit_s
        assert allowance.mem_mb > allowance.memory_limit_mb
    part = costs.allowance("DAGMA", 20, 10_000, 21_600, 32_000, share=0.75)
    seconds = float(known["DAGMA", "20"]["seconds"])
    assert (part.time_limit_s, part.memory_limit_mb) == (3 * seconds, 2000)
    # A short fit is not cut short, and a limit that is lower than the expected cost holds.
    assert costs.allowance("GIES", 10, 10_000, 300, 6000).time_limit_s == 300
    assert costs.allowance("DAGMA", 20, 10_000, 300, 6000).time_limit_s == 300
    assert costs.allowance("no such method", 10, 10_000, 300, 6000) == costs.Allowance(300, 6000)


@pytest.mark.workflow
def test_the_longest_fits_are_started_first(tmp_path):
    text = snakemake(new_clone(tmp_path / "clone"), "-n", *SMOKE)
    jobs = re.findall(r"^rule (\w+):\n((?:    .+\n)+)", text, re.MULTILINE)
    priorities = {}
    for rule, job in jobs:
        output, priority = (
            re.search(rf"^    {name}: ([^,\n]+)", job, re.MULTILINE)
            for name in ("output", "priority")
        )
        if priority and rule in ("fit", "simulate"):
            path = Path(output[1])
            name = path.stem if rule == "fit" else rule
            priorities.setdefault(name, set()).add(float(priority[1]))
    # By sdcd/fits/costs.csv, and by the limit of a fit where that is less or nothing is known.
    limit = plan_of(scale="smoke").methods["DAGMA"].time_limit_s
    assert priorities["DAGMA"] == {limit}
    assert min(priorities["DCDI-G"]) > max(priorities["SDCD"])
    assert min(priorities["SDCD"]) > max(priorities["sortnregress"])
    assert min(priorities["simulate"]) > limit


def test_the_plan_is_json_compatible():
    plan = plan_of(scale="quick")
    json.dumps([[method.settings, method.outside] for method in plan.methods.values()])
