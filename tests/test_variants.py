"""SDCD and its ablations as methods."""

import importlib

import numpy as np
import pytest
from support.fits import fit

from sdcd.errors import MethodFailure
from sdcd.methods import variants
from sdcd.methods.registry import methods
from sdcd.methods.variants import DIFFERENCES
from sdcd.metrics import shd
from sdcd.simulation.paper import simulate

QUICK = {"epochs_1": 45, "epochs_2": 45, "eta_1": 0.02, "eta_2": 0.02, "batch_size": 64}


def data(n=600, d=6):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n, d))
    for j in range(1, d):
        X[:, j] += np.sin(2 * X[:, j - 1])
    return ((X - X.mean(0)) / X.std(0)).astype(np.float32), generator.random((n, d)) < 0.1


def test_defaults_are_the_published_settings_but_for_what_names_the_variant():
    registered = methods()
    published = {
        **{"alpha_1": 1e-2, "beta_1": 2e-4, "eta_1": 2e-3, "tau_1": 0.2},
        **{"alpha_2": 5e-4, "beta_2": 5e-3, "eta_2": 1e-3, "tau_2": 0.1},
        **{"gamma_increment": 0.005, "epochs_1": 2000, "epochs_2": 2000, "batch_size": 256},
        **{"hidden": 10, "validation_fraction": 0.2, "check_every": 20, "patience": 10},
        **{"freeze_threshold": 0.01, "power_iterations": 15, "penalty": "spectral"},
        **{"preselect": True, "warm_start": False, "mask": True, "device": "cpu"},
    }
    for name, differences in DIFFERENCES.items():
        method = registered[name]
        assert method.data == "interventional"
        assert dict(method.defaults).items() >= {**published, **differences}.items()
    assert DIFFERENCES["SDCD-no-s1-2"]["alpha_2"] == 1e-2
    assert DIFFERENCES["SDCD-no-s1-2"]["beta_2"] == 2e-4


@pytest.mark.parametrize("name", [name for name in DIFFERENCES if name != "SDCD-GPU"])
def test_every_variant_runs_and_reports(name):
    X, intervened = data()
    graph = fit(name, X, intervened, **QUICK)
    epochs = graph.diagnostics["epochs"]
    assert epochs["stage2"] == 45
    alone = name.startswith("SDCD-no-s1")
    assert (epochs["stage1"] == 0) == alone
    assert graph.diagnostics["mask_density"] == graph.arrays["selected"].sum() / 36
    everything = alone or name == "SDCD-warm-nomask"
    assert (graph.arrays["selected"].sum() == 30) == everything
    assert graph.diagnostics["last_gamma"] == 0  # of epoch 0, the last that 100 divides
    assert not graph.adjacency[~graph.arrays["selected"]].any()
    assert ("stage_1_weights" in graph.arrays) != alone
    if name in ("SDCD", "SDCD-exp"):
        kept = graph.arrays["stage_1_weights"] > 0.2
        np.testing.assert_array_equal(graph.arrays["selected"], kept & ~np.eye(6, dtype=bool))


def test_stage_1_weights_of_many_variables_are_not_kept(monkeypatch):
    monkeypatch.setattr(variants, "LARGEST_KEPT_STAGE_1", 5)
    assert set(fit("SDCD", data()[0], **QUICK).arrays) == {"selected"}


def test_the_recorded_threshold_is_the_one_of_the_graph():
    graph = fit("SDCD", data()[0], **{**QUICK, "tau_2": 0.05})
    assert graph.diagnostics["threshold"] == 0.05
    assert graph.weights[graph.adjacency != 0].min() >= 0.05


def test_every_variant_compiles_before_its_clock_starts():
    assert set(variants.PRELOAD) <= {"", *DIFFERENCES}
    for entries in variants.PRELOAD.values():
        for entry in entries:
            module, _, function = entry.partition(":")
            loaded = importlib.import_module(module)
            assert not function or callable(getattr(loaded, function))


def test_variants_are_different_computations():
    X, _ = data()
    settings = {**QUICK, "gamma_increment": 0.1}
    graphs = [fit(name, X, **settings).weights for name in DIFFERENCES if name != "SDCD-GPU"]
    for i, a in enumerate(graphs):
        assert all(not np.array_equal(a, b) for b in graphs[:i])


def test_escapes_from_the_domain_of_h_log_are_counted():
    X, _ = data()
    for penalty in ("log", "log_squared"):
        graph = fit("SDCD-log", X, **{**QUICK, "eta_2": 0.1, "penalty": penalty})
        assert 0 < graph.diagnostics["log_domain_escapes"] <= 45 * 8
    assert fit("SDCD", X, **QUICK).diagnostics["log_domain_escapes"] == 0


def test_sdcd_gpu_without_one_is_unavailable():
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(MethodFailure, match="0 CUDA devices found") as caught:
        fit("SDCD-GPU", data()[0], **QUICK)
    assert caught.value.status == "unavailable"


@pytest.mark.slow
def test_replays_the_published_run_of_ten_variables():
    dataset = simulate(10, 4, 0)
    graph = fit("SDCD", dataset.X, dataset.intervened)
    # The published run: SHD 10, mask density 0.70 with all true edges in it, gamma never frozen.
    assert abs(shd(graph.adjacency, dataset.adjacency) - 10) <= 2
    assert abs(graph.diagnostics["mask_density"] - 0.7) <= 0.04
    assert graph.arrays["selected"][dataset.adjacency == 1].all()
    assert graph.diagnostics["last_gamma"] == pytest.approx(9.504752, abs=5e-7)
    assert graph.diagnostics["epochs"]["stage2"] == 2000
