"""The search over causal orders, the graph of an order, and every method with both after it."""

import csv
import io
import itertools
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

from sdcd.cli import main
from sdcd.data.dataset import Dataset, write_dataset
from sdcd.errors import InputError
from sdcd.estimator.directions import descendants, turned
from sdcd.estimator.local_scores import Fitting, LocalScores
from sdcd.estimator.order_graph import GraphRules, graph_of_order, least_gains
from sdcd.estimator.ordered import Settings, learn, usual_restarts
from sdcd.estimator.ordering import (
    Move,
    Neighbourhood,
    SearchRules,
    SearchState,
    complying,
    descend,
    families,
    fit_order,
    total,
)
from sdcd.estimator.pruning import prune
from sdcd.fits.fingerprint import closure
from sdcd.methods.ordered import DEFAULTS, OWN_NAMES, SUFFIX, warning
from sdcd.methods.registry import method, methods

QUICK = Fitting(hidden=10, first_steps=2000, steps=600, batch_size=128)


def chain(n=1500, d=4):
    """0 -> 1 -> ... with a mechanism that no backward model with additive noise has."""
    random = np.random.default_rng(0)
    X = random.normal(size=(n, d))
    for j in range(1, d):
        X[:, j] = 2 * np.cos(1.3 * X[:, j - 1] / X[:, j - 1].std() + 0.8) + 0.4 * X[:, j]
    return ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)


