"""Greedy interventional equivalence search (Hauser and Bühlmann 2012) on bit sets, compiled.

A graph on d variables is a pair of bit matrices ``out, into``, uint64 (d, words) each, with bit j
of ``out[i]`` and bit i of ``into[j]`` set where ``A[i, j] != 0``: i -> j, or i - j if also
``A[j, i] != 0``. So the undirected neighbours of i are ``out[i] & into[i]``, its parents
``into[i] & ~out[i]``, and all that are adjacent to it ``out[i] | into[i]``.

Operators
---------
An operator is a pair (x, y) and a set C of neighbours of y that become parents of y. With
``na = ne(y) & adj(x)``,

* insert x -> y: C is ``na`` and any neighbours of y not adjacent to x; it is valid if C is a clique
  and every semi-directed path from y to x meets C.
* delete the edge of x and y: C is any part of ``na``; valid if C is a clique.
* turn y -> x: C as for an insertion; valid if C is a clique and every semi-directed path from y to
  x, other than the edge, meets C or a neighbour of x.
* turn x - y: C is any set of neighbours of y, other than x, of which one at least is not adjacent
  to x; valid if C is a clique that x and y separate from the rest of ``na`` in y's chain component.

Whether all paths meet a set is a search that does not enter the set: linear in the edges, where the
number of paths may be exponential.

Search
------
For every pair the best gain over its cliques is kept, without the condition on paths: an upper
bound that changes only where parents, neighbours or adjacencies of the pair change. A step takes
pairs in the order of their bounds and checks the paths, until one that has been checked is the
best. Of equal gains counts the pair that comes first row by row in the adjacency matrix (of y, x
for turns; directed edges before undirected ones for deletions), then the set that comes first when
the operator's own set (what an insertion adds to ``na``, what a deletion takes from it, C for turns
of x - y) counts up as a binary number whose first digit is the first variable.

Everything compiled is in this one file because numba's cache on disk notices changes of no other.
"""

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from sdcd.compiled import compiled

LEAST_GAIN = 0.001
"""A phase ends when no operator gains more."""

TOLERANCE = 1e-12
"""Share of a variance that counts as none: float32 values leave 1e-14."""

FORWARD, BACKWARD, TURNING = np.arange(3)

_FULLEST = 0.6
_ONE = np.uint64(1)
_NONE = np.uint64(0)

# Numba compiles a function anew for every literal that it is called with, but not for these.
_FIRST = np.int64(0)
_NOBODY = np.int64(-1)


_jit = compiled(nogil=True, error_model="numpy")
_jit_sums = compiled(nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})


class Scores(NamedTuple):
    """Local scores: what they are computed from, the known ones, and the last regression.

    Attributes
    ----------
    cov : float64 (groups, d, d)
        Covariances; variables that the same rows leave alone share one.
    group : int64 (d,)
        Which covariance is a variable's.
    rows : float64 (d,)
        Rows in it.
    penalty : float
        Per parent, and for the variance.
    keys : uint64 (capacity, words)
        Sets of parents in a hash table with open addressing; capacity is a power of 2.
    owner : int32 (capacity,)
        1 + the variable whose parents they are; 0: free.
    values : float64 (capacity,)
        The scores.
    counts : int64 (3,)
        Entries in use; scores computed; 1 + a variable that its parents determine, or 0.
    held : int64 (2,)
        Variable and number of parents of the regression below; variable -1: none.
    base : uint64 (words,)
        Its parents.
    order : int64 (d,)
        The same, ascending.
    L, inverse, z : float64 (d, d), (d,), (d,)
        Cholesky factor of the parents' covariance, 1 / its diagonal, and the variable's covariances
        with the parents divided by it.
    rest : float64 (2,)
        Variance left, and score.
    """

    cov: np.ndarray
    group: np.ndarray
    rows: np.ndarray
    penalty: float
    keys: np.ndarray
    owner: np.ndarray
    values: np.ndarray
    counts: np.ndarray
    held: np.ndarray
    base: np.ndarray
    order: np.ndarray
    L: np.ndarray
    inverse: np.ndarray
    z: np.ndarray
    rest: np.ndarray


class Work(NamedTuple):
    """Sets in use while operators are enumerated: uint64 (d + 2, words) and (words,)."""

    clique: np.ndarray
    offered: np.ndarray
    waiting: np.ndarray
    best: np.ndarray
    base: np.ndarray
    near: np.ndarray
    front: np.ndarray
    closed: np.ndarray


