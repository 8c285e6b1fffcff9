"""The simulated screen of the tutorial: what its script says of it."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from sdcd.graphs import is_acyclic

SCRIPT = Path(__file__).resolve().parents[1] / "examples/screen/simulate.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("screen", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def screen(script):
    return script.simulate(0)


def test_sizes(screen):
    counts, target, graph = screen
    assert counts.shape == (6000, 200) and counts.min() == 0
    targets, cells = np.unique(target, return_counts=True)
    assert targets[0] == -1 and len(targets) == 61
    assert cells[0] == 3000 and set(cells[1:]) == {50}
    assert 350 < graph.sum() < 450
    assert is_acyclic(graph)


def test_a_knockdown_lowers_its_gene_and_moves_only_what_is_below(screen):
    counts, target, graph = screen
    reached = graph.astype(bool)
    for _ in range(8):
        reached |= reached @ reached
    logs = np.log1p(counts / counts.sum(axis=1, keepdims=True) * 2000)
    control = logs[target < 0]
    shifts = {"child": [], "not below": []}
    for gene in np.unique(target[target >= 0]):
        shift = logs[target == gene].mean(axis=0) - control.mean(axis=0)
        z = np.abs(shift) / control.std(axis=0) * np.sqrt(50)
        assert shift[gene] < 0
        shifts["child"] += z[graph[gene] == 1].tolist()
        others = ~reached[gene]
        others[gene] = False
        shifts["not below"] += z[others].tolist()
    assert np.median(shifts["child"]) > 3
    # Half of a standard normal's values lie within 0.67.
    assert np.median(shifts["not below"]) < 1


def test_the_same_seed_gives_the_same_file(script, tmp_path, monkeypatch, capsys):
    pytest.importorskip("anndata")
    for name in ("one", "two"):
        monkeypatch.setattr("sys.argv", ["simulate.py", "--out", str(tmp_path / name)])
        script.main()
    for name in ("screen.h5ad", "true_edges.csv"):
        one, two = ((tmp_path / folder / name).read_bytes() for folder in ("one", "two"))
        assert one == two
    assert "6000 cells, 200 genes, 395 true edges" in capsys.readouterr().out
