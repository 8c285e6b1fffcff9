"""The sdcd command: what it writes, what it prints, and its exit codes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from sdcd.cli import main
from sdcd.cli._files import failure
from sdcd.cli.score import SCORES
from sdcd.data.dataset import read_dataset
from sdcd.data.edges import read_edges, write_edges
from sdcd.errors import InputError
from sdcd.methods.registry import methods
from sdcd.signals import ENDING

EXAMPLES = Path(__file__).parents[1] / "examples"
PICTURES = ("fit.graph.pdf", "fit.graph.png")
PERTURBED = ["--perturbation-column", "guide", "--control", "NT"]
FAST = ["--set", "epochs_1=4", "--set", "epochs_2=4"]


def run(capsys, *arguments) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def cells(tmp_path) -> Path:
    """A small own table: b follows a, half of the rows perturb b."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=600)
    b = 2 * a + 0.5 * rng.normal(size=600)
    b[300:] = rng.normal(size=300)
    guide = ["NT"] * 300 + ["gene,b"] * 300
    rows = [f'{x},{y},"{g}"' for x, y, g in zip(a, b, guide, strict=True)]
    path = tmp_path / "cells.csv"
    path.write_text("\n".join(['a,"gene,b",guide', *rows]) + "\n")
    return path


@pytest.fixture
def data(tmp_path, capsys) -> Path:
    path = tmp_path / "data.npz"
    code, _, _ = run(capsys, "simulate", "--d", 5, "--s", 1, "--n-observational", 500, "-o", path)
    assert code == 0
    return path


def test_simulate_writes_the_data_sets_of_the_simulator(tmp_path, capsys):
    from sdcd.simulation import simulate

    path = tmp_path / "data.npz"
    code, out, _ = run(
        capsys, "simulate", "--d", 6, "--s", 2, "--seed", 3, "--fraction", 0.5, "--raw", "-o", path
    )
    assert (code, out) == (0, "")
    with np.load(path) as arrays:
        found = {name: (arrays[name].dtype.kind, arrays[name].shape) for name in arrays}
    n = 10_000 + 3 * 500
    assert found == {
        "X": ("f", (n, 6)),
        "intervened": ("b", (n, 6)),
        "adjacency": ("i", (6, 6)),
        "names": ("U", (6,)),
    }
    expected = simulate(6, 2, 3, fraction=0.5, standardise=False)
    np.testing.assert_array_equal(read_dataset(path).X, expected.X)
    few = ("--n-observational", 30, "--n-per-intervention", 7)
    assert run(capsys, "simulate", "--d", 4, "--s", 1, "--fraction", 1, *few, "-o", path)[0] == 0
    assert read_dataset(path).X.shape == (30 + 4 * 7, 4)
    assert run(capsys, "simulate", "--d", 6, "--s", 2, "--seed", 3, "-o", path)[0] == 0
    np.testing.assert_array_equal(read_dataset(path).X, simulate(6, 2, 3).X)


def test_fit_and_score_a_simulated_data_set(tmp_path, data, capsys):
    fit = tmp_path / "fit.npz"
    code, out, _ = run(capsys, "fit", data, "--method", "SDCD", *FAST, "-o", fit)
    assert code == 0
    assert set(out.split()) == {
        str(tmp_path / f"fit.{name}")
        for name in ("npz", "json", "edges.csv", "model.npz", "graph.png", "graph.pdf")
    }
    record = json.loads((tmp_path / "fit.json").read_text())
    assert record["method"] == "SDCD" and record["status"] == "ok"
    assert record["params"]["epochs_1"] == 4 and record["epochs"] == {"stage1": 4, "stage2": 4}
    with np.load(fit) as arrays:
        assert arrays["weights"].shape == arrays["adjacency"].shape == (5, 5)
        assert arrays["weights"].dtype == np.float64 and arrays["adjacency"].dtype == np.int8
    code, out, _ = run(capsys, "score", fit, "--truth", data)
    scores = json.loads(out)
    assert code == 0 and tuple(scores) == SCORES
    # Four epochs learn nothing, so all five edges are missing.
    assert (scores["shd"], scores["n_edges"], scores["precision"]) == (5, 0, None)


