"""The graph of a causal order: which predecessors of a variable help to predict it.

Backward, from all predecessors. A parent's gain is what the score of its child loses when the
network is fitted without it (:mod:`sdcd.estimator.local_scores`), the others being there. It stays
if the gain pays for its description and is not within reach of chance:

    gain >= price(n_j),   gain > min_z * standard error,     price(n) = (h / 2) log(n) / n.

The price is that of a minimum description length: a parent adds h weights to a network with h
hidden units, each of which costs half the log of the number of rows, spread over the n_j rows that
do not intervene on the child. It falls with the rows, from 0.12 nats at 500 to 0.009 at 10,000
(h = 20).

Three steps. (1) What a parent's weights do to the score where nothing else is changed is cheap, and
bounds its gain from above (a fit without it can make up for it): parents that are far below the
price by it are dropped many at a time. (2) A network leans on whatever it was fitted with, and
loses by dropping each useless parent what it would not lose had it never had it. So the parents
of low loss are judged together: of the sets with the 0, 1, 2, 4, ... strongest of them, all fitted
from the random start, the one of the shortest description stays,

    S(j, Pa) - |Pa| price(n_j)   largest,

in short fits as long as more are better, then in whole fits of the two best, unless one of them is
worse by the price of two parents.

(3) The parents that are left are judged by fits without each; the weakest that fails goes, together
with those far below the price, and the child's others that were near it are judged anew until none
fails.

Parents that are *required* stay whatever they gain, and those that are not *allowed* are none.
"""

from dataclasses import dataclass

import numpy as np

from sdcd.estimator.local_scores import Family, LocalScores, difference


@dataclass(frozen=True)
class GraphRules:
    """When an edge stays.

    Attributes
    ----------
    min_z : float
        Standard errors by which its gain must exceed zero.
    price : float
        Least gain, in units of the description length above.
    screened : float
        Part of the least gain below which parents are dropped without a fit.
    nested : float
        Multiple of the least gain below which parents are of low loss: see the module, step 2.
    """

    min_z: float = 2.0
    price: float = 1.0
    screened: float = 0.25
    nested: float = 5.0


def least_gains(n: np.ndarray, hidden: int) -> np.ndarray:
    """Description length of a parent in nats per row, for children with ``n`` rows."""
    n = np.maximum(np.asarray(n, dtype=np.float64), 2)
    return hidden / 2 * np.log(n) / n


def graph_of_order(
    scores: LocalScores,
    order: list[int],
    least: np.ndarray,
    rules: GraphRules,
    known: dict[Family, Family] | None = None,
    allowed: np.ndarray | None = None,
    required: np.ndarray | None = None,
) -> dict[int, Family]:
    """Parents of each variable: see the module.

    Parameters
    ----------
    scores : LocalScores
        Fits and judges.
    order : list of int
        A parent comes before its child.
    least : float64 (d,)
        Description length of an edge into each variable: its least gain where the price is 1.
    rules : GraphRules
    known : dict, optional
        Of families of all predecessors what was found for them before; what is found is added.
        Only variables whose predecessors are others than ever before are judged anew.
    allowed, required : bool (d, d), optional
        Where i may be, and where it must be, a parent of j; the order complies. Default: anywhere,
        and nowhere.

    Returns
    -------
    dict
        For each variable its family; if it is not from ``known``, it is fitted.
    """
    least = rules.price * least
    known = {} if known is None else known
    if required is None:
        required = np.zeros((len(order),) * 2, dtype=bool)
    whole = {
        j: (j, tuple(i for i in sorted(order[:place]) if allowed is None or allowed[i, j]))
        for place, j in enumerate(order)
    }
    current = {j: family for j, family in whole.items() if family not in known}
    scores.fit([], anew=list(current.values()), rough=True)
    current = _screened(scores, current, rules.screened * least, required)
    current = _renewed(scores, current, least, rules, required)
    current = _judged(scores, current, least, rules, required)
    known.update((whole[j], family) for j, family in current.items())
    return {j: known[whole[j]] for j in order}


