"""Every method with held-out pruning after it."""

import csv
import json

import numpy as np
import pytest

import sdcd.methods.contract
from sdcd.cli import main
from sdcd.data.dataset import Dataset, write_dataset
from sdcd.errors import MethodFailure
from sdcd.estimator.pruning import DEFAULTS, Pruned, prune
from sdcd.experiments.origin import warnings
from sdcd.experiments.plan import Experiment, MethodPlan, Plan
from sdcd.files import write_json
from sdcd.fits.fingerprint import closure
from sdcd.fits.provenance import code_of
from sdcd.graphs import is_acyclic
from sdcd.methods import Graph, register
from sdcd.methods.dag import as_dag
from sdcd.methods.pruned import OWN_NAMES, SUFFIX, ranked
from sdcd.methods.registry import method, methods


def data(n=500, d=5):
    random = np.random.default_rng(0)
    X = random.normal(size=(n, d))
    for j in range(1, d):
        X[:, j] = np.sin(2 * X[:, j - 1]) + 0.5 * X[:, j]
    return ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)


def test_every_method_has_a_twin_with_the_same_data_and_defaults():
    known = methods()
    other = ("SDCD-ordered", *(name for name in known if name.endswith("+order")))
    plain = [n for n in known if not n.endswith(SUFFIX) and n not in (*OWN_NAMES, *other)]
    assert "SDCD" in plain and len(plain) > 10
    for name in plain:
        base, twin = known[name], known[name + SUFFIX]
        assert twin.data == base.data
        own = {f"prune_{key}": value for key, value in DEFAULTS.items()}
        assert dict(twin.defaults) == {**base.defaults, **own}
    for name, base in OWN_NAMES.items():
        assert known[name].defaults == known[base + SUFFIX].defaults
    assert not any(name.endswith(SUFFIX * 2) for name in known)


def test_a_twin_depends_on_its_method_and_on_pruning_and_the_method_does_not():
    twin = method("NOTEARS+prune")
    found = closure(twin.modules)
    assert {"sdcd.baselines.notears", "sdcd.estimator.pruning", "sdcd.methods.pruned"} <= found
    assert not {"sdcd.estimator.pruning", "sdcd.methods.pruned"} & closure(
        method("NOTEARS").modules
    )
    assert "sdcd.baselines.dcdi" not in found


def test_a_method_registered_later_has_a_twin_too(monkeypatch):
    monkeypatch.setattr(sdcd.methods.contract, "REGISTERED", dict(sdcd.methods.contract.REGISTERED))
    X = data()
    everything = np.triu(np.ones((5, 5)), 1)

    @register(name="everything", data="observational", defaults={"scale": 2.0}, source="test")
    def fit(X, intervened, names, seed, *, scale):
        return Graph(
            everything, scale * everything, {"note": 1, "threshold": 2.0}, {"kept": np.arange(3)}
        )

    twin = method("everything+prune")
    intervened = np.zeros(X.shape, dtype=bool)
    params = twin.parameters({"scale": 3.0, "prune_backward": False})
    graph = twin.fit(X, intervened, tuple("abcde"), 7, **params)
    expected = prune(everything, X, seed=7, backward=False)
    assert np.array_equal(graph.adjacency, expected.adjacency)
    assert 4 <= graph.adjacency.sum() < 10
    assert graph.arrays["gain"].tobytes() == expected.gain.tobytes()
    assert graph.arrays["gain_se"].tobytes() == expected.gain_se.tobytes()
    assert np.array_equal(graph.arrays["unpruned"], everything)
    assert graph.arrays["kept"].tolist() == [0, 1, 2]
    assert np.array_equal(graph.weights >= graph.diagnostics["threshold"], graph.adjacency == 1)
    # Own weights 3, those of edges that stay above them.
    assert np.array_equal(graph.weights, 3 * everything + 3 * expected.adjacency)
    assert graph.diagnostics["note"] == 1
    assert graph.diagnostics["edges_before_pruning"] == 10
    assert graph.diagnostics["pruning_rounds"] == 1


