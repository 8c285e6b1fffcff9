import csv
import itertools
import json
import math
import os
from importlib import resources

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sdcd import metrics
from sdcd.errors import InputError
from sdcd.graphs import pdag_to_cpdag
from sdcd.simulation import simulate

# Examples must not vary from run to run, nor fail when the machine is slow.
steady = settings(deadline=None, derandomize=True)


def graph(d, *edges):
    A = np.zeros((d, d), dtype=np.int8)
    for i, j in edges:
        A[i, j] = 1
    return A


TRUTH = graph(4, (0, 1), (1, 2), (3, 2))


@st.composite
def pairs_of_graphs(draw, undirected=True):
    d = draw(st.integers(2, 7))
    matrix = hnp.arrays(np.int8, (d, d), elements=st.sampled_from([0, 0, 1]))
    A = draw(matrix) & (1 - np.eye(d, dtype=np.int8))
    if not undirected:
        A &= 1 - np.triu(A.T)
    order = draw(st.permutations(range(d)))
    T = np.triu(draw(matrix), 1)[np.ix_(order, order)]
    return A, T


# Hand-worked: what was predicted, then SHD, SHD-CPDAG, precision, recall, F1, edges, is it a DAG.
HAND_WORKED = {
    "the truth": (TRUTH, 0, 0, 1, 1, 1, 3, True),
    # 0 -> 1 is undirected in the true CPDAG, where 1 -> 2 <- 3 is a v-structure.
    "equivalent": (graph(4, (1, 0), (1, 2), (3, 2)), 1, 0, 2 / 3, 2 / 3, 2 / 3, 3, True),
    # Its CPDAG 0 - 1 - 2 - 3 differs from 0 - 1 -> 2 <- 3 in two pairs.
    "one reversed": (graph(4, (0, 1), (1, 2), (2, 3)), 1, 2, 2 / 3, 2 / 3, 2 / 3, 3, True),
    "one missing": (graph(4, (0, 1), (3, 2)), 1, 2, 1, 2 / 3, 4 / 5, 2, True),
    # 1 -> 2 <- 3 -> 0 <- 1: 3 is not adjacent to 1, all compelled. Pairs 01, 03 differ in both.
    "one missing, two extra": (
        graph(4, (1, 2), (3, 2), (1, 0), (3, 0)),
        2,
        2,
        1 / 2,
        1 / 2 * 4 / 3,
        4 / 7,
        4,
        True,
    ),
    "undirected": (graph(4, (0, 1), (1, 0), (1, 2), (3, 2)), 1, 0, 3 / 4, 1, 6 / 7, 4, False),
    "undirected, reversed and extra": (
        graph(4, (1, 2), (2, 1), (2, 3), (1, 3), (3, 1)),
        4,
        4,
        1 / 5,
        1 / 3,
        1 / 4,
        5,
        False,
    ),
    "empty": (graph(4), 3, 3, math.nan, 0, 0, 0, True),
    # Cyclic: compared with the true CPDAG 0 - 1 -> 2 <- 3 by its own entries.
    "cycle": (graph(4, (0, 1), (1, 2), (2, 0)), 2, 3, 2 / 3, 2 / 3, 2 / 3, 3, False),
    "self-loop": (graph(4, (0, 1), (1, 2), (3, 2), (3, 3)), 1, 2, 3 / 4, 1, 6 / 7, 4, False),
}


@pytest.mark.parametrize("case", HAND_WORKED)
def test_hand_worked(case):
    adjacency, *expected = HAND_WORKED[case]
    got = metrics.score(adjacency, None, TRUTH)
    keys = ["shd", "shd_cpdag", "precision", "recall", "f1", "n_edges", "is_dag"]
    assert [got[key] for key in keys] == pytest.approx(expected, nan_ok=True)
    assert set(got) == {*keys, "aid", "average_precision"}
    assert got["average_precision"] is None


def test_no_true_edges():
    got = metrics.score(graph(3, (0, 1)), np.ones((3, 3)), graph(3))
    assert (got["shd"], got["precision"], got["f1"]) == (1, 0, 0)
    assert math.isnan(got["recall"])
    assert math.isnan(got["average_precision"])


def test_two_empty_graphs():
    got = metrics.score(graph(3), None, graph(3))
    assert (got["shd"], got["shd_cpdag"], got["n_edges"]) == (0, 0, 0)
    assert all(math.isnan(got[key]) for key in ("precision", "recall", "f1"))


