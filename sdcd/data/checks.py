"""What data must be for a fit, whichever way they come in: a file, or arrays from Python."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from sdcd.errors import DataError, InputError

MIN_ROWS = 10
"""Fewer rows than this say nothing about any method's parameters."""

_BLOCK_COLUMNS = 64


def dense_values(X: object, what: str = "X") -> np.ndarray:
    """Values (n, d) as a float32 array of finite numbers, two columns or more.

    Parameters
    ----------
    X : array-like or scipy sparse (n, d)
        Numbers. A masked array must have nothing masked.
    what : str
        What messages call it.

    Raises
    ------
    DataError
        If it is something else, or a value is masked, missing, infinite or beyond float32.
    """
    if isinstance(X, np.ma.MaskedArray):
        masked = np.argwhere(np.ma.getmaskarray(X))
        if len(masked):
            at = f"row {masked[0][0]}, column {masked[0][1]}" if X.ndim == 2 else "a value"
            raise DataError(
                f"{what}: {at} is masked ({len(masked)} in all), expected a value everywhere"
            )
        X = X.data
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        X = X.toarray()
    X = np.asarray(X)
    if X.ndim != 2 or X.shape[1] < 2 or X.dtype.kind not in "fiub":
        raise DataError(
            f"{what} is {X.dtype} of shape {X.shape}, expected numbers (n, d) with two columns or "
            "more"
        )
    with np.errstate(over="ignore"):
        own = np.ascontiguousarray(X, dtype=np.float32)
    finite = np.isfinite(own)
    if not finite.all():
        row, column = (int(i) for i in np.argwhere(~finite)[0])
        raise DataError(
            f"{what}: row {row}, column {column} is {X[row, column]}, expected finite values in "
            "the range of float32"
        )
    return own


def intervention_mask(intervened: object, shape: tuple[int, int]) -> np.ndarray | None:
    """Which values were set by an intervention, bool (n, d); ``None`` if none was.

    Raises
    ------
    DataError
        If it is not a mask of booleans of that shape.
    """
    if intervened is None:
        return None
    if hasattr(intervened, "toarray") and hasattr(intervened, "nnz"):
        intervened = intervened.toarray()
    if isinstance(intervened, np.ma.MaskedArray) and np.ma.getmaskarray(intervened).any():
        raise DataError("intervened: some entries are masked, expected a value everywhere")
    intervened = np.asarray(intervened)
    if intervened.shape != shape or intervened.dtype != bool:
        raise DataError(
            f"intervened is {intervened.dtype} of shape {intervened.shape}, expected bool {shape}"
        )
    return np.ascontiguousarray(intervened) if intervened.any() else None


def check_fittable(
    names: Sequence[str] | None, X: np.ndarray, intervened: np.ndarray | None
) -> None:
    """Refuse data from which no method can learn.

    Parameters
    ----------
    names : sequence of d str or None
        For messages; without them columns are counted from 0.
    X : float (n, d)
        Finite values.
    intervened : bool (n, d) or None
        Which values an intervention set.

    Raises
    ------
    DataError
        If there are fewer rows than :data:`MIN_ROWS`, a variable is intervened on in every row,
        columns are constant (all of them are named), or two are identical.
    """

    def name(j: int) -> str:
        return str(j) if names is None else repr(names[j])

    n = len(X)
    if n < MIN_ROWS:
        raise DataError(f"{n} rows, expected at least {MIN_ROWS}")
    if intervened is not None:
        always = np.flatnonzero(intervened.all(axis=0))
        if always.size:
            raise DataError(
                f"column {name(always[0])}: all {n} rows are perturbed, expected some that are not"
            )
    constant = constant_columns(X)
    if constant:
        value = f"{X[0, constant[0]]:g}"
        if len(constant) == 1:
            which = f"column {name(constant[0])}: constant, {value} in all {n} rows"
        else:
            listed = listing([name(j) for j in constant])
            which = f"{len(constant)} constant columns: {listed} (the first {value} in all rows)"
        way_out = "" if names is None else " (--drop-constant leaves such columns out)"
        raise DataError(f"{which}, expected values that vary{way_out}")
    seen: dict[bytes, int] = {}
    for j, column in _columns(X):
        # Adding zero makes -0.0 and 0.0 the same bytes.
        digest = hashlib.blake2b((column + 0).tobytes(), digest_size=16).digest()
        if digest in seen:
            raise DataError(
                f"columns {name(seen[digest])} and {name(j)} are identical in all {n} rows, "
                "expected distinct variables"
            )
        seen[digest] = j


def constant_columns(X: np.ndarray) -> list[int]:
    """Which columns (n, d) hold one value only."""
    return [j for j, column in _columns(X) if column.min() == column.max()]


def nearly_constant_columns(X: np.ndarray, fewest: int) -> list[int]:
    """Which columns differ from their median in fewer than ``fewest`` rows, but in some."""
    found = []
    for j, column in _columns(X):
        middle = np.partition(column, len(column) // 2)[len(column) // 2]
        if 0 < np.count_nonzero(column != middle) < fewest:
            found.append(j)
    return found


def check_cells(path: Path, names: Sequence[str], X: np.ndarray, row: Callable[[int], str]) -> None:
    """Refuse a table with missing and infinite values, and values beyond the range of float32.

    Parameters
    ----------
    path : Path
        The table, for the message.
    names : sequence of d str
        Of the columns.
    X : (n, d)
        The values; only floating-point ones can be missing.
    row : callable
        Names a row as a person finds it in the file.

    Raises
    ------
    InputError
        For the first such cell.
    """
    if X.dtype.kind != "f":
        return
    for start in range(0, len(X), 1024):
        block = X[start : start + 1024]
        # NaN fails the comparison too.
        wrong = ~(np.abs(block) <= np.finfo(np.float32).max)
        if wrong.any():
            r, j = np.argwhere(wrong)[0]
            found = "missing value" if np.isnan(block[r, j]) else f"{block[r, j]}"
            raise InputError(
                f"{path}: {row(start + r)}, column {names[j]!r}: {found}, expected a finite number"
                " in the range of float32"
            )


def standardised(X: np.ndarray) -> np.ndarray:
    """Columns with mean 0 and standard deviation 1 (ddof 1) over all rows, float32 (n, d)."""
    mean, sd = scale_of(X)
    return scaled(X, mean, sd)


def scale_of(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (ddof 1) of each column: float64 (d,), (d,)."""
    mean, sd = np.empty(X.shape[1]), np.empty(X.shape[1])
    for start in range(0, X.shape[1], _BLOCK_COLUMNS):
        columns = slice(start, start + _BLOCK_COLUMNS)
        block = X[:, columns].astype(np.float64)
        mean[columns], sd[columns] = block.mean(axis=0), block.std(axis=0, ddof=1)
    return mean, sd


def scaled(X: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """``(X - mean) / sd`` by column: float32 (n, d)."""
    Z = np.empty(X.shape, dtype=np.float32)
    for start in range(0, X.shape[1], _BLOCK_COLUMNS):
        columns = slice(start, start + _BLOCK_COLUMNS)
        Z[:, columns] = (X[:, columns].astype(np.float64) - mean[columns]) / sd[columns]
    return Z


def listing(words: Sequence[str], most: int = 10) -> str:
    """Words for a message: the first of them, and how many there are beyond."""
    more = f", and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def _columns(X: np.ndarray):
    for start in range(0, X.shape[1], _BLOCK_COLUMNS):
        block = np.ascontiguousarray(X[:, start : start + _BLOCK_COLUMNS].T)
        yield from enumerate(block, start=start)
