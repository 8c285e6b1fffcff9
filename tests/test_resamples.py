"""Fits of parts of the rows: what is drawn, what is counted, and how a run goes on."""

import csv
import importlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import sdcd.methods.contract
from sdcd.cli import main
from sdcd.data.dataset import Dataset, write_dataset
from sdcd.errors import FitKilled, InputError
from sdcd.fits.draws import draw
from sdcd.fits.record import load_fit
from sdcd.fits.resamples import (
    consensus,
    count_edges,
    resample,
    run_resamples,
    write_ranked_edges,
)
from sdcd.graphs import is_acyclic
from sdcd.methods import Graph

ROOT = Path(__file__).resolve().parents[1]
METHODS = """
import os, signal, time
import numpy as np
from sdcd.errors import MethodFailure
from sdcd.methods import Graph, register


@register(name="coin", data="interventional", defaults={"what": "ok", "folder": ""}, source="test")
def coin(X, intervened, names, seed, *, what, folder):
    if what == "sleep":
        with open(os.path.join(folder, f"{os.getpid()}.pid"), "w"):
            time.sleep(60)
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "fail" or (what == "some" and seed % 2):
        raise MethodFailure("nan", f"seed {seed}")
    A = np.triu(np.random.default_rng(seed).random((3, 3)) < 0.6, 1)
    # What the rows say: whether the first half of them is the majority.
    A[2, 0] = X[:, 0].mean() > 0
    return Graph(A, A * 1.0)
"""


@pytest.fixture(scope="module", autouse=True)
def coin(tmp_path_factory):
    """A method of an importable module that is not part of the package."""
    folder = tmp_path_factory.mktemp("methods")
    (folder / "coin_of_test_resamples.py").write_text(METHODS)
    sys.path.insert(0, str(folder))
    __import__("coin_of_test_resamples")
    yield
    sys.path.remove(str(folder))
    del sdcd.methods.contract.REGISTERED["coin"]


@pytest.fixture
def data(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 3))
    mask = np.zeros(X.shape, dtype=bool)
    mask[40:, 1] = True
    write_dataset(tmp_path / "data.npz", Dataset(X, mask, ("a", "b", "c")))
    return tmp_path / "data.npz"


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.npz"))}


def table(path):
    with open(path, newline="") as stream:
        return list(csv.DictReader(stream))


@settings(deadline=None)
@given(
    mask=arrays(bool, st.tuples(st.integers(1, 40), st.integers(1, 3))),
    seed=st.integers(0, 2**32),
    number=st.integers(1, 99),
)
def test_rows_are_drawn_within_each_perturbation(mask, seed, number):
    half, boot = (draw(mask, seed, number, how) for how in ("half", "bootstrap"))
    assert len(set(half.rows.tolist())) == len(half.rows)
    assert 0 <= half.seed == boot.seed < 2**31
    for targets in np.unique(mask, axis=0):
        members = np.flatnonzero((mask == targets).all(axis=1))
        assert np.isin(half.rows, members).sum() == -(-len(members) // 2)
        assert np.isin(boot.rows, members).sum() == len(members)
    for drawn in (half, boot):
        assert (np.diff(drawn.rows) >= 0).all()


def test_draws_differ_and_depend_on_seed_and_number_alone():
    mask = np.zeros((200, 2), dtype=bool)
    draws = [draw(mask, seed, number) for seed in (0, 1) for number in (1, 2, 3)]
    assert len({drawn.rows.tobytes() for drawn in draws}) == 6
    assert len({drawn.seed for drawn in draws}) == 6
    again = draw(mask.copy(), 1, 2)
    assert again.seed == draws[4].seed and (again.rows == draws[4].rows).all()
    # Every row is as likely as any other.
    counts = sum(np.bincount(draw(mask, 5, k).rows, minlength=200) for k in range(400))
    assert abs(counts - 200).max() < 5 * np.sqrt(400 * 0.25)
    with pytest.raises(InputError, match="'thirds', expected half or bootstrap"):
        draw(mask, 0, 1, "thirds")


def test_why_half_is_the_default_a_bootstrap_has_rows_on_both_sides_of_the_split():
    from sdcd.estimator import SDCD
    from sdcd.estimator.fitting import Problem

    X = np.random.default_rng(0).normal(size=(2000, 2)).astype(np.float32)
    shared = {}
    for how in ("half", "bootstrap"):
        drawn = draw(np.zeros(X.shape, bool), 0, 1, how)
        problem = Problem.of(X[drawn.rows], None, SDCD(seed=drawn.seed))
        shared[how] = np.isin(problem.X_validation[:, 0], problem.X_train[:, 0]).mean()
    assert shared["half"] == 0
    assert shared["bootstrap"] == pytest.approx(1 - np.exp(-0.8), abs=0.06)


def test_edges_are_counted_by_direction():
    graphs = [
        [[0, 1, 0], [0, 0, 1], [0, 1, 0]],
        [[0, 1, 0], [0, 0, 0], [0, 1, 0]],
        [[0, 0, 0], [1, 0, 1], [0, 0, 0]],
        [[0, 1, 0], [0, 0, 1], [0, 0, 0]],
    ]
    found = count_edges(np.array(graphs))
    assert found.n == 4
    assert found.directed.tolist() == [[0, 0.75, 0], [0.25, 0, 0.5], [0, 0.25, 0]]
    assert found.undirected.tolist() == [[0, 0, 0], [0, 0, 0.25], [0, 0.25, 0]]
    assert found.adjacent[0, 1] == found.adjacent[1, 2] == 1
    # Half is not most.
    assert consensus(found.directed).tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 0]]
    with pytest.raises(InputError, match="no graph"):
        count_edges([])


