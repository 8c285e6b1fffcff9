"""Every engine against autograd through the plain model."""

import numpy as np
import pytest
import torch

from sdcd.errors import MethodFailure
from sdcd.estimator import engine_torch
from sdcd.estimator.engine import StageSettings
from sdcd.estimator.engine_torch import TorchEngine
from sdcd.estimator.fitting import initial_state
from sdcd.estimator.model import ModelEngine
from sdcd.estimator.penalties_torch import SparseProduct
from sdcd.estimator.state import PARAMETERS, Candidates

PENALTIES = ("none", "spectral", "exp", "exp_squared", "log", "log_squared")
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
devices = pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=[pytest.mark.cuda, needs_cuda])]
)


def make_problem(n, d, fraction, penalty="none", interventions=False, seed=0, targets=None):
    """A problem at a point where no gradient vanishes: constructor arguments of an engine."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n + 70, d)).astype(np.float32)
    keep = (random.random(X.shape) < 0.8).astype(np.float32)
    if targets is not None:
        candidates = Candidates.all(d, targets)
        keep = keep[:, candidates.targets]
    else:
        edges = np.argwhere((random.random((d, d)) < fraction) & ~np.eye(d, dtype=bool))
        candidates = Candidates.of_edges(d, *edges.T)
    state = initial_state(candidates, 10, seed, 1)
    # Within the domain of h_log: the largest row sum of A bounds its spectral radius.
    W = random.normal(size=state.W.shape).astype(np.float32)
    state.W[:] = W
    state.W *= 0.7 / max(1, candidates.dense(state.edge_weights()).sum(axis=1).max())
    settings = StageSettings(0.01, 2e-4, 2e-3, batch_size=64, penalty=penalty)
    parts = (X[:n], keep[:n], X[n:], keep[n:])
    if not interventions:
        parts = (parts[0], None, parts[2], None)
    return *parts, state, settings


def gradient_of_first_step(engine, n, gamma):
    """What Adam's first moment shows after one step on one batch."""
    engine.epoch(np.random.default_rng(1).permutation(n), gamma)
    return {name: moment / 0.1 for name, moment in engine.state().first.items()}


def autograd(problem, gamma):
    engine = ModelEngine(*problem)
    order = np.random.default_rng(1).permutation(len(problem[0]))
    engine.loss(order, gamma).backward()
    return {name: theta.grad.numpy() for name, theta in engine.theta.items()}, engine


@devices
@pytest.mark.parametrize("interventions", [False, True])
@pytest.mark.parametrize("fraction", [1.0, 0.7, 0.2])
@pytest.mark.parametrize("penalty", PENALTIES)
def test_gradients_are_those_of_autograd(penalty, fraction, interventions, device):
    problem = make_problem(64, 30, fraction, penalty, interventions)
    expected, model = autograd(problem, gamma=0.5)
    engine = TorchEngine(*problem, device=device)
    found = gradient_of_first_step(engine, 64, gamma=0.5)
    for name in PARAMETERS:
        error = np.linalg.norm(found[name] - expected[name]) / np.linalg.norm(expected[name])
        assert error < 1e-5, name
    if penalty == "spectral":
        state = engine.state()
        np.testing.assert_allclose(state.left, model.left, atol=2e-6)
        np.testing.assert_allclose(state.right, model.right, atol=2e-6)


def test_gradients_of_some_targets_with_gaps_are_those_of_autograd():
    problem = make_problem(64, 30, 1.0, interventions=True, targets=np.array([3, 4, 9, 29]))
    expected, _ = autograd(problem, gamma=0.0)
    found = gradient_of_first_step(TorchEngine(*problem), 64, gamma=0.0)
    for name in PARAMETERS:
        error = np.linalg.norm(found[name] - expected[name]) / np.linalg.norm(expected[name])
        assert error < 1e-5, name


def test_outside_the_domain_of_h_log_gradients_are_those_of_autograd_and_counted():
    problem = make_problem(64, 30, 0.5, "log")
    problem[4].W *= 10
    expected, model = autograd(problem, gamma=0.5)
    engine = TorchEngine(*problem)
    found = gradient_of_first_step(engine, 64, gamma=0.5)
    assert model.escapes == engine.escapes == 1
    assert np.linalg.norm(found["W"] - expected["W"]) < 1e-5 * np.linalg.norm(expected["W"])


@devices
@pytest.mark.parametrize(
    ("penalty", "fraction"), [("none", 1.0), ("spectral", 1.0), ("spectral", 0.2), ("exp", 0.2)]
)
def test_the_first_epochs_take_the_model_s_course(penalty, fraction, device):
    problem = make_problem(500, 20, fraction, penalty, interventions=True, seed=3)
    problem = (*problem[:4], initial_state(problem[4].candidates, 10, 5, 2), problem[5])
    model, engine = ModelEngine(*problem), TorchEngine(*problem, device=device)
    random = np.random.default_rng(0)
    for epoch in range(5):
        order = random.permutation(500)
        for one in (model, engine):
            one.epoch(order, 0.1 * epoch)
        np.testing.assert_allclose(engine.edge_weights(), model.edge_weights(), atol=1e-5)
        assert engine.validation_loss() == pytest.approx(model.validation_loss(), rel=1e-5)
    for name in PARAMETERS:
        np.testing.assert_allclose(
            getattr(engine.state(), name), getattr(model.state(), name), atol=1e-4
        )
    assert engine.state().step == model.state().step == 40


