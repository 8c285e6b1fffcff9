# What the rules share: the plan that follows from the configuration, and names of files. Every job
# reads this file again, so nothing heavy is imported here.
import json
import os
import re
import shutil
import sys
from dataclasses import asdict
from functools import cache
from math import ceil
from pathlib import Path
from shlex import quote

import yaml

# The folder of this repository, wherever Snakemake runs and whichever workflow has this one as a module.
ROOT = Path(workflow.current_basedir.get_path_or_uri(secret_free=False)).parents[1]
sys.path.insert(0, str(ROOT))

from sdcd.fits.costs import FULL_ATTEMPT, allowance, expected_seconds
from sdcd.errors import InputError
from sdcd.exhibits import FIGURES, TABLES, available, file_stem
from sdcd.experiments.datasets import DATASET_PATTERN, DatasetKey, in_short
from sdcd.experiments.own_data import (
    FOLDER,
    RUN_PATTERN,
    look_at_files,
    of_run,
    own_studies,
    read_small_files,
)
from sdcd.experiments.plan import DERIVED, FROM_DATA, STUDIES, make_plan
from sdcd.fits.fingerprint import fingerprint
from sdcd.fits.provenance import fit_fingerprint
from sdcd.methods.registry import methods as registered_methods
from sdcd.experiments.origin import warnings
from sdcd.experiments.progress import (
    read_progress,
    reasons,
    without_room,
    write_own_plan,
    write_plan,
)

# A job of a scheduler reads these rules again, when config.yaml may have been edited: it gets what
# the run began with. A folder for results that is called like a date is one to YAML.
if workflow.is_main_process:
    os.environ["SDCD_WORKFLOW_CONFIG"] = json.dumps(config, default=str)


envvars:
    "SDCD_WORKFLOW_CONFIG",


config.clear()
config.update(json.loads(os.environ["SDCD_WORKFLOW_CONFIG"]))

try:
    SCHEMA = yaml.safe_load((ROOT / "workflow/schemas/config.schema.yaml").read_text())
    PLAN = make_plan(config, SCHEMA)
    STUDIES_OF_OWN_DATA = own_studies(config, SCHEMA) if config.get("own_data") else {}
    LOOKS = {name: look_at_files(study) for name, study in STUDIES_OF_OWN_DATA.items()}
    RESULTS = f"{config.get('results', 'results')}/{PLAN.scale}"
    if workflow.is_main_process:
        for name, study in STUDIES_OF_OWN_DATA.items():
            read_small_files(study, LOOKS[name])
        for warning in warnings(PLAN, RESULTS):
            print(warning, file=sys.stderr)
except InputError as error:
    sys.exit(f"Error: {error}")

# Scripts run with the Python that runs Snakemake, also where its environment is not activated; where
# jobs have environments of their own (--sdm), with theirs.
PYTHON = "python" if workflow.deployment_settings.deployment_method else sys.executable
# Variables of the shell, so that neither is part of a rule: a clone that is moved reruns nothing.
shell.prefix(f"SDCD_PYTHON={quote(PYTHON)}; SDCD_SCRIPTS={quote(str(ROOT / 'workflow/scripts'))}; ")
# Fits that this run has finished: should Snakemake be killed, it deletes what its jobs finish after that.
FINISHED = f"{RESULTS}/finished"
# Tables of one's own, whatever the scale.
OWN = f"{config.get('results', 'results')}/{FOLDER}"
OWN_METHODS = {method for study in STUDIES_OF_OWN_DATA.values() for method in study.methods}
PUBLISHED = tuple(sorted((ROOT / "sdcd/published").glob("*.csv")))
TEMPLATES = tuple(sorted((ROOT / "sdcd/report/templates").iterdir()))
AVAILABLE = [*PLAN.experiments, *PLAN.studies]
FROM_FITS = PLAN.derived()
SHOWN = {*AVAILABLE, *FROM_FITS, *(FROM_DATA if PLAN.experiments else [])}


wildcard_constraints:
    dataset=DATASET_PATTERN,
    method="|".join(map(re.escape, {**PLAN.methods, **dict.fromkeys(OWN_METHODS)})) or "none",
    own="|".join(map(re.escape, STUDIES_OF_OWN_DATA)) or "none",
    run=RUN_PATTERN,
    targets=r"\d+-\d+",
    experiment="|".join(PLAN.experiments) or "none",
    study="|".join(PLAN.studies) or "none",
    derived="|".join(FROM_FITS) or "none",


def code(script, *modules, data=()):
    """Fingerprint of a rule's script and of the modules that it uses besides those it imports.

    As a function of the wildcards, so that each job takes the fingerprints that it needs and no
    others: a job of a scheduler reads these rules twice before it starts.
    """
    return lambda wildcards: code_now(script, *modules, data=data)


@cache
def code_now(script, *modules, data=()):
    return fingerprint(*modules, scripts=[ROOT / "workflow/scripts" / script], data=data)


def as_json(value):
    """A parameter as a function: in a string, Snakemake would take braces for wildcards."""
    return lambda wildcards: json.dumps(value, ensure_ascii=False)


def runs_of(experiments):
    return [f"{RESULTS}/runs/{experiment}.csv" for experiment in experiments]


def figures():
    return [f"{RESULTS}/figures/{file_stem(rule)}.png" for rule in available(FIGURES, SHOWN)]


def tables():
    return [f"{RESULTS}/tables/{file_stem(rule)}.csv" for rule in available(TABLES, SHOWN)]


