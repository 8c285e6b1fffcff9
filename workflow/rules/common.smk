# What the rules share: the plan that follows from the configuration, and names of files. Every job
# reads this file again, so nothing heavy is imported here.
import json
import os
import re
import sys
from pathlib import Path

import yaml

ROOT = Path(workflow.basedir)
sys.path.insert(0, str(ROOT))
# Scripts run with the Python that runs Snakemake, also where its environment is not activated.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

from sdcd.costs import grant
from sdcd.errors import InputError
from sdcd.experiments import DATASET_PATTERN, DatasetKey, exhibits, make_plan
from sdcd.fingerprint import fingerprint
from sdcd.methods import methods as registered_methods

try:
    PLAN = make_plan(
        config,
        yaml.safe_load((ROOT / "workflow/schemas/config.schema.yaml").read_text()),
    )
except InputError as error:
    raise WorkflowError(str(error)) from None

RESULTS = f"{config.get('results', 'results')}/{PLAN.scale}"
PUBLISHED = sorted((ROOT / "sdcd/published").glob("*.csv"))
AVAILABLE = {*PLAN.experiments, "constraint_asymptotics"}
FIGURES = {name: of for name, of in exhibits("figures").items() if AVAILABLE.issuperset(of)}
TABLES = {name: of for name, of in exhibits("tables").items() if AVAILABLE.issuperset(of)}


wildcard_constraints:
    dataset=DATASET_PATTERN,
    method="|".join(map(re.escape, PLAN.methods)) or "none",
    experiment="|".join(PLAN.experiments) or "none",


def code(script, *modules, data=()):
    """Fingerprint of a rule's script and of the modules that it uses besides those it imports."""
    return fingerprint(*modules, scripts=[ROOT / "workflow/scripts" / script], data=data)


def runs_of(experiments):
    return [f"{RESULTS}/runs/{experiment}.csv" for experiment in experiments]


def figures():
    return [f"{RESULTS}/figures/{name}.png" for name in FIGURES]


def tables():
    return [f"{RESULTS}/tables/{name}.csv" for name in TABLES]
