"""The recipes of examples/outside, run with the programs they are for; skipped without them."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import yaml

import sdcd.methods.contract
from sdcd.errors import MethodFailure
from sdcd.graphs import is_acyclic
from sdcd.methods.outside import register_outside
from sdcd.methods.registry import methods

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def recipe(monkeypatch):
    """The outside command of a recipe, as its README writes it."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sdcd.methods.contract, "REGISTERED", dict(methods()))
    text = (ROOT / "examples/outside/README.md").read_text(encoding="utf-8")
    blocks = [block.partition("```")[0] for block in text.split("```yaml\n")[1:]]
    known = {}
    for block in blocks:
        known |= yaml.safe_load(block)["outside_methods"]
    return lambda name: register_outside({"name": name, **known[name]})


@pytest.fixture(scope="module")
def deal():
    if shutil.which("Rscript") is None:
        pytest.skip("no Rscript")
    there = subprocess.run(["Rscript", "-e", "library(deal)"], capture_output=True, check=False)
    if there.returncode:
        pytest.skip("the R package deal is not installed (Debian: r-cran-deal)")


def pair_and_one(n=200):
    random = np.random.default_rng(0)
    x, z = random.standard_normal((2, n))
    return np.stack([z, x, 2 * x + random.standard_normal(n)], axis=1).astype(np.float32)


def test_deal_connects_what_depends(deal, recipe):
    X = pair_and_one()
    chosen = recipe("deal")
    names = ("gene 1", "x", "v1")
    graph = chosen.fit(X, np.zeros(X.shape, bool), names, 0, **chosen.parameters({}))
    skeleton = graph.adjacency | graph.adjacency.T
    assert skeleton.tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert is_acyclic(graph.adjacency) and graph.weights is None
    none = chosen.fit(X[:, :2], np.zeros((len(X), 2), bool), names[:2], 0, **chosen.parameters({}))
    assert not none.adjacency.any()


def test_what_deal_cannot_do_is_a_reason(deal, recipe):
    X = pair_and_one(20)
    chosen = recipe("deal")
    with pytest.raises(MethodFailure, match="PRIOR_ROWS is many, expected a number") as caught:
        chosen.fit(X, np.zeros(X.shape, bool), ("a", "b", "c"), 0, prior_rows="many")
    assert caught.value.status == "error"
