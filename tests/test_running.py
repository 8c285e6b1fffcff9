"""A fit in a child process: every way it can end becomes a record, and nothing of it survives."""

import contextlib
import dataclasses
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import types
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

import sdcd.methods.contract
from sdcd.data.dataset import Dataset, write_dataset
from sdcd.errors import FitKilled, InputError
from sdcd.fits import child, process
from sdcd.fits.provenance import code_of
from sdcd.fits.record import load_fit
from sdcd.fits.run import run_fit
from sdcd.methods.registry import method

METHODS = """
import os, signal, subprocess, sys, time, warnings
import numpy as np
from sdcd.errors import InputError, MethodFailure
from sdcd.methods import FirstStage, Graph, Part, register


@register(name="toy", data="interventional", defaults={"what": "ok", "mark": ""}, source="test")
def toy(X, intervened, names, seed, *, what, mark):
    d = X.shape[1]
    if what == "sleep":
        time.sleep(60)
    if what == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(60)
    if what == "grandchild":
        with open(mark, "w") as stream:
            stream.write(str(subprocess.Popen(["sleep", "60"]).pid))
        time.sleep(60)
    if what == "memory":
        kept = []
        while True:
            kept.append(np.ones(5_000_000))
            time.sleep(0.02)
    if what == "allocation":
        np.ones(10**14)
    if what == "exception":
        raise KeyError("two\\nlines")
    if what == "input":
        raise InputError("what: found 'input', expected something else")
    if what == "failure":
        raise MethodFailure("overflow", "constant is inf")
    if what.startswith("SIG"):
        # Ignored from the start where the tests run in the background or under nohup.
        if what not in ("SIGKILL", "SIGSTOP"):
            signal.signal(getattr(signal, what), signal.SIG_DFL)
        os.kill(os.getpid(), getattr(signal, what))
        time.sleep(60)
    if what == "forks":
        shared = np.ones(20_000_000)
        children = [os.fork() for _ in range(4)]
        if 0 in children:
            time.sleep(60)
        time.sleep(1)
        for child in children:
            os.kill(child, signal.SIGKILL)
    if what == "crash":
        print("last words", flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    if what == "leave":
        sys.exit(3)
    if what == "nan weights":
        return Graph(np.zeros((d, d)), np.full((d, d), np.inf))
    if what == "wrong shape":
        return Graph(np.zeros((d, d + 1)))
    if what == "no weights":
        return Graph(np.eye(d, k=1))
    if what == "global state":
        import torch

        torch.set_default_dtype(torch.float64)
        np.random.seed(1)
        os.environ["TOY"] = "1"
        return Graph(np.zeros((d, d)), diagnostics={"threads": torch.get_num_threads()})
    if what == "chatter":
        print("on stdout")
        print("on stderr", file=sys.stderr)
    rng = np.random.default_rng(seed)
    return Graph(
        adjacency=np.eye(d, k=1),
        weights=rng.random((d, d)),
        diagnostics={"mu": float("inf"), "epochs": {"stage1": 20, "stage2": np.int64(40)}},
        arrays={"selected": np.ones((d, d), dtype=bool)},
    )


@register(name="toy-observational", data="observational", defaults={}, source="test")
def toy_observational(X, intervened, names, seed):
    return Graph(np.zeros((X.shape[1],) * 2))
"""


METHODS += """

def part(X, intervened, names, seed, targets, *, what):
    if what == "broken" and 1 in targets:
        raise MethodFailure("nan", "lost")
    return Part({"sums": X[:, list(targets)].sum(0)}, {"epochs": {"stage1": 7}})


@register(
    name="toy-parts", data="observational", defaults={"what": "ok", "power": 1}, source="test",
    first_stage=FirstStage(
        part, lambda params: {"what": params["what"]} if params["what"] != "none" else {}
    ),
)
def toy_parts(X, intervened, names, seed, *, what, power, first_stage=()):
    weights = np.zeros((3, 3))
    weights[0] = np.concatenate([np.load(path)["sums"] for path in first_stage]) ** power
    return Graph(weights != 0, weights)
"""


@pytest.fixture(scope="module", autouse=True)
def toy_methods(tmp_path_factory):
    """Two methods of an importable module that is not part of the package."""
    folder = tmp_path_factory.mktemp("methods")
    (folder / "toy_methods_of_test_running.py").write_text(METHODS)
    sys.path.insert(0, str(folder))
    __import__("toy_methods_of_test_running")
    yield
    sys.path.remove(str(folder))
    for name in ("toy", "toy-observational", "toy-parts"):
        del sdcd.methods.contract.REGISTERED[name]