def simulate_arguments(wildcards):
    key = DatasetKey.parse(wildcards.dataset)
    arguments = ["--family", key.family, "--d", key.d, "--s", key.s, "--seed", key.seed]
    arguments += ["--n-observational", PLAN.n_observational]
    if key.family == "interventional":
        arguments += ["--fraction", f"{key.fraction:g}"]
        arguments += ["--n-per-intervention", PLAN.n_per_intervention]
    if key.family == "dcdi":
        arguments += ["--mechanism", key.mechanism]
    return arguments


def method_of(wildcards):
    own = STUDIES_OF_OWN_DATA.get(wildcards.get("own"))
    return (PLAN if own is None else own).methods[wildcards.method]


def method_arguments(method, settings, keep_in=FINISHED):
    arguments = ["--method", method.name, "--settings", json.dumps(settings, sort_keys=True)]
    arguments += ["--time-limit-s", method.time_limit_s]
    arguments += ["--memory-limit-mb", method.memory_limit_mb, "--keep-in", keep_in]
    if method.outside is not None:
        arguments += ["--outside", json.dumps(method.outside, sort_keys=True)]
    return arguments


def fit_code(wildcards):
    return fit_code_now(wildcards.method)


@cache
def fit_code_now(method):
    return fit_fingerprint(registered_methods()[method], PLAN.methods[method].settings)


def fit_arguments(wildcards):
    method = method_of(wildcards)
    # Not from the rule's input: Snakemake does not compare parameters that depend on it.
    parts = list(parts_of(wildcards))
    first_stage = ["--first-stage", *parts] if parts else []
    return method_arguments(method, method.settings) + first_stage


def first_stage_arguments(wildcards):
    method = method_of(wildcards)
    arguments = method_arguments(method, method.first_stage_settings())
    return [*arguments, "--targets", wildcards.targets]


def fit_allowance(wildcards, attempt):
    method = method_of(wildcards)
    limits = method.time_limit_s, method.memory_limit_mb
    return allowance(*size_of(wildcards), *limits, attempt, share_of(wildcards))


def fit_priority(wildcards):
    """Expected seconds of the job's fit, at most its limit; the limit where nothing is known."""
    limit = method_of(wildcards).time_limit_s
    seconds = expected_seconds(*size_of(wildcards), limit, share_of(wildcards))
    return ceil(limit if seconds is None else seconds)


def size_of(wildcards):
    """Method, d and n, which its cost depends on."""
    if look := LOOKS.get(wildcards.get("own")):
        return method_of(wildcards).name, look.d, look.n
    key = DatasetKey.parse(wildcards.dataset)
    return method_of(wildcards).name, key.d, PLAN.n_rows(key)


def share_of(wildcards):
    """The part of the fit that the job does."""
    if "own" in wildcards.keys():
        return 1.0
    d = DatasetKey.parse(wildcards.dataset).d
    first, _, last = wildcards.get("targets", f"1-{d}").partition("-")
    return (int(last) - int(first) + 1) / d


def parts_of(wildcards):
    for targets in method_of(wildcards).parts(DatasetKey.parse(wildcards.dataset).d):
        name = f"{wildcards.dataset}/{wildcards.method}/{targets[0]}-{targets[-1]}"
        yield f"{RESULTS}/stage_1/{name}.npz"


def fits_of(experiment):
    names = [(key.name, method) for key, method in experiment.fits()]
    for dataset in dict.fromkeys(dataset for dataset, _ in names):
        yield f"{RESULTS}/data/{dataset}.npz"
    for dataset, method in names:
        yield f"{RESULTS}/fits/{dataset}/{method}.npz"


def own_fit_arguments(wildcards):
    method = method_of(wildcards)
    kind, number = of_run(wildcards.run)
    arguments = method_arguments(method, method.settings, f"{OWN}/finished")
    known = own_knowledge_of(wildcards)
    arguments += ["--knowledge", *known] if known else []
    return [*arguments, "--seed" if kind == "seed" else "--resample", number]


def own_knowledge_of(wildcards):
    """Where what is known about the table's edges is, if anything is."""
    known = STUDIES_OF_OWN_DATA[wildcards.own].knowledge
    return [f"{OWN}/knowledge/{wildcards.own}.json"] if known else []


def own_fit_code(wildcards):
    method = method_of(wildcards)
    return fit_fingerprint(registered_methods()[method.name], method.settings)


def own_table_code(wildcards):
    """Of a folder, .zarr, also when it was changed: what is changed inside does not show outside."""
    inside = Path(STUDIES_OF_OWN_DATA[wildcards.own].data).rglob("*")
    newest = max((path.stat().st_mtime_ns for path in inside), default="")
    return f"{code_now('own_table.py', 'sdcd.data.own_data')}{newest}"


def own_resampling_code(wildcards):
    return fingerprint("sdcd.fits.draws") if of_run(wildcards.run)[0] == "resample" else ""


def own_files(wildcards):
    """All that the page of a table is made from."""
    study = STUDIES_OF_OWN_DATA[wildcards.own]
    yield f"{OWN}/data/{study.name}.npz"
    if study.truth is not None:
        yield f"{OWN}/truth/{study.name}.npz"
    for run, method in study.fits():
        yield f"{OWN}/fits/{study.name}/{run}/{method}.npz"


def start_of_run():
    """Before the first job: what is wanted."""
    write_plan(PLAN, RESULTS)
    if STUDIES_OF_OWN_DATA:
        write_own_plan(STUDIES_OF_OWN_DATA, LOOKS, OWN)


def end_of_run():
    """All that is finished is known to Snakemake: say what failed, by reason."""
    lines = []
    for folder in [RESULTS, OWN] if STUDIES_OF_OWN_DATA else [RESULTS]:
        shutil.rmtree(f"{folder}/finished", ignore_errors=True)
        lines += [*reasons(read_progress(folder)), without_room(folder)]
    print("\n".join(filter(None, lines)), file=sys.stderr)
