"""The estimator as its users see it."""

import io
import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from support.fits import generators_untouched

from sdcd.errors import InputError, MethodFailure
from sdcd.estimator import SDCD, StageOne, gather
from sdcd.estimator.estimator import _PARAMETERS

QUICK = {"epochs_1": 45, "epochs_2": 45, "eta_1": 0.02, "eta_2": 0.02, "batch_size": 64}


def chain(n=600, d=5, seed=0):
    """x0 -> x1 -> ... , not linear, standardised."""
    generator = np.random.default_rng(seed)
    X = 0.4 * generator.normal(size=(n, d))
    for j in range(1, d):
        X[:, j] += np.cos(2.5 * X[:, j - 1])
    return ((X - X.mean(0)) / X.std(0)).astype(np.float32)


def results(model):
    return (*model.edges_, model.history_, model.epochs_)


def same(a, b):
    pairs = zip(results(a), results(b), strict=True)
    return all(np.array_equal(x, y) if isinstance(x, np.ndarray) else x == y for x, y in pairs)


def test_fit_returns_itself_with_everything_it_promises():
    X = chain()
    model = SDCD(**QUICK, threads=1)
    before = model.get_params()
    assert model.fit(X) is model
    assert model.get_params() == before
    assert model.n_features_in_ == 5
    assert model.adjacency_.dtype == np.int8 and model.adjacency_.shape == (5, 5)
    assert model.weights_.dtype == np.float32
    assert model.selected_.dtype == bool and not model.selected_.diagonal().any()
    np.testing.assert_array_equal(model.selected_, model.stage_1_weights_ > model.tau_1)
    assert not model.weights_[~model.selected_].any()
    assert (model.weights_[model.adjacency_ == 1] >= model.tau_2).all()
    assert set(model.epochs_) == {"stage1", "stage2"}
    stages = [record["stage"] for record in model.history_]
    assert stages == [1] * stages.count(1) + [2] * stages.count(2)
    assert model.history_[-1]["epoch"] == 41
    json.dumps(model.history_)


def test_finds_a_chain():
    generator = np.random.default_rng(0)
    X = 0.7 * generator.normal(size=(2000, 5))
    for j in range(1, 5):
        X[:, j] += X[:, j - 1]
    settings = {"epochs_1": 200, "epochs_2": 200, "eta_1": 0.01, "eta_2": 0.01}
    model = SDCD(**settings, gamma_increment=0.05).fit(X / X.std(0))
    found = {tuple(sorted(edge)) for edge in np.argwhere(model.adjacency_).tolist()}
    assert found == {(0, 1), (1, 2), (2, 3), (3, 4)}


@pytest.mark.parametrize("cause", [0, 1])
def test_interventions_orient_what_observation_cannot(cause):
    generator = np.random.default_rng(1)
    effect = 1 - cause
    X = generator.normal(size=(4000, 2))
    X[:, effect] = 0.8 * X[:, cause] + 0.6 * X[:, effect]
    intervened = np.zeros(X.shape, dtype=bool)
    # Setting the effect says nothing about the cause; setting the cause moves the effect.
    X[2000:3000, effect] = generator.normal(size=1000)
    intervened[2000:3000, effect] = True
    intervened[3000:, cause] = True
    settings = {"epochs_1": 150, "epochs_2": 400, "eta_1": 0.01, "gamma_increment": 0.01}
    model = SDCD(**settings).fit(X, intervened)
    assert np.argwhere(model.adjacency_).tolist() == [[cause, effect]]


def test_independent_variables_give_no_edge_and_no_error():
    X = np.random.default_rng(0).normal(size=(600, 4))
    model = SDCD(**QUICK, tau_1=5.0).fit(X)
    assert not model.selected_.any() and not model.adjacency_.any()
    assert model.epochs_["stage2"] > 0


def test_nothing_intervened_is_the_same_as_no_mask():
    X = chain()
    none, empty = (SDCD(**QUICK).fit(X, mask) for mask in (None, np.zeros(X.shape, dtype=bool)))
    assert same(none, empty)