def data(path: Path, intervened: bool = False) -> Path:
    X = np.random.default_rng(0).normal(size=(50, 3))
    mask = np.zeros(X.shape, dtype=bool)
    mask[40:, 1] = intervened
    write_dataset(path, Dataset(X, mask, ("a", "b", "c")))
    return path


def fit(tmp_path, what="ok", **options):
    settings = {"what": what, **options.pop("settings", {})}
    out = tmp_path / "fit.npz"
    return run_fit(data(tmp_path / "data.npz"), "toy", settings=settings, out=out, **options)


def test_a_fit_is_written_with_its_record(tmp_path):
    record = fit(tmp_path, seed=5)
    assert record == json.loads((tmp_path / "fit.json").read_text())
    assert record["status"] == "ok" and record["reason"] == ""
    assert record["method"] == "toy" and record["seed"] == 5
    assert record["params"] == {"what": "ok", "mark": ""}
    assert record["epochs"] == {"stage1": 20, "stage2": 40}
    assert record["diagnostics"] == {"mu": "inf"}
    assert (record["n_rows"], record["n_variables"]) == (50, 3)
    assert record["limits"] == {"time_s": None, "memory_mb": None}
    assert {"python", "sdcd", "numpy"} <= set(record["versions"])
    assert set(record["machine"]) == {"cpu", "cores", "platform"}
    assert record["data"] == {
        "name": "data.npz",
        "sha256": hashlib.sha256((tmp_path / "data.npz").read_bytes()).hexdigest(),
    }
    assert record["code"] == code_of(method("toy"))
    assert abs(datetime.now(UTC) - datetime.fromisoformat(record["finished"])).seconds < 60
    assert 10 < record["peak_rss_mb"] < 1000 and 0 <= record["seconds"] < 5
    assert 0.05 < record["processor_seconds"] < 30
    graph, loaded = load_fit(tmp_path / "fit.npz")
    assert loaded == record
    assert graph.adjacency.dtype == np.int8 and graph.adjacency.sum() == 2
    np.testing.assert_array_equal(graph.weights, np.random.default_rng(5).random((3, 3)))
    assert graph.arrays["names"].tolist() == ["a", "b", "c"] and graph.arrays["selected"].all()


def test_what_a_method_preloads_is_not_charged_to_its_fit(monkeypatch):
    called = []
    module = types.ModuleType("preloading_methods")
    module.prepare = lambda: called.append("prepared")
    monkeypatch.setitem(sys.modules, "preloading_methods", module)
    one = dataclasses.replace(method("toy"), name="one", module="preloading_methods")
    child.preload(one)
    module.PRELOAD = {
        "one": ("there.is.no.such.module", "preloading_methods:prepare"),
        "": (),
    }
    child.preload(one)
    assert called == ["prepared"]
    child.preload(dataclasses.replace(one, name="two"))
    assert called == ["prepared"]
    module.PRELOAD = ("preloading_methods:prepare",)
    child.preload(one)
    assert called == ["prepared", "prepared"]


def test_the_same_fit_has_the_same_bytes(tmp_path):
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    fit(tmp_path / "1")
    fit(tmp_path / "2", threads=2)
    first, second = ((tmp_path / run / "fit.npz").read_bytes() for run in "12")
    assert first == second


@pytest.mark.parametrize(
    ("what", "status", "reason"),
    [
        ("exception", "error", "KeyError: 'two\\nlines'"),
        ("failure", "overflow", "constant is inf"),
        ("allocation", "oom", "MemoryError: Unable to allocate"),
        ("crash", "error", "killed by SIGSEGV: last words"),
        ("leave", "error", "SystemExit: 3"),
        ("nan weights", "nan", "9 of 9 weights are NaN or infinite"),
        ("wrong shape", "error", "ValueError: the method's adjacency has shape (3, 4)"),
    ],
)
def test_an_end_without_a_graph_is_a_record(tmp_path, what, status, reason):
    record = fit(tmp_path, what)
    assert record["status"] == status
    assert reason in record["reason"] and "\n" not in record["reason"]
    with np.load(tmp_path / "fit.npz") as arrays:
        assert {name: arrays[name].tolist() for name in arrays} == {"names": ["a", "b", "c"]}
    graph, loaded = load_fit(tmp_path / "fit.npz")
    assert graph is None and loaded == record
    assert ("raise KeyError" in record.get("traceback", "")) == (what == "exception")


