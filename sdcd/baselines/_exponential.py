"""The constraint ``tr exp(P) - d`` for small non-negative matrices in float32 or float64."""

import numpy as np

from sdcd.compiled import compiled

_DEGREE = 16
_COEFFICIENTS = 1 / np.cumprod(np.concatenate([[1.0], np.arange(1.0, _DEGREE + 1)]))


@compiled()
def expm(A):
    """Exponential of a matrix with non-negative entries, in the matrix' own precision.

    The Taylor polynomial of degree 16 of A / 2^k, squared k times. No terms cancel, so rounding
    errors stay relative; the truncation error is below 1e-8 in float32 and 1e-16 in float64.
    Entries that overflow become infinite or NaN.

    Parameters
    ----------
    A : float32 or float64 (d, d), C-contiguous

    Returns
    -------
    (d, d), of the same dtype
    """
    d = len(A)
    radius = 2.5 if A.itemsize == 4 else 0.5
    norm = 0.0
    for i in range(d):
        row = 0.0
        for j in range(d):
            row += A[i, j]
        norm = max(norm, row)
    squarings = 0
    while norm > radius and squarings < 64:
        norm /= 2
        squarings += 1
    scale = A.dtype.type(0.5**squarings)
    A1 = A * scale
    A2 = np.dot(A1, A1)
    A3 = np.dot(A2, A1)
    A4 = np.dot(A2, A2)
    one = A.dtype.type(1)
    total = A4 * A.dtype.type(_COEFFICIENTS[_DEGREE])
    for block in range(_DEGREE // 4 - 1, -1, -1):
        if block < _DEGREE // 4 - 1:
            total = np.dot(total, A4)
        c0 = A.dtype.type(_COEFFICIENTS[4 * block])
        c1 = A.dtype.type(_COEFFICIENTS[4 * block + 1])
        c2 = A.dtype.type(_COEFFICIENTS[4 * block + 2])
        c3 = A.dtype.type(_COEFFICIENTS[4 * block + 3])
        for i in range(d):
            for j in range(d):
                total[i, j] += c1 * A1[i, j] + c2 * A2[i, j] + c3 * A3[i, j]
            total[i, i] += c0 * one
    for _ in range(squarings):
        total = np.dot(total, total)
    return total


def exponential_constraint(P: np.ndarray) -> tuple[np.floating, np.ndarray]:
    """``tr exp(P) - d`` and its gradient ``exp(P)^T``, in P's own precision.

    The subtraction is done last, in that precision: in float32 the value of a nearly acyclic P
    rounds to zero or to a unit in the last place of d, which is how the authors' runs saw it.
    """
    E = expm(P)
    real = P.dtype.type
    with np.errstate(over="ignore"):
        return real(np.trace(E, dtype=np.float64)) - real(len(P)), E.T
