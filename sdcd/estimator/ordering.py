"""Search over causal orders by held-out scores.

Given data, find an order o of the d variables in which causes come before their effects. Where
mechanisms are nonlinear with additive noise, the distribution determines such an order, and no
other is as likely. So, with the local score S(j, Pa) of :mod:`sdcd.estimator.local_scores` (mean
held-out log density of j's network given parents Pa), the search maximises

    S(o) = sum_j S(j, pred(j) & C(j))

where pred(j) are the variables before j in o, and C(j) its *candidates*: what may be a parent of j
at all. Where i is one of j's, j is one of i's, so that an edge can be turned round, unless it is
known beforehand that it may not be. What *must* come before what is known beforehand as well.

*Moves.* Take v out of the order and insert it at another place. That changes v's own set, and adds
v to, or takes it from, the sets of the variables passed. So the d (d - 1) moves need at most 2 d^2
distinct families, which are fitted together, each from the current network of its child: all moves
are scored exactly in one batch. Most of them lose far more than longer fits could make up for, so
the batch is fitted for a short time, and for the whole time only the families of moves that then
lose less than ``margin``, and of the best ``tried``; where none of these counts, those that lose
less than ``last_margin`` get as short a fit again first. A move *counts* if its mean gain over rows
is at least ``min_gain`` and more than ``min_z`` standard errors. The best one is made, then the
best of those whose interval of places is disjoint from the intervals used already: their gains add
exactly. Rounds go on until no move counts.

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
    max_rounds : int or None
        Rounds of one search, at most; None: 50, or d / 4 if that is more.
    block : int
        Longest block that is moved; 1: single variables only.
    tried : int
        Moves that are fitted for the whole time whatever a short fit says, the best by it; and
        block moves that are fitted when no single move is left, the best by prediction.
    reach : int or None
        Places that a move may pass, at most; None: any number.
    margin, last_margin : float
        Nats per row that a move may lose after a short fit and still be fitted longer; the second:
        and still be fitted as short again, where otherwise no move counts.
    """

    min_gain: float = 0.01
    min_z: float = 2.0
    max_rounds: int | None = None
    block: int = 3
    tried: int = 20
    reach: int | None = None
    margin: float = 0.05
    last_margin: float = 0.5


@dataclass(frozen=True)
class Move:
    """The block of places ``start`` to ``stop - 1`` goes to where its first is at ``to``."""

    start: int
    stop: int
    to: int
    gain: float
    se: float

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
    candidates : bool (d, d)
        ``candidates[i, j]``: i may be a parent of j.
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
    candidates : bool (d, d)
        As :attr:`SearchState.candidates`.
    reach : int or None
        See :class:`SearchRules`.
    precedes : bool (d, d) or None
        Where i has to come before j; transitive, and the order complies.
    """

    def __init__(
        self,
        order: list[int],
        candidates: np.ndarray,
        reach: int | None = None,
        precedes: np.ndarray | None = None,
    ):
        self.order, self.candidates = order, candidates
        self.place = {v: p for p, v in enumerate(order)}
        self.current = families(order, candidates)
        self.precedes = precedes if precedes is not None and precedes.any() else None
        reach = len(order) if reach is None else reach
        either = candidates | candidates.T
        # For each variable and direction: the candidates passed, nearest first.
        self.passed: dict[int, tuple[list[int], list[int]]] = {}
        for v in order:
            p = self.place[v]
            near = [
                (q, u)
                for u in np.flatnonzero(either[:, v]).tolist()
                if abs((q := self.place[u]) - p) <= reach
            ]
            earlier = [u for q, u in sorted(near, reverse=True) if q < p]
            later = [u for q, u in sorted(near) if q > p]
            if self.precedes is not None:
                earlier = self._until(earlier, self.precedes[:, v], order[:p][::-1])
                later = self._until(later, self.precedes[v], order[p + 1 :])
            self.passed[v] = earlier, later

    def _until(self, passed: list[int], stops: np.ndarray, others: list[int]) -> list[int]:
        """Of the candidates those before the first variable that may not be passed."""
        stop = next((u for u in others if stops[u]), None)
        if stop is None:
            return passed
        limit = others.index(stop)
        return [u for u in passed if others.index(u) < limit]

    def _across(self, v: int, u: int) -> Family:
        """The passed one's family after v has passed it."""
        family = self.current[u]
        return toggled(family, (v,)) if self.candidates[v, u] else family

    def _own(self, family: Family, u: int) -> Family:
        """The moved one's family after it has passed u as well."""
        return toggled(family, (u,)) if self.candidates[u, family[0]] else family

    def wanted(self) -> list[tuple[Family, Family]]:
        """The families of all moves, each with the current one of its child."""
        out = []
        for v, directions in self.passed.items():
            for direction in directions:
                own = self.current[v]
                for u in direction:
                    own = self._own(own, u)
                    out.append((own, self.current[v]))
                    out.append((self._across(v, u), self.current[u]))
        return out

    def changed(self, move: Move) -> list[tuple[Family, Family]]:
        """Families after a move that are others than now, each with that of now."""
        new = families(move.apply(self.order), self.candidates)
        low, high = move.interval
        return [
            (new[j], self.current[j])
            for j in self.order[low : high + 1]
            if new[j] != self.current[j]
        ]

    def moves(self, rows: Callable[[Family], np.ndarray]):
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
                    own = self._own(own, u)
                    across = self._across(v, u)
                    if across != self.current[u]:
                        others += rows(across)
                        others -= rows(self.current[u])
                    yield Move(p, p + 1, self.place[u], *_mean(others + rows(own) - base))

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
                    family = self._own(family, u)
                    now = mean(family)
                    own[place[v], place[u]], lost = now - lost, now
                    other[place[v], place[u]] = mean(self._across(v, u))
                    other[place[v], place[u]] -= mean(self.current[u])
        both = own + other
        kept = np.zeros((d, d), dtype=bool)
        if self.precedes is not None:
            kept = self.precedes[np.ix_(self.order, self.order)]
            kept = kept | kept.T
        out = []
        for size in range(2, min(longest, d - 1) + 1):
            for start in range(d - size + 1):
                gains = both[start : start + size].sum(axis=0)
                later, earlier = start + size, start - 1
                total = 0.0
                for q in range(later, d):
                    if kept[start:later, q].any():
                        break
                    total += gains[q]
                    out.append(Move(start, start + size, q - size + 1, total, np.nan))
                total = 0.0
                for q in range(earlier, -1, -1):
                    if kept[start:later, q].any():
                        break
                    total += gains[q]
                    out.append(Move(start, start + size, q, total, np.nan))
        return sorted(out, key=lambda move: (-move.gain, move.start, move.stop, move.to))


