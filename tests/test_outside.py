"""Outside commands: what they are given, what they may write, and how they fail."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from support.workflow import ROOT

import sdcd.methods.contract
from sdcd.data.dataset import Dataset, write_dataset
from sdcd.errors import FitKilled, InputError, MethodFailure
from sdcd.fits.costs import FULL_ATTEMPT
from sdcd.fits.record import load_fit
from sdcd.fits.run import run_fit
from sdcd.methods.outside import read_graph, register_outside
from sdcd.methods.registry import methods
from sdcd.signals import ENDING

NAMES = ("praf", "p44/42", 'quoted "x", y')


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(sdcd.methods.contract, "REGISTERED", dict(methods()))


@pytest.fixture
def dataset() -> Dataset:
    X = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    intervened = np.zeros(X.shape, dtype=bool)
    intervened[5:, 2] = True
    return Dataset(X, intervened, NAMES)


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "command.py"
    path.write_text("import csv, os, sys\n" + text)
    return str(path)


def call(tmp_path, dataset, text, *arguments, **spec):
    command = [sys.executable, script(tmp_path, text), *arguments]
    if "{output}" not in command:
        command += ["{input}", "{output}"]
    outside = register_outside(
        {"name": "mine", "command": command, "data": "interventional", **spec}
    )
    parameters = outside.parameters({})
    return outside.fit(dataset.X, dataset.intervened, dataset.names, 7, **parameters)


def test_a_command_reads_csv_and_writes_a_list_of_edges(tmp_path, dataset):
    graph = call(
        tmp_path,
        dataset,
        """
values = list(csv.reader(open(sys.argv[1])))
mask = list(csv.reader(open(sys.argv[2])))
assert values[0] == mask[0] and len(values) == len(mask) == 21
out = csv.writer(open(sys.argv[3], "w"))
out.writerow(["parent", "child", "weight"])
out.writerow([values[0][0], values[0][2], float(values[1][0])])
out.writerow([values[0][1], values[0][0], sum(int(row[2]) for row in mask[1:])])
""",
        "{input_csv}",
        "{intervened_csv}",
        "{output}",
    )
    assert np.argwhere(graph.adjacency).tolist() == [[0, 2], [1, 0]]
    assert graph.weights[1, 0] == 15
    # The value went through text and came back as the same float32.
    assert np.float32(graph.weights[0, 2]) == abs(dataset.X[0, 0])


def test_a_command_reads_and_writes_npz_with_settings_and_environment(tmp_path, dataset):
    graph = call(
        tmp_path,
        dataset,
        """
