"""How sure each direction of a graph is: what its two ends lose if an edge is turned round.

For any variables i and j and any set A of others,

    p(x_i | x_A) p(x_j | x_A, x_i) = p(x_j | x_A) p(x_i | x_A, x_j),

so if the networks could fit any density, no data would tell one direction from the other. They
cannot: their mean is a smooth function and their noise normal, which the effect of a cause is, and
a cause given its effect in general is not. The *reversal* of an edge i -> j is what is lost on rows
by which nothing was chosen,

    S(i, A) + S(j, A + i) - S(j, A) - S(i, A + j),

with A the parents of i and j that do not come after i. Both sides have equally many parents, so
that the noise of fitting favours neither. It is zero for linear mechanisms with normal noise, where
interventions alone tell directions, and near zero for weak effects. A search may still prefer one
order there, because a wrong one needs more edges or by chance; what it found is then not a property
of the distribution's factors.
"""

from collections.abc import Mapping
from graphlib import TopologicalSorter

from sdcd.estimator.local_scores import Family, LocalScores, difference


def turned(graph: Mapping[int, Family]) -> dict[tuple[int, int], tuple[Family, ...]]:
    """For each edge (i, j) the families (i, A), (j, A + i), (j, A), (i, A + j): see the module."""
    below = descendants(graph)
    out = {}
    for j, (_, parents) in graph.items():
        for i in parents:
            A = (set(parents) | set(graph[i][1])) - {i} - below[i]
            out[i, j] = (
                (i, tuple(sorted(A))),
                (j, tuple(sorted(A | {i}))),
                (j, tuple(sorted(A))),
                (i, tuple(sorted(A | {j}))),
            )
    return out


def descendants(graph: Mapping[int, Family]) -> dict[int, set[int]]:
    """Of each variable of a DAG."""
    parents = {j: family[1] for j, family in graph.items()}
    below: dict[int, set[int]] = {j: set() for j in graph}
    for j in reversed(list(TopologicalSorter(parents).static_order())):
        for i in parents[j]:
            below[i] |= {j} | below[j]
    return below


def reversals(
    scores: LocalScores, graph: Mapping[int, Family]
) -> dict[tuple[int, int], tuple[float, float]]:
    """The reversal of each edge in nats per judged row, and its standard error.

    Parameters
    ----------
    scores : LocalScores
        With the graph's families fitted.
    graph : mapping
        Of each variable its family; a DAG.
    """
    wanted = turned(graph)
    # From one and the same network of each end, for as long: a short time is long enough to tell.
    families = {family for four in wanted.values() for family in four}
    scores.fit(((family, graph[family[0]]) for family in sorted(families)), rough=True)
    out = {}
    for edge, (cause, effect, first, second) in wanted.items():
        kept = scores.judged(cause) + scores.judged(effect)
        out[edge] = difference(kept, scores.judged(first) + scores.judged(second))
    return out
