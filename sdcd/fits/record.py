"""A fit as it is kept: arrays in an ``.npz``, and the record beside it."""

from pathlib import Path

import numpy as np

from sdcd.errors import InputError
from sdcd.files import read_json, read_npz
from sdcd.methods.contract import Graph


def load_fit(path: str | Path) -> tuple[Graph | None, dict[str, object]]:
    """Read a fit and the record beside it.

    Returns
    -------
    graph : Graph or None
        ``None`` if the fit failed. ``graph.arrays`` has ``names``, str (d,), and whatever the
        method kept besides its graph.
    record : dict
        Empty if there is no ``.json`` beside the fit.

    Raises
    ------
    InputError
        If the file is not a fit.
    """
    path = Path(path)
    arrays = read_npz(path)
    record_path = path.with_suffix(".json")
    record = read_json(record_path) if record_path.exists() else {}
    if not isinstance(record, dict):
        raise InputError(f"{record_path}: not the record of a fit")
    if "X" in arrays:
        raise InputError(f"{path}: a data set, expected a fit")
    if "adjacency" not in arrays:
        if set(arrays) != {"names"}:
            raise InputError(f"{path}: not a fit (arrays found: {', '.join(arrays) or 'none'})")
        return None, record
    adjacency = arrays.pop("adjacency")
    weights = arrays.pop("weights", None)
    d = len(adjacency)
    for what, array in (("adjacency", adjacency), ("weights", weights)):
        if array is not None and array.shape != (d, d):
            raise InputError(f"{path}: {what} has shape {array.shape}, expected ({d}, {d})")
    if weights is not None and np.isnan(weights).all():
        weights = None
    arrays.setdefault("names", np.array([f"X{j}" for j in range(d)]))
    if arrays["names"].shape != (d,):
        raise InputError(f"{path}: {arrays['names'].size} names for {d} variables")
    return Graph(adjacency, weights, record.get("diagnostics", {}), arrays), record
