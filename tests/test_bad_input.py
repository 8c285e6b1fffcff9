"""Bad and odd inputs of the command: one clear line each, and nothing lost."""

import gzip
import json
import os
import resource
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from sdcd.cli import main
from sdcd.data.dataset import Dataset, read_dataset
from sdcd.errors import InputError
from sdcd.estimator import SDCD
from sdcd.methods.registry import method

QUICK = {"epochs_1": 2, "epochs_2": 2, "engine": "model"}
GIES = ["--method", "GIES", "--no-picture"]
ROOT = Path(__file__).parents[1]


def values(n: int = 60, d: int = 3) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a data set, a table, a fit and its views."""
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "data.npz", X=values())
    lines = [",".join(f"{x:.4f}" for x in row) for row in values()]
    (tmp_path / "cells.csv").write_text("\n".join(["a,b,c", *lines]) + "\n")
    return tmp_path


def run(capsys, *arguments) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def refused(capsys, folder: Path, *arguments) -> str:
    """The one line that refuses; no file may have changed."""
    before = content(folder)
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "") and err.startswith("sdcd: error: ") and err.count("\n") == 1
    assert content(folder) == before
    return err.removeprefix("sdcd: error: ").rstrip()


# No output is an input


def test_a_list_of_edges_that_is_fitted_is_not_overwritten(here, capsys):
    os.rename("cells.csv", "fit.edges.csv")
    line = refused(capsys, here, "fit", "fit.edges.csv", *GIES, "-o", "fit.npz")
    assert line == "fit.edges.csv: the output would overwrite the input fit.edges.csv"


@pytest.mark.parametrize("out", ["fit.npz", "./fit.npz", "sub/../fit.npz", "soft.npz", "hard.npz"])
def test_by_whatever_path_or_link(here, capsys, out):
    os.rename("data.npz", "fit.npz")
    os.mkdir("sub")
    os.symlink("fit.npz", "soft.npz")
    os.link("fit.npz", "hard.npz")
    line = refused(capsys, here, "fit", "fit.npz", *GIES, "-o", out)
    assert line.endswith(": the output would overwrite the input fit.npz")


@pytest.mark.parametrize("log", ["data.npz", "link.txt"])
def test_nor_by_the_log(here, capsys, log):
    os.symlink("data.npz", "link.txt")
    line = refused(capsys, here, "fit", "data.npz", *GIES, "--log", log, "-o", "fit.npz")
    assert line == f"{log}: the output would overwrite the input data.npz"


def test_nor_by_a_picture_or_the_record(here, capsys):
    for name in ("fit.json", "fit.graph.png"):
        os.symlink("cells.csv", name)
        line = refused(capsys, here, "fit", "cells.csv", "--method", "GIES", "-o", "fit.npz")
        assert line == f"{name}: the output would overwrite the input cells.csv"
        os.unlink(name)


def test_two_outputs_are_not_one_file(here, capsys):
    line = refused(capsys, here, "fit", "data.npz", *GIES, "--log", "fit.json", "-o", "fit.npz")
    assert line == "fit.json: two outputs would be the same file, fit.json"


# Outputs that cannot be


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "folder.npz"], "folder.npz: is a folder, expected the name of a file"),
        (["-o", "x" * 251 + ".npz"], ": too long a name, expected at most 245 bytes"),
        (["-o", "x" * 300 + "/fit.npz"], ": too long a name, expected at most 245 bytes"),
        (["-o", "fit.npz", "--log", "folder.npz"], "folder.npz: is a folder, expected"),
        (["-o", "fit.npz", "--log", "data.npz/log"], "nothing can be written in "),
        (["-o", "fit.npz", "--seed", "-1"], "'-1', expected an integer not below 0"),
        (["-o", "fit.npz", "--threads", "0"], "'0', expected a positive integer"),
        (["-o", "fit.npz", "--time-limit", "nan"], "'nan', expected a positive number"),
        (["-o", "fit.npz", "--memory-limit", "x"], "'x', expected a positive number"),
        (["-o", "fit.npz", "--metod", "x"], "arguments: --metod x (did you mean '--method'?)"),
        (["-o", "fit.npz", "--set", "=1"], "'=1', expected key=value"),
        (["-o", "fit.npz", "--set", "extract_dag=1"], "'extract_dag' is 1, expected true or"),
        (["-o", "fit.npz", "--separator", " "], "--separator: blank"),
        (["-o", "fit.npz", "--layer", "x"], "data.npz: --layer is for tables; an .npz says in"),
        (["-o", "fit.npz", "--control", "NT"], "data.npz: --control is for tables; an .npz says"),
        (["-o", "fit.npz", "--normalise"], "data.npz: --normalise is for tables; an .npz says in"),
        (["-o", "fit.npz", "--method", "GIES+prun"], "; and NAME+prune, NAME+order)"),
    ],
)
def test_options_that_cannot_be(here, capsys, arguments, message):
    os.mkdir("folder.npz")
    assert message in refused(capsys, here, "fit", "data.npz", *GIES, *arguments)


def test_files_that_are_something_else(here, capsys):
    assert run(capsys, "fit", "data.npz", *GIES, "-o", "fit.npz")[0] == 0
    Path("edges.csv").write_text("parent;child\nX0;X1\n")
    Path("other.csv").write_text("parent,child\nA,B\n")
    for arguments, message in (
        (["fit", ".", "-o", "x.npz"], ".: is a folder, expected a file (or a .zarr folder)"),
        (["score", "fit.json", "--truth", "data.npz"], "fit.json: is not a fit (.npz)"),
        (["evaluate", "fit.json", "--data", "data.npz"], "fit.json: is not a fit (.npz)"),
        (["score", "fit.npz", "--truth", "fit.npz"], "fit.npz: a fit, expected a data set with"),
        (["score", "fit.npz", "--truth", "fit.json"], "fit.json: expected a data set (.npz) or"),
        (["score", "fit.npz", "--truth", "edges.csv"], "child and perhaps weight, separated by"),
        (
            ["score", "fit.npz", "--truth", "other.csv", "--restrict"],
            "no edge is left (1 edges with an end that is no variable), expected some between",
        ),
        (
            ["fit", "cells.csv", "--perturbation-column", "A", "-o", "x.npz"],
            "no column 'A', expected for --perturbation-column one of a, b, c",
        ),
    ):
        assert message in refused(capsys, here, *arguments)


def test_folders_of_outputs_are_made_for_every_command(here, capsys):
    fit = ["fit", "data.npz", *GIES, "--no-model", "-o", "new/a/fit.npz", "--log", "new/b/log"]
    simulate = ["simulate", "--d", "3", "--s", "1", "--n-observational", "20", "-o", "new/c/x.npz"]
    for arguments in (fit, simulate):
        assert run(capsys, *arguments)[0] == 0
    assert {"new/a/fit.npz", "new/b/log", "new/c/x.npz"} <= content(here).keys()


def test_a_method_that_needs_interventions_says_how_they_are_read(here, capsys):
    arguments = ["--method", "mean-difference", "--no-picture", "-o", "fit.npz"]
    code, _, err = run(capsys, "fit", "cells.csv", *arguments)
    assert code == 3 and "--perturbation-column names the column" in err


def test_characters_that_the_font_lacks_are_one_note(here, capsys):
    text = Path("cells.csv").read_text().replace("a,b,c", "a,\u907a\u4f1d\u5b50,c")
    Path("names.csv").write_text(text, encoding="utf-8")
    code, _, err = run(capsys, "fit", "names.csv", "--method", "GIES", "-o", "fit.npz")
    assert code == 0 and "font" in err.splitlines()[-1] and "Warning" not in err
    assert err.count("font") == 1


def test_odd_tables_and_names(here, capsys):
    os.mkfifo("pipe.csv")
    both = ["control", "b"] * 30
    rows = [f"{a:.3f},{b:.3f},{g}" for (a, b, _), g in zip(values(), both, strict=True)]
    Path("both.csv").write_text("\n".join(["control,b,guide", *rows]) + "\n")
    Path("comma.csv").write_text("a,b\n" + '"1,5","2,5"\n' * 20)
    for arguments, message in (
        (["pipe.csv", "-o", "x.npz"], "pipe.csv: is a pipe, expected a CSV file that can be read"),
        (["cells.csv", "-o", ".npz"], ".npz: the name of the output must end in .npz"),
        (
            ["comma.csv", "-o", "x.npz"],
            "row 2, column 'a': '1,5', expected a number with a decimal",
        ),
        (
            ["both.csv", "--perturbation-column", "guide", "-o", "x.npz"],
            "label 'control' is a variable and a usual label of unperturbed rows",
        ),
        (
            ["both.csv", "--perturbation-column", "b", "-o", "x.npz"],
            "column 'guide': 'control', expected a number (--ignore-column leaves a column out",
        ),
    ):
        assert message in refused(capsys, here, "fit", *arguments)
    say = ["fit", "both.csv", "--perturbation-column", "guide", "--control", "control"]
    assert run(capsys, *say, *GIES, "-o", "x.npz")[0] == 0


def test_a_standard_stream_that_is_closed_is_no_file_of_ours(here):
    command = "from sdcd.cli import main; raise SystemExit(main())"
    fit = [sys.executable, "-c", command, "fit", "cells.csv", *GIES, "--no-model", "-o", "x.npz"]
    for closed in ("2>&-", "<&- >&- 2>&-"):
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        end = subprocess.run(["sh", "-c", f'"$@" {closed}', "sh", *fit], env=env)
        assert end.returncode == 0
        assert json.loads(Path("x.json").read_text())["status"] == "ok"


def test_memory_that_torch_lacks_is_one_line(here, capsys, monkeypatch):
    import torch

    monkeypatch.setattr("sdcd.simulation.simulate", lambda *_, **__: torch.empty(10**15))
    code, _, err = run(capsys, "simulate", "--d", "3", "--s", "1", "-o", "x.npz")
    assert code == 4 and err.startswith("sdcd: error: memory ran out")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--d", "999999999"], "10,000 rows of 999,999,999 variables take 1,000,089,998.0 GB"),
        (["--d", "3", "--n-observational", str(10**14)], "variables take 2,700,000.0 GB"),
        (
            ["--d", "20000", "--fraction", "0.1", "--n-per-intervention", "50000"],
            "--d 20000: 1,000,010,000 rows of 20,000 variables take",
        ),
    ],
)
def test_data_larger_than_the_memory_are_refused(here, capsys, arguments, said):
    line = refused(capsys, here, "simulate", *arguments, "--s", "1", "-o", "x.npz")
    assert said in line and line.endswith(" GB of this machine's memory")


def test_a_score_that_is_not_defined_says_why(here, capsys):
    cycle = np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]])
    np.savez("fit.npz", adjacency=cycle, names=np.array(list("abc")))
    Path("truth.csv").write_text("parent,child\n")
    _, out, err = run(capsys, "score", "fit.npz", "--truth", "truth.csv")
    assert json.loads(out)["aid"] is None
    why = (
        "aid (the learned graph has a cycle, or undirected edges of no DAG), recall (no true edge)"
    )
    assert err.startswith(f"not defined: {why}, ")
    Path("truth.csv").write_text("parent,child\na,b\nb,c\nc,a\n")
    assert (
        "aid (the true graph has a cycle"
        in run(capsys, "score", "fit.npz", "--truth", "truth.csv")[2]
    )


def test_an_interruption_while_modules_are_imported_is_a_line(here):
    # As Ctrl-C would, wherever it is.
    for first in ("numpy", "argparse"):
        Path(f"{first}.py").write_text("raise KeyboardInterrupt\n")
        end = subprocess.run(
            [
                sys.executable,
                "-c",
                "from sdcd.cli import main; raise SystemExit(main(['methods']))",
            ],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": f"{here}:{ROOT}"},
        )
        assert (end.returncode, end.stderr) == (130, "sdcd: interrupted\n")


def test_misspelt_words_name_the_nearest(here, capsys):
    assert "'simulat' (did you mean 'simulate'?)" in refused(capsys, here, "simulat")
    assert "'gies' (did you mean 'GIES'?)" in refused(capsys, here, "methods", "gies")
    assert "'XYZ' (known:" in refused(capsys, here, "methods", "XYZ")
    arguments = ["fit", "data.npz", "--set", "extractdag=true", *GIES, "-o", "fit.npz"]
    assert "'extractdag' (did you mean 'extract_dag'?)" in refused(capsys, here, *arguments)
    line = refused(capsys, here, "fit", "data.npz", "--standardise", "ye", "-o", "fit.npz")
    assert "invalid choice: 'ye' (did you mean 'yes'?)" in line


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_threshold_that_is_no_number_leaves_the_earlier_fit(here, capsys, value):
    arguments = ["fit", "data.npz", "--method", "sortnregress", "--no-picture", "-o", "fit.npz"]
    assert run(capsys, *arguments)[0] == 0
    line = refused(capsys, here, *arguments, "--set", f"threshold={value}")
    assert line.endswith("expected a number not below 0")


def test_the_settings_of_a_method_are_looked_at_before_the_data(here, capsys):
    arguments = ["--method", "NOBEARS", "--set", "rounds=0", "-o", "fit.npz"]
    line = refused(capsys, here, "fit", "absent.csv", *arguments)
    assert line == "method NOBEARS: parameter 'rounds' is 0, expected an integer not below 1"


# The system says no


def in_shell(command: str, *, stdout=subprocess.PIPE, cwd: Path, limit: int | None = None):
    """The command in a process of its own; no file of it may grow beyond ``limit`` bytes."""

    def limited():
        import signal

        if limit is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.run(
        [sys.executable, "-m", "sdcd.cli", *command.split()],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        preexec_fn=limited,
        check=False,
    )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_standard_output_is_one_line(here):
    with open("/dev/full", "w") as full:
        end = in_shell("methods", stdout=full, cwd=here)
    assert end.returncode == 4
    assert end.stderr == "sdcd: error: standard output: No space left on device\n"


def test_a_full_disk_ends_simulate_in_one_line(here):
    before = set(os.listdir())
    end = in_shell("simulate --d 5 --s 1 -o big.npz", cwd=here, limit=20_000)
    assert end.returncode == 4
    assert end.stderr.endswith("File too large (outputs written before that: none)\n")
    assert end.stderr.startswith("sdcd: error: ") and end.stderr.count("\n") == 1
    assert set(os.listdir()) == before


def test_a_full_disk_when_the_picture_is_drawn_says_what_is_there(here, capsys, monkeypatch):
    from sdcd.figures import graph

    def full(*args, **settings):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(graph, "draw_graph", full)
    code, out, err = run(capsys, "fit", "data.npz", "--method", "GIES", "-o", "fit.npz")
    assert (code, out) == (4, "")
    assert err.splitlines()[-1] == (
        "sdcd: error: No space left on device "
        "(outputs written before that: fit.npz, fit.json, fit.edges.csv)"
    )


def test_every_command_ends_an_error_of_the_system_in_one_line(here, capsys, monkeypatch):
    import sdcd.experiments.progress
    import sdcd.fits.record
    import sdcd.methods.registry
    import sdcd.report.archive
    import sdcd.report.redraw

    def stale(*args, **settings):
        raise OSError(116, "Stale file handle", "file")

    def exhausted(*args, **settings):
        raise MemoryError

    for module, name, arguments in (
        (sdcd.fits.record, "load_fit", ["score", "data.npz", "--truth", "data.npz"]),
        (sdcd.experiments.progress, "read_progress", ["progress", "."]),
        (sdcd.methods.registry, "methods", ["methods"]),
        (sdcd.report.redraw, "redraw", ["report", "."]),
        (sdcd.report.archive, "export", ["export", ".", "-o", "x.zip"]),
        (sdcd.report.archive, "import_archive", ["import", "x.zip", "-o", "x"]),
    ):
        for fault, line in ((stale, "file: Stale file handle"), (exhausted, "memory ran out")):
            monkeypatch.setattr(module, name, fault)
            code, out, err = run(capsys, *arguments)
            assert (code, out) == (4, "") and err.startswith(f"sdcd: error: {line}")
            assert err.count("\n") == 1
        monkeypatch.undo()
        monkeypatch.chdir(here)


# Files


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.csv", "1.5,2.5\n3,4\n5,6\n", "row 1: only numbers (1.5, 2.5), expected a header"),
        ("x.csv", "# made by me\na,b\n1,2\n", "row 1: '# made by me', a comment? expected the"),
        ("x.csv", "a\tb\n1\t2\n", "row 1: cells are separated by '\\t', expected commas"),
        ("x.tsv", "a,b\n1,2\n", "row 1: cells are separated by ',', expected tabs"),
        ("x.csv", 'a,b\n1,"2\n', "not a CSV file"),
        ("x.csv", "a,b\n1,2\n3,1_0\n", "row 3, column 'b': '1_0', expected a number"),
        ("x.csv", "a,b\n1,2\n3,4;\n", "row 3, column 'b': '4;', expected a number"),
        ("x.csv", "a,b\n1,2\n3,0,5\n", "row 3: 3 cells, expected 2 as in the header"),
        ("x.csv", "a,b\n1,2\n3,−4\n", "row 3, column 'b': '−4', expected a number"),
        ("x.csv", "a,b\n1,2\n\0,4\n", "row 3"),
        ("x.xlsx", "", "files called '.xlsx' are not read, expected .npz, .csv, .tsv"),
        ("noname", "a,b\n1,2\n", "files without a suffix are not read"),
        ("x.csv.gz", "a,b\n1,2\n", "is not a gzip archive"),
        ("x.h5ad", "a,b\n1,2\n", "is not an .h5ad file (HDF5)"),
        ("x.zarr", "a,b\n1,2\n", "no such folder, expected a .zarr folder"),
    ],
)
def test_odd_text_files(here, capsys, name, text, message):
    (here / name).write_text(text)
    assert message in refused(capsys, here, "fit", name, *GIES, "-o", "fit.npz")


def test_tables_by_other_names_are_read(tmp_path):
    lines = ["a,b,c", *(",".join(f"{x:.4f}" for x in row) for row in values())]
    text = "\n".join(lines)
    for name, packed in (("x.CSV", False), ("x.tsv", False), ("x.csv.gz", True), ("y.TSV.GZ", 1)):
        own = text.replace(",", "\t") if ".tsv" in name.lower() else text
        (tmp_path / name).write_bytes(gzip.compress(own.encode()) if packed else own.encode())
        read = read_dataset(tmp_path / name, standardise="no")
        np.testing.assert_allclose(read.X, values(), atol=1e-4)
        assert read.names == ("a", "b", "c")
    cut = (tmp_path / "x.csv.gz").read_bytes()[:200]
    (tmp_path / "x.csv.gz").write_bytes(cut)
    with pytest.raises(InputError, match="not a readable gzip archive"):
        read_dataset(tmp_path / "x.csv.gz")


def test_a_header_that_counts_columns_is_a_header(tmp_path):
    text = "\n".join([",0,1,2", *(f"{r}," + ",".join(map(str, x)) for r, x in enumerate(values()))])
    (tmp_path / "x.csv").write_text(text)
    assert read_dataset(tmp_path / "x.csv").names == ("0", "1", "2")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"names": np.array(["a", "b", "c"], dtype=object)}, "array 'names' holds Python objects"),
        ({"names": np.array("abc")}, "names has shape (), expected one name for each variable"),
        ({"names": np.array([["a", "b", "c"]])}, "names has shape (1, 3), expected one name"),
        ({"names": np.array([b"a", b"b", b"c"])}, "variable name"),
        ({"intervened": np.ones((60, 3), bool)}, "column 'X0': all 60 rows are perturbed"),
        ({"X": np.zeros((60, 3))}, "3 constant columns: 'X0', 'X1', 'X2' (the first 0 in all"),
        ({"X": values() + 1j}, "X has dtype complex64, expected real numbers"),
        ({"X": values(4)}, "4 rows, expected at least 10"),
    ],
)
def test_odd_npz_files(here, capsys, arrays, message):
    np.savez("odd.npz", **{"X": values(), **arrays}, allow_pickle=True)
    assert message in refused(capsys, here, "fit", "odd.npz", *GIES, "-o", "fit.npz")


def write_h5ad(path: Path, X=None, obs_rows: int = 60, **parts) -> None:
    import anndata
    import h5py
    import pandas as pd

    var = pd.DataFrame(index=list("abc"))
    obs = pd.DataFrame({"guide": ["control"] * 60}, index=[f"c{r}" for r in range(60)])
    anndata.AnnData(values(), obs=obs, var=var).write_h5ad(path)
    with h5py.File(path, "a") as file:
        if X is not None or obs_rows != 60:
            from anndata.io import write_elem

            for name, part in (("X", X), ("obs", obs[:obs_rows])):
                if part is not None:
                    del file[name]
                    write_elem(file, name, part)
        for name, part in parts.items():
            from anndata.io import write_elem

            del file[name]
            write_elem(file, name, part)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"obs_rows": 50}, "X has 60 rows, obs 50 rows, expected as many"),
        ({"X": np.zeros(60)}, "X has shape (60,), expected rows and variables"),
        ({"X": {"a": np.zeros(3)}}, "X is a dict, expected a matrix of values"),
        ({"obs": {"a": np.zeros(3)}}, "obs is a dict, expected a table"),
        ({"var": {"a": np.zeros(3)}}, "var is a dict, expected a table"),
        ({"X": np.zeros((60, 2))}, "X has 2 columns, var 3 rows, expected as many"),
    ],
)
def test_odd_h5ad_files(here, capsys, parts, message):
    write_h5ad(here / "x.h5ad", **parts)
    line = refused(
        capsys, here, "fit", "x.h5ad", "--perturbation-column", "guide", *GIES, "-o", "fit.npz"
    )
    assert line == f"x.h5ad: {message}" or line.startswith(f"x.h5ad: {message}")


def test_a_data_frame_is_no_matrix(here, capsys):
    import pandas as pd

    write_h5ad(here / "x.h5ad", X=pd.DataFrame({"a": [1.0], "b": [2.0]}))
    line = refused(capsys, here, "fit", "x.h5ad", *GIES, "-o", "fit.npz")
    assert line == "x.h5ad: X is a DataFrame, expected a matrix of values"


def test_h5ad_files_of_old_anndata_are_read(tmp_path):
    """Before 0.7, obs and var were arrays of records, and categories stood in uns."""
    import h5py

    obs = np.zeros(60, dtype=[("index", "S4"), ("guide", "i1")])
    obs["index"] = [f"c{r}".encode() for r in range(60)]
    obs["guide"] = [0] * 40 + [1] * 20
    var = np.array([(b"a",), (b"b",), (b"c",)], dtype=[("index", "S1")])
    with h5py.File(tmp_path / "old.h5ad", "w") as file:
        file["X"], file["obs"], file["var"] = values(), obs, var
        file["uns/guide_categories"] = np.array([b"control", b"b"])
    read = read_dataset(tmp_path / "old.h5ad", perturbation_column="guide", standardise="no")
    np.testing.assert_array_equal(read.X, values())
    assert read.names == ("a", "b", "c")
    assert read.intervened[40:, 1].all() and read.intervened.sum() == 20


# The same checks from Python


@pytest.mark.parametrize(
    ("X", "intervened", "message"),
    [
        (np.ma.masked_greater(values(), 1), None, "is masked"),
        (np.hstack([values(), np.ones((60, 1))]), None, "column 3: constant, 1 in all 60 rows"),
        (np.hstack([values(), values()[:, :1]]), None, "columns 0 and 3 are identical"),
        (values(), np.ones((60, 3), bool), "column 0: all 60 rows are perturbed"),
        (values(5), None, "5 rows, expected at least 10"),
        (values() * np.float64(1e39), None, "row 0, column 2 is .*range of float32"),
    ],
)
def test_python_refuses_what_the_command_refuses(X, intervened, message):
    with pytest.raises(InputError, match=message):
        SDCD(**QUICK).fit(X, intervened)


def test_sparse_and_masked_arrays_are_taken_as_what_they_hold():
    import scipy.sparse as sp

    X = np.where(values() > 0, values(), 0)
    expected = SDCD(**QUICK).fit(X).weights_
    for other in (sp.csr_matrix(X), sp.csc_array(X), np.ma.masked_array(X, mask=False)):
        np.testing.assert_array_equal(SDCD(**QUICK).fit(other).weights_, expected)
    with pytest.raises(InputError, match="some values are masked"):
        Dataset(np.ma.masked_greater(values(), 1), np.zeros((60, 3), bool), ("a", "b", "c"))


@pytest.mark.parametrize("name", ["weights_", "adjacency_", "selected_", "stage_1_weights_"])
def test_what_is_not_fitted_says_so(name):
    with pytest.raises(AttributeError, match="this SDCD is not fitted yet: call fit"):
        getattr(SDCD(), name)
    assert not hasattr(SDCD(), name)


def test_few_rows_are_one_batch():
    model = SDCD(**QUICK).fit(values())
    assert (model.batch_size, model.batch_size_) == (256, 48)
    same = SDCD(**QUICK, batch_size=48).fit(values())
    np.testing.assert_array_equal(model.weights_, same.weights_)


def test_score_names_the_column_that_takes_too_few_values(monkeypatch):
    import sdcd.baselines.score
    from sdcd.errors import MethodFailure

    def singular(*args):
        raise np.linalg.LinAlgError("Singular matrix")

    X = values(100)
    X[:, 1] = X[:, 1] > 0
    chosen = method("SCORE")
    for step in ("causal_order", "prune"):
        monkeypatch.setattr(sdcd.baselines.score, step, singular)
        with pytest.raises(MethodFailure, match="column 'b' takes only 2 different values in 100"):
            chosen.fit(X, np.zeros(X.shape, bool), ("a", "b", "c"), 0, **chosen.defaults)
        monkeypatch.undo()


# The workflow's configuration


def test_broken_yaml_is_named_by_file_and_line(tmp_path):
    from sdcd.experiments.configuration import read_yaml

    path = tmp_path / "config.yaml"
    path.write_text("scale: quick\nmethods:\n\t- SDCD\n")
    with pytest.raises(InputError, match=rf"^{path}: line 3, column 1: not YAML \(found charact"):
        read_yaml(path)
    path.write_text("a:\n  b: 1\n c: 2\n")
    with pytest.raises(InputError, match=r"line 3, column 2: not YAML"):
        read_yaml(path)
    path.write_bytes(b"a: \xff\n")
    with pytest.raises(InputError, match="not UTF-8 text"):
        read_yaml(path)
    # YAML would take the last one and leave out the others without a word.
    path.write_text("a: {b: 1}\nc: [{d: 1}]\na: {b: 2}\n")
    with pytest.raises(InputError, match=rf"^{path}: line 3: key 'a' again, after line 1"):
        read_yaml(path)
    path.write_text("c:\n- {d: 1, d: 2}\n")
    with pytest.raises(InputError, match="line 2: key 'd' again"):
        read_yaml(path)
    path.write_text("a: &a [1, *a]\n")
    assert list(read_yaml(path)) == ["a"]
    path.write_text("")
    assert read_yaml(path) is None
    assert read_yaml(tmp_path / "absent.yaml") is None
    assert json.dumps(read_yaml(ROOT / "config.yaml"))


def test_a_nested_value_of_a_setting_is_refused_in_one_line(here, capsys):
    deep = "[" * 100_000
    line = refused(capsys, here, "fit", "data.npz", "--set", f"seed={deep}", "-o", "fit.npz")
    assert "unknown parameter 'seed'" in line and len(line) < 2000
    assert textwrap.shorten(line, 3000) == line
