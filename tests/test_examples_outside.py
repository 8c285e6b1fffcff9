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


STAND_IN = """
# Takes, refuses and returns what inspre does by its documentation and source; without a penalty,
# the effects are found from the inverse of the total effects in closed form. The first and last
# penalty are of no use.
fit_inspre_from_X <- function(X, targets, max_med_ratio = NULL, filter = TRUE, rho = 100,
                              cv_folds = 0, verbose = 1, ncores = 1, DAG = FALSE) {
  stopifnot(is.matrix(X), is.numeric(X), length(targets) == nrow(X), is.character(targets))
  stopifnot(all(targets %in% c("control", colnames(X))), make.names(colnames(X)) == colnames(X))
  control <- X[targets == "control", ]
  stopifnot(abs(colMeans(control)) < 1e-6, abs(apply(control, 2, sd) - 1) < 1e-6)
  if (cv_folds > 0 && !all(colnames(X) %in% targets)) stop("non-conformable arrays")
  X <- X[, intersect(targets, colnames(X))]
  R <- t(sapply(colnames(X), function(v) {
    shift <- colSums(X[targets == v, ])
    shift / shift[v]
  }))
  V <- solve(R)
  G <- array(0, c(dim(R), 3), dimnames = list(rownames(R), colnames(R), 1:3))
  G[, , 2] <- diag(ncol(X)) - V / diag(V)
  G[, , 2][abs(G[, , 2]) < 0.1] <- 0
  G[, , 3] <- NaN
  found <- list(lambda = c(1, 0.1, 0.01), G_hat = G, R_hat = R)
  if (cv_folds > 0) found$eps_hat_G <- c(2, 1, NaN)
  found
}
"""


@pytest.fixture(scope="module", params=["stand-in", "inspre"])
def inspre(request, tmp_path_factory):
    """Where the R package inspre is: one with its interface, and the real one if it is there."""
    if shutil.which("Rscript") is None:
        pytest.skip("no Rscript")
    if request.param == "inspre":
        there = subprocess.run(
            ["Rscript", "-e", "library(inspre)"], capture_output=True, check=False
        )
        if there.returncode:
            pytest.skip("the R package inspre is not installed")
        return {}
    source, library = (tmp_path_factory.mktemp(name) for name in ("inspre", "library"))
    (source / "R").mkdir()
    (source / "R/fit.R").write_text(STAND_IN)
    (source / "NAMESPACE").write_text("export(fit_inspre_from_X)\nimportFrom(stats, sd)\n")
    about = ["Package: inspre", "Version: 0.0", "Title: Stand-in", "Description: For tests."]
    (source / "DESCRIPTION").write_text("\n".join([*about, "License: MIT", ""]))
    install = ["R", "CMD", "INSTALL", "--no-docs", "--no-test-load", f"--library={library}"]
    subprocess.run([*install, source], check=True, capture_output=True)
    return {"R_LIBS": str(library)}


def chain(n=3000, m=300):
    """a -> b -> c, linear, with interventions on each that set it to 3, around means of 5."""
    random = np.random.default_rng(0)
    rows, intervened = [], np.zeros((n + 3 * m, 3), dtype=bool)
    for target, count in ((None, n), (0, m), (1, m), (2, m)):
        x = random.standard_normal((count, 3))
        for j in range(3):
            if j == target:
                x[:, j] = 3 + 0.1 * x[:, j]
            elif j:
                x[:, j] += 1.5 * x[:, j - 1]
        if target is not None:
            intervened[n + target * m : n + (target + 1) * m, target] = True
        rows.append(5 + x)
    return np.concatenate(rows).astype(np.float32), intervened


def test_inspre_finds_direct_effects_among_what_was_intervened_on(inspre, recipe, monkeypatch):
    for key, value in inspre.items():
        monkeypatch.setenv(key, value)
    X, intervened = chain()
    # An order of columns that is not causal, names that R would change, and one without a target.
    X = np.column_stack([X[:, [2, 0, 1]], X[:, 0]])
    intervened = np.column_stack([intervened[:, [2, 0, 1]], np.zeros(len(X), bool)])
    chosen = recipe("inspre")
    names = ("gene 1", "a-b", "control", "1")
    graph = chosen.fit(X, intervened, names, 0, **chosen.parameters({}))
    assert graph.adjacency[[1, 2], [2, 0]].tolist() == [1, 1]
    assert graph.weights[3].sum() == graph.weights[:, 3].sum() == 0
    if inspre:
        assert graph.adjacency.sum() == 2
        # Effects of 1.5, in units of the controls' standard deviations.
        a, b, c = 1, 3.25**0.5, (1 + 2.25 * 3.25) ** 0.5
        found = graph.weights[1, 2], graph.weights[2, 0]
        np.testing.assert_allclose(found, [1.5 * a / b, 1.5 * b / c], rtol=0.1)


def test_what_inspre_cannot_take_is_a_reason(inspre, recipe, monkeypatch):
    for key, value in inspre.items():
        monkeypatch.setenv(key, value)
    X, intervened = chain(40, 10)
    chosen, names = recipe("inspre"), ("a", "b", "c")
    none, two = np.zeros_like(intervened), intervened.copy()
    two[45, 1] = True
    for given, settings, reason in (
        (none, {}, "fewer than two variables were intervened on"),
        (two, {}, "row 46 has 2 targets, inspre takes one at most"),
        (intervened, {"folds": 1}, "FOLDS is 1, expected at least 2"),
    ):
        with pytest.raises(MethodFailure, match=reason) as caught:
            chosen.fit(X, given, names, 0, **chosen.parameters(settings))
        assert caught.value.status == "error"


def test_without_its_package_inspre_is_a_failure_with_a_reason(recipe, monkeypatch, tmp_path):
    if shutil.which("Rscript") is None:
        pytest.skip("no Rscript")
    monkeypatch.setenv("R_LIBS", str(tmp_path))
    monkeypatch.setenv("R_LIBS_USER", str(tmp_path))
    monkeypatch.setenv("R_LIBS_SITE", str(tmp_path))
    X, intervened = chain(40, 10)
    chosen = recipe("inspre")
    with pytest.raises(MethodFailure, match=r"there is no package called .inspre"):
        chosen.fit(X, intervened, ("a", "b", "c"), 0, **chosen.parameters({}))


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