import numpy as np
source, target, seed, alpha, other = sys.argv[1:]
data = np.load(source)
assert data["X"].dtype == np.float32 and data["intervened"].sum() == 15
assert data["names"].tolist()[1] == "p44/42"
assert (seed, alpha, other) == ("7", "0.25", "{unknown} {")
weights = np.zeros((3, 3))
weights[0, 1] = -float(os.environ["STRENGTH"])
weights[2, 1] = 0.1
np.savez(target, weights=weights)
""",
        "{input}",
        "{output}",
        "{seed}",
        "{alpha}",
        "{unknown} {",
        output="npz",
        settings={"alpha": 0.25},
        environment={"STRENGTH": "2.5"},
        threshold=0.5,
    )
    assert np.argwhere(graph.adjacency).tolist() == [[0, 1]]
    assert graph.weights.tolist() == [[0, 2.5, 0], [0, 0, 0], [0, 0.1, 0]]


@pytest.mark.parametrize(
    ("text", "adjacency", "weights"),
    [
        ("a,b,c\n0,1,0\n0,0,1\n0,0,0\n", [[0, 1], [1, 2]], None),
        # Named columns in another order; without row names the rows have the same order.
        ("c,b,a\n0,0,0\n1,0,0\n0,1,0\n", [[0, 1], [1, 2]], None),
        # As R writes row names, with the corner's name left out or empty.
        ('"a","b","c"\n"a",0,0.5,0\n"b",0,0,-2\n"c",0,0,0\n', [[0, 1], [1, 2]], [0.5, 2]),
        ('"","c","b","a"\n"a",0,0.5,0\n"b",2,0,0\n"c",0,0,0\n', [[0, 1], [1, 2]], [0.5, 2]),
        # Names that R has changed go by position.
        ("a,b.1,X.c\n0,1,0\n0,0,1\n0,0,0\n", [[0, 1], [1, 2]], None),
        ("\ufeffchild,parent\r\nb,a\r\nc,b\r\n", [[0, 1], [1, 2]], None),
        ("parent,child,weight\n", [], []),
    ],
)
def test_csv_graphs(tmp_path, text, adjacency, weights):
    path = tmp_path / "graph.csv"
    path.write_text(text, encoding="utf-8", newline="")
    graph = read_graph(path, ("a", "b", "c"))
    assert np.argwhere(graph.adjacency).tolist() == adjacency
    if weights is None:
        assert graph.weights is None
    else:
        assert graph.weights[graph.weights != 0].tolist() == weights


@pytest.mark.parametrize(
    ("text", "status", "reason"),
    [
        ("", "error", "empty, expected a header"),
        ("parent,child\na,x\n", "error", "row 2, column 'child': 'x' is no variable"),
        ("parent,child,weight\na,b,much\n", "error", "column 'weight': 'much', expected a number"),
        ("parent,child,weight\na,b,NA\n", "nan", "weights has entries that are not finite"),
        ("parent,child,weight\na,b\n", "error", "row 2: 2 cells, expected 3"),
        ("a,b,c\n0,1,0\n", "error", "1 rows below the header, expected 3"),
        ("a,b\n0,1\n0,1\n0,1\n", "error", "rows of [2] cells, expected 3"),
        ("b,x,c\n0,0,0\n0,0,0\n0,0,0\n", "error", "'b' stands at position 1"),
    ],
)
def test_what_is_no_graph_is_refused(tmp_path, text, status, reason):
    path = tmp_path / "graph.csv"
    path.write_text(text)
    with pytest.raises(MethodFailure) as caught:
        read_graph(path, ("a", "b", "c"))
    assert caught.value.status == status
    assert reason in caught.value.reason and str(tmp_path) not in caught.value.reason


@pytest.mark.parametrize(
    ("text", "status", "reason"),
    [
        ("sys.exit('first\\nno convergence')", "error", "ended with exit code 1: no convergence"),
        ("os.kill(os.getpid(), 11)", "error", "was killed by SIGSEGV"),
        ("pass", "error", "the command ended well but wrote no output file"),
    ],
)
def test_a_failing_command_is_a_failed_method(tmp_path, dataset, text, status, reason):
    with pytest.raises(MethodFailure) as caught:
        call(tmp_path, dataset, text)
    assert caught.value.status == status and reason in caught.value.reason


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("os.kill(os.getpid(), 9)", "SIGKILL"),
        ("os.kill(os.getpid(), 15)", "SIGTERM"),
        # As a shell or a launcher says it.
        ("sys.exit(137)", "SIGKILL"),
    ],
)
def test_a_command_that_somebody_killed_is_no_result(tmp_path, dataset, text, name):
    with pytest.raises(FitKilled, match=f"was killed by {name}"):
        call(tmp_path, dataset, text)


def test_a_missing_program_is_unavailable(dataset):
    outside = register_outside({"name": "mine", "command": ["no-such", "{input}", "{output}"]})
    with pytest.raises(MethodFailure, match="cannot run 'no-such'") as caught:
        outside.fit(dataset.X, dataset.intervened, dataset.names, 0)
    assert caught.value.status == "unavailable"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"command": None}, "command is None, expected a list of strings"),
        ({"command": "mine {input} {output}"}, "expected a list of strings"),
        ({"command": ["mine", "{input}"]}, "must contain {output}, and {input} or {input_csv}"),
        ({"comand": []}, "unknown key 'comand' (known: name, command"),
        ({"data": "both"}, "data is 'both', expected 'observational' or 'interventional'"),
        ({"environment": {"A": 1}}, "environment A is 1, expected a string"),
        ({"settings": {"seed": 1}}, "a setting cannot be called 'seed'"),
        ({"name": "GIES"}, "a method of this package has this name"),
    ],
)
def test_a_wrong_specification_is_refused(change, message):
    spec = {"name": "mine", "command": ["mine", "{input}", "{output}"], **change}
    with pytest.raises(InputError) as caught:
        register_outside(spec)
    assert message in str(caught.value)


def test_an_outside_command_runs_like_any_method(tmp_path, dataset, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    command = [sys.executable, script(tmp_path, "")]
    spec = {"name": "mine", "command": [*command, "{input}", "{output}"], "settings": {"k": 1}}
    write_dataset(tmp_path / "data.npz", dataset)
    register_outside(spec)
    with pytest.raises(InputError, match="takes observational data only"):
        run_fit(tmp_path / "data.npz", "mine", out=tmp_path / "fit.npz")
    register_outside({**spec, "data": "interventional"})
    record = run_fit(tmp_path / "data.npz", "mine", out=tmp_path / "fit.npz", settings={"k": 2})
    assert record["status"] == "error" and "wrote no output file" in record["reason"]
    assert record["params"] == {"k": 2}
    script(tmp_path, "open(sys.argv[2], 'w').write('parent,child,weight\\npraf,p44/42,3\\n')")
    record = run_fit(tmp_path / "data.npz", "mine", out=tmp_path / "fit.npz")
    assert record["status"] == "ok"
    script(tmp_path, "import time\nwhile True: time.sleep(1)")
    record = run_fit(tmp_path / "data.npz", "mine", out=tmp_path / "fit.npz", time_limit_s=0.5)
    assert record["status"] == "timeout"
    script(tmp_path, "import time\nx = bytearray(300_000_000)\nwhile True: time.sleep(1)")
    record = run_fit(tmp_path / "data.npz", "mine", out=tmp_path / "fit.npz", memory_limit_mb=250)
    assert record["status"] == "oom" and record["peak_rss_mb"] > 250
    (tmp_path / "fit.npz").unlink()
    script(tmp_path, "os.kill(os.getpid(), 9)")
    with pytest.raises(FitKilled, match=r"mine on .*was killed by SIGKILL, by a person"):
        run_fit(tmp_path / "data.npz", "mine", out=tmp_path / "fit.npz")
    assert not (tmp_path / "fit.npz").exists()
    assert not os.listdir(tmp_path / "temporary")


def start_script(tmp_path, dataset, text, *more):
    """The workflow's script fits an outside command, as a job of the workflow does."""
    write_dataset(tmp_path / "data.npz", dataset)
    (tmp_path / "temporary").mkdir()
    command = [sys.executable, script(tmp_path, text), "{input}", "{output}"]
    spec = {"name": "mine", "command": command, "data": "interventional"}
    arguments = ["--data", "data.npz", "--method", "mine", "--out", "fits/fit.npz"]
    arguments += ["--outside", json.dumps(spec)]
    return subprocess.Popen(
        [
            sys.executable,
            ROOT / "workflow/scripts/fit.py",
            *arguments,
            *more,
        ],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: [signal.signal(number, signal.SIG_DFL) for number in ENDING],
    )