@pytest.mark.parametrize(("what", "longest"), [("sleep", 3), ("stubborn", 6)])
def test_the_time_limit_ends_a_fit(tmp_path, what, longest):
    start = time.monotonic()
    record = fit(tmp_path, what, time_limit_s=0.5)
    assert record["status"] == "timeout" and record["reason"] == "time limit of 0.5 s passed"
    assert 0.5 <= record["seconds"] < 1.5
    assert time.monotonic() - start < longest + 3


def test_the_memory_limit_ends_a_fit(tmp_path):
    record = fit(tmp_path, "memory", memory_limit_mb=400)
    assert record["status"] == "oom"
    assert record["reason"].startswith("memory limit of 400 MB passed (4")
    assert 400 < record["peak_rss_mb"] < 600


@pytest.mark.parametrize("what", ["SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGXCPU"])
def test_a_process_that_somebody_killed_is_no_result(tmp_path, what):
    with pytest.raises(FitKilled, match=rf"toy on .*data\.npz: the fit's process was .* by {what}"):
        fit(tmp_path, what)
    assert [path.name for path in tmp_path.iterdir()] == ["data.npz"]


def test_a_kill_in_the_last_attempt_is_recorded_as_impossible_here(tmp_path):
    """The system's SIGKILL, which comes when memory runs out; other signals are somebody's wish."""
    record = fit(tmp_path, "SIGKILL", last_attempt=True)
    assert record["status"] == "unavailable"
    assert re.fullmatch(
        r"the fit's process was killed by SIGKILL, by the system, probably for memory: "
        r"\d+ MB at its peak",
        record["reason"],
    )
    graph, loaded = load_fit(tmp_path / "fit.npz")
    assert graph is None and loaded == record
    (tmp_path / "fit.npz").unlink()
    with pytest.raises(FitKilled, match="by SIGTERM"):
        fit(tmp_path, "SIGTERM", last_attempt=True)
    assert not (tmp_path / "fit.npz").exists()
    # What the method did itself stays a failure of the method.
    assert fit(tmp_path, "crash", last_attempt=True)["status"] == "error"


def test_memory_that_processes_share_counts_once(tmp_path):
    """160 MB in five processes, which have 800 MB resident in all."""
    record = fit(tmp_path, "forks", memory_limit_mb=500)
    assert record["status"] == "ok", record["reason"]
    assert 180 < record["peak_rss_mb"] < 350


def test_an_answer_between_two_looks_is_read(tmp_path, monkeypatch):
    """The child answers and ends while its memory is looked at: under load, that takes long."""

    def slow_look(seen, least):
        os.waitid(os.P_PID, seen.pid, os.WEXITED | os.WNOWAIT)
        return 1.0

    monkeypatch.setattr(process, "memory_mb", slow_look)
    record = fit(tmp_path)
    assert (record["status"], record["reason"]) == ("ok", "")


def test_what_a_fit_started_ends_with_it(tmp_path):
    mark = tmp_path / "pid"
    record = fit(tmp_path, "grandchild", settings={"mark": str(mark)}, time_limit_s=0.5)
    assert record["status"] == "timeout"
    assert not is_alive(int(mark.read_text()))


def test_a_fit_ends_with_its_caller(tmp_path):
    mark = tmp_path / "pid"
    caller = textwrap.dedent(f"""
        import sys
        sys.path[:] = {sys.path!r}
        import toy_methods_of_test_running
        from sdcd.fits.run import run_fit
        run_fit({str(data(tmp_path / "data.npz"))!r}, "toy", out={str(tmp_path / "fit.npz")!r},
                settings={{"what": "grandchild", "mark": {str(mark)!r}}})
    """)
    process = subprocess.Popen([sys.executable, "-c", caller])
    assert eventually(lambda: mark.exists() and mark.read_text())
    process.kill()
    process.wait()
    assert eventually(lambda: not is_alive(int(mark.read_text())))
    assert not list(tmp_path.glob("*fit*"))


def test_global_state_stays_in_the_child(tmp_path):
    import torch

    before = torch.get_default_dtype(), np.random.get_state()[1].tolist()
    record = fit(tmp_path, "global state", threads=1)
    assert record["status"] == "ok"
    assert record["diagnostics"]["threads"] == 1 and record["threads"] == 1
    assert record["versions"]["torch"] == torch.__version__
    assert (torch.get_default_dtype(), np.random.get_state()[1].tolist()) == before
    assert "TOY" not in os.environ


def test_missing_weights_are_nan_in_the_file_and_none_when_read(tmp_path):
    assert fit(tmp_path, "no weights")["status"] == "ok"
    with np.load(tmp_path / "fit.npz") as arrays:
        assert arrays["weights"].shape == (3, 3) and np.isnan(arrays["weights"]).all()
    assert load_fit(tmp_path / "fit.npz")[0].weights is None


