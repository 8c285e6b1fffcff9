"""The rules of the search over orders and of an order's graph, on scores that are known.

The scores are planted, so that nothing is fitted and each rule decides alone.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from sdcd.estimator.order_graph import GraphRules, graph_of_order
from sdcd.estimator.ordering import Neighbourhood, SearchRules, SearchState, descend, families

ROWS = 400
WAVE = np.tile([1.0, -1.0], ROWS // 2)
"""Of standard error 0.05 over the rows."""


class Planted:
    """In place of :class:`sdcd.estimator.local_scores.LocalScores`.

    Parameters
    ----------
    value : function of a child and the set of its parents
        The score.
    noise : function of the same
        The score's standard error, one for all families: differences of it are those of scores.
    lean : float
        What a network loses for each parent that it was fitted with and does not have any more.
    short : float
        What a network loses as long as it was fitted for a short time only.
    """

    def __init__(self, value, noise=lambda j, parents: 0.0, lean=0.0, short=0.0):
        self.value, self.noise, self.lean, self.short = value, noise, lean, short
        self.networks, self.fits = {}, 0

    def fit(self, wanted, *, again=(), anew=(), rough=False):
        for family in again:
            self._put(family, self.networks[family].used, rough and self.networks[family].rough)
        for family in anew:
            self._put(family, set(family[1]), rough)
        for family, origin in wanted:
            if family not in self.networks:
                before = set() if origin is None else self.networks[origin].used
                self._put(family, before | set(family[1]), rough)

    def _put(self, family, used, rough):
        score = self._score(family, used) - self.short * rough
        rows = score + 20 * self.noise(family[0], set(family[1])) * WAVE
        self.networks[family] = SimpleNamespace(rows=rows, score=score, rough=rough, used=used)
        self.fits += 1

    def _score(self, family, used):
        child, parents = family
        return self.value(child, set(parents)) - self.lean * len(used - set(parents))

    def __getitem__(self, family):
        return self.networks[family]

    def keep(self, families):
        self.networks = {family: self.networks[family] for family in families}

    def losses_without(self, family):
        (child, parents), used = family, self.networks[family].used
        fewer = [(child, tuple(k for k in parents if k != i)) for i in parents]
        return np.array([self._score(family, used) - self._score(each, used) for each in fewer])


def gains(**edges):
    """The value of a child and its parents, from what each edge, as ``ab``, is worth."""

    def value(child, parents):
        return sum(edges.get("abcdef"[i] + "abcdef"[child], 0.0) for i in parents)

    return value


def search(scores, d, **rules):
    """The order in letters that the alphabet's becomes, and the records of the rounds."""
    state = SearchState(list(range(d)), ~np.eye(d, dtype=bool))
    descend(scores, state, SearchRules(**rules))
    assert state.done
    return "".join("abcdef"[j] for j in state.order), state.history


def test_a_move_gains_enough_and_more_than_chance_does():
    def chance(j, parents):
        return 0.04 if (j, parents) == (0, {1}) else 0.0

    noisy = Planted(gains(ba=0.06), chance)
    assert search(noisy, 2)[0] == "ab"
    assert search(noisy, 2, min_z=1.0)[0] == "ba"
    small = Planted(gains(ba=0.005))
    assert search(small, 2)[0] == "ab"
    assert search(small, 2, min_gain=0.001)[0] == "ba"


def test_moves_of_a_round_share_no_place():
    apart = Planted(gains(ba=1.0, dc=0.5))
    order, history = search(apart, 4)
    assert order == "badc"
    assert (history[0]["moves"], history[0]["gain"]) == (2, pytest.approx(1.5))
    # Both would move b: the better one is made, and the other then gains nothing.
    sharing = Planted(gains(ba=1.0, cb=0.6, ac=5.0))
    order, history = search(sharing, 3)
    assert order == "bac"
    assert (history[0]["moves"], history[0]["gain"]) == (1, pytest.approx(1.0))


def test_a_block_moves_where_none_of_its_variables_would():
    # c and d belong before a and b, and each pair together: whoever moves alone leaves its twin.
    worth = gains(ab=9.0, cd=9.0, ca=0.9, da=0.9, db=0.9, bc=1.0)
    for block, expected in ((1, "abcd"), (2, "cdab"), (3, "cdab")):
        # One block is tried, the best by prediction, which is exact here.
        order, history = search(Planted(worth), 4, block=block, tried=1)
        assert order == expected
        assert len(history) == (2 if block > 1 else 1)
    assert history[0]["gain"] == pytest.approx(3 * 0.9 - 1.0)


def test_the_gain_of_a_block_is_predicted_exactly_where_edges_add():
    worth = np.random.default_rng(0).normal(size=(5, 5))
    every, order = ~np.eye(5, dtype=bool), [3, 1, 4, 0, 2]

    def mean(family):
        return sum(worth[i, family[0]] for i in family[1])

    around = Neighbourhood(order, every)
    moves = around.predicted_blocks(mean, 3)
    # 4 blocks of two and 3 of three, to every other place.
    assert len(moves) == 4 * 3 + 3 * 2
    for move in moves:
        after = families(move.apply(order), every).values()
        exact = sum(map(mean, after)) - sum(map(mean, around.current.values()))
        assert move.gain == pytest.approx(exact)
    assert [m.gain for m in moves] == sorted((m.gain for m in moves), reverse=True)


def test_what_a_short_fit_says_decides_what_is_fitted_longer():
    def order(short, **rules):
        return search(Planted(gains(ba=0.05), short=short), 2, block=1, **rules)[0]

    # The two networks of the move are fitted for a short time first, and then it seems to lose.
    assert order(0.04, tried=0) == "ba"
    assert order(0.15, tried=0) == "ab"
    assert order(0.15, tried=1) == "ba"
    assert order(0.15, tried=0, margin=0.3) == "ba"


def parents_of(scores, child, rules=None, least=0.02, **known):
    """What is left of all that come before the child."""
    d = child + 1
    graph = graph_of_order(
        scores, list(range(d)), np.full(d, least), rules or GraphRules(), **known
    )
    return graph[child][1]


def test_an_edge_gains_more_than_chance_does():
    scores = Planted(gains(ab=0.06), lambda j, parents: 0.04 if parents else 0.0)
    assert parents_of(scores, 1) == ()
    assert parents_of(scores, 1, GraphRules(min_z=1.0)) == (0,)
    required = np.zeros((2, 2), dtype=bool)
    required[0, 1] = True
    assert parents_of(scores, 1, required=required) == (0,)
    assert parents_of(Planted(gains(ab=9.0)), 1, allowed=~required) == ()


def test_networks_that_lean_on_useless_parents_are_fitted_anew_without_them():
    # Dropping any of c, d and e alone loses what an edge has to gain.
    scores = Planted(gains(af=0.3, bf=0.04, cf=0.001, df=0.001, ef=0.001), lean=0.05)
    assert parents_of(scores, 5) == (0, 1)
    assert parents_of(scores, 5, GraphRules(nested=0.0)) == (0, 1, 2, 3, 4)
    required = np.zeros((6, 6), dtype=bool)
    required[3, 5] = True
    assert parents_of(scores, 5, required=required) == (0, 1, 3)


def test_of_two_that_say_the_same_one_stays():
    scores = Planted(lambda j, parents: 0.3 if j == 2 and parents else 0.0)
    assert parents_of(scores, 2) == (1,)
