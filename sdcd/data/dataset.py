"""Data sets: values, which of them were set by interventions, names, and the true graph."""

import importlib
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from sdcd.errors import InputError
from sdcd.files import read_npz, write_npz


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows of d variables, as every method takes them.

    Attributes
    ----------
    X : float32 (n, d)
        Values, finite. Any real numeric array is accepted and cast.
    intervened : bool (n, d)
        ``intervened[r, j]`` is true if an intervention set variable j in row r; a row without any
        is observational. Zeros and ones are accepted and cast.
    names : tuple of d str
        Names of the variables, distinct and not empty.
    adjacency : int8 (d, d) or None
        The true graph where it is known: 1 at ``[i, j]`` means i -> j. No self-loops.

    Raises
    ------
    InputError
        If a shape, a type or a value is not as said above.
    """

    X: np.ndarray
    intervened: np.ndarray
    names: tuple[str, ...]
    adjacency: np.ndarray | None = None

    def __post_init__(self):
        if isinstance(self.X, np.ma.MaskedArray) and np.ma.getmaskarray(self.X).any():
            raise InputError("X: some values are masked, expected a value everywhere")
        X = np.asarray(self.X)
        if X.ndim != 2 or 0 in X.shape:
            raise InputError(f"X has shape {X.shape}, expected (rows, variables), neither zero")
        if X.dtype.kind not in "fiub":
            raise InputError(f"X has dtype {X.dtype}, expected real numbers")
        names = _checked_names(self.names, X.shape[1])
        _check_finite(X, names)
        with np.errstate(over="ignore"):
            X = np.ascontiguousarray(X, dtype=np.float32)
        _check_finite(X, names, "beyond the range of float32")
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "names", names)
        object.__setattr__(
            self, "intervened", _zero_one("intervened", self.intervened, X.shape, bool)
        )
        if self.adjacency is not None:
            d = X.shape[1]
            adjacency = _zero_one("adjacency", self.adjacency, (d, d), np.int8)
            if adjacency.diagonal().any():
                loop = names[int(adjacency.diagonal().argmax())]
                raise InputError(f"adjacency has a self-loop at {loop!r}, expected none")
            object.__setattr__(self, "adjacency", adjacency)

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.X.shape[0]

    @property
    def d(self) -> int:
        """Number of variables."""
        return self.X.shape[1]


def _module(name: str):
    # By name: fits read .npz files, and do not depend on how tables are read (see
    # sdcd.fits.fingerprint).
    return importlib.import_module(f"sdcd.data.{name}")


def write_dataset(path: str | Path, dataset: Dataset) -> None:
    """Write ``dataset`` as ``.npz``: arrays ``X``, ``intervened``, ``names``, ``adjacency``.

    The bytes depend on the data set alone. ``adjacency`` is left out where it is not known.
    """
    arrays = {
        "X": dataset.X,
        "intervened": dataset.intervened,
        "names": np.array(dataset.names, dtype=np.str_),
    }
    if dataset.adjacency is not None:
        arrays["adjacency"] = dataset.adjacency
    write_npz(path, **arrays)


@dataclass(frozen=True)
class Described:
    """A data set that was read, and what to say about it.

    Attributes
    ----------
    dataset : Dataset
        As a fit takes it.
    mean, sd : float64 (d,)
        What was subtracted from each column, and what it was divided by; 0 and 1 where it was taken
        as it is.
    left_out, warnings : list of str
        As in :class:`~sdcd.data.own_data.OwnTable`.
    """

    dataset: Dataset
    mean: np.ndarray
    sd: np.ndarray
    left_out: list[str]
    warnings: list[str]

    def summary(self) -> list[str]:
        """What was read, in lines for a person, after the first with rows and variables."""
        counts = self.dataset.intervened.sum(axis=0)
        order = sorted(np.flatnonzero(counts), key=lambda j: -counts[j])
        lines = []
        if order:
            words = [f"{self.dataset.names[j]} {counts[j]}" for j in order]
            lines.append(
                f"perturbed variables: {len(order)}, with rows: {_module('checks').listing(words)}"
            )
        if self.left_out:
            lines.append(f"left out: {'; '.join(self.left_out)}")
        return lines + [f"warning: {warning}" for warning in self.warnings]


def read_dataset(
    path: str | Path,
    *,
    standardise: Literal["auto", "yes", "no"] = "auto",
    **options,
) -> Dataset:
    """Read a data set: an ``.npz`` as :func:`write_dataset` writes it, or a table of one's own.

    As :func:`describe_dataset`, of which it gives the data set alone. ``options`` are the fields of
    :class:`~sdcd.data.own_data.TableOptions`; lists are taken for tuples.
    """
    given = {
        name: tuple(value) if isinstance(value, list) else value for name, value in options.items()
    }
    return describe_dataset(
        path, _module("own_data").TableOptions(**given), standardise=standardise
    ).dataset


def describe_dataset(
    path: str | Path,
    options=None,
    *,
    standardise: Literal["auto", "yes", "no"] = "auto",
) -> Described:
    """Read a data set and say what there is to say about it.

    In an ``.npz``, ``intervened`` may be absent (all rows are observational), and so may ``names``
    (``X0``, ``X1``, ...) and ``adjacency``.

    Parameters
    ----------
    path : path
        ``.npz``, or one of the formats of :mod:`sdcd.data.own_data`.
    options : sdcd.data.own_data.TableOptions, optional
        How to read a table; not for ``.npz``.
    standardise : "auto", "yes" or "no"
        Whether every column gets mean 0 and standard deviation 1 (ddof 1) over all rows. ``auto``
        does so for tables and takes an ``.npz`` as it is.

    Raises
    ------
    InputError
        If the file is missing, is not what its name says, or does not hold a data set; tables are
        further checked as :func:`sdcd.data.own_data.read_own` says.
    """
    own_data = _module("own_data")
    path, options = Path(path), options or own_data.TableOptions()
    is_npz = own_data.suffix_of(path) == ".npz"
    if is_npz:
        if options != own_data.TableOptions():
            raise InputError(
                f"{path}: {own_data.given(options)} is for tables; an .npz says in 'intervened' "
                "what was perturbed, and is taken as it is"
            )
        dataset, left_out, warnings = _read_npz(path), [], []
    else:
        own = own_data.read_own(path, options)
        left_out, warnings = own.left_out, own.warnings
        dataset = Dataset(own.X, own.intervened, own.names)
        # In the precision of the file, which a table's values can have more of than a data set's.
        exact = own.X
    if standardise == "yes" or (standardise == "auto" and not is_npz):
        exact = dataset.X if is_npz else exact
        checks = _module("checks")
        mean, sd = checks.scale_of(exact)
        if not sd.all():
            raise InputError(f"{path}: a constant column cannot be standardised")
        dataset = replace(dataset, X=checks.scaled(exact, mean, sd))
    else:
        mean, sd = np.zeros(dataset.d), np.ones(dataset.d)
    return Described(dataset, mean, sd, left_out, warnings)


def _read_npz(path: Path) -> Dataset:
    tables = _module("tables")
    tables.refuse_other_file(path, "an .npz file", besides=b"PK")
    _refuse_objects(path)
    arrays = read_npz(path)
    if "X" not in arrays:
        found = ", ".join(arrays) or "none"
        raise InputError(f"{path}: no array 'X' (arrays found: {found})")
    X = arrays["X"]
    shape = X.shape if X.ndim == 2 else (0, 0)
    try:
        return Dataset(
            X=X,
            intervened=arrays.get("intervened", np.zeros(shape, dtype=bool)),
            names=_names(arrays.get("names", [f"X{j}" for j in range(shape[1])])),
            adjacency=arrays.get("adjacency"),
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _refuse_objects(path: Path) -> None:
    """Refuse an array of Python objects, such as names, in words that say what to do."""
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                with archive.open(member) as stream:
                    np.lib.format.read_magic(stream)
                    if np.lib.format.read_array_header_1_0(stream)[2].hasobject:
                        raise InputError(
                            f"{path}: array {member.removesuffix('.npy')!r} holds Python objects, "
                            "which are not read: expected numbers, and names as text "
                            "(np.array(names, dtype=str))"
                        )
    except (OSError, zipfile.BadZipFile, ValueError, EOFError) as error:
        if isinstance(error, InputError):
            raise
        # Not an .npz: whoever reads it next says so.


def _names(array: object) -> tuple:
    # One name, or a table of them, cannot be gone through as names can.
    array = np.asarray(array)
    if array.ndim != 1:
        raise InputError(f"names has shape {array.shape}, expected one name for each variable")
    return tuple(array)


def _checked_names(names: object, d: int) -> tuple[str, ...]:
    names = tuple(names)
    if len(names) != d:
        raise InputError(f"{len(names)} names for {d} variables")
    for name in names:
        if not isinstance(name, str) or not name:
            raise InputError(f"variable name {name!r}, expected a string that is not empty")
    names = tuple(str(name) for name in names)
    if len(set(names)) != d:
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"two variables are called {twice!r}, expected distinct names")
    return names


def _check_finite(X: np.ndarray, names: tuple[str, ...], what: str = "not finite") -> None:
    if X.dtype.kind == "f" and not np.isfinite(X).all():
        row, column = np.argwhere(~np.isfinite(X))[0]
        raise InputError(
            f"X[{row}, {column}] (variable {names[column]!r}) is {X[row, column]}: {what}"
        )


def zeros_and_ones(array: np.ndarray) -> bool:
    """Whether real numbers are all 0 or 1, in next to no memory: adjacencies can be large."""
    if array.dtype.kind == "f":
        return all(((row == 0) | (row == 1)).all() for row in array)
    return array.size == 0 or (array.min() >= 0 and array.max() <= 1)


def _zero_one(what: str, array: object, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    array = np.asarray(array)
    if array.shape != shape:
        raise InputError(f"{what} has shape {array.shape}, expected {shape}")
    if array.dtype.kind not in "biuf" or not zeros_and_ones(array):
        raise InputError(f"{what} has other entries than 0 and 1")
    return np.ascontiguousarray(array, dtype=dtype)
