"""Search over causal orders by held-out scores.

Given data with interventions, find an order o of the d variables in which causes come before their
effects. Where mechanisms are nonlinear with additive noise, the distribution determines such an
order, and no other is as likely. So, with the local score S(j, Pa) of
:mod:`sdcd.estimator.local_scores` (mean held-out log density of j's network given parents Pa), the
search maximises

    S(o) = sum_j S(j, pred(j) & C(j))

where pred(j) are the variables before j in o, and C(j) its *candidates*: what may matter to j at
all. C is symmetric as a relation, so that an edge of it can be turned round.

*Moves.* Take v out of the order and insert it at another place. That changes v's own set, and adds
v to, or takes it from, the sets of the variables passed. So the d (d - 1) moves need at most 2 d^2
distinct families, which are fitted together, each from the current network of its child: all moves
are scored exactly in one batch. A move *counts* if its mean gain over rows is at least ``min_gain``
and more than ``min_z`` standard errors. The best one is made, then the best of those whose interval
of places is disjoint from the intervals used already: their gains add exactly. Rounds go on until
no move counts.

*Blocks.* Then the same for blocks of neighbours in the order. Their gains are predicted from the
families of the round, and the most promising are fitted and judged by the same rule.

What surrounds the search, candidates that grow and restarts, is in :mod:`sdcd.estimator.ordered`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from sdcd.estimator.local_scores import Family, LocalScores


@dataclass(frozen=True)
class SearchRules:
    """When a move counts, and how far the search goes.

    Attributes
    ----------
    min_gain : float
        Nats per row that a move must gain.
    min_z : float
        Standard errors by which its gain must exceed zero.
    max_rounds : int
        Rounds of one search, at most.
    block : int
        Longest block that is moved; 1: single variables only.
    tried_blocks : int
        Block moves that are fitted when no single move is left: the best by prediction.
    reach : int or None
        Places that a move may pass, at most; None: any number.
    """

    min_gain: float = 0.01
    min_z: float = 2.0
    max_rounds: int = 50
    block: int = 3
    tried_blocks: int = 20
    reach: int | None = None


@dataclass(frozen=True)
class Move:
    """The block of places ``start`` to ``stop - 1`` goes to where its first is at ``to``.

    ``rows`` float64 (m,) is what it gains, row by row.
    """

    start: int
    stop: int
    to: int
    gain: float
    se: float
    rows: np.ndarray | None = None

    @property
    def interval(self) -> tuple[int, int]:
        """First and last place that it changes."""
        return min(self.start, self.to), max(self.stop, self.to + self.stop - self.start) - 1

    def apply(self, order: list[int]) -> list[int]:
        """The order after it."""
        block = order[self.start : self.stop]
        rest = order[: self.start] + order[self.stop :]
        return rest[: self.to] + block + rest[self.to :]


@dataclass
class SearchState:
    """Where a search stands between two rounds.

    Attributes
    ----------
    order : list of int
        The order so far.
    candidates : bool (d, d), symmetric
        ``candidates[i, j]``: i may be a parent of j, and j of i.
    done : bool
        Whether no move is left.
    search : int
        Number of the search: 0, then 1 for each restart.
    history : list of dict
        A record per round: ``search``, ``round``, ``score`` (nats, before the round's moves),
        ``fitted`` (families), ``moves``, ``gain`` (of these moves together).
    """

    order: list[int]
    candidates: np.ndarray
    done: bool = False
    search: int = 0
    history: list[dict] = field(default_factory=list)

    @property
    def rounds(self) -> int:
        """Rounds of this search."""
        return sum(record["search"] == self.search for record in self.history)


def families(order: list[int], candidates: np.ndarray) -> dict[int, Family]:
    """Each variable with its candidates before it."""
    before = np.zeros(len(order), dtype=bool)
    out = {}
    for j in order:
        out[j] = (j, tuple(np.flatnonzero(before & candidates[:, j]).tolist()))
        before[j] = True
    return out


def toggled(family: Family, others: set[int] | tuple[int, ...]) -> Family:
    """The family with these variables added where they are missing, else taken away."""
    child, parents = family
    return child, tuple(sorted(set(parents) ^ set(others)))


class Neighbourhood:
    """All insertion moves of an order: the families that they need, and their gains.

    Parameters
    ----------
    order : list of int
    candidates : bool (d, d), symmetric
    reach : int or None
        See :class:`SearchRules`.
    """

    def __init__(self, order: list[int], candidates: np.ndarray, reach: int | None = None):
        self.order, self.candidates = order, candidates
        self.place = {v: p for p, v in enumerate(order)}
        self.current = families(order, candidates)
        reach = len(order) if reach is None else reach
        # For each variable and direction: the candidates passed, nearest first.
        self.passed: dict[int, tuple[list[int], list[int]]] = {}
        for v in order:
            p = self.place[v]
            near = [
                (q, u)
                for u in np.flatnonzero(candidates[:, v]).tolist()
                if abs((q := self.place[u]) - p) <= reach
            ]
            earlier = [u for q, u in sorted(near, reverse=True) if q < p]
            later = [u for q, u in sorted(near) if q > p]
            self.passed[v] = earlier, later

    def wanted(self) -> list[tuple[Family, Family]]:
        """The families of all moves, each with the current one of its child."""
        out = []
        for v, directions in self.passed.items():
            for direction in directions:
                own = self.current[v]
                for u in direction:
                    own = toggled(own, (u,))
                    out.append((own, self.current[v]))
                    out.append((toggled(self.current[u], (v,)), self.current[u]))
        return out

    def moves(self, rows: Callable[[Family], np.ndarray], keep_rows: bool = False):
        """Each distinct move with its gain.

        Yields
        ------
        Move
            Where a variable passes one that is no candidate of it, the order is equivalent, and
            only the shortest move is given.
        """
        for v, directions in self.passed.items():
            p, base = self.place[v], rows(self.current[v])
            for direction in directions:
                own, others = self.current[v], np.zeros(len(base))
                for u in direction:
                    own = toggled(own, (u,))
                    others += rows(toggled(self.current[u], (v,)))
                    others -= rows(self.current[u])
                    gained = others + rows(own) - base
                    gain, se = _mean(gained)
                    kept = gained if keep_rows else None
                    yield Move(p, p + 1, self.place[u], gain, se, kept)

    def predicted_blocks(self, mean: Callable[[Family], float], longest: int) -> list[Move]:
        """Moves of blocks of two to ``longest`` neighbours, the best by prediction first.

        Each pair of a block's variable and a passed one is taken to change a score as it does
        alone, but for the variable's own set, which is that of its move beyond the block.
        """
        d, place = len(self.order), self.place
        own, other = np.zeros((d, d)), np.zeros((d, d))
        for v, directions in self.passed.items():
            for direction in directions:
                family, lost = self.current[v], mean(self.current[v])
                for u in direction:
                    family = toggled(family, (u,))
                    now = mean(family)
                    own[place[v], place[u]], lost = now - lost, now
                    other[place[v], place[u]] = mean(toggled(self.current[u], (v,)))
                    other[place[v], place[u]] -= mean(self.current[u])
        both = own + other
        out = []
        for size in range(2, min(longest, d - 1) + 1):
            for start in range(d - size + 1):
                gains = both[start : start + size].sum(axis=0)
                later, earlier = start + size, start - 1
                total = 0.0
                for q in range(later, d):
                    total += gains[q]
                    out.append(Move(start, start + size, q - size + 1, total, np.nan))
                total = 0.0
                for q in range(earlier, -1, -1):
                    total += gains[q]
                    out.append(Move(start, start + size, q, total, np.nan))
        return sorted(out, key=lambda move: (-move.gain, move.start, move.stop, move.to))


def descend(
    scores: LocalScores,
    state: SearchState,
    rules: SearchRules,
    after_round: Callable[[], None] = lambda: None,
) -> None:
    """Improve an order, ``state.order`` in place, until no move counts: see the module.

    Parameters
    ----------
    scores : LocalScores
        What is fitted already is used.
    state : SearchState
        Where to start or to go on.
    rules : SearchRules
    after_round : callable
        Called after each round, when the search could go on from ``state`` and ``scores``.
    """
    while not state.done and state.rounds < rules.max_rounds:
        _round(scores, state, rules)
        after_round()


def perturbed(order: list[int], moved: int, random: np.random.Generator) -> list[int]:
    """Some variables, at random, taken out and inserted at random places; all: a random order."""
    out = list(order)
    for v in random.permutation(len(order))[:moved].tolist():
        out.remove(v)
        out.insert(int(random.integers(len(out) + 1)), v)
    return out


def fit_order(scores: LocalScores, order: list[int], candidates: np.ndarray) -> None:
    """Fit the families of an order, each from the fitted one that differs least from it."""
    near: dict[int, list[Family]] = {}
    for family in scores.networks:
        near.setdefault(family[0], []).append(family)
    wanted = []
    for j, family in families(order, candidates).items():
        parents = set(family[1])
        origin = min(
            near.get(j, ()), key=lambda other: (len(parents ^ set(other[1])), other), default=None
        )
        wanted.append((family, origin))
    scores.fit(wanted)


def total(scores: LocalScores, order: list[int], candidates: np.ndarray) -> np.ndarray:
    """The order's score, row by row: float64 (m,)."""
    rows = [scores[family].rows for family in families(order, candidates).values()]
    return np.sum(rows, axis=0, dtype=np.float64)


def _round(scores, state, rules) -> None:
    fitted, candidates = scores.fits, state.candidates
    fit_order(scores, state.order, candidates)
    around = Neighbourhood(state.order, candidates, rules.reach)
    wanted = around.wanted()
    changed = {origin for family, origin in wanted if family not in scores.networks}
    # As long as what they are compared with.
    scores.fit(wanted, again=sorted(changed))
    before = _mean(total(scores, state.order, candidates))[0]
    moves = _disjoint(_counting(around.moves(lambda family: scores[family].rows), rules))
    if not moves and rules.block > 1:
        moves = _block_moves(scores, around, candidates, rules)
    for move in moves:
        state.order = move.apply(state.order)
    needed = {family for family, _ in wanted} | set(around.current.values())
    needed |= set(families(state.order, candidates).values())
    scores.keep(family for family in scores.networks if family in needed)
    state.done = not moves
    state.history.append(
        {
            "search": state.search,
            "round": state.rounds + 1,
            "score": before,
            "fitted": scores.fits - fitted,
            "moves": len(moves),
            "gain": float(sum(move.gain for move in moves)),
        }
    )


def _block_moves(scores, around, candidates, rules) -> list[Move]:
    def mean(family):
        return scores[family].score

    tried = around.predicted_blocks(mean, rules.block)[: rules.tried_blocks]
    after = [families(move.apply(around.order), candidates) for move in tried]
    changed = [
        [(new[j], around.current[j]) for j in around.order if new[j] != around.current[j]]
        for new in after
    ]
    scores.fit([pair for pairs in changed for pair in pairs])
    moves = []
    for move, pairs in zip(tried, changed, strict=True):
        if not pairs:
            continue
        gained = np.zeros(len(scores[pairs[0][0]].rows))
        for new, old in pairs:
            gained += scores[new].rows
            gained -= scores[old].rows
        moves.append(Move(move.start, move.stop, move.to, *_mean(gained)))
    return _disjoint(_counting(moves, rules))


def _counting(moves, rules: SearchRules) -> list[Move]:
    return [m for m in moves if m.gain >= rules.min_gain and m.gain > rules.min_z * m.se]


def _disjoint(moves: list[Move]) -> list[Move]:
    used, out = [], []
    for move in sorted(moves, key=lambda move: (-move.gain, move.start, move.to)):
        low, high = move.interval
        if all(high < a or b < low for a, b in used):
            used.append((low, high))
            out.append(move)
    return out


def _mean(rows: np.ndarray) -> tuple[float, float]:
    return float(rows.mean()), float(rows.std(ddof=1) / np.sqrt(len(rows)))