def scores_of(X, intervened=None, fitting=QUICK, **options):
    n = len(X)
    parts = np.split(np.arange(n), [6 * n // 10, 8 * n // 10])
    return LocalScores(X, intervened, *parts, fitting, 0, **options)


def test_rows_that_intervene_on_a_variable_never_influence_its_score():
    X = chain()
    intervened = np.zeros(X.shape, dtype=bool)
    intervened[::7, 2] = intervened[3::11, 1] = True
    family = (2, (0, 1))
    before = scores_of(X, intervened)
    before.fit([(family, None)])
    changed = X.copy()
    changed[intervened[:, 2], 2] = 50.0
    after = scores_of(changed, intervened)
    after.fit([(family, None)])
    assert before[family].rows.tobytes() == after[family].rows.tobytes()
    assert before.judged(family).tobytes() == after.judged(family).tobytes()
    assert np.array_equal(before.losses_without(family), after.losses_without(family))
    # They do where they are not known to be interventions.
    unknown = scores_of(changed)
    unknown.fit([(family, None)])
    assert unknown[family].score < before[family].score - 1
    # The mean over all rows is the mean over those that count.
    free = ~intervened[900:1200, 2]
    rows = before[family].rows
    assert not rows[~free].any()
    assert before[family].score == pytest.approx(rows[free].sum() / 300, rel=1e-6)
    assert abs(free.mean() - 6 / 7) < 0.01


@pytest.mark.parametrize("known", [False, True])
def test_every_insertion_is_scored_exactly(known):
    X = chain(900, 5)
    scores = scores_of(X, fitting=Fitting(hidden=10, first_steps=20, steps=10, batch_size=128))
    random = np.random.default_rng(1)
    candidates = random.random((5, 5)) < 0.7
    candidates |= candidates.T
    np.fill_diagonal(candidates, False)
    order = [3, 1, 4, 0, 2]
    precedes = np.zeros((5, 5), dtype=bool)
    if known:
        precedes[[3, 3, 1], [4, 2, 2]] = True
        candidates &= ~precedes.T
        candidates[0, 1] = False
    fit_order(scores, order, candidates)
    around = Neighbourhood(order, candidates, precedes=precedes)
    scores.fit(around.wanted())
    before = total(scores, order, candidates)
    found = {}
    for move in around.moves(lambda family: scores[family].rows):
        new = move.apply(order)
        gained = total(scores, new, candidates) - before
        assert move.gain == pytest.approx(gained.mean(), abs=1e-6)
        assert move.se == pytest.approx(gained.std(ddof=1) / np.sqrt(len(gained)), abs=1e-6)
        found[frozenset(families(new, candidates).values())] = move
        assert complying(new, precedes) == new
        after = families(new, candidates)
        assert {new for new, _ in around.changed(move)} == {
            after[j] for j in range(5) if after[j] != around.current[j]
        }
    # Every insertion has the families of one that was scored, or those of the order itself.
    unchanged = frozenset(families(order, candidates).values())
    for start, to in itertools.product(range(5), range(5)):
        new = Move(start, start + 1, to, 0.0, 0.0).apply(order)
        if complying(new, precedes) != new:
            continue
        assert frozenset(families(new, candidates).values()) in {*found, unchanged}
    assert len(found) > (4 if known else 8)
    for move in around.predicted_blocks(lambda family: scores[family].score, 3):
        new = move.apply(order)
        assert complying(new, precedes) == new


def test_families_are_fitted_alike_alone_and_together(monkeypatch):
    wanted = [((j, tuple(range(j))), None) for j in range(4)]
    few = Fitting(hidden=10, first_steps=20, batch_size=128)
    scores = []
    for most in (2000, 1):
        monkeypatch.setattr("sdcd.estimator.local_scores._MOST_NETWORKS", most)
        scores.append(scores_of(chain(300), fitting=few))
        scores[-1].fit(wanted)
    for family, _ in wanted:
        assert scores[0][family].rows.tobytes() == scores[1][family].rows.tobytes()


def test_a_short_fit_is_marked_until_it_is_fitted_longer():
    scores = scores_of(chain(600, 3))
    first, second = (1, (0,)), (2, (0, 1))
    scores.fit([(first, None), (second, None)], rough=True)
    rough = scores[first].score
    scores.fit([], again=[first])
    other = scores_of(chain(600, 3))
    other.restore(scores.tree())
    for each in (scores, other):
        assert not each[first].rough and each[second].rough
    assert scores[first].score > rough
    scores.fit([], again=[first, second], rough=True)
    assert not scores[first].rough and scores[second].rough


def test_restarts_cost_about_the_same_whatever_the_number_of_variables():
    expected = {5: 16, 10: 16, 15: 4, 20: 2, 25: 1, 30: 0, 100: 0}
    assert {d: usual_restarts(d) for d in expected} == expected


def test_a_reversal_compares_as_many_parents_without_what_comes_after():
    # 0 -> 1 -> 2, 0 -> 2, 3 -> 2
    graph = {0: (0, ()), 1: (1, (0,)), 2: (2, (0, 1, 3)), 3: (3, ())}
    four = turned(graph)
    assert set(four) == {(0, 1), (0, 2), (1, 2), (3, 2)}
    assert four[0, 2] == ((0, (3,)), (2, (0, 3)), (2, (3,)), (0, (2, 3)))
    assert four[1, 2] == ((1, (0, 3)), (2, (0, 1, 3)), (2, (0, 3)), (1, (0, 2, 3)))
    assert four[3, 2] == ((3, (0, 1)), (2, (0, 1, 3)), (2, (0, 1)), (3, (0, 1, 2)))


def test_where_the_data_do_not_determine_the_order_the_start_is_pruned_and_the_result_says_so():
    random = np.random.default_rng(3)
    X = random.normal(size=(2500, 4))
    start = np.zeros((4, 4), dtype=np.int8)
    for i, j in ((0, 1), (0, 2), (1, 3), (2, 3)):
        X[:, j] += 0.8 * X[:, i]
        start[j, i] = 1  # Turned round: as likely.
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    rules = Settings(fitting=QUICK, restarts=0)
    # Independent given 1 and 2.
    useless = np.zeros_like(start)
    useless[3, 0] = 1
    result = learn(X, start=start + useless, settings=rules)
    assert not result.determined and result.undetermined > 2
    assert result.from_start and np.array_equal(result.adjacency, start)
    assert result.search_gain <= max(0.01, 2 * result.search_gain_se)
    edges = start != 0
    for name in ("gain", "gain_se", "reversal", "reversal_se"):
        assert np.array_equal(np.isfinite(getattr(result, name)), edges)
    few = replace(result, undetermined=1)
    assert "more than half of the edges found can be turned round" in warning(few)
    assert "1 of 4 edges can be turned round" in warning(replace(few, from_start=False))
    # Without a graph to fall back on it is only said.
    assert not learn(X, order=np.array([3, 2, 1, 0]), settings=rules).determined
    told = learn(chain(), start=np.eye(4, k=-1, dtype=np.int8), settings=rules)
    assert told.determined and not told.from_start
    assert np.array_equal(told.adjacency, np.eye(4, k=1, dtype=np.int8))


def test_the_rows_that_judge_choose_nothing(monkeypatch):
    seen = {}

    class Watched(LocalScores):
        def __init__(self, X, intervened, fitted, scored, judged, *more):
            seen["judged"] = judged
            super().__init__(X, intervened, fitted, scored, judged, *more)

    def pruning(start, X, *more, **how):
        seen["pruned on"] = X
        return prune(start, X, *more, **how)

    monkeypatch.setattr("sdcd.estimator.ordered.LocalScores", Watched)
    monkeypatch.setattr("sdcd.estimator.ordered.prune", pruning)
    X, rules = chain(), Settings(fitting=QUICK, restarts=1)
    first = learn(X, order=np.array([3, 2, 1, 0]), settings=rules)
    Y, judged = X.copy(), seen["judged"]
    Y[judged] = np.random.default_rng(0).permuted(Y[judged], axis=0)
    second = learn(Y, order=np.array([3, 2, 1, 0]), settings=rules)
    assert len(judged) == 150 and second.history == first.history
    assert np.array_equal(second.order, first.order)
    assert np.array_equal(second.adjacency, first.adjacency)
    edges = first.adjacency != 0
    assert (first.gain[edges] > 0.1).all() and (second.gain[edges] < 0).all()
    # Nor do they prune the start.
    once = replace(rules, restarts=0, search=SearchRules(max_rounds=1))
    learn(X, start=np.eye(4, k=-1), settings=once)
    assert np.array_equal(seen["pruned on"], np.delete(X, judged, axis=0))


def test_candidates_are_those_that_predict_and_those_of_the_graph():
    def order(**changes):
        rules = replace(Settings(fitting=QUICK, restarts=0), **changes)
        return learn(chain(), order=np.array([3, 2, 1, 0]), settings=rules).order.tolist()

    # Without a candidate no order is better than another.
    assert order(blanket=np.inf, widenings=0) == [3, 2, 1, 0]
    assert order(widenings=0) == order(blanket=np.inf) == [0, 1, 2, 3]


def test_the_order_is_determined_unless_more_than_half_of_the_edges_are_not():
    random = np.random.default_rng(0)
    X = random.normal(size=(2000, 6))
    X[:, :2] = chain(2000, 2)
    for j in (3, 5):
        # Linear with normal noise: either direction is as likely.
        X[:, j] = (X[:, j - 1] + X[:, j]) / np.sqrt(2)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    for d, undetermined in ((4, 1), (6, 2)):
        rules = Settings(fitting=QUICK, restarts=0)
        result = learn(X[:, :d], order=np.arange(d), settings=rules)
        assert result.adjacency.sum() == d // 2
        assert result.undetermined == undetermined and result.ended
        assert result.determined == (undetermined <= d // 2 / 2)


def test_a_restart_begins_elsewhere():
    result = learn(chain(), order=np.arange(4), settings=Settings(fitting=QUICK, restarts=1))
    first, second = ([r for r in result.history if r["search"] == k] for k in (0, 1))
    assert second[0]["score"] < first[-1]["score"] - 0.1
    assert [record["kept"] for record in result.searches] == [True, False]


def test_a_search_that_does_not_end_determines_no_order():
    start = np.eye(4, k=-1, dtype=np.int8)  # Turned round.
    once = Settings(fitting=QUICK, restarts=0, search=SearchRules(max_rounds=1))
    result = learn(chain(), start=start, settings=once)
    assert len(result.history) == 1 and not result.ended
    assert not result.determined and "without end" in warning(result)
    # It is better than the start on unseen rows nonetheless, and stays.
    assert not result.from_start and result.search_gain > 0.01


def test_a_block_goes_where_it_should_and_disjoint_moves_add():
    order = list("abcdefg")
    assert Move(1, 3, 4, 0.0, 0.0).apply(order) == list("adefbcg")
    assert Move(4, 6, 0, 0.0, 0.0).apply(order) == list("efabcdg")
    assert Move(1, 3, 4, 0.0, 0.0).interval == (1, 5)
    assert Move(4, 6, 0, 0.0, 0.0).interval == (0, 5)


def test_the_search_ends_at_the_best_order_from_every_start():
    X = chain(3000, 3)
    everything = ~np.eye(3, dtype=bool)
    # Short fits from networks of other parents favour the order that is there.
    longer = replace(QUICK, first_steps=6000, steps=1500)
    for start in itertools.permutations(range(3)):
        scores = scores_of(X, fitting=longer)
        state = SearchState(list(start), everything)
        descend(scores, state, SearchRules())
        assert state.order == [0, 1, 2] and state.done
        values = [record["score"] for record in state.history]
        assert len(values) == 1 if start == (0, 1, 2) else values[-1] > values[0] + 0.1


def test_the_graph_of_an_order_lacks_what_does_not_help():
    X = chain()
    scores = scores_of(X)
    least = least_gains(np.full(4, len(X)), QUICK.hidden)
    graph = graph_of_order(scores, [0, 1, 2, 3], least, GraphRules())
    assert graph == {0: (0, ()), 1: (1, (0,)), 2: (2, (1,)), 3: (3, (2,))}


def test_the_least_gain_is_the_description_length_of_a_parent():
    assert least_gains(10_000, 20) == pytest.approx(0.00921, abs=1e-5)
    assert least_gains(500, 20) == pytest.approx(0.1243, abs=1e-4)


def test_the_price_of_an_edge_is_in_units_of_its_description_length():
    random = np.random.default_rng(0)
    Y = random.normal(size=(1500, 2))
    Y[:, 1] = 0.6 * Y[:, 0] + 0.8 * Y[:, 1]
    gain, least = -np.log(0.8), least_gains(len(Y), QUICK.hidden)
    for price, edges in ((5.0, 1), (15.0, 0)):
        # The square of either is above the gain.
        assert (price * least < gain) == (edges == 1) and price**2 * least > 2 * gain
        rules = Settings(fitting=QUICK, restarts=0, graph=GraphRules(price=price))
        assert learn(Y, order=np.array([0, 1]), settings=rules).adjacency.sum() == edges


def test_a_search_that_was_interrupted_goes_on_to_the_same_result(tmp_path):
    X = chain()
    rules = Settings(fitting=QUICK, restarts=2, random_restarts=True)
    start = np.array([3, 2, 1, 0])

    class Interrupt(io.StringIO):
        def __init__(self, lines):
            super().__init__()
            self.left = lines

        def write(self, text):
            self.left -= "\n" in text
            if self.left < 0:
                raise KeyboardInterrupt
            return super().write(text)

    expected = learn(X, order=start, settings=rules)
    assert list(expected.order) == [0, 1, 2, 3]
    assert len(expected.searches) == 3
    path = tmp_path / "search"
    how = {"order": start, "settings": rules, "checkpoint": path, "checkpoint_interval": 0.0}
    for lines in (1, 3):
        with pytest.raises(KeyboardInterrupt):
            learn(X, progress=Interrupt(lines), **how)
        assert path.exists()
    with pytest.raises(InputError, match="seed is 0 there and 1 here"):
        learn(X, seed=1, **how)
    result = learn(X, threads=2, **how)
    assert not path.exists()
    for name in ("adjacency", "order", "gain", "gain_se", "reversal", "reversal_se"):
        assert getattr(result, name).tobytes() == getattr(expected, name).tobytes()
    assert result.history == expected.history


def test_descendants_are_those_of_the_closure_however_long_a_path_is():
    random = np.random.default_rng(0)
    A = np.triu(random.random((30, 30)) < 0.1, 1)
    graph = {j: (j, tuple(np.flatnonzero(A[:, j]).tolist())) for j in range(30)}
    closure = nx.transitive_closure_dag(nx.from_numpy_array(A, create_using=nx.DiGraph))
    assert descendants(graph) == {i: set(closure.successors(i)) for i in range(30)}
    chain = {j: (j, (j - 1,) if j else ()) for j in range(2000)}
    assert len(descendants(chain)[0]) == 1999


def test_what_a_reversal_costs_tells_directions_that_the_data_determine():
    X = chain(3000, 3)
    result = learn(X, order=np.array([2, 1, 0]), settings=Settings(fitting=QUICK))
    edges = result.adjacency != 0
    assert np.array_equal(edges, np.eye(3, k=1, dtype=bool))
    assert (result.reversal[edges] > 5 * result.reversal_se[edges]).all()
    # Linear with normal noise: no direction is better.
    random = np.random.default_rng(0)
    Y = random.normal(size=(3000, 2))
    Y[:, 1] = (Y[:, 0] + Y[:, 1]) / np.sqrt(2)
    result = learn(Y, order=np.array([0, 1]), settings=Settings(fitting=QUICK))
    assert result.adjacency[0, 1] == 1
    assert abs(result.reversal[0, 1]) < max(0.02, 3 * result.reversal_se[0, 1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"order": [0, 1, 1, 2]}, "expected the variables 0 to 3, each once"),
        ({"candidates": np.ones((2, 2))}, r"candidates have shape \(2, 2\), expected \(4, 4\)"),
        ({"seed": -1}, "seed is -1, expected an integer not below 0"),
        ({"settings": Settings(scored_fraction=0.95)}, "together below 1"),
        ({"X": chain(19)}, "19 rows, expected at least 20 for a search over orders"),
        ({"X": np.full((500, 4), np.nan)}, "row 0, column 0 is nan"),
    ],
)
def test_wrong_input_is_refused(change, message):
    X = change.pop("X", chain(500))
    with pytest.raises(InputError, match=message):
        learn(X, **change)


def test_every_method_has_an_ordered_twin():
    known = methods()
    twins = [name for name in known if name.endswith(SUFFIX)]
    assert len(twins) > 10 and "SDCD+order" in twins
    for name in twins:
        base = known[name.removesuffix(SUFFIX)]
        own = {f"order_{key}": value for key, value in DEFAULTS.items()}
        assert dict(known[name].defaults) == {**base.defaults, **own}
        assert "+prune" not in name
    assert known["SDCD-ordered"].defaults == known["SDCD+order"].defaults
    assert OWN_NAMES["SDCD-ordered"] == "SDCD"
    found = closure(method("NOTEARS+order").modules)
    assert {"sdcd.baselines.notears", "sdcd.estimator.ordering"} <= found
    assert "sdcd.estimator.ordering" not in closure(method("NOTEARS").modules)


def test_the_command_line_gives_each_edge_its_gain_and_its_reversal(tmp_path):
    X = chain(1000, 3)
    source, out = tmp_path / "data.npz", tmp_path / "fit.npz"
    write_dataset(source, Dataset(X, np.zeros(X.shape, dtype=bool), ("a", "b", "c")))
    arguments = ["fit", source, "--method", "sortnregress+order", "-o", out, "--no-picture"]
    assert main([*map(str, arguments)]) == 0
    with np.load(out) as fit:
        arrays = {name: fit[name] for name in fit.files}
    assert sorted(arrays["order"].tolist()) == [0, 1, 2]
    place = np.argsort(arrays["order"])
    with open(out.with_suffix(".edges.csv"), newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == arrays["adjacency"].sum() > 0
    for row in rows:
        i, j = "abc".index(row["parent"]), "abc".index(row["child"])
        assert place[i] < place[j]
        for name in ("gain", "gain_se", "reversal", "reversal_se"):
            assert float(row[name]) == arrays[name][i, j]
