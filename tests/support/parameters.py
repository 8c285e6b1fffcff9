"""Which jobs of the workflow have other parameters after an edit, many edits in one process.

    python parameters.py < EDITS

runs in a clone, and imports the package from there. EDITS is a JSON list of edits. Each is a list
of ``{"path": ..., "old": ..., "new": ...}`` (text of a file of the clone; without ``old``, ``new``
is appended), or ``{"config": {...}}``, keys that replace those of the config. Printed are JSON
lists of jobs, as ``rule wildcards``: first all there are, then, for each edit, those that have
changed. Then the edit is undone. What the rules have imported is not imported again, except for an
edit of one file with ``"anew": true``.

Snakemake reruns those, and what is built on them.
"""

import copy
import inspect
import json
import subprocess
import sys
from pathlib import Path

import yaml
from snakemake.api import SnakemakeApi
from snakemake.settings.types import ConfigSettings, DAGSettings, OutputSettings, ResourceSettings

CONFIG = [Path("config.yaml"), Path("mine.yaml")]


class Wildcards(dict):
    """As the rules use them."""

    __getattr__ = dict.__getitem__


def jobs(names):
    """Rule and wildcards of one job of each kind."""
    plan, found = names["PLAN"], []
    for name, experiment in plan.experiments.items():
        found.append(("collect", {"experiment": name}))
        for key, method in experiment.fits():
            found.append(("simulate", {"dataset": key.name}))
            found.append(("fit", {"dataset": key.name, "method": method}))
    found += [("constraints", {"study": name}) for name in plan.studies]
    found += [("derive", {"derived": name}) for name in names["FROM_FITS"]]
    return found


def parameters(workflow):
    """The value of each parameter of each job."""
    rules = {rule.name: rule for rule in workflow.rules}
    wanted = jobs(workflow.globals)
    named = {rule for rule, _ in wanted} | {"all", "stage_1"}
    # The rules of one's own tables have no job without such a table.
    named |= {rule for rule in rules if rule.startswith("own_")}
    wanted += [(rule, {}) for rule in rules if rule not in named]
    values = {}
    for rule, wildcards in wanted:
        name = " ".join([rule, *wildcards.values()])
        for key, value in rules[rule].params.items():
            if callable(value):
                if len(inspect.signature(value).parameters) > 1:
                    continue
                value = value(Wildcards(wildcards))
            assert not callable(value), f"{name}: {key} is a function of a function"
            values[name, key] = json.dumps(value, default=str)
    return values


def forget(names):
    """What has been read is read again."""
    for function in ("code_now", "fit_code_now"):
        names[function].cache_clear()


def main() -> None:
    """Make the edits, one after the other; with an argument, write all values to that file."""
    edits = [] if sys.argv[1:] else json.load(sys.stdin)
    with SnakemakeApi(OutputSettings()) as api:
        workflow = api.workflow(
            resource_settings=ResourceSettings(cores=1),
            config_settings=ConfigSettings(configfiles=CONFIG, config={"scale": "smoke"}),
            snakefile=Path("Snakefile"),
        )
        workflow.dag(dag_settings=DAGSettings())
        workflow = workflow._workflow
        names = workflow.globals
        before, plan = parameters(workflow), names["PLAN"]
        if sys.argv[1:]:
            Path(sys.argv[1]).write_text(json.dumps(list(before.items())))
            return
        print("\n" + json.dumps(sorted({name for name, _ in before})), flush=True)
        for edit in edits:
            texts = {}
            if isinstance(edit, dict):
                config = {**copy.deepcopy(names["config"]), **edit["config"]}
                schema = yaml.safe_load(Path("workflow/schemas/config.schema.yaml").read_text())
                names["PLAN"] = names["make_plan"](config, schema)
            else:
                for change in edit:
                    path = Path(change["path"])
                    text = texts.setdefault(path, path.read_text())
                    assert change.get("old", "") in text, change
                    old = change.get("old")
                    path.write_text(
                        text.replace(old, change["new"]) if old else text + change["new"]
                    )
            forget(names)
            if texts and edit[0].get("anew"):
                subprocess.run([sys.executable, __file__, "values.json"], check=True)
                pairs = json.loads(Path("values.json").read_text())
                after = {tuple(key): value for key, value in pairs}
            else:
                after = parameters(workflow)
            keys = before.keys() | after.keys()
            changed = {key[0] for key in keys if before.get(key) != after.get(key)}
            print("\n" + json.dumps(sorted(changed)), flush=True)
            for path, text in texts.items():
                path.write_text(text)
            names["PLAN"] = plan


if __name__ == "__main__":
    main()
