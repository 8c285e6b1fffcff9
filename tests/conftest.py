"""What tests share: one thread for each, and runs of the workflow that are made once."""

import contextlib
import importlib
import json
import os
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.slurm_runs import PROGRAMS
from support.workflow import SMOKE, copy_of, new_clone, snakemake

# Fits have one thread too: their arrays are too small to gain from more.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")


def pytest_collection_modifyitems(items):
    """What compiles comes first, then the workflow, whose copies of the clone take the compiled
    kernels along; tests on SLURM come last: by then their runs have ended."""

    def rank(item):
        if item.get_closest_marker("slurm"):
            return 3
        if item.path.name.startswith(("test_baselines", "test_engine", "test_pruning")):
            return 0
        return 1 if item.path.name == "test_workflow.py" else 2

    items.sort(key=rank)


@pytest.fixture
def benchmark(monkeypatch):
    """Imports a module of ``benchmarks/``."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    return importlib.import_module


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A copy of the clone in which scale smoke has been run."""
    clone = new_clone(tmp_path_factory.mktemp("workflow") / "clone")
    snakemake(clone, *SMOKE)
    return clone


@pytest.fixture
def clone(finished, tmp_path):
    """A copy of the finished run, to change something in."""
    return copy_of(finished, tmp_path / "clone")


@pytest.fixture(scope="session", autouse=True)
def slurm_runs(request, tmp_path_factory):
    """Programs that make the runs on SLURM, beside the tests; by run, with the folder it is in."""
    wanted = {
        marker.args[0] for item in request.session.items for marker in item.iter_markers("slurm")
    }
    with contextlib.ExitStack() as stack:
        started = {}
        for program in PROGRAMS:
            if names := [run.__name__ for run in program if run.__name__ in wanted]:
                folder = tmp_path_factory.mktemp("slurm")
                output = stack.enter_context(open(folder / "output.txt", "w"))
                process = subprocess.Popen(
                    [sys.executable, "-m", "support.slurm_runs", folder, *names],
                    cwd=Path(__file__).parent,
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
                # It ends when its standard input is closed, as here.
                stack.callback(process.communicate)
                started |= dict.fromkeys(names, (process, folder))
        yield started


@cache
def say(line):
    """Once."""
    print(line)


@pytest.fixture
def on_slurm(request, slurm_runs):
    """The run on SLURM that a test names: its clone, and what there is in its .json."""
    name = request.node.get_closest_marker("slurm").args[0]
    process, folder = slurm_runs[name]
    path = folder / f"{name}.json"
    deadline = time.monotonic() + 1800
    while not path.exists():
        assert process.poll() is None or path.exists(), (folder / "output.txt").read_text()[-5000:]
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)
    found = json.loads(path.read_text())
    if "unavailable" in found:
        capture = request.config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            say(f"\nWARNING: no SLURM here, its tests are SKIPPED: {found['unavailable']}")
        pytest.skip(f"no SLURM here: {found['unavailable']}")
    assert "error" not in found, found["error"]
    return SimpleNamespace(clone=folder / name / "clone", **found)