def test_progress_is_shown_on_request_and_changes_nothing(tmp_path, capfd):
    data, shown, quiet = (tmp_path / f"{name}.npz" for name in ("data", "shown", "quiet"))
    run(capfd, "simulate", "--d", 5, "--s", 1, "--n-observational", 400, "-o", data)
    fit = ("fit", data, *FAST, "--no-picture", "-o")
    code, _, err = run(capfd, *fit, shown, "--progress")
    assert code == 0 and "stage 2, epoch 1/4: validation loss" in err
    code, _, err = run(capfd, *fit, quiet)
    assert code == 0 and "stage" not in err
    assert shown.read_bytes() == quiet.read_bytes()
    records = [json.loads(path.with_suffix(".json").read_text()) for path in (shown, quiet)]
    assert records[0]["params"] == records[1]["params"]
    assert records[0].keys() == records[1].keys()
    # A method that says nothing is not asked.
    assert run(capfd, "fit", data, "--method", "GIES", "--progress", "-o", quiet)[0] == 0


def test_fit_one_s_own_table(tmp_path, cells, capsys):
    fit = tmp_path / "fit.npz"
    code, _, err = run(capsys, "fit", cells, *PERTURBED, "--method", "GIES", "-o", fit)
    assert code == 0
    assert err == (
        f"GIES on {cells}: 2 variables, 600 rows, 300 of them perturbed\n"
        "perturbed variables: 1, with rows: gene,b 300\n"
    )
    assert (tmp_path / "fit.edges.csv").read_text() == 'parent,child,weight\na,"gene,b",\n'
    assert files(tmp_path) >= {*PICTURES}
    with np.load(fit) as arrays:
        assert arrays["names"].tolist() == ["a", "gene,b"]
    (tmp_path / "truth.csv").write_text('cause,effect\n"gene,b",a\n')
    code, out, _ = run(capsys, "score", fit, "--truth", tmp_path / "truth.csv")
    scores = json.loads(out)
    assert (scores["shd"], scores["recall"], scores["average_precision"]) == (1, 0, None)


def test_scores_do_not_depend_on_the_order_of_the_truth_s_variables(tmp_path, data, capsys):
    fit, other = tmp_path / "fit.npz", tmp_path / "other.npz"
    run(capsys, "fit", data, "--method", "GIES", "--no-picture", "-o", fit)
    with np.load(data) as arrays:
        content = dict(arrays)
    order = [3, 1, 4, 0, 2]
    content["adjacency"] = content["adjacency"][order][:, order]
    for key in ("X", "intervened"):
        content[key] = content[key][:, order]
    np.savez(other, **{**content, "names": content["names"][order]})
    expected = run(capsys, "score", fit, "--truth", data)
    assert run(capsys, "score", fit, "--truth", other) == expected
    np.savez(other, **{**content, "names": np.array(list("abcde"))})
    code, _, err = run(capsys, "score", fit, "--truth", other)
    assert code == 2 and "not in both: X0, X1, X2, X3, X4" in err


def test_the_readme_counts_the_methods():
    plain = [m for name, m in methods().items() if "+" not in name and "SDCD" not in name]
    further = [m for m in plain if m.source.startswith("not in the paper")]
    assert (len(plain) - len(further), len(further)) == (11, 11)
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    assert "the paper's eleven baselines" in readme
    assert "eleven other methods, which the paper does not have" in readme


