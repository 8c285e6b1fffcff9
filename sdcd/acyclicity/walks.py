"""Sums over the walks of a weighted graph, computed without a single subtraction.

The power-series constraints are traces of sums over walks, ``sum_k a_k A^k``, from which textbook
formulas subtract d at the end: of a cycle of length 15 with weight 0.1, ``trace(expm(A)) - d`` has
no correct digit (its value is 1e-26). Here the identity is never added in the first place. What
remains are sums and products of non-negative numbers, which keep every entry accurate to a small
*relative* error whatever its size, and exactly zero where the graph has no walk.

Numbers too large for float64 become ``inf``, without warnings.
"""

import numpy as np

LEAF = 32
"""Size below which :func:`all_walks` eliminates node by node."""


def product(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Matrix product of non-negative matrices in which ``inf * 0`` is 0.

    An ``inf`` here stands for a number too large to write down, so it times nothing is nothing.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        XY = X @ Y
        if np.isfinite(XY.sum()):
            return XY
        infinite_X, infinite_Y = np.isinf(X), np.isinf(Y)
        XY = np.where(infinite_X, 0.0, X) @ np.where(infinite_Y, 0.0, Y)
    overflow = infinite_X.astype(float) @ (Y > 0) + (X > 0).astype(float) @ infinite_Y
    XY[overflow > 0] = np.inf
    return XY


def exponential(A: np.ndarray, *, every_entry: bool = True) -> np.ndarray:
    """``exp(A) - I = sum_{k >= 1} A^k / k!`` of a non-negative matrix.

    Parameters
    ----------
    A : float64 (d, d)
        Non-negative.
    every_entry : bool
        If true, each entry is accurate relative to itself; if false, only relative to the largest,
        at about half the cost.

    Notes
    -----
    Scaling and squaring on E = exp - I: ``E(2X) = 2 E(X) + E(X)^2``, from a Taylor polynomial of
    degree 16 in ``X = A / 2^q``. Squaring q times multiplies the coefficient of A^k in the exact
    series by the probability that none of 2^q bins gets more than 16 of k balls. With 2^q >= 2 d it
    is one, to float64's precision, for all k <= d: the longest walk that an entry can depend on.
    """
    d = len(A)
    norm = min(A.sum(axis=0).max(), A.sum(axis=1).max()) if d else 0.0
    bins = max(norm, 2.0 * d) if every_entry else norm
    squarings = max(0, int(np.ceil(np.log2(bins)))) if bins > 0 else 0
    X = np.ldexp(A, -squarings)
    X2 = product(X, X)
    X3 = product(X2, X)
    X4 = product(X2, X2)

    # Paterson and Stockmeyer: 1/4! + X/5! + ... + X^12/16!, three products.
    diagonal = np.arange(d)
    E = X4 / _FACTORIAL[16]
    for k in (12, 8, 4):
        E += X / _FACTORIAL[k + 1] + X2 / _FACTORIAL[k + 2] + X3 / _FACTORIAL[k + 3]
        E[diagonal, diagonal] += 1 / _FACTORIAL[k]
        E = product(X4, E)
    E += X + X2 / 2 + X3 / 6
    for _ in range(squarings):
        squared = product(E, E)
        with np.errstate(over="ignore"):
            E = squared + 2 * E
    return E


def power(A: np.ndarray, exponent: int) -> np.ndarray:
    """``(I + A)^exponent - I`` of a non-negative matrix, by repeated squaring.

    With ``B_m = (I + A)^m - I``: ``B_2m = 2 B_m + B_m^2`` and ``B_(m+1) = A + B_m + A B_m``.
    """
    B = np.zeros_like(A)
    with np.errstate(over="ignore"):
        for bit in f"{exponent:b}":
            B = product(B, B) + 2 * B
            if bit == "1":
                B = product(A, B) + B + A
    return B


class Diverges(ArithmeticError):
    """The sum over all walks is infinite: the spectral radius is not below one."""


def all_walks(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``(I - A)^-1 - I = sum_{k >= 1} A^k``, and the pivots of the elimination that gives it.

    Parameters
    ----------
    A : float64 (d, d)
        Non-negative.

    Returns
    -------
    walks : float64 (d, d)
        Total weight of all walks from i to j.
    pivots : float64 (d,)
        ``pivots[k]`` is the total weight of the closed walks that leave k, pass only through nodes
        before k, and end at their first return to k. ``det(I - A) = prod(1 - pivots)``.

    Raises
    ------
    Diverges
        If and only if a pivot is not below one, which is so if and only if the spectral radius of A
        is not below one (I - A is a nonsingular M-matrix if and only if its leading principal
        minors are positive).

    Notes
    -----
    Kleene's elimination of nodes, in blocks: O(d^3), mostly in matrix products.
    """
    d = len(A)
    if d <= LEAF:
        return _eliminate(A)
    h = d // 2
    first, pivots_first = all_walks(A[:h, :h])
    into = A[:h, h:] + product(first, A[:h, h:])  # walks through the first half, then an edge out
    second, pivots_second = all_walks(A[h:, h:] + product(A[h:, :h], into))
    back = A[h:, :h] + product(A[h:, :h], first)
    walks = np.empty_like(A)
    walks[h:, h:] = second
    walks[h:, :h] = back + product(second, back)
    walks[:h, h:] = into + product(into, second)
    walks[:h, :h] = first + product(into, walks[h:, :h])
    return walks, np.concatenate((pivots_first, pivots_second))


def _eliminate(A: np.ndarray, multiply=np.multiply) -> tuple[np.ndarray, np.ndarray]:
    walks = A.copy()
    pivots = np.empty(len(A))
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(len(A)):
            pivots[k] = pivot = walks[k, k]
            if np.isnan(pivot):  # inf * 0, which only `product` knows how to take
                return _eliminate(A, product)
            if pivot >= 1:
                raise Diverges
            walks += multiply(walks[:, k, None], walks[None, k] / (1 - pivot))
    if np.isnan(walks.sum()):
        return _eliminate(A, product)
    return walks, pivots


_FACTORIAL = np.cumprod(np.concatenate(([1.0], np.arange(1.0, 17.0))))