def test_what_a_fit_prints_is_kept_on_request_only(tmp_path, capfd):
    fit(tmp_path, "chatter", log=tmp_path / "logs" / "fit.log")
    printed = (tmp_path / "logs" / "fit.log").read_text().split("\n")
    assert {"on stderr", "on stdout"} <= set(printed)
    fit(tmp_path, "chatter")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "toi"}, "unknown method 'toi'"),
        (
            {"settings": {"wat": 1}},
            "unknown parameter 'wat' (did you mean 'what'?) (known: what, mark)",
        ),
        ({"settings": {"what": 1}}, "parameter 'what' is 1, expected text"),
        ({"settings": {"what": "input"}}, "what: found 'input', expected something else"),
        ({"time_limit_s": 0}, "time limit 0, expected a positive number"),
        ({"threads": 0}, "threads 0, expected a positive integer"),
        ({"out": "fit.txt"}, "the name of a fit must end in .npz"),
        ({"data_path": "absent.npz"}, "absent.npz: no such file"),
        ({"name": "toy-observational"}, "10 of 50 rows have interventions (first on 'b')"),
    ],
)
def test_wrong_input_is_refused_and_leaves_nothing(tmp_path, arguments, message):
    data(tmp_path / "data.npz", intervened=True)
    given = {"data_path": "data.npz", "name": "toy", "out": "fit.npz", **arguments}
    given["data_path"] = tmp_path / given["data_path"]
    given["out"] = tmp_path / given["out"]
    with pytest.raises(InputError) as caught:
        run_fit(given.pop("data_path"), given.pop("name"), **given)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.npz"]


def is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        # A process that nobody has waited for yet is dead all the same.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    if Path("/proc").exists():
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIG_DFL)
        return True
    return False


def eventually(condition, seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def in_parts(tmp_path, **settings):
    source = data(tmp_path / "data.npz")
    parts = [tmp_path / f"{name}.npz" for name in "ab"]
    for path, targets in zip(parts, (range(2), range(2, 3)), strict=True):
        run_fit(source, "toy-parts", out=path, targets=targets, settings=settings)
    out = tmp_path / "fit.npz"
    return run_fit(source, "toy-parts", out=out, first_stage=parts, settings=settings), parts


def test_a_fit_in_parts_counts_them_all(tmp_path):
    record, parts = in_parts(tmp_path, power=2)
    graph, _ = load_fit(tmp_path / "fit.npz")
    X = np.load(tmp_path / "data.npz")["X"]
    np.testing.assert_allclose(graph.weights[0], X.sum(0) ** 2, rtol=1e-5)
    records = [json.loads(path.with_suffix(".json").read_text()) for path in parts]
    assert [r["targets"] for r in records] == [[0, 1], [2, 2]]
    assert [r["params"] for r in records] == [{"what": "ok"}] * 2
    assert [r["epochs"] for r in records] == [{"stage1": 7}] * 2
    assert record["first_stage"] == {"parts": 2, "seconds": [r["seconds"] for r in records]}
    assert record["seconds"] >= sum(r["seconds"] for r in records)
    assert record["peak_rss_mb"] >= max(r["peak_rss_mb"] for r in records)


def test_a_failed_part_is_the_failure_of_the_fit(tmp_path):
    record, _ = in_parts(tmp_path, what="broken")
    assert (record["status"], record["reason"]) == ("nan", "first stage of targets 0 to 1: lost")
    assert (record["n_rows"], record["n_variables"]) == (50, 3)
    assert load_fit(tmp_path / "fit.npz")[0] is None


def test_parts_of_what_has_none_are_refused(tmp_path):
    source, out = data(tmp_path / "data.npz"), tmp_path / "fit.npz"
    for name, settings in (("toy", {}), ("toy-parts", {"what": "none"})):
        with pytest.raises(InputError, match=f"method {name} has no first stage"):
            run_fit(source, name, out=out, targets=range(2), settings=settings)
    run_fit(source, "toy", out=out)
    with pytest.raises(InputError, match=r"fit\.npz: not a part of a first stage"):
        run_fit(source, "toy-parts", out=tmp_path / "x.npz", first_stage=[out])


def test_a_parameter_called_checkpoint_that_is_another_thing_is_left_alone(tmp_path):
    """AVICI's says where its weights are; unset, it is not where progress would be kept."""
    data(tmp_path / "data.npz")
    out = tmp_path / "fit.npz"
    record = run_fit(tmp_path / "data.npz", "AVICI", out=out, checkpoint=tmp_path / "kept.npz")
    assert record["status"] == "unavailable"
    assert record["reason"].startswith("no checkpoint is given")
