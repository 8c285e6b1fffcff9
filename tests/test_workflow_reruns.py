"""Each row of the table "What reruns when" in docs/workflow.md, planned in one process.

An edit changes parameters of jobs; that Snakemake reruns those and what is built on them is seen in
test_workflow.py.
"""

import copy
import json
import re
import subprocess
import sys

import pytest
import yaml
from support.workflow import ROOT, new_clone

pytestmark = pytest.mark.workflow

OUTSIDE = {
    "mine": {"command": ["sh", "-c", "python mine.py {input} {output}"]},
    "other": {"command": ["python", "other.py", "--model=model.txt", "{input}", "{output}"]},
}
GRID = [{"d": [5], "s": [2], "seeds": [0, 1]}, {"d": [6], "s": [2], "seeds": [0]}]
MINE = {
    "outside_methods": OUTSIDE,
    "methods": ["SDCD", "GIES", "NOTEARS", "mine", "other"],
    "scales": {"smoke": {"grids": {"observational": GRID}}},
}


def merged(config, change):
    """As Snakemake merges config files."""
    config = copy.deepcopy(config)
    for key, value in change.items():
        both = isinstance(value, dict) and isinstance(config.get(key), dict)
        config[key] = merged(config[key], value) if both else value
    return config


CONFIG = merged(yaml.safe_load((ROOT / "config.yaml").read_text()), MINE)


CAPTION = "SHD on observational data with s = 4"


def append(path, new="\nEDITED = True\n", **more):
    return [{"path": path, "new": new, **more}]


def replace(path, old, new, **more):
    return [{"path": path, "old": old, "new": new, **more}]


def smoke(**changes):
    """The config, with what the scale says changed."""
    return {"config": {"scales": merged(CONFIG["scales"], {"smoke": changes})}}


def of(*kinds):
    """A test of a job's name: the rule, and of a fit the method."""
    return lambda job: job.split()[0] in kinds or job.split()[-1] in kinds


def at_least(*kinds):
    """Likewise of jobs beside which others may change."""
    return [of(*kinds)]


def nothing(job):
    return False


ROWS = {
    "the file of one method": [(append("sdcd/baselines/gies.py"), of("GIES"))],
    "a setting of one method in the config": [
        (smoke(method_options={"NOTEARS": {"settings": {"lambda_1": 0.1}}}), of("NOTEARS"))
    ],
    "a file that an outside command names": [
        (append("mine.py"), of("mine")),
        (append("other.py"), of("other")),
        (append("model.txt"), of("other")),
    ],
    "`sdcd/methods/contract.py`, `sdcd/fits/child.py`, `sdcd/data/dataset.py`": [
        (append("sdcd/methods/contract.py"), at_least("fit")),
        (append("sdcd/fits/child.py"), of("fit")),
        (append("sdcd/data/dataset.py"), at_least("fit", "simulate")),
    ],
    "how fits are watched, recorded and planned (other files of `sdcd/fits/`)": [
        (append("sdcd/fits/process.py"), nothing),
        (append("sdcd/fits/run.py"), nothing),
        (append("sdcd/fits/costs.csv", "\n"), nothing),
        (append("sdcd/fits/provenance.py"), nothing),
    ],
    "how rows are drawn for resamples (`sdcd/fits/draws.py`)": [
        (append("sdcd/fits/draws.py"), nothing)
    ],
    "how a person's own tables are read (`sdcd/data/own_data.py`)": [
        (append("sdcd/data/own_data.py"), nothing)
    ],
    "`sdcd/simulation/`": [
        (append("sdcd/simulation/paper.py"), of("simulate", "sortability")),
        (append("sdcd/simulation/dcdi.py"), of("simulate", "sortability")),
    ],
    "`sdcd/metrics.py`": [(append("sdcd/metrics.py"), of("collect", "derive"))],
    "`sdcd/runs/thresholds.py`": [
        (append("sdcd/runs/thresholds.py"), lambda job: job.startswith("derive thresholds"))
    ],
    "`sdcd/studies/`": [
        (append("sdcd/studies/constraint_asymptotics.py"), of("constraint_asymptotics"))
    ],
    "`sdcd/verdicts/`, with `claims.csv`": [
        (
            append("sdcd/verdicts/claims.py"),
            of("verdicts", "report_page"),
        ),
        (append("sdcd/verdicts/claims.csv", "\n"), of("verdicts")),
    ],
    "a figure's or table's module": [
        (append("sdcd/figures/boxes.py"), lambda job: job.startswith("fig_interventional")),
        (append("sdcd/tables/pst_constraints.py"), of("table_pst_constraints")),
    ],
    "a caption in `sdcd/exhibits.py`": [
        (
            replace("sdcd/exhibits.py", CAPTION, "A caption", anew=True),
            of("table_observational", "report_page"),
        )
    ],
    "a template of the report": [
        (append("sdcd/report/templates/report.css", "\n"), of("report_page"))
    ],
    "seeds, d, s in the config": [
        (
            smoke(grids={"observational": [*GRID, {"d": [7], "s": [2], "seeds": [3]}]}),
            lambda job: (
                "observational/d7_s2_seed3" in job
                or job in ("collect observational", "sortability")
            ),
        )
    ],
    "a comment, a docstring, what an error says, the version": [
        (append("sdcd/methods/contract.py", "\n# A comment.\n"), nothing),
        (replace("sdcd/files.py", '"""Read a JSON file.', '"""Read JSON.'), nothing),
        (replace("sdcd/data/dataset.py", "has a self-loop at", "has a loop at"), nothing),
        (replace("sdcd/acyclicity/constraints.py", "expected", "is not"), nothing),
        (replace("sdcd/__init__.py", "__version__ = ", "__version__ = '9' + "), nothing),
    ],
}
EDITS = [(row, k) for row, edits in ROWS.items() for k in range(len(edits))]


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """All jobs, and those that each edit changes."""
    clone = new_clone(tmp_path_factory.mktemp("clone") / "clone")
    (clone / "mine.yaml").write_text(yaml.safe_dump(MINE))
    for name in ("mine.py", "other.py", "model.txt"):
        (clone / name).write_text("\n")
    end = subprocess.run(
        [sys.executable, clone / "tests/support/parameters.py"],
        cwd=clone,
        input=json.dumps([ROWS[row][k][0] for row, k in EDITS]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert end.returncode == 0, end.stderr[-3000:]
    found = [json.loads(line) for line in end.stdout.splitlines() if line.startswith("[")]
    return set(found[0]), dict(zip(EDITS, map(set, found[1:]), strict=True))


@pytest.mark.parametrize(("row", "k"), EDITS, ids=[f"{row[:30]}-{k}" for row, k in EDITS])
def test_an_edit_reruns_what_the_table_says(planned, row, k):
    every, found = planned
    expected, changed = ROWS[row][k][1], found[row, k]
    if isinstance(expected, list):
        assert {job for job in every if expected[0](job)} <= changed
        return
    assert changed == {job for job in every | changed if expected(job)}
    assert bool(changed) == (expected is not nothing)


def test_the_table_has_no_other_rows():
    text = (ROOT / "docs/workflow.md").read_text()
    table = text[text.index("| what is edited |") :].partition("\n\n")[0]
    assert re.findall(r"^\| (.+?) \|", table, flags=re.MULTILINE)[1:] == list(ROWS)