def test_the_least_frequent_edge_of_a_cycle_is_left_out():
    directed = np.array([[0, 0.6, 0], [0, 0, 0.6], [0.7, 0, 0]])
    assert np.argwhere(consensus(directed)).tolist() == [[0, 1], [2, 0]]


@settings(deadline=None)
@given(arrays(np.int8, (7, 4, 4), elements=st.integers(0, 1)))
def test_the_consensus_is_a_dag_and_lacks_an_edge_only_where_it_would_close_a_cycle(graphs):
    directed = count_edges(graphs).directed
    agreed = consensus(directed)
    assert is_acyclic(agreed)
    assert (directed[agreed != 0] > 0.5).all()
    for i, j in np.argwhere((directed > 0.5) & (agreed == 0)):
        more = agreed.copy()
        more[i, j] = 1
        assert not is_acyclic(more)


def test_the_same_bytes_alone_and_in_parallel_and_a_stopped_run_goes_on(tmp_path, data):
    alone, together = tmp_path / "alone", tmp_path / "together"
    told = []
    paths = run_resamples(data, "coin", folder=alone, count=3, report=lambda *n: told.append(n))
    assert told == [(0, 3, 0), (1, 3, 1), (2, 3, 2), (3, 3, 3)]
    run_resamples(data, "coin", folder=together, count=3, cores=2)
    assert contents(alone) == contents(together) and len(contents(alone)) == 3
    record = load_fit(paths[1])[1]
    assert record["resample"]["number"] == 2 and record["n_rows"] == 30
    assert record["data"]["name"] == "data.npz"

    def made(**other):
        told = []
        arguments = {"folder": alone, "count": 3, "report": lambda *n: told.append(n), **other}
        run_resamples(data, "coin", **arguments)
        assert told[-1][0] == told[-1][1]
        return told[-1][2]

    before = contents(alone)
    assert made() == 0
    (alone / "0002.json").unlink()
    (alone / "0003.npz").write_bytes(b"PK")
    assert made() == 2 and contents(alone) == before
    assert made(count=4) == 1 and contents(alone).items() > before.items()
    assert made(count=1, how="bootstrap") == 1
    assert made(count=1, how="bootstrap", settings={"what": "other"}) == 1
    write_dataset(
        data,
        Dataset(
            np.random.default_rng(1).normal(size=(60, 3)), np.zeros((60, 3), bool), ("a", "b", "c")
        ),
    )
    assert made(count=1, how="bootstrap", settings={"what": "other"}) == 1
    assert made(count=1, how="bootstrap", settings={"what": "other"}, seed=1) == 1