def _judged(scores, current, least, rules, required) -> dict[int, Family]:
    """Drop parents that fail by fits without each: see the module, step 3.

    Short fits without each tell who is in doubt. After one is dropped only those are judged again
    whose gain was near the least one.
    """
    current = dict(current)
    pairs = [(j, i) for j, family in current.items() for i in family[1] if not required[i, j]]
    scores.fit(((without(current[j], i), current[j]) for j, i in pairs), rough=True)
    doubtful: dict[int, set[int]] = {}
    for j, i in pairs:
        gain = scores[current[j]].score - scores[without(current[j], i)].score
        if gain < rules.nested * least[j]:
            doubtful.setdefault(j, set()).add(i)
    while doubtful:
        wanted = [(without(current[j], i), current[j]) for j in doubtful for i in doubtful[j]]
        there = [family for family, _ in wanted if family in scores.networks]
        again = [current[j] for j in doubtful] + there
        scores.fit(sorted(wanted), again=sorted(again))
        near_the_least = {}
        for j, parents in doubtful.items():
            rows = scores[current[j]].rows
            gains, fails = {}, []
            for i in sorted(parents):
                gain, se = difference(rows, scores[without(current[j], i)].rows)
                gains[i] = gain
                if not (gain >= least[j] and gain > rules.min_z * se):
                    fails.append((gain, i))
            if not fails:
                continue
            dropped = {i for gain, i in fails if gain < rules.screened * least[j]}
            dropped.add(min(fails)[1])
            origin = without(current[j], min(fails)[1])
            current[j] = (j, tuple(i for i in current[j][1] if i not in dropped))
            scores.fit([(current[j], origin)])
            near = {i for i in parents - dropped if gains[i] < rules.nested * least[j]}
            if near:
                near_the_least[j] = near
        doubtful = near_the_least
    return current


def _renewed(scores, current, least, rules, required) -> dict[int, Family]:
    """Of each family with more or fewer of its weakest parents, the shortest description.

    Fitted from the random start: a network that was fitted with parents that do not matter leans on
    them, and loses by dropping each what it would not lose had it never had them.
    """

    def length(family):
        return len(family[1]) * least[family[0]] - scores[family].score

    choices = {
        j: _nested(scores, family, rules.nested * least[j], required[:, j])
        for j, family in current.items()
    }
    tried = {j: sets[:3] for j, sets in choices.items()}
    new = [family for sets in tried.values() if len(sets) > 1 for family in sets]
    while new:
        scores.fit([], anew=new, rough=True)
        new = []
        for j, sets in choices.items():
            more = sets[len(tried[j]) : len(tried[j]) + 1]
            if more and length(tried[j][-1]) <= min(map(length, tried[j])):
                tried[j] = [*tried[j], *more]
                new += more
    best = {}
    for j, sets in tried.items():
        first, *others = sorted(sets, key=length) if len(sets) > 1 else sets
        best[j] = [first, *(f for f in others[:1] if length(f) - length(first) < 2 * least[j])]
    scores.fit([], anew=[family for sets in best.values() for family in sets])
    return {j: min(sets, key=length) for j, sets in best.items()}


def _nested(scores: LocalScores, family: Family, bound: float, required) -> list[Family]:
    """The family with the 0, 1, 2, 4, ... strongest, then all, of its parents of low loss."""
    child, parents = family
    if not parents:
        return [family]
    losses = scores.losses_without(family)
    ascending = [
        k
        for k in np.argsort(losses, kind="stable").tolist()
        if losses[k] < bound and not required[parents[k]]
    ]
    sizes = [0]
    while sizes[-1] < len(ascending):
        sizes.append(min(max(1, 2 * sizes[-1]), len(ascending)))
    return [
        (child, tuple(np.delete(np.array(parents), ascending[: len(ascending) - size]).tolist()))
        for size in sizes
    ]


def without(family: Family, parent: int) -> Family:
    """The family less one parent."""
    child, parents = family
    return child, tuple(i for i in parents if i != parent)


def _screened(scores, current, bound, required) -> dict[int, Family]:
    """Drop parents whose loss is below ``bound``, at most half of a child's at a time."""
    current = dict(current)
    open_children = [j for j, family in current.items() if family[1]]
    while open_children:
        wanted = []
        for j in open_children:
            family = current[j]
            losses = scores.losses_without(family)
            small = np.flatnonzero((losses < bound[j]) & ~required[list(family[1]), j])
            at_most = max(1, -(-len(losses) // 2))
            dropped = small[np.argsort(losses[small], kind="stable")][:at_most]
            if len(dropped):
                kept = np.delete(np.array(family[1]), dropped)
                wanted.append(((j, tuple(kept.tolist())), family))
        scores.fit(wanted, rough=True)
        for family, _ in wanted:
            current[family[0]] = family
        open_children = [family[0] for family, _ in wanted if family[1]]
    return current
