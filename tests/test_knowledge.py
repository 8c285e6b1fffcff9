"""What is known beforehand: forbidden edges never appear, required ones always do."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdcd.cli import main
from sdcd.data.knowledge import Knowledge
from sdcd.data.required import refuse_required_cycle
from sdcd.errors import InputError
from sdcd.estimator.local_scores import Fitting
from sdcd.estimator.order_graph import GraphRules
from sdcd.estimator.ordered import Settings as OrderSettings
from sdcd.estimator.ordered import learn
from sdcd.estimator.ordering import SearchRules
from sdcd.graphs import is_acyclic
from sdcd.methods.ordered import base_of
from sdcd.methods.registry import method, methods

NAMES = tuple("abcde")
QUICK = {"epochs_1": 6, "epochs_2": 6, "engine": "model", "eta_1": 0.05, "eta_2": 0.05}
X = np.random.default_rng(0).normal(size=(80, 5)) @ np.triu(np.ones((5, 5)))
X = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)


@st.composite
def knowledge(draw):
    """Required edges along a random order, forbidden ones among the others, perhaps tiers."""
    order = draw(st.permutations(NAMES))
    pairs = [(a, b) for k, a in enumerate(order) for b in order[k + 1 :]]
    require = draw(st.lists(st.sampled_from(pairs), max_size=4, unique=True))
    others = [(a, b) for a in NAMES for b in NAMES if a != b and (a, b) not in require]
    forbid = draw(st.lists(st.sampled_from(others), max_size=8, unique=True))
    cut = draw(st.integers(0, 5))
    tiers = [list(order[:cut]), list(order[cut:])]
    return {"require": require, "forbid": forbid, "tiers": tiers}


# Searches over orders, which fit for longer and want more rows, have a test of their own below.
WHOLE = [n for n, each in methods().items() if each.knowledge and base_of(n) is None]


@pytest.mark.parametrize("name", WHOLE)
@settings(max_examples=6, deadline=None)
@given(known=knowledge())
def test_forbidden_edges_never_appear_and_required_ones_always_do(name, known):
    masks = Knowledge.of(known, NAMES)
    chosen = method(name)
    harsh = {"prune_min_gain": 0.2} if "prune_min_gain" in chosen.defaults else {}
    params = chosen.parameters({**QUICK, **harsh, "device": "cpu", "knowledge": known})
    graph = chosen.fit(X, np.zeros(X.shape, bool), NAMES, 0, **params)
    assert not (graph.adjacency.astype(bool) & masks.forbidden).any()
    assert (graph.weights[masks.forbidden] == 0).all()
    assert graph.adjacency[masks.required].all()
    assert is_acyclic(graph.adjacency)


def test_pruning_keeps_what_is_required():
    known = {"require": [("e", "a")], "forbid": [("a", "b")]}
    chosen = method("SDCD+prune")
    params = chosen.parameters({**QUICK, "knowledge": known, "prune_min_gain": 100.0})
    graph = chosen.fit(X, np.zeros(X.shape, bool), NAMES, 0, **params)
    assert np.argwhere(graph.adjacency).tolist() == [[4, 0]]


@settings(max_examples=8, deadline=None)
@given(known=knowledge(), start=st.permutations(range(5)), seed=st.integers(0, 3))
def test_a_search_over_orders_honours_them_too(known, start, seed):
    masks = Knowledge.of(known, NAMES)
    fitting = Fitting(
        hidden=10, batch_size=64, first_steps=30, steps=20, rough_first_steps=20, rough_steps=10
    )
    # Moves count, and edges stay, by chance.
    rules = OrderSettings(
        fitting=fitting,
        search=SearchRules(min_gain=0.0, min_z=0.0, max_rounds=3),
        graph=GraphRules(price=0.0, min_z=0.0),
        restarts=1,
    )
    rows = np.tile(X, (2, 1)) + np.random.default_rng(seed).normal(size=(160, 5)) / 10
    result = learn(
        rows,
        order=np.array(start),
        forbidden=masks.forbidden,
        required=masks.required,
        seed=seed,
        settings=rules,
    )
    place = np.argsort(result.order)
    for graph in (result.adjacency, *result.graphs):
        edges = graph.astype(bool)
        assert not (edges & masks.forbidden).any()
        assert edges[masks.required].all()
        assert is_acyclic(graph)
    assert all(place[i] < place[j] for i, j in np.argwhere(result.adjacency))
    assert not (result.candidates & masks.forbidden).any()


def test_an_ordered_method_passes_them_on():
    known = {"require": [("e", "a")], "forbid": [("a", "b"), ("b", "a")]}
    chosen = method("SDCD+order")
    params = chosen.parameters({**QUICK, "knowledge": known, "order_restarts": 0})
    rows = np.tile(X, (5, 1)) + np.random.default_rng(0).normal(size=(400, 5)).astype(np.float32)
    graph = chosen.fit(rows, np.zeros(rows.shape, bool), NAMES, 0, **params)
    assert graph.adjacency[4, 0] and not graph.adjacency[[0, 1], [1, 0]].any()


def test_methods_that_cannot_say_so_in_one_line():
    known = {"forbid": [("a", "b")]}
    able = {name for name, chosen in methods().items() if chosen.knowledge}
    assert {"SDCD", "SDCD-GPU", "SDCD-pruned", "SDCD-warm+prune"} <= able
    for name, chosen in methods().items():
        if name in able:
            assert chosen.parameters({"knowledge": known})["knowledge"] == known
        else:
            with pytest.raises(InputError, match="cannot honour forbidden or required edges"):
                chosen.parameters({"knowledge": known})


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"forbid": [("a", "z")]}, "forbid: 'z' is no variable"),
        ({"require": [("a", "b"), ("b", "a")]}, "required edges form a cycle"),
        ({"require": [("a", "b")], "forbid": [("a", "b")]}, "a -> b is both required and forbid"),
        ({"require": [("a", "b")], "tiers": [["b"], ["a"]]}, "a -> b is both required and forbid"),
        ({"tiers": [["a"], ["a"]]}, "'a' is in two tiers"),
        ({"ban": []}, "unknown key 'ban'"),
    ],
)
def test_contradictions(known, message):
    with pytest.raises(InputError, match=message):
        Knowledge.of(known, NAMES)


def test_a_cycle_is_told_with_its_file_and_edges(tmp_path):
    path = tmp_path / "must.csv"
    path.write_text("parent,child\na,b\nb,c\nc,d\nd,b\nd,e\n")
    with pytest.raises(InputError) as refusal:
        refuse_required_cycle(NAMES, path)
    said = str(refusal.value)
    assert said.startswith(f"{path}: the required edges form a cycle (")
    steps = said.partition("(")[2].partition(")")[0].split(" -> ")
    assert steps[0] == steps[-1] and sorted(steps[1:]) == ["b", "c", "d"]
    assert set(pairwise(steps)) == {("b", "c"), ("c", "d"), ("d", "b")}
    path.write_text("parent,child\na,b\nb,c\na,c\nc,d\n")
    refuse_required_cycle(NAMES, path)


def test_a_path_of_required_edges_forbids_the_way_back():
    known = Knowledge.of({"require": [("a", "b"), ("b", "c")]}, NAMES)
    assert np.argwhere(known.forbidden).tolist() == [[1, 0], [2, 0], [2, 1]]


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.savez("data.npz", X=X, names=np.array(NAMES))
    for name, text in (
        ("no.csv", "parent,child\nd,e\n"),
        ("must.csv", "cause,effect\nc,b\n"),
        ("tiers.csv", "variable,tier\na,1\nb,2\nc,2\n"),
    ):
        (tmp_path / name).write_text(text)
    files = ["--forbid", "no.csv", "--require", "must.csv", "--tiers", "tiers.csv"]
    quick = ["--set", "epochs_1=4", "--set", "epochs_2=4", "--no-picture", "-o", "fit.npz"]
    assert main(["fit", "data.npz", *files, *quick]) == 0
    adjacency = np.load("fit.npz")["adjacency"]
    assert adjacency[2, 1] and not adjacency[3, 4] and not adjacency[1:3, 0].any()
    record = json.loads((tmp_path / "fit.json").read_text())
    assert record["params"]["knowledge"] == {
        "forbid": [["d", "e"]],
        "require": [["c", "b"]],
        "tiers": [["a"], ["b", "c"]],
    }
    capsys.readouterr()
    assert main(["fit", "data.npz", "--method", "GIES", *files, "-o", "other.npz"]) == 2
    assert "method GIES: cannot honour" in capsys.readouterr().err
    assert main(["fit", "data.npz", *files, "--log", "no.csv", "-o", "other.npz"]) == 2
    assert "no.csv: the output would overwrite the input" in capsys.readouterr().err
    (tmp_path / "must.csv").write_text("cause,effect\nc,b\nb,c\n")
    assert main(["fit", "data.npz", *files, "-o", "other.npz"]) == 2
    assert "must.csv: the required edges form a cycle (" in capsys.readouterr().err