def test_what_resamples_have_in_common_is_written_as_a_fit(tmp_path, data):
    write = {"weights": np.arange(9.0).reshape(3, 3), "adjacency": np.eye(3, k=1, dtype=np.int8)}
    np.savez(tmp_path / "fit.npz", names=np.array(["a", "b", "c"]), **write)
    agreed = resample(
        tmp_path / "fit.npz", data, "coin", count=5, seed=10, settings={"what": "some"}, cores=2
    )
    fits = [load_fit(path) for path in sorted((tmp_path / "fit.resamples").glob("*.npz"))]
    graphs = [graph.adjacency for graph, _ in fits if graph is not None]
    assert 0 < len(graphs) < 5
    found = agreed.record["resamples"]
    assert (found["count"], found["ok"]) == (5, len(graphs))
    assert found["failed"] == {"nan": 5 - len(graphs)}
    graph, record = load_fit(tmp_path / "fit.consensus.npz")
    assert record == agreed.record
    assert (graph.weights == np.mean(graphs, axis=0)).all()
    assert (graph.adjacency == consensus(graph.weights)).all()
    records = [record for _, record in fits]
    assert record["seconds"] == round(sum(each["seconds"] for each in records), 4)
    assert record["peak_rss_mb"] == max(each["peak_rss_mb"] for each in records)
    both = graph.adjacency * write["adjacency"]
    assert (found["edges"], found["edges_in_fit"]) == (graph.adjacency.sum(), both.sum()) == (2, 1)
    rows = table(tmp_path / "fit.frequencies.csv")
    assert len(rows) == np.count_nonzero(np.sum(graphs, axis=0))
    ranks = [(float(row["frequency"]), float(row["weight"])) for row in rows]
    assert ranks == sorted(ranks, reverse=True)
    index = {name: j for j, name in enumerate("abc")}
    for row in rows:
        i, j = index[row["parent"]], index[row["child"]]
        assert float(row["frequency"]) == graph.weights[i, j]
        assert float(row["frequency_reversed"]) == graph.weights[j, i]
        assert int(row["in_fit"]) == (j == i + 1)
        assert int(row["in_consensus"]) == graph.adjacency[i, j]


def test_of_equals_those_come_first_that_are_joined_more_often(tmp_path):
    there = np.zeros((3, 3), dtype=np.int8)
    there[0, 1] = there[1, 2] = 1
    turned = np.zeros_like(there)
    turned[2, 1] = 1
    graph = Graph(there, there * 1.0, {}, {"names": np.array(["a", "b", "c"])})
    write_ranked_edges(tmp_path / "e.csv", graph, count_edges([there, turned]), {})
    found = [(row["parent"], row["frequency"]) for row in table(tmp_path / "e.csv")]
    assert found == [("b", "0.5"), ("a", "0.5")]


def test_if_no_resample_is_fitted_the_record_says_why(tmp_path, data):
    adjacency = np.zeros((3, 3), dtype=np.int8)
    np.savez(tmp_path / "fit.npz", adjacency=adjacency, names=np.array(["a", "b", "c"]))
    agreed = resample(tmp_path / "fit.npz", data, "coin", count=2, settings={"what": "fail"})
    assert agreed.frequencies is None
    assert agreed.record["status"] == "nan"
    assert agreed.record["reason"].startswith("no resample was fitted, the first because: seed ")
    assert load_fit(tmp_path / "fit.consensus.npz")[0] is None
    assert not (tmp_path / "fit.frequencies.csv").exists()


@pytest.mark.parametrize("cores", [1, 2])
def test_a_fit_that_somebody_killed_is_no_result(tmp_path, data, cores):
    with pytest.raises(FitKilled, match="killed by SIGKILL"):
        run_resamples(
            data, "coin", folder=tmp_path / "r", count=2, settings={"what": "kill"}, cores=cores
        )
    assert not list((tmp_path / "r").iterdir())