def test_graphs_that_are_no_dags_are_made_dags_first():
    cycle = np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]])
    weights = np.array([[0, 3.0, 9.0], [0, 0, 2.0], [1.0, 0, 0]])
    # The lightest of the cycle's edges goes; a weight beside no edge is none.
    assert np.array_equal(as_dag(Graph(cycle, weights)), [[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    with pytest.raises(MethodFailure, match=r"the graph \(3 edges\) stands for no DAG") as caught:
        as_dag(Graph(cycle))
    assert caught.value.status == "error"
    undirected = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    extension = as_dag(Graph(undirected))
    assert is_acyclic(extension)
    assert np.array_equal(extension | extension.T, undirected)
    dag = np.triu(np.ones((3, 3), dtype=np.int8), 1)
    assert np.array_equal(as_dag(Graph(dag, np.zeros((3, 3)))), dag)


def test_a_method_without_weights_gets_the_gains():
    gain = np.array([[np.nan, 0.4, -0.1], [np.nan, np.nan, 0.01], [np.nan] * 3])
    result = Pruned(np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]]), gain, gain, 1)
    assert np.array_equal(ranked(result, None), [[0, 0.4, 0], [0, 0, 0.01], [0, 0, 0]])


def test_the_first_stage_apart_knows_nothing_of_pruning():
    twin = method("SDCD-pruned")
    settings = twin.parameters({"prune_min_gain": 0.05, "epochs_1": 7})
    expected = method("SDCD").first_stage.parameters(method("SDCD").parameters({"epochs_1": 7}))
    assert twin.first_stage.parameters(settings) == expected


def test_the_command_line_gives_each_edge_its_gain(tmp_path, capsys):
    X = data()
    source, out = tmp_path / "data.npz", tmp_path / "fit.npz"
    names = tuple(f"gene{j}" for j in range(5))
    write_dataset(source, Dataset(X, np.zeros(X.shape, dtype=bool), names))
    arguments = ["fit", source, "--method", "sortnregress+prune", "-o", out, "--no-picture"]
    assert main([*map(str, arguments), "--seed", "3"]) == 0
    with np.load(out) as fit:
        adjacency, gain, gain_se, before = (
            fit[name] for name in ("adjacency", "gain", "gain_se", "unpruned")
        )
    assert np.array_equal(~np.isnan(gain), before == 1)
    with open(out.with_suffix(".edges.csv"), newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == adjacency.sum() > 0
    for row in rows:
        i, j = int(row["parent"][4:]), int(row["child"][4:])
        assert float(row["gain"]) == gain[i, j] >= DEFAULTS["min_gain"]
        assert float(row["gain_se"]) == gain_se[i, j]
    record = json.loads(out.with_suffix(".json").read_text())
    assert record["method"] == "sortnregress+prune"
    assert record["diagnostics"]["edges_before_pruning"] == before.sum()


def test_pruned_fits_that_snakemake_does_not_know_are_compared_with_this_version(tmp_path):
    experiment = Experiment(
        "observational",
        [{"d": [5], "s": [1], "seeds": 1}],
        {
            "SDCD-pruned": {
                "min_d": None,
                "max_d": None,
                "max_seeds": None,
                "fewer_seeds": None,
                "shortened": "",
            }
        },
    )
    planned = {"SDCD-pruned": MethodPlan("SDCD-pruned", {}, 60, 1000)}
    plan = Plan("tiny", 100, 10, {}, {"observational": experiment}, planned)
    chosen = method("SDCD-pruned")
    path = tmp_path / "results/fits/observational/d5_s1_seed0/SDCD-pruned.json"
    record = {"method": chosen.name, "params": chosen.parameters({})}
    (tmp_path / "results/data").mkdir(parents=True)
    # As sdcd.fits.run writes it.
    write_json(path, {**record, "code": code_of(chosen)})
    path.with_suffix(".npz").touch()
    (line,) = warnings(plan, str(tmp_path / "results"), tmp_path / "state")
    assert "--touch --forceall" in line
    write_json(path, {**record, "code": code_of(method("SDCD"))})
    _, line = warnings(plan, str(tmp_path / "results"), tmp_path / "state")
    assert "made by other code" in line and "SDCD-pruned (1)" in line
    write_json(path, {**record, "code": code_of(chosen), "n_rows": 5000})
    _, line = warnings(plan, str(tmp_path / "results"), tmp_path / "state")
    assert "made from 5,000 rows, expected 100: data of another scale; delete" in line
    write_json(path, {**record, "code": code_of(chosen), "n_rows": 100})
    assert len(warnings(plan, str(tmp_path / "results"), tmp_path / "state")) == 1