@pytest.mark.parametrize("engine", ["numba", "torch"])
def test_same_seed_same_bytes_whatever_the_threads(engine, monkeypatch):
    # Two threads, also on one core.
    monkeypatch.setattr("sdcd.cores.available_cores", lambda: 2)
    X = chain(d=60)
    settings = {**QUICK, "epochs_1": 5, "epochs_2": 22, "engine": engine, "tau_1": 0.02}
    one, again, two = (SDCD(**settings, threads=t).fit(X) for t in (1, 1, 2))
    assert len(one.edges_.parents) > 60
    assert same(one, again) and same(one, two)
    other = SDCD(**settings, seed=1).fit(X)
    assert not same(one, other)


def test_engines_give_the_same_graph():
    X = chain()
    mask = np.random.default_rng(0).random(X.shape) < 0.1
    settings = {**QUICK, "epochs_1": 22, "epochs_2": 22}
    model, torch, numba = (
        SDCD(**settings, engine=engine).fit(X, mask) for engine in ("model", "torch", "numba")
    )
    for fast in (torch, numba):
        np.testing.assert_array_equal(fast.adjacency_, model.adjacency_)
        np.testing.assert_allclose(fast.weights_, model.weights_, atol=0.02)


def test_global_generators_are_neither_read_nor_moved():
    import torch

    X = chain()
    with generators_untouched():
        first = SDCD(**QUICK).fit(X)
    np.random.seed(5)
    torch.manual_seed(5)
    assert same(first, SDCD(**QUICK).fit(X))


# Blocks of targets


@pytest.mark.parametrize("engine", ["numba", "torch"])
def test_blocks_of_targets_learn_what_all_learn_together(engine):
    X = chain(d=7)
    settings = {**QUICK, "epochs_1": 20, "epochs_2": 1, "engine": engine}
    whole, blocks = SDCD(**settings).fit(X), SDCD(**settings, target_block=3).fit(X)
    np.testing.assert_allclose(blocks.stage_1_weights_, whole.stage_1_weights_, atol=1e-4)
    assert blocks.stage_1_.blocks.tolist() == [3, 3, 1]
    assert [r["block"] for r in blocks.history_ if r["stage"] == 1] == [0, 3, 6]


def test_scattered_stage_1_gathers_into_the_same_fit(tmp_path):
    X = chain(d=7)
    mask = np.random.default_rng(0).random(X.shape) < 0.1
    together = SDCD(**QUICK, target_block=4).fit(X, mask)
    for name, targets in (("b", range(4, 7)), ("a", range(4))):
        SDCD(**QUICK).fit_stage_1(X, mask, targets).save(tmp_path / f"{name}.npz")
    parts = [StageOne.load(tmp_path / f"{name}.npz") for name in "ba"]
    scattered = SDCD(**QUICK).fit(X, mask, stage_1=gather(parts))
    assert np.array_equal(scattered.weights_, together.weights_)
    assert np.array_equal(scattered.stage_1_weights_, together.stage_1_weights_)
    assert scattered.epochs_ == together.epochs_


def test_gather_refuses_what_does_not_fit_together():
    X = chain(d=5)
    a, b = (SDCD(**QUICK).fit_stage_1(X, targets=t) for t in ([0, 1], [2, 3, 4]))
    with pytest.raises(InputError, match="target 2 is in 0 blocks"):
        gather([a])
    with pytest.raises(InputError, match="target 0 is in 2 blocks"):
        gather([a, b, a])
    with pytest.raises(InputError, match="no blocks"):
        gather([])
    other = SDCD(**QUICK, seed=1).fit_stage_1(X, targets=[0, 1])
    with pytest.raises(InputError, match=r"different settings: targets 0 to 1 and targets 2 to 4"):
        gather([other, b])
    with pytest.raises(InputError, match="other data or with other settings"):
        SDCD(**QUICK, alpha_1=0.5).fit(X, stage_1=gather([a, b]))
    with pytest.raises(InputError, match="other data"):
        SDCD(**QUICK).fit(X + 1, stage_1=gather([a, b]))
    with pytest.raises(InputError, match="preselect=False"):
        SDCD(**QUICK, preselect=False).fit(X, stage_1=gather([a, b]))