def test_what_was_written_before_a_part_was_killed_is_said(tmp_path, data, capsys, monkeypatch):
    def killed(*_, **__):
        raise FitKilled("killed by SIGKILL")

    monkeypatch.setattr("sdcd.fits.resamples.run_fits", killed)
    out = tmp_path / "fit.npz"
    assert main(["fit", str(data), "--method", "coin", "--resamples", "2", "-o", str(out)]) == 4
    there = f"{out}, {out.with_suffix('.json')}"
    line = f"sdcd: error: killed by SIGKILL (outputs written before that: {there})\n"
    assert capsys.readouterr().err.endswith(line)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_fits_end_with_their_caller(tmp_path, data, number):
    caller = textwrap.dedent(f"""
        import sys
        sys.path[:] = {sys.path!r}
        import coin_of_test_resamples
        from sdcd.fits.resamples import run_resamples
        from sdcd.signals import Terminated, terminable
        try:
            with terminable():
                run_resamples({str(data)!r}, "coin", folder={str(tmp_path / "r")!r}, count=3,
                              cores=2, settings={{"what": "sleep", "folder": {str(tmp_path)!r}}})
        except Terminated:
            sys.exit(7)
    """)
    process = subprocess.Popen([sys.executable, "-c", caller])
    assert eventually(lambda: len(list(tmp_path.glob("*.pid"))) == 2)
    process.send_signal(number)
    assert process.wait(60) == (7 if number == signal.SIGTERM else -number)
    pids = [int(path.stem) for path in tmp_path.glob("*.pid")]
    assert eventually(lambda: not any(is_alive(pid) for pid in pids))
    assert not list((tmp_path / "r").iterdir())


