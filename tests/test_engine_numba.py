"""The compiled engine computes what the plain model computes."""

import dataclasses
import os
import platform
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdcd.estimator import kernels
from sdcd.estimator.engine import StageSettings
from sdcd.estimator.engine_numba import NumbaEngine, warm_up
from sdcd.estimator.engine_torch import TorchEngine
from sdcd.estimator.model import ModelEngine
from sdcd.estimator.state import PARAMETERS, Candidates, StageState

STAGE_1 = StageSettings(alpha=1e-2, beta=2e-4, learning_rate=2e-3)
STAGE_2 = StageSettings(alpha=5e-4, beta=5e-3, learning_rate=1e-3, penalty="spectral")


def random_candidates(rng, d, density, targets=None):
    """Each pair with probability ``density``; some targets may have no parent at all."""
    targets = np.arange(d) if targets is None else targets
    parents = [np.flatnonzero((rng.random(d) < density) & (np.arange(d) != j)) for j in targets]
    indptr = np.concatenate([[0], np.cumsum([len(p) for p in parents])])
    return Candidates(d, targets, indptr, np.concatenate(parents).astype(np.int64))


def random_state(rng, candidates, hidden=10, zero_weights=False, step=0):
    edges, t, d = len(candidates.parents), len(candidates.targets), candidates.d
    shapes = {"W": (edges, hidden), "c": (t,), "e": (t,)}
    shapes |= dict.fromkeys("buv", (t, hidden))
    draw = {name: rng.normal(0, 0.4, shapes[name]).astype(np.float32) for name in PARAMETERS}
    if zero_weights:
        draw["W"][:] = 0
    elif edges > 2:
        draw["W"][edges // 2] = 0  # an edge with A = 0 among others
    scale = 0.1 if step else 0
    return StageState(
        candidates,
        **draw,
        first={n: scale * rng.normal(0, 1, shapes[n]).astype(np.float32) for n in PARAMETERS},
        second={n: scale * rng.random(shapes[n]).astype(np.float32) for n in PARAMETERS},
        step=step,
        left=np.full(d, 1 / np.sqrt(d), np.float32),
        right=np.full(d, 1 / np.sqrt(d), np.float32),
    )


def random_data(rng, n, d):
    X = rng.normal(size=(n, d))
    X[:, 1:] += np.tanh(2 * X[:, :-1])
    return ((X - X.mean(0)) / X.std(0)).astype(np.float32)


def random_keep(rng, n, t):
    return (rng.random((n, t)) < 0.8).astype(np.float32)


@dataclasses.dataclass
class Problem:
    """One problem, with its engines' arguments."""

    X: np.ndarray
    keep: np.ndarray | None
    state: StageState
    settings: StageSettings

    @classmethod
    def draw(cls, seed, n, d, density, settings, masked=False, targets=None, **state):
        rng = np.random.default_rng(seed)
        candidates = random_candidates(rng, d, density, targets)
        keep = random_keep(rng, n, len(candidates.targets)) if masked else None
        start = random_state(rng, candidates, settings.hidden, **state)
        return cls(random_data(rng, n, d), keep, start, settings)

    @property
    def arguments(self):
        half = len(self.X) // 3
        keep = self.keep
        keeps = (None, None) if keep is None else (keep[half:], keep[:half])
        return (
            self.X[half:], keeps[0], self.X[:half], keeps[1], self.state, self.settings
        )  # fmt: skip

    def orders(self, epochs, seed=0):
        rng = np.random.default_rng(seed)
        n = len(self.X) - len(self.X) // 3
        return [rng.permutation(n) for _ in range(epochs)]


def distance(a, b):
    """Largest difference relative to the largest entry."""
    return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)) if a.size else 0.0