def test_plain_numbers():
    got = metrics.score(TRUTH, np.eye(4), TRUTH)
    assert {key: type(value) for key, value in got.items()} == {
        "shd": int, "shd_cpdag": int, "aid": float, "precision": float, "recall": float,
        "f1": float, "n_edges": int, "average_precision": float, "is_dag": bool,
    }  # fmt: skip
    json.dumps(got)


@steady
@given(pairs_of_graphs())
def test_shd_as_the_authors_compute_it(pair):
    A, T = pair
    D = A != T
    assert metrics.shd(A, T) == D.sum() - 0.5 * (D & D.T).sum()


@steady
@given(pairs_of_graphs(undirected=False))
def test_shd_by_counts(pair):
    A, T = pair
    true_positives, reversed_edges = (A & T).sum(), (A & T.T).sum()
    assert metrics.shd(A, T) == A.sum() + T.sum() - 2 * true_positives - reversed_edges


@steady
@given(pairs_of_graphs())
def test_shd_is_a_distance(pair):
    A, T = pair
    assert metrics.shd(A, T) == metrics.shd(T, A) >= 0
    assert metrics.shd(A, A) == 0
    assert metrics.shd(A, 0 * A) == metrics.n_edges(A) - (A & A.T).sum() / 2


@steady
@given(pairs_of_graphs(undirected=False))
def test_agrees_with_gcastle(pair):
    castle = pytest.importorskip("castle.metrics")
    A, T = pair
    if not T.any() or not A.any():
        return
    with np.errstate(invalid="ignore"):
        theirs = castle.MetricsDAG(A.astype(int), T.astype(int)).metrics
    assert metrics.shd(A, T) == theirs["shd"]
    assert metrics.precision(A, T) == pytest.approx(theirs["precision"], abs=1e-4)
    assert metrics.recall(A, T) == pytest.approx(theirs["recall"], abs=1e-4)
    if (A & T).any():
        assert metrics.f1(A, T) == pytest.approx(theirs["F1"], abs=1e-4)


@steady
@given(pairs_of_graphs())
def test_agrees_with_scikit_learn(pair):
    from sklearn.metrics import f1_score, precision_score, recall_score

    A, T = (x.ravel() for x in pair)
    for ours, theirs in [
        (metrics.precision, precision_score),
        (metrics.recall, recall_score),
        (metrics.f1, f1_score),
    ]:
        expected = theirs(T, A, zero_division=np.nan)
        assert ours(*pair) == pytest.approx(expected, nan_ok=True)


@steady
@given(pairs_of_graphs(), st.data())
def test_average_precision_agrees_with_scikit_learn(pair, data):
    from sklearn.metrics import average_precision_score

    _, T = pair
    levels = st.sampled_from([0.0, 0.0, 0.1, 0.5, 0.5, 2.0, -1.0])
    W = data.draw(hnp.arrays(np.float64, T.shape, elements=levels))
    off = ~np.eye(len(T), dtype=bool)
    ours = metrics.average_precision(W, T)
    if T.any():
        assert ours == pytest.approx(average_precision_score(T[off], np.abs(W)[off]))
    else:
        assert math.isnan(ours)


def test_average_precision_hand_worked():
    W = np.array([[9.0, 0.9, 0], [0, 0, 0.5], [0.7, 0, 0]])
    T = graph(3, (0, 1), (1, 2), (0, 2))
    # Ranks: true, false, true, then three pairs tied at zero with the third true edge among them.
    assert metrics.average_precision(W, T) == pytest.approx((1 / 1 + 2 / 3 + 3 / 6) / 3)
    assert metrics.average_precision(np.ones((3, 3)), T) == pytest.approx(3 / 6)
    assert metrics.average_precision(np.zeros((3, 3)), T) == pytest.approx(3 / 6)
    assert metrics.average_precision(T, T) == 1.0


def test_average_precision_refuses_nan():
    with pytest.raises(InputError, match="NaN"):
        metrics.average_precision(np.full((3, 3), np.nan), graph(3, (0, 1)))


def test_shapes_must_agree():
    with pytest.raises(InputError, match=r"\(3, 3\).*\(4, 4\)"):
        metrics.shd(graph(3), TRUTH)


