"""AVICI's plumbing, on a tiny untrained checkpoint made here; its accuracy is not tested."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from sdcd.errors import MethodFailure
from sdcd.methods.registry import method

ROOT = Path(__file__).parents[1]
PYTHON = Path(os.environ.get("SDCD_AVICI_PYTHON", ROOT / ".venv-avici" / "bin" / "python"))
needs_environment = pytest.mark.skipif(
    not PYTHON.exists(), reason="AVICI's environment is not there (envs/avici.txt makes it)"
)


def data(d=4, n=60):
    X = np.random.default_rng(0).standard_normal((n, d)).astype(np.float32)
    return X, np.zeros((n, d), dtype=bool), tuple(f"x{j}" for j in range(d))


def predict(checkpoint, X, intervened, names, **settings):
    avici = method("AVICI")
    settings = {"checkpoint": str(checkpoint), "python": str(PYTHON), **settings}
    return avici.fit(X, intervened, names, 0, **avici.parameters(settings))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("avici") / "tiny"
    maker = ROOT / "tests" / "support" / "make_avici_checkpoint.py"
    subprocess.run([PYTHON, maker, folder], check=True, env={**os.environ, "JAX_PLATFORMS": "cpu"})
    return folder


def test_no_checkpoint_says_where_to_get_one():
    with pytest.raises(MethodFailure, match="larslorch/avici") as caught:
        predict("", *data())
    assert caught.value.status == "unavailable"


def test_a_folder_without_a_checkpoint_is_named(tmp_path):
    with pytest.raises(MethodFailure, match=f"{tmp_path} does not hold kwargs.json"):
        predict(tmp_path, *data())


def test_a_missing_environment_says_how_to_make_it(tmp_path):
    (tmp_path / "kwargs.json").write_text("{}")
    (tmp_path / "model.pkl").write_bytes(b"")
    with pytest.raises(MethodFailure, match=r"envs/avici\.txt") as caught:
        predict(tmp_path, *data(), python="no/such/python")
    assert caught.value.status == "unavailable"


@pytest.fixture(scope="module")
def straight(checkpoint):
    return predict(checkpoint, *data()).weights


@needs_environment
def test_probabilities_have_the_right_shape_and_range(straight):
    assert straight.shape == (4, 4)
    assert ((straight >= 0) & (straight <= 1)).all()
    assert (np.diag(straight) == 0).all()
    assert len(np.unique(straight)) > 2


@needs_environment
def test_variables_may_be_permuted_and_the_cut_makes_the_graph(checkpoint, straight):
    X, intervened, names = data()
    order = np.array([2, 0, 3, 1])
    cut = float(np.median(straight[straight > 0]))
    permuted = predict(checkpoint, X[:, order], intervened, names, threshold=cut)
    np.testing.assert_allclose(permuted.weights, straight[np.ix_(order, order)], atol=1e-5)
    assert ((permuted.weights > cut) == permuted.adjacency.astype(bool)).all()
    assert 0 < permuted.adjacency.sum() < 12


@needs_environment
def test_rows_may_be_permuted_and_are_limited(checkpoint, straight):
    X, intervened, names = data()
    backward = predict(checkpoint, X[::-1].copy(), intervened, names).weights
    np.testing.assert_allclose(backward, straight, atol=1e-5)
    few = predict(checkpoint, X, intervened, names, max_rows=20).weights
    assert not np.allclose(few, straight, atol=1e-5)


@needs_environment
def test_the_intervention_flag_reaches_the_network(checkpoint, straight):
    X, intervened, names = data()
    intervened[:20, 1] = True
    flagged = predict(checkpoint, X, intervened, names).weights
    assert not np.allclose(flagged, straight, atol=1e-6)