def assert_same_gradient(problem, gamma, tolerance=1e-5):
    """One step from zero moments leaves a tenth of the gradient in Adam's first moment."""
    (order,) = problem.orders(1)
    ours, truth = NumbaEngine(*problem.arguments), ModelEngine(*problem.arguments)
    for engine in (ours, truth):
        engine.epoch(order, gamma)
    ours, truth = ours.state(), truth.state()
    assert ours.step == truth.step == 1
    for name in PARAMETERS:
        assert distance(ours.first[name], truth.first[name]) < tolerance, name
        # Adam's first step is the learning rate times the gradient's sign, unless it is tiny.
        clear = np.abs(truth.first[name]) > 1e-5
        np.testing.assert_allclose(
            getattr(ours, name)[clear], getattr(truth, name)[clear], atol=2e-7, rtol=1e-6
        )


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("density", [1.0, 0.5, 0.15])
@pytest.mark.parametrize("hidden", [10, 17])
def test_gradient_without_penalty(density, masked, hidden):
    settings = dataclasses.replace(STAGE_1, hidden=hidden, batch_size=400)
    assert_same_gradient(Problem.draw(1, 300, 13, density, settings, masked), 0.0)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("density", [1.0, 0.5, 0.15])
@pytest.mark.parametrize("gamma", [0.0, 2.5])
def test_gradient_with_spectral_penalty(density, masked, gamma):
    settings = dataclasses.replace(STAGE_2, batch_size=400)
    assert_same_gradient(Problem.draw(2, 300, 13, density, settings, masked), gamma)


@pytest.mark.parametrize("d", [2, 16, 17, 70, 150])
def test_spectral_penalty_at_any_size(d):
    """Both ways of the power iteration, from vectors of an earlier step and from zero weights."""
    for zero in (True, False):
        problem = Problem.draw(d, 90, d, min(1, 8 / d), STAGE_2, zero_weights=zero)
        assert_same_gradient(problem, 5.0)
        rng = np.random.default_rng(0)
        for name in ("left", "right"):
            vector = rng.random(d).astype(np.float32)
            setattr(problem.state, name, vector / np.linalg.norm(vector))
        assert_same_gradient(problem, 5.0)


@pytest.mark.parametrize("iterations", [0, 1, 2, 15])
def test_number_of_power_iterations(iterations):
    settings = dataclasses.replace(STAGE_2, power_iterations=iterations)
    problem = Problem.draw(16, 700, 9, 0.7, settings)
    ours, truth = NumbaEngine(*problem.arguments), ModelEngine(*problem.arguments)
    for order in problem.orders(2):
        for engine in (ours, truth):
            engine.epoch(order, 3.0)
    np.testing.assert_allclose(ours.edge_weights(), truth.edge_weights(), atol=1e-5)
    for name in ("left", "right"):
        np.testing.assert_allclose(
            getattr(ours.state(), name), getattr(truth.state(), name), atol=1e-5
        )