def states_equal(a, b):
    pairs = [(getattr(a, name), getattr(b, name)) for name in (*PARAMETERS, "left", "right")]
    pairs += [(a.first[name], b.first[name]) for name in PARAMETERS]
    pairs += [(a.second[name], b.second[name]) for name in PARAMETERS]
    return a.step == b.step and all(np.array_equal(x, y) for x, y in pairs)


@devices
@pytest.mark.parametrize("fraction", [1.0, 0.1])
@pytest.mark.parametrize("penalty", ["none", "spectral"])
def test_bytes_do_not_depend_on_threads_or_on_an_interruption(penalty, fraction, device):
    problem = make_problem(300, 120, fraction, penalty, interventions=True)
    orders = [np.random.default_rng(i).permutation(300) for i in range(4)]
    whole = TorchEngine(*problem, threads=1, device=device)
    for order in orders:
        whole.epoch(order, 0.3)
    first = TorchEngine(*problem, threads=2, device=device)
    for order in orders[:2]:
        first.epoch(order, 0.3)
    rest = TorchEngine(*problem[:4], first.state(), problem[5], threads=2, device=device)
    for order in orders[2:]:
        rest.epoch(order, 0.3)
    assert states_equal(whole.state(), rest.state())
    assert whole.validation_loss() == rest.validation_loss()


def test_the_state_given_is_copied():
    problem = make_problem(64, 10, 0.5)
    before = problem[4].copy()
    TorchEngine(*problem).epoch(np.arange(64), 0.0)
    assert states_equal(problem[4], before)


@pytest.mark.parametrize("penalty", ["none", "spectral"])
def test_steps_by_number_are_the_epoch(penalty):
    # The form that CUDA captures: rows, batch number and gamma read from the device.
    problem = make_problem(300, 20, 0.3, penalty, interventions=True)
    plain, numbered = TorchEngine(*problem), TorchEngine(*problem)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(300)
        plain.epoch(order, 0.2 * seed)
        with numbered._contained():
            numbered._epoch_by_number(torch.from_numpy(order), 0.2 * seed)
        numbered._step += 5
    assert states_equal(plain.state(), numbered.state())


def test_sparse_product_is_the_matrix_product_with_long_and_empty_rows():
    random = np.random.default_rng(0)
    matrix = random.random((100, 60)) * (random.random((100, 60)) < 0.05)
    matrix[7] = random.random(60)  # longer than one piece
    matrix[50:53] = 0
    rows, columns = np.nonzero(matrix)
    shuffle = random.permutation(len(rows))
    rows, columns = rows[shuffle], columns[shuffle]
    product = SparseProduct(rows, columns, 100, torch.device("cpu"))
    x = torch.from_numpy(random.random(60))
    found = product.multiply(product.arrange(torch.from_numpy(matrix[rows, columns])), x)
    np.testing.assert_allclose(found.numpy(), matrix @ x.numpy(), rtol=1e-12)


def test_memory_of_the_sparse_product_is_linear_in_the_edges_in_spite_of_a_hub():
    d = 20_000
    children = np.arange(1, d)
    rows = np.concatenate([np.zeros(d - 1, dtype=int), children])
    columns = np.concatenate([children, np.roll(children, 1)])
    product = SparseProduct(rows, columns, d, torch.device("cpu"))
    indices = (product.source, product.entry, *product.levels)
    assert sum(array.numel() for array in indices) < 100 * len(rows)


def test_torch_s_settings_are_given_back():
    threads = torch.get_num_threads()
    tiny = torch.tensor([1e-39])
    generator = torch.random.get_rng_state()
    precision = engine_torch._matmul_precision(None)
    problem = make_problem(300, 60, 0.3, "spectral")
    engine = TorchEngine(*problem, threads=2, tf32=True)
    try:
        torch.set_num_threads(3)
        engine.epoch(np.arange(300), 0.1)
        engine.validation_loss()
        engine.state()
        assert torch.get_num_threads() == 3
        assert (tiny * 0.5).item() != 0
        assert torch.is_grad_enabled()
        assert engine_torch._matmul_precision(None) == precision
        assert torch.equal(torch.random.get_rng_state(), generator)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_missing_device_is_a_failure_with_its_name():
    with pytest.raises(MethodFailure, match=r"cuda:1.*0 CUDA devices") as caught:
        TorchEngine(*make_problem(64, 5, 1.0), device="cuda:1")
    assert caught.value.status == "unavailable"


@pytest.mark.parametrize("tf32", [False, True])
def test_tf32_is_on_during_an_epoch_only_where_asked_for(tf32, monkeypatch):
    seen = []
    steps = TorchEngine._steps

    def watched(self, *args):
        seen.append(engine_torch._matmul_precision(None))
        steps(self, *args)

    monkeypatch.setattr(TorchEngine, "_steps", watched)
    TorchEngine(*make_problem(64, 5, 1.0), tf32=tf32).epoch(np.arange(64), 0.0)
    assert set(seen) == {"tf32" if tf32 else "ieee"}


@pytest.mark.parametrize("penalty", PENALTIES)
def test_an_edge_that_is_exactly_zero_gets_a_finite_gradient(penalty):
    problem = make_problem(64, 10, 0.6, penalty)
    problem[4].W[::2] = 0
    expected, _ = autograd(problem, gamma=5.0)
    found = gradient_of_first_step(TorchEngine(*problem), 64, gamma=5.0)
    assert np.isfinite(found["W"]).all()
    assert np.linalg.norm(found["W"] - expected["W"]) < 1e-5 * np.linalg.norm(expected["W"])
