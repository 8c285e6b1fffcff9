"""The rows of a resample, and the seed of the method fitted to them.

Apart from what is done with resamples, so that only what changes the draws makes them anew.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from sdcd.data.checks import check_fittable
from sdcd.data.dataset import Dataset
from sdcd.errors import DataError, InputError

HOW = ("half", "bootstrap")
"""How rows are drawn; the first is the default."""

_ROWS, _METHOD = 0, 1


class Resample(NamedTuple):
    """One draw: ``rows`` int64 (m,), ascending, and the ``seed`` of the method, below 2**31."""

    rows: np.ndarray
    seed: int


def draw(intervened: np.ndarray, seed: int, number: int, how: str = HOW[0]) -> Resample:
    """The rows of a resample, drawn within each perturbation.

    Parameters
    ----------
    intervened : bool (n, d)
        Rows with the same targets are a perturbation; those without any are one too.
    seed, number : int
        The draw depends on these two alone: resample 7 is the same whether there are 10 or 50.
    how : {"half", "bootstrap"}
        Half of each perturbation's rows, rounded up, without replacement; or as many as it has,
        with replacement.

    Returns
    -------
    Resample
    """
    if how not in HOW:
        raise InputError(f"resamples: {how!r}, expected {' or '.join(HOW)}")
    intervened = np.asarray(intervened)
    random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number, _ROWS)))
    _, group = np.unique(np.packbits(intervened, axis=1), axis=0, return_inverse=True)
    order = np.argsort(group.ravel(), kind="stable")
    parts = []
    for members in np.split(order, np.cumsum(np.bincount(group.ravel()))[:-1]):
        size, again = (-(-len(members) // 2), False) if how == "half" else (len(members), True)
        parts.append(random.choice(members, size, replace=again))
    method_seed = np.random.SeedSequence(seed, spawn_key=(number, _METHOD)).generate_state(1)[0]
    return Resample(np.sort(np.concatenate(parts)), int(method_seed >> 1))


def draw_all(
    dataset: Dataset, count: int, *, seed: int, how: str, shown_as: str | Path
) -> dict[int, Resample]:
    """All draws by number, from 1.

    Raises
    ------
    InputError
        If one has too few rows, a constant column, or two columns that are identical in it.
    """
    return {k: draw_fittable(dataset, seed, k, how, shown_as=shown_as) for k in range(1, count + 1)}


def draw_fittable(
    dataset: Dataset, seed: int, number: int, how: str = HOW[0], *, shown_as: str | Path
) -> Resample:
    """One :func:`draw` of a data set's rows; :class:`InputError` if they cannot be fitted."""
    found = draw(dataset.intervened, seed, number, how)
    try:
        check_fittable(dataset.names, dataset.X[found.rows], dataset.intervened[found.rows])
    except DataError as error:
        where = f"{shown_as}: resample {number} ({how}), {len(found.rows)} of {dataset.n} rows"
        raise InputError(f"{where}: {error}") from None
    return found
