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
loses by dropping each useless parent what it would not lose had it never had it. So the parents of
low loss are judged together: of the sets without the 1, 2, 4, ... weakest, all fitted from the
random start, the one of the shortest description stays,

    S(j, Pa) - |Pa| price(n_j)   largest.

(3) The parents that are left are judged by fits without each; the weakest that fails goes, together
with those far below the price, and the child's others that were near it are judged anew until none
fails.
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
        Multiple of the least gain below which parents are *contested*: see :func:`_renewed`.
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
) -> dict[int, Family]:
    """Parents of each variable: see the module.

    Parameters
    ----------
    scores : LocalScores
        Fits and judges.
    order : list of int
        A parent comes before its child.
    least : float64 (d,)
        Least gain of an edge into each variable.
    rules : GraphRules
    known : dict, optional
        Of families of all predecessors what was found for them before; what is found is added.
        Only variables whose predecessors are others than ever before are judged anew.

    Returns
    -------
    dict
        For each variable its family. If it is not from ``known``, it is fitted, and so is the
        family without each parent.
    """
    least = rules.price * least
    known = {} if known is None else known
    whole = {j: (j, tuple(sorted(order[:place]))) for place, j in enumerate(order)}
    current = {j: family for j, family in whole.items() if family not in known}
    scores.fit([], anew=list(current.values()))
    current = _screened(scores, current, rules.screened * least)
    current = _renewed(scores, current, least, rules)
    current = _judged(scores, current, least, rules)
    known.update((whole[j], family) for j, family in current.items())
    return {j: known[whole[j]] for j in order}


def _judged(scores, current, least, rules) -> dict[int, Family]:
    """Drop parents that fail by fits without each: see the module, step 3.

    After one is dropped only those are judged again whose gain was near the least one.
    """
    current = dict(current)
    doubtful = {j: set(family[1]) for j, family in current.items() if family[1]}
    while doubtful:
        scores.fit(
            [(without(current[j], i), current[j]) for j in doubtful for i in sorted(doubtful[j])],
            again=[current[j] for j in doubtful],
        )
        again = {}
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
                again[j] = near
        doubtful = again
    # The gains of all that are left, given each other.
    scores.fit((without(family, i), family) for family in current.values() for i in family[1])
    return current


def _renewed(scores, current, least, rules) -> dict[int, Family]:
    """Of each family and what is left of it without its weakest parents, the shortest description.

    Fitted from the random start: a network that was fitted with parents that do not matter leans on
    them, and loses by dropping each what it would not lose had it never had them.
    """
    choices = {j: _nested(scores, family, rules.nested * least[j]) for j, family in current.items()}
    scores.fit([], anew=[family for sets in choices.values() if len(sets) > 1 for family in sets])
    return {
        j: max(sets, key=lambda family, j=j: scores[family].score - len(family[1]) * least[j])
        for j, sets in choices.items()
    }


def _nested(scores: LocalScores, family: Family, bound: float) -> list[Family]:
    """The family, and it without its 1, 2, 4, ... parents of least loss below the bound."""
    if not family[1]:
        return [family]
    losses = scores.losses_without(family)
    ascending = [k for k in np.argsort(losses, kind="stable") if losses[k] < bound]
    sizes, more = [0], 1
    while more < len(ascending):
        sizes.append(more)
        more *= 2
    if ascending:
        sizes.append(len(ascending))
    return [
        (family[0], tuple(np.delete(np.array(family[1]), ascending[:size]).tolist()))
        for size in sizes
    ]


def without(family: Family, parent: int) -> Family:
    """The family less one parent."""
    child, parents = family
    return child, tuple(i for i in parents if i != parent)


def _screened(scores, current, bound) -> dict[int, Family]:
    """Drop parents whose loss is below ``bound``, at most half of a child's at a time."""
    current = dict(current)
    open_children = [j for j, family in current.items() if family[1]]
    while open_children:
        wanted = []
        for j in open_children:
            family = current[j]
            losses = scores.losses_without(family)
            small = np.flatnonzero(losses < bound[j])
            at_most = max(1, -(-len(losses) // 2))
            dropped = small[np.argsort(losses[small], kind="stable")][:at_most]
            if len(dropped):
                kept = np.delete(np.array(family[1]), dropped)
                wanted.append(((j, tuple(kept.tolist())), family))
        scores.fit(wanted)
        for family, _ in wanted:
            current[family[0]] = family
        open_children = [family[0] for family, _ in wanted if family[1]]
    return current
