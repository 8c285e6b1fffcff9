"""Annotated matrices, ``.h5ad`` and ``.zarr``, as anndata writes them and wrote them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sdcd.data.tables import (
    Table,
    check_header,
    check_present,
    few,
    one_line,
    refuse_other_file,
)
from sdcd.errors import InputError


def read_annotated(
    path: Path,
    perturbation_column: str | None,
    ignored: Sequence[str],
    layer: str | None,
    names_column: str | None,
) -> Table:
    """Read ``X``, or one of the layers, by ``var_names``, and labels from a column of ``obs``.

    Parameters
    ----------
    path : Path
        ``.h5ad`` (a file) or ``.zarr`` (a folder).
    perturbation_column : str or None
        A column of ``obs``.
    ignored : sequence of str
        Variables that are left out.
    layer : str or None
        Name of a layer; ``raw`` is ``raw.X`` by its own names, if no layer is called so.
    names_column : str or None
        A column of ``var`` that names the variables, instead of ``var_names``.

    Raises
    ------
    InputError
        If the file is no such file, or its parts do not fit together.
    """
    try:
        import anndata  # noqa: F401
    except ImportError as error:
        raise InputError(f"{path}: reading needs pip install -e '.[data]' ({error})") from None
    is_zarr = path.name.lower().endswith(".zarr")
    kind = ".zarr folder" if is_zarr else ".h5ad file"
    if not is_zarr:
        refuse_other_file(path, "an .h5ad file (HDF5)", besides=b"\x89HDF")
    elif not path.is_dir():
        raise InputError(f"{path}: no such folder, expected a .zarr folder")
    try:
        X, obs, var, layers = _parts(path, is_zarr, layer)
    except (InputError, MemoryError):
        raise
    except Exception as error:
        raise InputError(f"{path}: not a readable {kind} ({one_line(error)})") from None
    _check_parts(path, "X" if layer is None else f"layer {layer!r}", X, obs, var)
    other_names = {str(column): _text(var[column]) for column in var.columns}
    names = [str(name) for name in var.index]
    if names_column is not None:
        check_present(path, list(other_names), [names_column], "--names-column")
        names = other_names[names_column]
    cells = [str(name) for name in obs.index]
    check_header(path, names, "variable")
    if not cells:
        raise InputError(f"{path}: variables without rows, expected a table")
    labels = None
    if perturbation_column is not None:
        columns = list(map(str, obs.columns))
        check_present(path, columns, [perturbation_column], "--perturbation-column")
        labels = _text(obs[perturbation_column])
    check_present(path, names, [*ignored], "--ignore-column")
    kept = [j for j, name in enumerate(names) if name not in ignored]
    if len(kept) < len(names):
        X, names = X[:, kept], [names[j] for j in kept]
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64 if X.dtype.itemsize > 2 else np.float32)
    other_names = {column: [words[j] for j in kept] for column, words in other_names.items()}
    return Table(
        names, X, labels, lambda r: f"row {r + 1} (cell {cells[r]!r})", layers, other_names
    )


def _check_parts(path: Path, what: str, X, obs, var) -> None:
    """Refuse parts that are not a matrix and two tables that fit it."""
    for part, frame in (("obs", obs), ("var", var)):
        if not (hasattr(frame, "index") and hasattr(frame, "columns")):
            raise InputError(
                f"{path}: {part} is a {type(frame).__name__}, expected a table (data frame)"
            )
    if X is None:
        raise InputError(f"{path}: {what} is empty, expected a matrix of values")
    if hasattr(X, "columns") or not hasattr(X, "shape") or not hasattr(X, "dtype"):
        raise InputError(f"{path}: {what} is a {type(X).__name__}, expected a matrix of values")
    if X.ndim != 2:
        raise InputError(f"{path}: {what} has shape {X.shape}, expected rows and variables")
    if X.dtype.kind not in "fiub":
        raise InputError(f"{path}: {what} has dtype {X.dtype}, expected real numbers")
    for axis, part, frame in ((0, "obs", obs), (1, "var", var)):
        if X.shape[axis] != len(frame):
            raise InputError(
                f"{path}: {what} has {X.shape[axis]} {('rows', 'columns')[axis]}, {part} "
                f"{len(frame)} rows, expected as many"
            )


def _text(column) -> list[str]:
    """The cells of a column as text, empty where one is missing."""
    return column.astype(object).where(column.notna(), "").astype(str).str.strip().tolist()


def _parts(path: Path, is_zarr: bool, layer: str | None):
    """The matrix asked for, obs, the var that names its columns, and the names of the layers.

    Only what is needed is read: other layers and embeddings can be much larger.
    """
    from anndata.io import read_elem

    if is_zarr:
        import zarr

        return _chosen(path, zarr.open_group(str(path), mode="r"), read_elem, layer)
    import h5py

    with h5py.File(path) as file:
        # Before anndata 0.7, tables were arrays of records, and raw stood in parts of its own.
        if not isinstance(file.get("obs"), h5py.Dataset):
            return _chosen(path, file, read_elem, layer)
        found = [part for part in ("X", "obs", "var") if part not in file]
    if found:
        raise InputError(f"{path}: an HDF5 file without {found[0]!r}, expected AnnData's")
    import warnings

    import anndata

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        old = anndata.read_h5ad(path)
    layers = [*old.layers, *(["raw"] if old.raw is not None else [])]
    if layer is None:
        return old.X, old.obs, old.var, layers
    if layer in old.layers:
        return old.layers[layer], old.obs, old.var, layers
    if layer == "raw" and old.raw is not None:
        return old.raw.X, old.obs, old.raw.var, layers
    raise InputError(f"{path}: no layer {layer!r}, expected one of {few(layers, layer)}")


def _chosen(path: Path, group, read_elem, layer: str | None):
    for part in ("X", "obs", "var"):
        if part not in group:
            whose = "a zarr folder" if path.is_dir() else "an HDF5 file"
            raise InputError(f"{path}: {whose} without {part!r}, expected AnnData's")
    layers = list(group["layers"]) if "layers" in group else []
    # A layer of this name comes first.
    raw = "raw" not in layers and "raw" in group and "X" in group["raw"]
    layers += ["raw"] * raw
    if layer is None:
        X, var = read_elem(group["X"]), group["var"]
    elif layer not in layers:
        raise InputError(f"{path}: no layer {layer!r}, expected one of {few(layers, layer)}")
    elif layer == "raw" and raw:
        X, var = read_elem(group["raw"]["X"]), group["raw"]["var"]
    else:
        X, var = read_elem(group["layers"][layer]), group["var"]
    return X, read_elem(group["obs"]), read_elem(var), layers