def test_published_logs_satisfy_the_identity():
    # SHD = predicted + true - 2 TP - reversed with 0 <= reversed + undirected: so what the authors
    # logged leaves a whole number of reversed pairs between 0 and the false positives.
    text = (resources.files("sdcd.published") / "observational_runs.csv").read_text()
    rows = [row for row in csv.DictReader(text.splitlines()) if row["shd"]]
    assert len(rows) > 100
    for row in rows:
        n_true = int(row["d"]) * int(row["s"])
        n_predicted = int(row["n_edges_pred"])
        true_positives = round(float(row["recall"]) * n_true)
        assert float(row["precision"]) == pytest.approx(true_positives / n_predicted, abs=1e-5)
        wrong_way = n_predicted + n_true - 2 * true_positives - int(row["shd"])
        assert 0 <= wrong_way <= n_predicted - true_positives, row


@pytest.mark.parametrize(
    ("seed", "shd", "precision", "recall", "n_edges"),
    [(0, 32, 0.377778, 0.425, 45), (1, 27, 0.478261, 0.55, 46), (2, 25, 0.521739, 0.6, 46)],
)
def test_published_scores_of_gies(seed, shd, precision, recall, n_edges):
    # The essential graphs have undirected edges: five, six and five.
    gies = pytest.importorskip("gies")
    dataset = simulate(10, 4, seed)
    essential, _ = gies.fit_bic([dataset.X.astype(np.float64)], [[]])
    got = metrics.score(essential, None, dataset.adjacency)
    assert (got["shd"], got["n_edges"]) == (shd, n_edges)
    assert got["precision"] == pytest.approx(precision, abs=1e-6)
    assert got["recall"] == pytest.approx(recall, abs=1e-6)
    assert not got["is_dag"]


def adjustment_distance(guess, truth):
    """The ancestor distance of two DAGs, pair by pair from the definition."""
    import networkx as nx

    G, T = (nx.from_numpy_array(A.astype(int), create_using=nx.DiGraph) for A in (guess, truth))
    wrong = 0
    for t, y in itertools.permutations(range(len(guess)), 2):
        effect = y in nx.descendants(T, t)
        if y not in nx.descendants(G, t):
            wrong += effect
            continue
        adjusted = nx.ancestors(G, t)
        on_paths = {v for v in nx.descendants(T, t) if v == y or y in nx.descendants(T, v)}
        forbidden = on_paths.union(*(nx.descendants(T, v) for v in on_paths))
        backdoor = T.copy()
        backdoor.remove_edges_from([(t, v) for v in on_paths if T.has_edge(t, v)])
        separated = nx.is_d_separator(backdoor, {t}, {y}, adjusted)
        wrong += bool(adjusted & forbidden) or not separated
    return wrong / (len(guess) * (len(guess) - 1))


@pytest.mark.parametrize("seed", range(12))
def test_aid_of_dags_is_what_its_definition_says(seed):
    random = np.random.default_rng(seed)
    A, T = (np.triu(random.random((5, 5)) < 0.5, 1) for _ in range(2))
    order = random.permutation(5)
    A = A[np.ix_(order, order)]
    assert metrics.aid(A, T) == pytest.approx(adjustment_distance(A, T))
    assert metrics.aid(T, T) == 0


def test_aid_of_graphs_that_are_not_dags():
    chain = graph(3, (0, 1), (1, 2))
    undirected = chain | chain.T
    # What leaves an effect open is wrong about it, in either graph alone; not in both.
    assert metrics.aid(undirected, chain) == metrics.aid(chain, undirected) == 1
    assert metrics.aid(undirected, undirected) == 0
    half = graph(3, (0, 1), (1, 2), (2, 1))
    undefined = {
        "cycle": graph(3, (0, 1), (1, 2), (2, 0)),
        "self-loop": graph(3, (0, 1), (1, 1)),
        "directed cycle through an undirected edge": graph(3, (0, 1), (1, 2), (2, 1), (2, 0)),
        "no consistent DAG": graph(4, *[(i, (i + 1) % 4) for i in range(4)])
        | graph(4, *[((i + 1) % 4, i) for i in range(4)]),
    }
    for what, A in undefined.items():
        truth = graph(len(A), (0, 1))
        assert math.isnan(metrics.aid(A, truth)), what
        assert math.isnan(metrics.aid(truth, A)), what
    assert 0 <= metrics.aid(half, chain) <= 1
    assert math.isnan(metrics.aid(graph(1), graph(1)))


def test_aid_does_not_depend_on_how_variables_are_numbered():
    random = np.random.default_rng(3)
    T = np.triu(random.random((8, 8)) < 0.4, 1)
    A = pdag_to_cpdag(np.triu(random.random((8, 8)) < 0.4, 1))
    order = random.permutation(8)
    assert metrics.aid(A, T) == metrics.aid(A[np.ix_(order, order)], T[np.ix_(order, order)])
    assert "RAYON_NUM_THREADS" not in os.environ