def test_a_job_whose_command_was_killed_is_tried_again(tmp_path, dataset):
    process = start_script(tmp_path, dataset, "os.kill(os.getpid(), 9)")
    (line,) = process.stderr.read().splitlines()
    assert line.startswith("fit.py: mine on data.npz: ") and line.endswith("run it again")
    assert process.wait() == 75
    assert not list(tmp_path.glob("fits/*")) and not os.listdir(tmp_path / "temporary")


def test_a_job_whose_command_was_killed_three_times_is_recorded_and_the_run_goes_on(
    tmp_path, dataset
):
    more = ["--attempt", str(FULL_ATTEMPT), "--keep-in", "finished"]
    process = start_script(tmp_path, dataset, "os.kill(os.getpid(), 9)", *more)
    assert (process.stderr.read(), process.wait()) == ("", 0)
    graph, record = load_fit(tmp_path / "fits/fit.npz")
    assert graph is None and record["status"] == "unavailable"
    assert "was killed by SIGKILL, by the system, probably for memory" in record["reason"]
    # It is no finished fit that a run begun anew takes over.
    assert not (tmp_path / "finished").exists()


@pytest.mark.parametrize("number", ENDING)
def test_a_job_that_is_ended_leaves_nothing(tmp_path, dataset, number):
    text = "import time\nopen('started', 'w').close()\nwhile True: time.sleep(1)"
    process = start_script(tmp_path, dataset, text)
    while not (tmp_path / "started").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    assert process.stderr.read() == "fit.py: interrupted\n"
    assert process.wait() == 128 + number
    assert not list(tmp_path.glob("fits/*")) and not os.listdir(tmp_path / "temporary")
