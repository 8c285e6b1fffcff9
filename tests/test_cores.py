"""How many threads are started, and what there is where numba cannot compile or keep anything."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

from sdcd import cores
from sdcd.cores import available_cores, useful_threads
from sdcd.estimator import SDCD, fitting


@pytest.fixture
def eight_cores(monkeypatch):
    monkeypatch.setattr(cores, "available_cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


def test_threads_are_as_asked_or_one(eight_cores, monkeypatch):
    assert useful_threads(None) == 1
    assert useful_threads(3) == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert useful_threads(None) == 4
    assert useful_threads(2) == 2
    for nonsense in ("", "0", "4,2"):
        monkeypatch.setenv("OMP_NUM_THREADS", nonsense)
        assert useful_threads(None) == 1


def test_no_more_threads_than_cores_or_than_the_work_feeds(eight_cores):
    assert useful_threads(100) == 8
    assert useful_threads(8, 350, 100) == 3
    assert useful_threads(8, 50, 100) == 1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="a system without affinity")
def test_cores_are_those_that_the_process_may_use():
    program = (
        "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]);"
        "from sdcd.cores import available_cores; print(available_cores())"
    )
    environment = {k: v for k, v in os.environ.items() if k != "LOKY_MAX_CPU_COUNT"}
    command = [sys.executable, "-c", program]
    assert subprocess.check_output(command, env=environment, text=True) == "1\n"


def test_cores_are_known_where_the_system_has_no_affinity(monkeypatch):
    """As on macOS."""
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert 1 <= available_cores() <= os.cpu_count()


def test_the_default_of_the_estimator_is_that_of_the_command(eight_cores, monkeypatch):
    asked = []
    monkeypatch.setattr(
        fitting, "useful_threads", lambda *given: asked.append(useful_threads(*given)) or 1
    )
    X = np.random.default_rng(0).normal(size=(400, 3))
    SDCD(epochs_1=1, epochs_2=1, batch_size=64).fit(X)
    from sdcd.cli._parser import make_parser

    default = make_parser().parse_args(["fit", "data.npz", "-o", "fit.npz"]).threads
    assert asked == [default, default]


def test_without_compiled_kernels_torch_computes_after_one_warning(monkeypatch):
    X = np.random.default_rng(0).normal(size=(400, 4))
    settings = {"epochs_1": 3, "epochs_2": 3, "batch_size": 64}
    torch = SDCD(**settings, engine="torch").fit(X)
    monkeypatch.setattr("sdcd.estimator.engine_numba.NumbaEngine", None)
    fitting.kernels_load.cache_clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        models = [SDCD(**settings).fit(X) for _ in range(2)]
    fitting.kernels_load.cache_clear()
    (warning,) = (w for w in caught if issubclass(w.category, RuntimeWarning))
    assert "the compiled kernels cannot be used (TypeError" in str(warning.message)
    assert "torch computes instead" in str(warning.message)
    for model in models:
        np.testing.assert_array_equal(model.weights_, torch.weights_)


def test_kernels_that_are_asked_for_by_name_are_not_replaced(monkeypatch):
    monkeypatch.setitem(sys.modules, "sdcd.estimator.engine_numba", None)
    with pytest.raises(ImportError):
        SDCD(engine="numba").fit(np.random.default_rng(0).normal(size=(400, 3)))


def test_functions_are_compiled_where_nothing_can_be_kept(tmp_path):
    """A read-only installation, a home that may not be written."""
    program = """
import numba.core.caching as caching

def nowhere(*args, **kwargs):
    raise RuntimeError("cannot cache function: no locator available")

caching.FunctionCache.__init__ = nowhere
from sdcd.compiled import compiled
assert compiled(fastmath=True)(lambda x: 2 * x)(4) == 8
from sdcd.baselines.dcdi_models.kernels import expm
import numpy as np
assert np.allclose(expm(np.zeros((2, 2))), np.eye(2))
"""
    subprocess.run([sys.executable, "-c", program], check=True)