def eventually(what, seconds=60):
    end = time.monotonic() + seconds
    while not (true := what()) and time.monotonic() < end:
        time.sleep(0.05)
    return true


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stream:
            return stream.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_command(tmp_path, data, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fit = ["fit", "data.npz", "--method", "coin", "--no-picture", "-o", "fit.npz"]
    assert main([*fit, "--resamples", "3", "--cores", "2", "--seed", "4"]) == 0
    out, err = capsys.readouterr()
    assert out.split() == [
        *("fit.npz", "fit.json", "fit.edges.csv"),
        *("fit.consensus.npz", "fit.consensus.json", "fit.frequencies.csv"),
    ]
    assert "resamples: 3 of 3 fitted" in err
    rows = table("fit.edges.csv")
    assert list(rows[0])[:5] == ["parent", "child", "weight", "frequency", "frequency_reversed"]
    ranks = [(float(row["frequency"]), float(row["weight"])) for row in rows]
    assert ranks == sorted(ranks, reverse=True)
    assert len(rows) == load_fit("fit.npz")[0].adjacency.sum()
    alone = (tmp_path / "fit.npz").read_bytes()
    assert main(["score", "fit.consensus.npz", "--truth", "fit.edges.csv"]) == 0
    assert json.loads(capsys.readouterr().out)["is_dag"] is True

    assert main([*fit, "--seed", "4"]) == 0
    assert (tmp_path / "fit.npz").read_bytes() == alone
    assert not (tmp_path / "fit.consensus.npz").exists()
    assert not (tmp_path / "fit.frequencies.csv").exists()
    assert list(table("fit.edges.csv")[0]) == ["parent", "child", "weight"]
    assert main([*fit, "--seed", "4", "--resamples", "3"]) == 0
    assert "resamples: 3 of 3 are there already" in capsys.readouterr().err


def test_options_reach_the_fit_and_the_resamples(tmp_path, data, monkeypatch):
    asked = []

    def fitted(data, name, **how):
        asked.append({"name": name, **how})
        return {"status": "ok"}

    def resampled(fit, data, name, **how):
        fitted(data, name, **how)
        raise InputError("that is all")

    monkeypatch.setattr("sdcd.fits.run.run_fit", fitted)
    monkeypatch.setattr("sdcd.fits.resamples.resample", resampled)
    fit = ["fit", str(data), "--method", "coin", "--no-picture", "-o", str(tmp_path / "fit.npz")]
    fit += ["--seed", "4", "--threads", "2", "--time-limit", "50", "--memory-limit", "900"]
    fit += ["--set", "what=other"]
    assert main([*fit, "--resamples", "3", "--resampling", "bootstrap", "--cores", "5"]) == 2
    shared = {"name": "coin", "seed": 4, "threads": 2, "time_limit_s": 50, "memory_limit_mb": 900}
    shared |= {"settings": {"what": "other"}, "shown_as": data}
    own = ({}, {"count": 3, "how": "bootstrap", "cores": 5})
    for found, expected in zip(asked, own, strict=True):
        expected = {**shared, **expected}
        assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--resamples", "0"], "argument --resamples: '0', expected a positive integer"),
        (["--resampling", "thirds"], "argument --resampling: invalid choice: 'thirds'"),
        (["--cores", "2"], "--cores: says how resamples are fitted, expected --resamples N too"),
        (
            ["--resampling", "half"],
            "--resampling: says how resamples are fitted, expected --resamples",
        ),
        (["--resamples", "2", "--method", "nothing"], "unknown method 'nothing'"),
    ],
)
def test_refusals(tmp_path, data, capsys, more, message):
    assert main(["fit", str(data), *more, "-o", str(tmp_path / "fit.npz")]) == 2
    err = capsys.readouterr().err
    assert message in err and len(err.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["data.npz"]


def test_parts_that_cannot_be_fitted_are_refused_before_any_fit(tmp_path, capsys):
    X = np.random.default_rng(0).normal(size=(18, 3))
    write_dataset(tmp_path / "few.npz", Dataset(X, np.zeros(X.shape, bool), ("a", "b", "c")))
    rare = np.random.default_rng(0).normal(size=(100, 3))
    rare[:, 1] = np.arange(100) == 3
    write_dataset(tmp_path / "rare.npz", Dataset(rare, np.zeros(rare.shape, bool), ("a", "b", "c")))
    for name, message in (
        ("few", "resample 1 (half), 9 of 18 rows: 9 rows, expected at least 10"),
        ("rare", "50 of 100 rows: column 'b': constant, 0 in all 50 rows"),
    ):
        with pytest.raises(InputError) as error:
            run_resamples(tmp_path / f"{name}.npz", "coin", folder=tmp_path / "r", count=9)
        assert message in str(error.value)
    assert not (tmp_path / "r").exists()
    out = ["--no-picture", "-o", str(tmp_path / "fit.npz")]
    fit = ["fit", str(tmp_path / "few.npz"), "--method", "sortnregress", "--resamples", "2", *out]
    assert main(fit) == 2
    assert "expected at least 10" in capsys.readouterr().err
    assert not (tmp_path / "fit.npz").exists()


def test_the_folder_cannot_be_a_file(tmp_path, data, capsys):
    (tmp_path / "fit.resamples").write_text("mine")
    code = main(["fit", str(data), "--resamples", "2", "-o", str(tmp_path / "fit.npz")])
    assert code == 2 and "nothing can be written in" in capsys.readouterr().err
    assert not os.path.exists(tmp_path / "fit.npz")


def test_the_workflow_does_not_go_on_from_a_fit_of_rows_drawn_otherwise(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "workflow/scripts")
    script = importlib.import_module("fit")
    del sys.modules["fit"]
    X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    write_dataset(tmp_path / "data.npz", Dataset(X, np.zeros(X.shape, bool), ("a", "b", "c")))
    used = []

    def run_fit(*args, checkpoint, **options):
        used.append(checkpoint)
        return {"status": "unavailable"}

    monkeypatch.setattr(script, "run_fit", run_fit)
    for of_rows in (["--resample", "1"], ["--seed", "1"]):
        for drawn_by in "ab":
            monkeypatch.setattr(script, "fingerprint", lambda *modules, by=drawn_by: by)
            common = [
                "--data",
                tmp_path / "data.npz",
                "--method",
                "GIES",
                "--out",
                tmp_path / "f.npz",
            ]
            monkeypatch.setattr("sys.argv", ["fit.py", *map(str, common), *of_rows])
            script.main()
    assert used[0] != used[1] and used[2] == used[3]