def descend(
    scores: LocalScores,
    state: SearchState,
    rules: SearchRules,
    after_round: Callable[[], None] = lambda: None,
    precedes: np.ndarray | None = None,
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
    precedes : bool (d, d) or None
        See :class:`Neighbourhood`.
    """
    limit = max(50, len(state.order) // 4) if rules.max_rounds is None else rules.max_rounds
    while not state.done and state.rounds < limit:
        _round(scores, state, rules, precedes)
        after_round()


def perturbed(order: list[int], moved: int, random: np.random.Generator) -> list[int]:
    """Some variables, at random, taken out and inserted at random places; all: a random order."""
    out = list(order)
    for v in random.permutation(len(order))[:moved].tolist():
        out.remove(v)
        out.insert(int(random.integers(len(out) + 1)), v)
    return out


def complying(order: list[int], precedes: np.ndarray) -> list[int]:
    """The order in which each variable waits for all that have to precede it; else as it was."""
    left, out = list(order), []
    while left:
        v = next(v for v in left if not precedes[left, v].any())
        left.remove(v)
        out.append(v)
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


def _round(scores, state, rules, precedes) -> None:
    fitted, candidates = scores.fits, state.candidates
    fit_order(scores, state.order, candidates)
    around = Neighbourhood(state.order, candidates, rules.reach, precedes)
    wanted = around.wanted()
    changed = {origin for family, origin in wanted if family not in scores.networks}
    # As long as what they are compared with.
    scores.fit(wanted, again=sorted(changed), rough=True)
    before = _mean(total(scores, state.order, candidates))[0]

    def rows(family):
        return scores[family].rows

    def counting():
        single = sorted(around.moves(rows), key=lambda m: (-m.gain, m.start, m.to))
        promising = [m for k, m in enumerate(single) if k < rules.tried or m.gain > -rules.margin]
        _fit_longer(scores, around, promising)
        found = _counting(around.moves(rows), rules)
        return _disjoint([move for move in found if _whole(scores, around, move)])

    moves = counting()
    if not moves:
        possible = [move for move in around.moves(rows) if move.gain > -rules.last_margin]
        _fit_longer(scores, around, possible, rough=True)
        moves = counting()
    if not moves and rules.block > 1:
        moves = _block_moves(scores, around, rules)
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


def _fit_longer(
    scores: LocalScores, around: Neighbourhood, moves: list[Move], rough: bool = False
) -> None:
    """Fit the families of these moves for longer, and what they are compared with.

    For the whole time, unless ``rough``; those that were fitted for the whole time stay.
    """
    again = set()
    for move in moves:
        for new, old in around.changed(move):
            if scores[new].rough:
                again |= {new, old}
    scores.fit([], again=sorted(again), rough=rough)


def _whole(scores: LocalScores, around: Neighbourhood, move: Move) -> bool:
    """Whether all that a move changes was fitted for the whole time."""
    return not any(scores[new].rough for new, _ in around.changed(move))


def _block_moves(scores, around, rules) -> list[Move]:
    def mean(family):
        return scores[family].score

    def gained(move):
        rows = [scores[new].rows - scores[old].rows for new, old in around.changed(move)]
        return _mean(np.sum(rows, axis=0, dtype=np.float64))

    tried = around.predicted_blocks(mean, rules.block)[: rules.tried]
    tried = [move for move in tried if around.changed(move)]
    wanted = [pair for move in tried for pair in around.changed(move)]
    scores.fit(wanted, rough=True)
    tried = [move for move in tried if gained(move)[0] > -rules.margin]
    _fit_longer(scores, around, tried)
    return _disjoint(_counting((Move(m.start, m.stop, m.to, *gained(m)) for m in tried), rules))


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