@given(
    seed=st.integers(0, 10**6),
    d=st.integers(2, 24),
    n=st.integers(6, 200),
    density=st.floats(0, 1),
    masked=st.booleans(),
    spectral=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_gradient_of_any_problem(seed, d, n, density, masked, spectral):
    settings = STAGE_2 if spectral else STAGE_1
    assert_same_gradient(Problem.draw(seed, n, d, density, settings, masked), 1.0)


def test_block_of_targets_is_the_same_problem():
    targets = np.array([2, 3, 7])
    assert_same_gradient(Problem.draw(5, 200, 9, 1.0, STAGE_1, True, targets), 0.0)


@pytest.mark.parametrize("batch_size", [1, 31, 32, 100, 256])
@pytest.mark.parametrize("stage", [STAGE_1, STAGE_2])
def test_trajectory_over_epochs_of_many_batches(stage, batch_size):
    """Short last batches included; from the middle of a run, where moments and step are not 0."""
    settings = dataclasses.replace(stage, batch_size=batch_size)
    n = 60 if batch_size == 1 else 900
    problem = Problem.draw(3, n, 8, 0.6, settings, masked=True, step=7)
    ours, truth = NumbaEngine(*problem.arguments), ModelEngine(*problem.arguments)
    for epoch, order in enumerate(problem.orders(3)):
        for engine in (ours, truth):
            engine.epoch(order, 0.3 * epoch)
        assert ours.validation_loss() == pytest.approx(truth.validation_loss(), rel=2e-5)
        np.testing.assert_allclose(ours.edge_weights(), truth.edge_weights(), atol=2e-4)
    ours, truth = ours.state(), truth.state()
    assert ours.step == truth.step
    for name in PARAMETERS:
        assert distance(getattr(ours, name), getattr(truth, name)) < 5e-4, name
    for name in ("left", "right"):
        assert distance(getattr(ours, name), getattr(truth, name)) < 1e-3, name


def test_trajectory_from_the_usual_start():
    """Zero input weights, defaults of both stages, as every fit begins."""
    for stage in (STAGE_1, STAGE_2):
        problem = Problem.draw(4, 3000, 10, 1.0, stage, zero_weights=True)
        ours, truth = NumbaEngine(*problem.arguments), ModelEngine(*problem.arguments)
        for epoch, order in enumerate(problem.orders(3)):
            for engine in (ours, truth):
                engine.epoch(order, 0.005 * epoch)
        np.testing.assert_allclose(ours.edge_weights(), truth.edge_weights(), atol=1e-5)
        assert ours.validation_loss() == pytest.approx(truth.validation_loss(), rel=1e-5)


@pytest.mark.parametrize("masked", [False, True])
def test_validation_loss(masked):
    problem = Problem.draw(6, 1000, 9, 0.7, STAGE_1, masked)
    ours, truth = NumbaEngine(*problem.arguments), ModelEngine(*problem.arguments)
    assert ours.validation_loss() == pytest.approx(truth.validation_loss(), rel=2e-6)
    np.testing.assert_allclose(ours.edge_weights(), truth.edge_weights(), rtol=1e-6)


def test_validation_loss_of_extreme_heads():
    """Raw variances far from 0, where a careless softplus or log loses its digits."""
    for raw in (-60.0, -20.0, -3.0, 0.0, 15.0, 60.0, 500.0):
        problem = Problem.draw(8, 90, 4, 0.7, STAGE_1)
        problem.state.v[:] = 0
        problem.state.e[:] = raw
        ours, truth = NumbaEngine(*problem.arguments), ModelEngine(*problem.arguments)
        assert ours.validation_loss() == pytest.approx(truth.validation_loss(), rel=1e-5)


def test_gradient_of_saturated_units():
    """Inputs of the sigmoid of +-1000: its derivative is 0, not NaN."""
    problem = Problem.draw(9, 90, 5, 1.0, STAGE_1)
    problem.state.b[:, :5], problem.state.b[:, 5:] = 1000, -1000
    engine = NumbaEngine(*problem.arguments)
    engine.epoch(problem.orders(1)[0], 0.0)
    state = engine.state()
    assert all(np.isfinite(getattr(state, name)).all() for name in PARAMETERS)
    assert_same_gradient(problem, 0.0)


@pytest.mark.parametrize("stage", [STAGE_1, STAGE_2])
def test_going_on_from_state_gives_the_same_bytes(stage):
    problem = Problem.draw(10, 700, 12, 0.5, stage, masked=True)
    orders = problem.orders(4)
    whole = NumbaEngine(*problem.arguments)
    for order in orders:
        whole.epoch(order, 0.7)
    first = NumbaEngine(*problem.arguments)
    for order in orders[:2]:
        first.epoch(order, 0.7)
    problem.state = first.state()
    second = NumbaEngine(*problem.arguments)
    for order in orders[2:]:
        second.epoch(order, 0.7)
    assert_same_bytes(whole, second)


@pytest.mark.parametrize("stage", [STAGE_1, STAGE_2])
@pytest.mark.parametrize("masked", [False, True])
def test_threads_give_the_same_bytes(stage, masked):
    problem = Problem.draw(11, 1500, 20, 0.5, stage, masked)
    engines = [NumbaEngine(*problem.arguments, threads=threads) for threads in (1, 2, 3)]
    for order in problem.orders(3):
        for engine in engines:
            engine.epoch(order, 1.0)
    assert_same_bytes(engines[0], engines[1])
    assert_same_bytes(engines[0], engines[2])


def assert_same_bytes(a, b):
    assert a.validation_loss() == b.validation_loss()
    assert a.edge_weights().tobytes() == b.edge_weights().tobytes()
    a, b = a.state(), b.state()
    assert a.step == b.step
    for name in (*PARAMETERS, "left", "right"):
        assert getattr(a, name).tobytes() == getattr(b, name).tobytes(), name
    for name in PARAMETERS:
        assert a.first[name].tobytes() == b.first[name].tobytes(), name
        assert a.second[name].tobytes() == b.second[name].tobytes(), name


def test_state_is_a_copy():
    problem = Problem.draw(12, 300, 6, 0.5, STAGE_2)
    before = problem.state.copy()
    engine = NumbaEngine(*problem.arguments)
    start = engine.state()
    engine.epoch(problem.orders(1)[0], 1.0)
    for name in (*PARAMETERS, "left", "right"):
        np.testing.assert_array_equal(getattr(problem.state, name), getattr(before, name))
        np.testing.assert_array_equal(getattr(start, name), getattr(before, name))


@pytest.mark.parametrize("engine", [NumbaEngine, TorchEngine, ModelEngine])
def test_parameters_are_the_state_without_moments(engine):
    problem = Problem.draw(12, 300, 6, 0.5, STAGE_2)
    engine = engine(*problem.arguments)
    engine.epoch(problem.orders(1)[0], 1.0)
    state, parameters = engine.state(), engine.parameters()
    assert parameters.first == parameters.second == {} and state.step == parameters.step
    names = (*PARAMETERS, "left", "right")
    for name in names:
        np.testing.assert_array_equal(getattr(parameters, name), getattr(state, name))
    engine.epoch(problem.orders(1)[0], 1.0)
    for name in names:  # copies: the engine has gone on
        np.testing.assert_array_equal(getattr(parameters, name), getattr(state, name))
    assert not np.array_equal(engine.parameters().W, parameters.W)


def test_other_penalties_are_refused():
    problem = Problem.draw(13, 60, 4, 0.5, dataclasses.replace(STAGE_2, penalty="exp"))
    with pytest.raises(NotImplementedError, match="exp"):
        NumbaEngine(*problem.arguments)
    problem = Problem.draw(13, 60, 4, 0.5, STAGE_2, targets=np.array([0, 1]))
    with pytest.raises(NotImplementedError, match="all targets"):
        NumbaEngine(*problem.arguments)


def test_warm_up_compiles_all_that_fits_use():
    warm_up()
    before = len(kernels.epoch.signatures), len(kernels.loss.signatures)
    problem = Problem.draw(14, 60, 4, 0.5, STAGE_2, masked=True)
    engine = NumbaEngine(*problem.arguments)
    engine.epoch(problem.orders(1)[0], 1.0)
    engine.validation_loss()
    assert (len(kernels.epoch.signatures), len(kernels.loss.signatures)) == before


def test_read_only_arrays_are_taken_as_they_are():
    """Arrays from files may be read-only, which numba takes for another type."""
    problem = Problem.draw(15, 60, 4, 0.5, STAGE_2)
    orders = problem.orders(1)
    warm_up()
    before = len(kernels.epoch.signatures)
    for array in (*vars(problem.state).values(), *orders, problem.X):
        if isinstance(array, np.ndarray):
            array.setflags(write=False)
    engine = NumbaEngine(*problem.arguments)
    engine.epoch(orders[0], 1.0)
    assert len(kernels.epoch.signatures) == before


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="names processors of this family")
@pytest.mark.parametrize(
    ("name", "features", "lanes"), [("haswell", "+avx,+avx2,+fma", 8), ("generic", "+sse2", 4)]
)
def test_processors_with_shorter_vectors(tmp_path, name, features, lanes):
    """What runs on older processors, compiled for them here."""
    environment = os.environ | {
        "NUMBA_CPU_NAME": name,
        "NUMBA_CPU_FEATURES": features,
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    program = f"""
import sys
import pytest
from sdcd.estimator import kernels
assert kernels.LANES == {lanes}
chosen = "gradient_with_spectral or same_bytes or validation_loss or test_spectral"
sys.exit(pytest.main(["-q", "-k", chosen, "-p", "no:cacheprovider", {__file__!r}]))
"""
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


def test_works_without_a_directory_for_the_cache(tmp_path):
    """numba refuses to cache where it can write nowhere: then it compiles anew."""
    program = """
import numba.core.caching as caching
from numba import njit
from sdcd.estimator import kernels

def nowhere(*args, **kwargs):
    raise RuntimeError("cannot cache function: no locator available")

caching.FunctionCache.__init__ = nowhere
double = kernels._jit(lambda x: 2 * x)
assert double(4) == 8
"""
    subprocess.run([sys.executable, "-c", program], check=True)