def test_a_failed_fit_is_kept_and_scored_as_null(tmp_path, data, capsys):
    fit = tmp_path / "fit.npz"
    assert run(capsys, "fit", data, "--method", "GIES", "-o", fit)[0] == 0
    code, out, err = run(capsys, "fit", data, "--time-limit", 0.001, "--threads", 2, "-o", fit)
    assert (code, out) == (3, "")
    assert err.endswith("sdcd: fit failed: timeout: time limit of 0.001 s passed\n")
    # Nothing is left of the earlier fit that stood here.
    assert files(tmp_path) == {"data.npz", "fit.npz", "fit.json"}
    code, out, err = run(capsys, "score", fit, "--truth", data)
    assert code == 3 and json.loads(out) == dict.fromkeys(SCORES)
    assert err == f"sdcd: {fit}: the fit failed: timeout: time limit of 0.001 s passed\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "absent.csv", "-o", "fit.npz"], "absent.csv: no such file"),
        (["fit", "cells.csv", "-o", "fit.npz"], "row 2, column 'guide': 'NT', expected a number"),
        (["fit", "cells.csv", "-o", "fit.txt"], "fit.txt: the name of the output must end in"),
        (
            ["fit", "data.npz", "-o", "./data.npz"],
            "data.npz: the output would overwrite the input",
        ),
        (["fit", "data.npz", "-o", "cells.csv/fit.npz"], "nothing can be written in"),
        (["fit", "cells.csv"], "the following arguments are required: -o/--out (see sdcd fit"),
        (["fit", "data.npz", "--method", "sdcd", "-o", "fit.npz"], "unknown method 'sdcd'"),
        (["fit", "data.npz", "--set", "alpha=1", "-o", "fit.npz"], "unknown parameter 'alpha'"),
        (["fit", "data.npz", "--set", "alpha_1=x", "-o", "fit.npz"], "'alpha_1' is 'x', expected"),
        (["fit", "data.npz", "--set", "alpha_1", "-o", "fit.npz"], "expected key=value"),
        (["fit", "data.npz", "--time-limit", "-1", "-o", "fit.npz"], "'-1', expected a positive"),
        (
            [
                "fit",
                "cells.csv",
                "--method",
                "sortnregress",
                "--perturbation-column",
                "guide",
                "--control",
                "NT",
                "-o",
                "fit.npz",
            ],
            "cells.csv: 300 of 600 rows have interventions (first on 'gene,b'), but method",
        ),
        (["simulate", "--d", "3", "--s", "4", "-o", "x.npz"], "12"),
        (["simulate", "--d", "3", "--s", "1", "-o", "x.csv"], "must end in .npz"),
        (["score", "data.npz", "--truth", "data.npz"], "data.npz: a data set, expected a fit"),
        (["frobnicate"], "invalid choice: 'frobnicate'"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(
    tmp_path, cells, data, capsys, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    before = files(tmp_path)
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("sdcd: error: ") and message in err and err.count("\n") == 1
    assert files(tmp_path) == before


def test_a_fit_that_is_being_written_is_not_written_by_another(tmp_path, data, capsys):
    out = tmp_path / "new" / "fit.npz"
    fit = ["fit", data, "--method", "sortnregress", "--no-picture", "-o", out]
    code = (
        "import sys, pathlib; from sdcd.cli._files import only_writer\n"
        "with only_writer(pathlib.Path(sys.argv[1])): print('locked', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, out], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        try:
            assert other.stdout.readline() == "locked\n"
            expected = (
                f"sdcd: error: {out}: is being written by another fit (process {other.pid})\n"
            )
            assert run(capsys, *fit) == (2, "", expected)
            assert files(out.parent) == {".fit.lock"}
        finally:
            other.kill()
    # Who is killed leaves the file, but not the lock.
    assert files(out.parent) == {".fit.lock"}
    assert run(capsys, *fit)[0] == 0
    assert files(out.parent) == {"fit.npz", "fit.json", "fit.edges.csv"}


def test_without_locks_a_fit_goes_on(tmp_path, data, capsys, monkeypatch):
    import fcntl

    def refuses(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuses)
    fit = ["fit", data, "--method", "sortnregress", "--no-picture", "-o", tmp_path / "fit.npz"]
    assert run(capsys, *fit)[0] == 0


def test_an_error_is_not_said_to_be_one_twice():
    record = {"status": "error", "reason": "ValueError: wrong"}
    assert failure(record) == "ValueError: wrong"
    assert failure({"status": "error", "reason": ""}) == "error"
    assert failure({"status": "nan", "reason": "3 weights"}) == "nan: 3 weights"


def test_resamples_have_a_bound(tmp_path, data, capsys):
    fit = ["fit", data, "--resamples", 10**9, "-o", tmp_path / "fit.npz"]
    code, _, err = run(capsys, *fit)
    assert code == 2 and "--resamples: found 1000000000, expected at most 10,000" in err


def test_too_small_an_npz_is_refused_too(tmp_path, capsys):
    path = tmp_path / "small.npz"
    np.savez(path, X=np.random.default_rng(0).normal(size=(9, 3)))
    code, _, err = run(capsys, "fit", path, "-o", tmp_path / "fit.npz")
    assert (code, err) == (2, f"sdcd: error: {path}: 9 rows, expected at least 10\n")


def test_methods_are_listed_for_people_and_for_programs(capsys):
    code, out, _ = run(capsys, "methods", "--json")
    listed = json.loads(out)
    assert code == 0 and list(listed) == list(methods())
    assert listed["sortnregress"]["data"] == "observational"
    assert listed["GIES"]["defaults"] == {"extract_dag": False}
    code, out, _ = run(capsys, "methods")
    assert code == 0
    for name, method in methods().items():
        # Twins of the others are one entry.
        assert (f"\n{name}  ({method.data})\n" in out) != name.endswith(("+prune", "+order"))
    assert "\nNAME+prune  (as NAME)\n" in out
    assert "\nNAME+order  (as NAME)\n" in out
    assert max(map(len, out.splitlines())) <= 98


def test_every_command_helps(capsys):
    for arguments in ([], ["simulate"], ["fit"], ["score"], ["methods"]):
        with pytest.raises(SystemExit) as caught:
            main([*arguments, "--help"])
        assert caught.value.code == 0
        assert "usage: sdcd" in capsys.readouterr().out


def test_listing_and_help_load_no_heavy_library():
    program = (
        "import sys; from sdcd.cli import main; main(['methods']);"
        "print(sorted({m.partition('.')[0] for m in sys.modules}), file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    loaded = set(eval(result.stderr))
    assert not {"pandas", "torch", "numba", "matplotlib", "sklearn", "anndata"} & loaded


def test_a_closed_pipe_and_signals_end_quietly(tmp_path, data):
    command = [sys.executable, "-m", "sdcd.cli"]
    listing = subprocess.Popen(
        [*command, "methods"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    listing.stdout.close()
    assert listing.stderr.read() == b""
    assert listing.wait() == 128 + signal.SIGPIPE
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    endless = ["--set", "epochs_1=10000000", "--set", "patience=10000000"]
    ends = {signal.SIGINT: "interrupted", **dict.fromkeys(ENDING, "terminated")}
    for number, name in ends.items():
        fit = subprocess.Popen(
            [*command, "fit", data, "--standardise", "yes", "-o", tmp_path / "fit.npz", *endless],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(temporary)},
            # A test run in the background of a shell would hand on that SIGINT is ignored.
            preexec_fn=lambda: [signal.signal(number, signal.SIG_DFL) for number in ends],
        )
        assert fit.stderr.readline().startswith("SDCD on ")
        time.sleep(0.5)
        fit.send_signal(number)
        assert fit.stderr.read() == f"sdcd: {name}\n"
        assert fit.wait() == 128 + number
        assert files(tmp_path) == {"data.npz", "temporary"} and not files(temporary)


def test_a_batch_is_at_most_the_training_rows_and_the_record_says_so(tmp_path, capsys):
    path, fit = tmp_path / "small.npz", tmp_path / "fit.npz"
    np.savez(path, X=np.random.default_rng(0).normal(size=(100, 3)))
    for settings, said in (([], 80), (["--set", "batch_size=64"], None)):
        code, _, _ = run(capsys, "fit", path, *FAST, *settings, "--no-picture", "-o", fit)
        diagnostics = json.loads(fit.with_suffix(".json").read_text())["diagnostics"]
        assert code == 0 and diagnostics.get("batch_size_all_training_rows") == said
    tenth = ["--set", "validation_fraction=0.001"]
    code, _, err = run(capsys, "fit", path, *FAST, *tenth, "-o", tmp_path / "other.npz")
    line = "100 rows, of which validation_fraction = 0.001 is none to validate on, expected at"
    assert code == 2 and err.splitlines()[-1] == f"sdcd: error: {path}: {line} least one"
    # A method without batches needs none.
    assert run(capsys, "fit", path, "--method", "GIES", "--no-picture", "-o", fit)[0] == 0


def test_edge_lists_are_sorted_and_read_back(tmp_path):
    path = tmp_path / "edges.csv"
    adjacency = np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]])
    weights = np.array([[0, 0.1, 1 / 3], [9, 0, 7.5], [0, 0, 0]])
    write_edges(path, adjacency, weights, ["x", "y,z", "w"])
    assert path.read_text().splitlines() == [
        "parent,child,weight",
        '"y,z",w,7.5',
        f"x,w,{1 / 3!r}",
        'x,"y,z",0.1',
    ]
    read, strengths = read_edges(path, ["x", "y,z", "w"])
    np.testing.assert_array_equal(read, adjacency)
    np.testing.assert_array_equal(strengths, weights * adjacency)


@pytest.mark.parametrize(
    "header",
    ["parent,child", "from,to", "source,target", "cause,effect", "child,parent", "to,from"],
)
def test_ends_of_edges_are_told_by_their_columns(tmp_path, header):
    path = tmp_path / "edges.csv"
    forward = header.split(",")[0] not in ("child", "to")
    path.write_text(f"{header}\n{'x,y' if forward else 'y,x'}\n")
    read, strengths = read_edges(path, ["x", "y"])
    assert read.tolist() == [[0, 1], [0, 0]] and strengths is None


def test_columns_that_do_not_say_which_end_is_which_are_refused(tmp_path):
    path = tmp_path / "edges.csv"
    path.write_text("a,b\nx,y\n")
    with pytest.raises(InputError) as refused:
        read_edges(path, ["x", "y"])
    expected = "expected parent, child and perhaps weight"
    assert str(refused.value) == f"{path}: row 1: columns a, b, {expected}"


def test_the_example_of_the_proteins_runs(tmp_path, capsys):
    fit = tmp_path / "fit.npz"
    source = EXAMPLES / "sachs" / "interventional.csv"
    how = ["--perturbation-column", "perturbed"]
    code, _, err = run(capsys, "fit", source, *how, *FAST, "-o", fit)
    assert code == 2 and "row 2, column 'perturbed': no label, as in 1755 row(s)" in err
    how += ["--unlabelled", "control"]
    code, _, err = run(capsys, "fit", source, *how, *FAST, "-o", fit)
    assert code == 0 and "11 variables, 5846 rows, 4091 of them perturbed\n" in err
    listed = "pakts473 911, PIP3 848, PIP2 810, pmek 799, PKC 723"
    assert f"perturbed variables: 5, with rows: {listed}\n" in err
    truth = EXAMPLES / "sachs" / "consensus_edges.csv"
    code, out, _ = run(capsys, "score", fit, "--truth", truth)
    scores = json.loads(out)
    assert code == 0 and scores["shd"] >= 18 - scores["n_edges"] and scores["recall"] is not None


def test_what_an_earlier_fit_left_beside_is_gone_when_a_later_one_is_interrupted(
    tmp_path, cells, capsys, monkeypatch
):
    out = tmp_path / "fit.npz"
    where = ["fit", cells, *PERTURBED, "-o", out, "--method"]
    assert run(capsys, *where, "GIES")[0] == 0
    assert {"fit.edges.csv", *PICTURES} <= files(tmp_path)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("sdcd.cli.fit.write_model", interrupted)
    assert run(capsys, *where, "SDCD", *FAST)[0] == 130
    assert json.loads((tmp_path / "fit.json").read_text())["method"] == "SDCD"
    assert not {"fit.edges.csv", "fit.model.npz", *PICTURES} & files(tmp_path)
