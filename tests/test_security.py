"""No code is loaded from files, no name reaches a shell as anything but a name."""

import ast
import csv
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from support.tiny import TINY, configure, rows
from support.workflow import ROOT, new_clone, snakemake

from sdcd.cli import main as sdcd
from sdcd.data.dataset import read_dataset
from sdcd.errors import InputError
from sdcd.experiments.plan import make_plan
from sdcd.fits.record import load_fit

SOURCES = [
    path
    for folder in ("sdcd", "workflow", "benchmarks")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
NASTY = ("; touch pwned", "$(touch pwned)", "`touch pwned`", "a'b\"c", "&& touch pwned", "{x} *")


class Trap:
    """Makes a file if it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


@pytest.fixture
def trapped(tmp_path):
    """A file of pickled objects under a name that is read, and the path that shows it was."""
    path, sprung = tmp_path / "trapped.npz", tmp_path / "sprung"
    trap = np.empty(2, dtype=object)
    trap[:] = [Trap(sprung)] * 2
    np.savez(path, X=trap, adjacency=trap, names=trap)
    with np.load(path, allow_pickle=True) as archive:
        archive["X"]
    assert sprung.exists(), "the trap works"
    sprung.unlink()
    return path, sprung


@pytest.mark.parametrize("read", [read_dataset, load_fit])
def test_pickled_objects_are_refused(trapped, read):
    path, sprung = trapped
    with pytest.raises(
        InputError,
        match=r"trapped\.npz: (not a readable \.npz file|array 'X' holds Python objects)",
    ) as caught:
        read(path)
    assert "\n" not in str(caught.value)
    assert not sprung.exists()


def test_scripts_and_commands_refuse_pickled_objects(trapped, tmp_path, capsys):
    path, sprung = trapped
    script = ROOT / "workflow/scripts/fit.py"
    end = subprocess.run(
        [
            sys.executable,
            script,
            "--data",
            path,
            "--method",
            "NOTEARS",
            "--out",
            tmp_path / "o.npz",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert end.returncode == 2
    assert len(end.stderr.splitlines()) == 1
    assert sdcd(["score", str(path), "--truth", str(path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not sprung.exists()


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_source_loads_code_or_calls_a_shell(path):
    """pickle and its relatives, evaluated text, arrays with objects, shells."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = {alias.name.partition(".")[0] for alias in node.names}
            assert not names & {"pickle", "marshal", "shelve", "dill", "joblib"}, names
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        options = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
        assert called not in ("eval", "exec", "os.system", "os.popen", "torch.load", "yaml.load")
        assert not called.endswith("read_pickle")
        assert options.get("shell", "False") == "False"
        if called in ("np.load", "numpy.load"):
            assert options.get("allow_pickle") == "False"


def test_rules_quote_what_they_hand_to_a_shell():
    """All but numbers, a hash, and names of this package's own modules and studies."""
    commands = []
    for path in sorted((ROOT / "workflow/rules").glob("*.smk")):
        text = path.read_text()
        commands += re.findall(r"^ +shell:\n((?: +['\"].*['\"]\n)+)", text, flags=re.MULTILINE)
        assert text.count("shell:") == len(re.findall(r"^ +shell:\n +'", text, flags=re.MULTILINE))
    assert len(commands) > 8
    placeholders = [name for text in commands for name in re.findall(r"{([^{}]+)}", text)]
    assert {name for name in placeholders if not name.endswith(":q")} == {
        "threads",
        "resources.attempt",
        "resources.attempt_s",
        "resources.attempt_mb",
        "params.code",
        "params.module",
        "wildcards.study",
        "wildcards.derived",
    }


def test_names_in_the_configuration_are_names():
    """Of methods, scales, the folder of results: what a shell would read otherwise is refused."""
    schema = yaml.safe_load((ROOT / "workflow/schemas/config.schema.yaml").read_text())
    config = yaml.safe_load((ROOT / "config.yaml").read_text())
    command = {"command": ["run", "{input}", "{output}"]}
    for text in (*NASTY, "a\nb", "a\n", "../x", "-x"):
        changes = [
            {"outside_methods": {text: command}},
            {"scales": {**config["scales"], text: config["scales"]["smoke"]}},
            {"method_options": {text: {"threads": 1}}},
            {"methods": [text]},
        ]
        if text != "../x":
            changes.append({"results": text})
        for change in changes:
            with pytest.raises(InputError, match=r"^config key ") as caught:
                make_plan({**config, **change}, schema)
            assert "\n" not in str(caught.value)
    for folder in ("results", "/scratch/me/my results", "../results_2", "a.b+c=d,e@f"):
        make_plan({**config, "results": folder}, schema)


@pytest.mark.workflow
@pytest.mark.slow
def test_arguments_of_outside_commands_arrive_as_they_are(tmp_path):
    """In a folder of results with spaces in its name, too."""
    clone = new_clone(tmp_path / "the clone")
    write = "import sys; open(sys.argv[2], 'w').write('parent,child\\n'); "
    write += f"open({str(tmp_path / 'seen')!r}, 'a').write(repr(sys.argv[3:]) + '\\n')"
    command = ["python", "-c", write, "{input}", "{output}", *NASTY, "{text}"]
    outside = {"nasty": {"command": command, "settings": {"text": "; touch pwned"}}}
    configure(clone, methods=["nasty"], outside_methods=outside)
    target = "my results/tiny/runs/observational.csv"
    snakemake(clone, *TINY, "results=my results", "--", target)
    assert [row["status"] for row in rows(clone, target)] == ["ok", "ok"]
    seen = (tmp_path / "seen").read_text().splitlines()
    assert [ast.literal_eval(line) for line in seen] == [[*NASTY, "; touch pwned"]] * 2
    assert list(tmp_path.rglob("pwned")) == []


def test_names_of_variables_name_no_files(tmp_path, monkeypatch):
    """One's own data cannot write outside of where the fit goes."""
    inside = tmp_path / "inside/here"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    names = ["../../x", str(tmp_path / "y"), "; touch pwned", "$(touch pwned)", "../fit.json"]
    random = np.random.default_rng(0).standard_normal((300, len(names)))
    with open("data.csv", "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([*names, "../guide"])
        writer.writerows([*row, ("../../x", "")[r % 2]] for r, row in enumerate(random))
    arguments = [
        "--method",
        "SDCD",
        "--set",
        "epochs_1=1",
        "--set",
        "epochs_2=1",
        "--set",
        "batch_size=64",
    ]
    arguments += ["--perturbation-column", "../guide", "--control", "", "-o", "fit.npz"]
    assert sdcd(["fit", "data.csv", *arguments]) == 0
    made = {path.name for path in Path().iterdir()}
    assert made == {
        "data.csv",
        "fit.npz",
        "fit.json",
        "fit.edges.csv",
        "fit.model.npz",
        "fit.graph.png",
        "fit.graph.pdf",
    }
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path.parent != inside] == []