def test_stage_1_depends_on_the_parameters_it_says():
    X, changed = chain(d=4), {"alpha_2": 1.0, "eta_2": 0.5, "tau_2": 0.5, "penalty": "exp"}
    assert not changed.keys() & SDCD().stage_1_params().keys()
    assert {"tau_1", "mask", "hidden", "seed", "engine"} <= SDCD().stage_1_params().keys()
    one, other = (SDCD(**{**QUICK, **c}).fit_stage_1(X) for c in ({}, changed))
    assert one.identity == other.identity and np.array_equal(one.matrix, other.matrix)
    assert SDCD(preselect=False).stage_1_params() == {}


def test_a_result_of_stage_1_that_is_something_else_is_refused(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, a=np.zeros(3))
    with pytest.raises(InputError, match=r"x\.npz: not a result of stage 1"):
        StageOne.load(path)


# Warm starts and masks


def test_warm_start_starts_from_stage_1_and_no_mask_keeps_every_pair():
    X = chain()
    # A learning rate of 0 leaves stage 2 where it starts.
    settings = {**QUICK, "epochs_2": 1, "eta_2": 0.0}
    cold = SDCD(**settings).fit(X)
    assert not cold.weights_.any()
    warm = SDCD(**settings, warm_start=True).fit(X)
    expected = np.where(cold.selected_, cold.stage_1_weights_, 0)
    np.testing.assert_array_equal(warm.weights_, expected)
    free = SDCD(**settings, warm_start=True, mask=False).fit(X)
    np.testing.assert_array_equal(free.weights_, cold.stage_1_weights_)
    assert free.selected_.sum() == 20
    alone = SDCD(**settings, preselect=False).fit(X)
    assert alone.selected_.sum() == 20 and alone.epochs_["stage1"] == 0
    assert alone.stage_1_weights_ is None


# Interruptions


FIT = """
    import sys, numpy as np
    from sdcd.estimator import SDCD
    X = np.load(sys.argv[1])
    model = SDCD(epochs_1=61, epochs_2=121, eta_1=0.01, eta_2=0.01, batch_size=64, target_block=4,
                 threads=1, checkpoint=sys.argv[2], checkpoint_interval=0)
    model.fit(X)
    np.savez(sys.argv[3], *model.edges_, history=repr(model.history_), epochs=repr(model.epochs_))
"""


def test_a_killed_fit_goes_on_to_the_same_bytes(tmp_path):
    np.save(tmp_path / "X.npy", chain(d=6))
    program = [sys.executable, "-c", textwrap.dedent(FIT), str(tmp_path / "X.npy")]

    def start(name):
        arguments = [str(tmp_path / f"{name}.checkpoint"), str(tmp_path / f"{name}.npz")]
        return subprocess.Popen([*program, *arguments])

    assert start("whole").wait() == 0
    kills = 0
    seen = tmp_path / "cut.checkpoint"
    for wanted in ({"stage": 1, "block": 4}, {"stage": 2, "block": 0}):
        process = start("cut")
        while process.poll() is None:
            if seen.exists() and wanted_reached(seen, wanted):
                process.send_signal(signal.SIGKILL if wanted["stage"] == 1 else signal.SIGTERM)
                kills += process.wait() < 0
            time.sleep(0.005)
    assert kills == 2
    assert start("cut").wait() == 0
    assert not seen.exists()
    whole, cut = (np.load(tmp_path / f"{name}.npz") for name in ("whole", "cut"))
    assert whole.files == cut.files
    for name in whole.files:
        np.testing.assert_array_equal(whole[name], cut[name], err_msg=name)
    leftover = [name for name in os.listdir(tmp_path) if "checkpoint" in name]
    assert len(leftover) <= kills  # a temporary file may outlive a SIGKILL, nothing else


def wanted_reached(path, wanted):
    with np.load(path) as saved:
        content = json.loads(saved["json"].item())["content"]
    return content["key"] == wanted and content["progress"]["epoch"] > 30