def search(
    cov: np.ndarray, group: np.ndarray, rows: np.ndarray, penalty: float, separated: np.ndarray
) -> tuple[np.ndarray, float, dict]:
    """Run the forward, backward and turning phase from the empty graph until none gains.

    Parameters
    ----------
    cov : float64 (groups, d, d)
        Covariances within regimes, pooled over the rows that leave a variable alone.
    group : int64 (d,)
        Which of them is a variable's.
    rows : float64 (d,)
        Number of its rows.
    penalty : float
        Subtracted per parent, and once for a variable's variance.
    separated : bool (d, d)
        Whether some target holds exactly one of two variables, which directs their edge.

    Returns
    -------
    A : bool (d, d)
        The essential graph; i - j as both entries.
    total : float
        Its score.
    counts : dict
        ``steps`` taken, local ``scores`` computed, and ``determined``: a variable of which a set of
        parents leaves no variance, so that the search ended early, or -1.
    """
    d = len(group)
    words = (d + 63) // 64
    capacity = 1 << min(20, int(64 * d * d).bit_length())
    scores = Scores(
        cov=np.ascontiguousarray(cov, dtype=np.float64),
        group=np.ascontiguousarray(group, dtype=np.int64),
        rows=np.ascontiguousarray(rows, dtype=np.float64),
        penalty=float(penalty),
        keys=np.zeros((capacity, words), np.uint64),
        owner=np.zeros(capacity, np.int32),
        values=np.zeros(capacity),
        counts=np.zeros(3, np.int64),
        held=np.full(2, -1, np.int64),
        base=np.zeros(words, np.uint64),
        order=np.zeros(d, np.int64),
        L=np.zeros((d, d)),
        inverse=np.zeros(d),
        z=np.zeros(d),
        rest=np.zeros(2),
    )
    deep = [np.zeros((d + 2, words), np.uint64) for _ in range(3)]
    flat = [np.zeros(words, np.uint64) for _ in range(5)]
    out = np.zeros((d, words), np.uint64)
    into = np.zeros((d, words), np.uint64)
    total, steps = _search(scores, Work(*deep, *flat), out, into, _packed(separated))
    bits = np.arange(d)
    A = (out[:, bits // 64] >> (bits % 64).astype(np.uint64)) & _ONE != 0
    _, computed, determined = scores.counts.tolist()
    return A, total, {"steps": steps, "scores": computed, "determined": determined - 1}


def warm_up() -> None:
    """Compile the search, or load it from numba's cache."""
    search(np.eye(2)[None], np.zeros(2, np.int64), np.ones(2), 1.0, np.zeros((2, 2), bool))


def _packed(matrix: np.ndarray) -> np.ndarray:
    d = len(matrix)
    bits = np.zeros((d, (d + 63) // 64 * 64), np.uint8)
    bits[:, :d] = matrix
    return np.packbits(bits, axis=1, bitorder="little").view("<u8").astype(np.uint64)


# Bits -------------------------------------------------------------------------------------------


@intrinsic
def _leading_zeros(typingctx, word):
    """Zeros above the highest bit of a uint64 that is not 0."""

    def generate(context, builder, signature, args):
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@intrinsic
def _trailing_zeros(typingctx, word):
    """Zeros below the lowest bit of a uint64 that is not 0."""

    def generate(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@_jit
def _bit(i):
    return _ONE << np.uint64(i & 63)


@_jit
def _has(matrix, i, j):
    return matrix[i, j >> 6] & _bit(j) != _NONE


@_jit
def _member(members, i):
    return members[i >> 6] & _bit(i) != _NONE


@_jit
def _connect(out, into, i, j):
    out[i, j >> 6] |= _bit(j)
    into[j, i >> 6] |= _bit(i)


@_jit
def _disconnect(out, into, i, j):
    out[i, j >> 6] &= ~_bit(j)
    into[j, i >> 6] &= ~_bit(i)


@_jit
def _take_first(members):
    """Remove and return the least member; -1 if there is none."""
    for w in range(len(members)):
        if members[w] != _NONE:
            at = _trailing_zeros(members[w])
            members[w] &= members[w] - _ONE
            return 64 * w + at
    return -1


# Local scores -----------------------------------------------------------------------------------


@_jit
def _place(scores, y, parents, x):
    """Where the score of y with these parents and x (if not -1) is in the table, or belongs."""
    mask = np.uint64(len(scores.owner) - 1)
    h = np.uint64(y + 1) * np.uint64(0x9E3779B97F4A7C15)
    for w in range(len(parents)):
        word = parents[w]
        if x >= 0 and x >> 6 == w:
            word |= _bit(x)
        h = (h ^ word) * np.uint64(0xD6E8FEB86659FD93)
        h ^= h >> np.uint64(32)
    at = np.int64(h & mask)
    while scores.owner[at] != 0:
        if scores.owner[at] == y + 1:
            same = True
            for w in range(len(parents)):
                word = parents[w]
                if x >= 0 and x >> 6 == w:
                    word |= _bit(x)
                same = same and scores.keys[at, w] == word
            if same:
                return at
        at = (at + 1) & np.int64(mask)
    return at


@_jit
def _keep(scores, at, y, parents, x, value):
    for w in range(len(parents)):
        scores.keys[at, w] = parents[w]
    if x >= 0:
        scores.keys[at, x >> 6] |= _bit(x)
    scores.owner[at] = y + 1
    scores.values[at] = value
    scores.counts[0] += 1
    scores.counts[1] += 1


@_jit
def _likelihood(scores, y, variance, n_parents):
    if not variance > TOLERANCE * scores.cov[scores.group[y], y, y]:
        scores.counts[2] = y + 1
        return -np.inf
    fit = -0.5 * scores.rows[y] * (1.0 + np.log(variance))
    return fit - scores.penalty * (n_parents + 1)


@_jit_sums
def _dot(a, i, b, j, n):
    total = 0.0
    for m in range(n):
        total += a[i, m] * b[j, m]
    return total


@_jit_sums
def _dot_vector(a, i, b, n):
    total = 0.0
    for m in range(n):
        total += a[i, m] * b[m]
    return total


@_jit
def _holds(scores, y, parents):
    if scores.held[0] != y:
        return False
    return np.all(scores.base == parents)


@_jit_sums
def _regress(scores, y, parents):
    """Factorise the covariance of these parents of y, unless that was done last."""
    if _holds(scores, y, parents):
        return
    S = scores.cov[scores.group[y]]
    L = scores.L
    k = 0
    for w in range(len(parents)):
        scores.base[w] = parents[w]
        word = parents[w]
        while word != _NONE:
            scores.order[k] = 64 * w + _trailing_zeros(word)
            word &= word - _ONE
            k += 1
    variance = S[y, y]
    for r in range(k):
        i = scores.order[r]
        for c in range(r):
            L[r, c] = (S[i, scores.order[c]] - _dot(L, r, L, c, c)) * scores.inverse[c]
        pivot = S[i, i] - _dot(L, r, L, r, r)
        # A parent that the others determine explains nothing more.
        known = not pivot > TOLERANCE * S[i, i]
        scores.inverse[r] = 0.0 if known else 1.0 / np.sqrt(pivot)
        z = (S[i, y] - _dot_vector(L, r, scores.z, r)) * scores.inverse[r]
        scores.z[r] = z
        variance -= z * z
    scores.held[0] = y
    scores.held[1] = k
    scores.rest[0] = variance
    scores.rest[1] = _likelihood(scores, y, variance, k)


@_jit_sums
def _with_one_more(scores, y, x):
    """Score of y with the parents of the last regression, which was y's, and x."""
    S = scores.cov[scores.group[y]]
    k = scores.held[1]
    # The next row of L is free.
    L = scores.L
    for c in range(k):
        L[k, c] = (S[x, scores.order[c]] - _dot(L, k, L, c, c)) * scores.inverse[c]
    pivot = S[x, x] - _dot(L, k, L, k, k)
    variance = scores.rest[0]
    if pivot > TOLERANCE * S[x, x]:
        partial = S[x, y] - _dot_vector(L, k, scores.z, k)
        variance -= partial * partial / pivot
    return _likelihood(scores, y, variance, k + 1)


@_jit
def _gain(scores, y, base, x):
    """Local score of y with parents base and x, less that without x."""
    if scores.counts[0] > _FULLEST * len(scores.owner):
        scores.owner[:] = 0
        scores.counts[0] = 0
    at = _place(scores, y, base, x)
    known = scores.owner[at] != 0
    held = _holds(scores, y, base)
    if held:
        without = scores.rest[1]
    else:
        at_base = _place(scores, y, base, _NOBODY)
        base_known = scores.owner[at_base] != 0
        if base_known:
            without = scores.values[at_base]
        if not (known and base_known):
            _regress(scores, y, base)
            without = scores.rest[1]
        if not base_known:
            _keep(scores, at_base, y, base, _NOBODY, without)
    if known:
        return scores.values[at] - without
    value = _with_one_more(scores, y, x)
    # The base may have taken the place.
    while scores.owner[at] != 0:
        at = (at + 1) & (len(scores.owner) - 1)
    _keep(scores, at, y, base, x, value)
    return value - without


# Cliques and paths ------------------------------------------------------------------------------


@_jit
def _is_clique(out, into, members):
    words = len(members)
    for w in range(words):
        left = members[w]
        while left != _NONE:
            i = 64 * w + _trailing_zeros(left)
            left &= left - _ONE
            for u in range(words):
                others = members[u]
                if u == w:
                    others &= ~_bit(i)
                if others & ~(out[i, u] | into[i, u]) != _NONE:
                    return False
    return True


@_jit
def _first_clique(work, out, into):
    """Level 0: ``clique[0]`` and what may join it, ``offered[0]`` less what is not adjacent."""
    words = len(work.base)
    for w in range(words):
        left = work.clique[0, w]
        while left != _NONE:
            i = 64 * w + _trailing_zeros(left)
            left &= left - _ONE
            for u in range(words):
                work.offered[0, u] &= out[i, u] | into[i, u]
    for w in range(words):
        work.waiting[0, w] = work.offered[0, w]


@_jit
def _next_clique(work, out, into, level):
    """Level of the next clique, -1 after the last, counting up with the first variable leading."""
    words = len(work.base)
    while level >= 0:
        i = -1
        for w in range(words - 1, -1, -1):
            if work.waiting[level, w] != _NONE:
                i = 64 * w + 63 - _leading_zeros(work.waiting[level, w])
                work.waiting[level, w] &= ~_bit(i)
                break
        if i < 0:
            level -= 1
            continue
        for w in range(words):
            after = work.offered[level, w] & ~work.waiting[level, w]
            after &= out[i, w] | into[i, w]
            work.clique[level + 1, w] = work.clique[level, w]
            work.offered[level + 1, w] = after
            work.waiting[level + 1, w] = after
        work.clique[level + 1, i >> 6] |= _bit(i)
        return level + 1
    return -1


@_jit
def _walk(out, front, closed, x):
    """Whether some path from ``front`` reaches x without entering ``closed``; changes both."""
    words = len(front)
    for w in range(words):
        closed[w] |= front[w]
    while True:
        i = _take_first(front)
        if i < 0:
            return False
        if _has(out, i, x):
            return True
        for w in range(words):
            new = out[i, w] & ~closed[w]
            front[w] |= new
            closed[w] |= new


@_jit
def _open_path(work, out, into, y, x, level, past_neighbours):
    """Whether a semi-directed path from y to x, not the edge, avoids the clique (and ne(x))."""
    words = len(work.base)
    for w in range(words):
        work.closed[w] = work.clique[level, w]
        if past_neighbours:
            work.closed[w] |= out[x, w] & into[x, w]
    work.closed[y >> 6] |= _bit(y)
    work.closed[x >> 6] |= _bit(x)
    for w in range(words):
        work.front[w] = out[y, w] & ~work.closed[w]
    return _walk(out, work.front, work.closed, x)


@_jit
def _component(out, into, y, members, front):
    """Fill ``members`` with y's chain component."""
    words = len(members)
    for w in range(words):
        members[w] = _NONE
        front[w] = _NONE
    members[y >> 6] = _bit(y)
    front[y >> 6] = _bit(y)
    while True:
        i = _take_first(front)
        if i < 0:
            return
        for w in range(words):
            new = out[i, w] & into[i, w] & ~members[w]
            members[w] |= new
            front[w] |= new


@_jit
def _joined(work, out, into, x, y, level):
    """Whether a path in y's component joins the clique and the rest of ``near`` past x and y."""
    words = len(work.base)
    _component(out, into, y, work.closed, work.front)
    work.closed[x >> 6] &= ~_bit(x)
    work.closed[y >> 6] &= ~_bit(y)
    for w in range(words):
        # From now on ``closed`` is the complement: what may still be entered.
        work.front[w] = work.clique[level, w]
        work.closed[w] &= ~work.clique[level, w]
    while True:
        i = _take_first(work.front)
        if i < 0:
            return False
        for w in range(words):
            new = out[i, w] & work.closed[w]
            if new & work.near[w] != _NONE:
                return True
            work.front[w] |= new
            work.closed[w] &= ~new


# Best operator of a pair ------------------------------------------------------------------------


@_jit
def _base(work, out, into, y, level):
    """The parents of y and the clique."""
    for w in range(len(work.base)):
        work.base[w] = (into[y, w] & ~out[y, w]) | work.clique[level, w]


@_jit
def _best_arrow(scores, work, out, into, x, y, turned, check):
    """Insert x -> y, or turn y -> x."""
    words = len(work.base)
    for w in range(words):
        near = out[y, w] & into[y, w]
        adjacent = out[x, w] | into[x, w]
        work.clique[0, w] = near & adjacent
        work.offered[0, w] = near & ~adjacent
    best = -np.inf
    if not _is_clique(out, into, work.clique[0]):
        return best
    lost = 0.0
    if turned:
        for w in range(words):
            work.base[w] = into[x, w] & ~out[x, w]
        work.base[y >> 6] &= ~_bit(y)
        lost = _gain(scores, x, work.base, y)
    _first_clique(work, out, into)
    level = _FIRST
    while level >= 0:
        if not (check and _open_path(work, out, into, y, x, level, turned)):
            _base(work, out, into, y, level)
            gain = _gain(scores, y, work.base, x) - lost
            if gain > best:
                best = gain
                work.best[:] = work.clique[level]
        level = _next_clique(work, out, into, level)
    return best


@_jit
def _best_deletion(scores, work, out, into, x, y):
    for w in range(len(work.base)):
        work.clique[0, w] = _NONE
        work.offered[0, w] = out[y, w] & into[y, w] & (out[x, w] | into[x, w])
    _first_clique(work, out, into)
    best = -np.inf
    level = _FIRST
    while level >= 0:
        _base(work, out, into, y, level)
        work.base[x >> 6] &= ~_bit(x)
        gain = -_gain(scores, y, work.base, x)
        # What is taken from the common neighbours counts up when what is left counts down.
        if gain >= best:
            best = gain
            work.best[:] = work.clique[level]
        level = _next_clique(work, out, into, level)
    return best


@_jit
def _best_direction(scores, work, out, into, x, y, check):
    """Turn x - y."""
    words = len(work.base)
    strangers = _NONE
    for w in range(words):
        near = out[y, w] & into[y, w]
        if w == x >> 6:
            near &= ~_bit(x)
        strangers |= near & ~(out[x, w] | into[x, w])
        work.clique[0, w] = _NONE
        work.offered[0, w] = near
    best = -np.inf
    if strangers == _NONE:
        return best
    _first_clique(work, out, into)
    level = _FIRST
    while level >= 0:
        strangers = _NONE
        for w in range(words):
            adjacent = out[x, w] | into[x, w]
            strangers |= work.clique[level, w] & ~adjacent
            work.near[w] = out[y, w] & into[y, w] & adjacent & ~work.clique[level, w]
        if strangers != _NONE and not (check and _joined(work, out, into, x, y, level)):
            _base(work, out, into, y, level)
            gain = _gain(scores, y, work.base, x)
            for w in range(words):
                shared = work.clique[level, w] & (out[x, w] | into[x, w])
                work.base[w] = (into[x, w] & ~out[x, w]) | shared
            gain -= _gain(scores, x, work.base, y)
            if gain > best:
                best = gain
                work.best[:] = work.clique[level]
        level = _next_clique(work, out, into, level)
    return best


@_jit
def _pair(phase, row, column, d):
    """The pair of an entry: rows of x, y of turns, and of undirected edges after all d others."""
    if phase == TURNING:
        return column, row
    return row % d, column


@_jit
def _best(scores, work, out, into, phase, row, column, check):
    """Greatest gain of this phase's operators on a pair, -inf if it has none; sets ``best``."""
    d = len(out)
    x, y = _pair(phase, row, column, d)
    forth = _has(out, x, y)
    back = _has(out, y, x)
    if phase == BACKWARD:
        if not forth or back != (row >= d) or (back and x < y):
            return -np.inf
        return _best_deletion(scores, work, out, into, x, y)
    if row >= d or x == y or (phase == FORWARD and (forth or back)):
        return -np.inf
    if phase == TURNING and not back:
        return -np.inf
    if forth:
        return _best_direction(scores, work, out, into, x, y, check)
    return _best_arrow(scores, work, out, into, x, y, back, check)


# Applying an operator ---------------------------------------------------------------------------


@_jit
def _orient_component(out, into, old_out, old_into, nodes, n):
    """Direct a component's edges along the maximum cardinality search that starts as ``nodes``."""
    words = out.shape[1]
    weight = np.zeros(n, np.int64)
    component = np.zeros(words, np.uint64)
    for k in range(n):
        component[nodes[k] >> 6] |= _bit(nodes[k])
    for _ in range(n):
        chosen = -1
        for k in range(n):
            if weight[k] >= 0 and (chosen < 0 or weight[k] > weight[chosen]):
                chosen = k
        i = nodes[chosen]
        weight[chosen] = -1
        for k in range(n):
            j = nodes[k]
            if weight[k] >= 0 and _has(old_out, i, j) and _has(old_into, i, j):
                weight[k] += 1
        for w in range(words):
            later = out[i, w] & component[w]
            while later != _NONE:
                j = 64 * w + _trailing_zeros(later)
                later &= later - _ONE
                _disconnect(out, into, j, i)


@_jit
def _apply(work, out, into, old_out, old_into, phase, x, y):
    """Apply the operator (x, y, ``work.best``) to ``out, into``; the old graph is a copy of it."""
    d, words = out.shape
    undirected = _has(old_out, x, y) and _has(old_out, y, x)
    nodes = np.empty(d, np.int64)
    members = np.zeros(words, np.uint64)
    front = np.zeros(words, np.uint64)
    if phase == TURNING and not undirected:
        _component(old_out, old_into, x, members, front)
        members[x >> 6] &= ~_bit(x)
        nodes[0] = x
        n = _FIRST + 1
        while True:
            i = _take_first(members)
            if i < 0:
                break
            nodes[n] = i
            n += 1
        _orient_component(out, into, old_out, old_into, nodes, n)
    _component(old_out, old_into, y, members, front)
    n = 0
    for i in range(d):
        if _member(work.best, i):
            nodes[n] = i
            n += 1
    if undirected and phase == BACKWARD:
        nodes[n] = x
        n += 1
    nodes[n] = y
    n += 1
    if undirected and phase == TURNING:
        nodes[n] = x
        n += 1
    for k in range(n):
        members[nodes[k] >> 6] &= ~_bit(nodes[k])
    while True:
        i = _take_first(members)
        if i < 0:
            break
        nodes[n] = i
        n += 1
    _orient_component(out, into, old_out, old_into, nodes, n)
    _disconnect(out, into, y, x)
    if phase == BACKWARD:
        _disconnect(out, into, x, y)
    else:
        _connect(out, into, x, y)


@_jit
def _protected(out, into, separated, a, b):
    """Whether a -> b is strongly protected: Definition 14 of Hauser and Bühlmann."""
    words = out.shape[1]
    if _has(separated, a, b):
        return True
    for w in range(words):
        # c -> a, c and b not adjacent.
        if into[a, w] & ~out[a, w] & ~(out[b, w] | into[b, w]) != _NONE:
            return True
        others = into[b, w] & ~out[b, w]
        if w == a >> 6:
            others &= ~_bit(a)
        # c -> b with c and a not adjacent, or a -> c -> b.
        if others & ~into[a, w] != _NONE:
            return True
    # c - a - e, c -> b <- e, and no edge c - e.
    for w in range(words):
        left = into[b, w] & ~out[b, w] & out[a, w] & into[a, w]
        while left != _NONE:
            c = 64 * w + _trailing_zeros(left)
            left &= left - _ONE
            for u in range(words):
                both = into[b, u] & ~out[b, u] & out[a, u] & into[a, u] & ~(out[c, u] & into[c, u])
                if u == c >> 6:
                    both &= ~_bit(c)
                if both != _NONE:
                    return True
    return False


@_jit
def _essential(out, into, separated):
    """Undirect edges that are not strongly protected, sweep by sweep, until all are."""
    d = len(out)
    start = np.empty(d * d, np.int64)
    end = np.empty(d * d, np.int64)
    n = 0
    for a in range(d):
        for b in range(d):
            if _has(out, a, b) and not _has(out, b, a):
                start[n] = a
                end[n] = b
                n += 1
    while True:
        kept = 0
        for k in range(n):
            if _protected(out, into, separated, start[k], end[k]):
                start[kept] = start[k]
                end[kept] = end[k]
                kept += 1
            else:
                _connect(out, into, end[k], start[k])
        if kept == n:
            return
        n = kept


# The search -------------------------------------------------------------------------------------


@_jit
def _best_of_row(gains, row):
    best = 0
    for column in range(1, gains.shape[1]):
        if gains[row, column] > gains[row, best]:
            best = column
    return best


@_jit
def _select(scores, work, out, into, phase, stale, bounds, gains, checked, leaders):
    """Row and column of the best valid operator, or (-1, -1) if none gains ``LEAST_GAIN``.

    First renews the ``stale`` bounds. Then ``gains`` are bounds, or where ``checked`` the gains of
    valid operators, and ``leaders`` the column of each row's greatest.
    """
    rows, d = bounds.shape
    at = 0
    started = False
    while True:
        while at < bounds.size and not stale[at // d, at % d]:
            at += 1
        check = at == bounds.size
        if not check:
            row = at // d
            column = at % d
            stale[row, column] = False
        else:
            if not started:
                started = True
                gains[:] = bounds
                checked[:] = False
                for each in range(rows):
                    leaders[each] = _best_of_row(gains, each)
            row = 0
            for each in range(1, rows):
                if gains[each, leaders[each]] > gains[row, leaders[row]]:
                    row = each
            column = leaders[row]
            if not gains[row, column] > LEAST_GAIN:
                return -1, -1
        # The only call, because everything that it calls is compiled into each.
        gain = _best(scores, work, out, into, phase, row, column, check)
        if not check:
            bounds[row, column] = gain
        elif checked[row, column] or gain == gains[row, column]:
            return row, column
        else:
            gains[row, column] = gain
            checked[row, column] = True
            leaders[row] = _best_of_row(gains, row)


@_jit
def _mark_stale(out, into, old_out, old_into, phase, x, y, stale):
    """Mark the bounds that a step on (x, y) may have changed."""
    d, words = out.shape
    moved = phase != TURNING
    dirty = np.zeros(d, np.bool_)
    parents = np.zeros(d, np.bool_)
    for i in range(d):
        for w in range(words):
            near = out[i, w] & into[i, w]
            if into[i, w] != old_into[i, w] or near != old_out[i, w] & old_into[i, w]:
                dirty[i] = True
            if into[i, w] & ~out[i, w] != old_into[i, w] & ~old_out[i, w]:
                parents[i] = True
        # An edge among the neighbours of i, or no longer.
        if moved and _has(out, i, x) and _has(into, i, x) and _has(out, i, y) and _has(into, i, y):
            dirty[i] = True
    for row in range(len(stale)):
        for column in range(d):
            u, v = _pair(phase, row, column, d)
            if dirty[v] or (moved and u in (x, y)) or (not moved and parents[u]):
                stale[row, column] = True


@_jit
def _search(scores, work, out, into, separated):
    d = len(out)
    total = 0.0
    for y in range(d):
        _regress(scores, y, work.base)
        total += scores.rest[1]
    steps = _FIRST
    leaders = np.zeros(2 * d, np.int64)
    bounds = np.empty((2 * d, d))
    gains = np.empty((2 * d, d))
    stale = np.empty((2 * d, d), np.bool_)
    checked = np.empty((2 * d, d), np.bool_)
    phase = FORWARD
    before = _FIRST
    while scores.counts[2] == 0:
        stale[:] = True
        while True:
            row, column = _select(
                scores, work, out, into, phase, stale, bounds, gains, checked, leaders
            )
            if row < 0 or scores.counts[2] != 0:
                break
            x, y = _pair(phase, row, column, d)
            total += gains[row, column]
            steps += 1
            old_out = out.copy()
            old_into = into.copy()
            _apply(work, out, into, old_out, old_into, phase, x, y)
            _essential(out, into, separated)
            _mark_stale(out, into, old_out, old_into, phase, x, y, stale)
        if phase == TURNING:
            if steps == before:
                break
            before = steps
        phase = (phase + 1) % 3
    return total, steps