def test_a_checkpoint_of_another_fit_is_refused_in_words(tmp_path, monkeypatch):
    X, path = chain(), tmp_path / "c.npz"

    class Stop(Exception):
        pass

    def interrupt(*args):
        raise Stop

    from sdcd.estimator import checkpoint

    saved = checkpoint.Checkpoint.save
    monkeypatch.setattr(checkpoint.Checkpoint, "save", lambda *args: (saved(*args), interrupt()))
    settings = {**QUICK, "checkpoint": path, "checkpoint_interval": 0.0}
    with pytest.raises(Stop):
        SDCD(**settings).fit(X)
    with pytest.raises(InputError, match=r"c\.npz: .* eta_1 is 0.02 there and 0.5 here"):
        SDCD(**{**settings, "eta_1": 0.5}).fit(X)
    with pytest.raises(InputError, match=r"c\.npz: .* data is"):
        SDCD(**settings).fit(X + 1)
    with pytest.raises(InputError, match=r"c\.npz: .* task is"):
        SDCD(**settings).fit_stage_1(X)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(InputError, match=r"c\.npz: not a readable"):
        SDCD(**settings).fit(X)


# Bad input


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("alpha_1", -1.0),
        ("eta_2", float("nan")),
        ("tau_1", "0.2"),
        ("epochs_1", 0),
        ("batch_size", 2.5),
        ("hidden", True),
        ("target_block", 0),
        ("threads", -1),
        ("penalty", "inverse"),
        ("engine", "fast"),
        ("validation_fraction", 1.0),
        ("device", "tpu"),
        ("seed", -1),
        ("mask", "yes"),
    ],
)
def test_a_wrong_parameter_is_named_with_its_value(name, value):
    with pytest.raises(InputError, match=name) as caught:
        SDCD(**{**QUICK, name: value}).fit(chain())
    assert str(value) in str(caught.value) and "\n" not in str(caught.value)


def test_an_unknown_parameter_is_refused():
    with pytest.raises(InputError, match="no parameter 'alpha'"):
        SDCD().set_params(alpha=1)
    assert SDCD().set_params(alpha_1=1.0).get_params()["alpha_1"] == 1.0
    assert set(SDCD().get_params()) == set(_PARAMETERS)


def test_wrong_data_are_refused_in_words():
    X = chain()
    bad = X.copy()
    bad[7, 2] = np.nan
    with pytest.raises(InputError, match="row 7, column 2 is nan"):
        SDCD(**QUICK).fit(bad)
    with pytest.raises(InputError, match="shape"):
        SDCD(**QUICK).fit(X[0])
    with pytest.raises(InputError, match="expected numbers"):
        SDCD(**QUICK).fit(X.astype(str))
    with pytest.raises(InputError, match="intervened is int64"):
        SDCD(**QUICK).fit(X, np.zeros(X.shape, dtype=int))
    with pytest.raises(InputError, match="intervened is bool of shape"):
        SDCD(**QUICK).fit(X, np.zeros((3, 3), dtype=bool))
    with pytest.raises(InputError, match="variables 0 to 4"):
        SDCD(**QUICK).fit_stage_1(X, targets=[5])
    with pytest.raises(InputError, match=r"numba.*'exp'"):
        SDCD(**QUICK, engine="numba", penalty="exp").fit(X)


def test_values_too_large_to_fit_end_in_a_failure_not_in_a_graph():
    X = chain() * 1e25
    with pytest.raises(MethodFailure, match="stage 1, epoch 1") as caught:
        SDCD(**QUICK).fit(X)
    assert caught.value.status == "nan"


def test_progress_goes_to_standard_error_only_when_asked(capsys):
    X = chain()
    SDCD(**QUICK).fit(X)
    assert capsys.readouterr() == ("", "")
    SDCD(**QUICK, progress=True).fit(X)
    out, err = capsys.readouterr()
    assert out == "" and "stage 2, epoch 41/45" in err


def test_progress_is_one_line_of_a_terminal_and_lines_of_a_file():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    X, terminal, file = chain(), Terminal(), io.StringIO()
    SDCD(**QUICK, progress=terminal).fit(X)
    SDCD(**QUICK, progress=file).fit(X)
    assert terminal.getvalue().count("\n") == 2 and terminal.getvalue().count("\r") > 2
    assert (
        "\r" not in file.getvalue() and "stage 2, epoch 41/45" in file.getvalue().splitlines()[-1]
    )
