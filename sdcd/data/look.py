"""A look at a table without reading its values: which columns it has, and about how large it is.

A plan is made before anything is read; what it can find wrong then costs a person no fit.
"""

import csv
import gzip
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sdcd.data.own_data import SUFFIXES, suffix_of
from sdcd.data.tables import one_line
from sdcd.errors import InputError

_LINES = 50


@dataclass(frozen=True)
class Look:
    """What a look at a file finds.

    Attributes
    ----------
    columns : list of str or None
        Where labels of perturbations may stand: the columns of a text or Parquet file, those of
        ``obs``; None of an ``.npz``, which has none.
    d, n : int
        About how many variables and rows there are.
    """

    columns: list[str] | None
    d: int
    n: int


def look(path: str | Path) -> Look:
    """Look at a data set or table.

    Raises
    ------
    InputError
        If there is no such file, its name ends like none that is read, or it cannot be looked at.
    """
    path = Path(path)
    suffix = suffix_of(path)
    if suffix is None:
        raise InputError(f"{path}: expected a file called .npz, {', '.join(SUFFIXES)}")
    if not path.exists():
        raise InputError(f"{path}: no such file")
    if path.is_dir() != (suffix == ".zarr"):
        raise InputError(f"{path}: expected a {'folder' if suffix == '.zarr' else 'file'}")
    ways = {".npz": _npz, ".parquet": _parquet, ".h5ad": _annotated, ".zarr": _annotated}
    try:
        return ways.get(suffix, _text)(path)
    except InputError:
        raise
    except Exception as error:
        # Whatever a library raises on a file that is not what its name says.
        words = one_line(error) or type(error).__name__
        raise InputError(f"{path}: not a readable {suffix} ({words})") from None


def _text(path: Path) -> Look:
    packed = path.name.lower().endswith(".gz")
    delimiter = "\t" if suffix_of(path).startswith(".tsv") else ","
    opened = gzip.open if packed else open
    with opened(path, "rt", newline="", encoding="utf-8-sig") as stream:
        columns = [cell.strip() for cell in next(csv.reader(stream, delimiter=delimiter), [])]
        lines = [len(line) for _, line in zip(range(_LINES), stream, strict=False)]
    if not columns:
        raise InputError(f"{path}: empty file, expected a table")
    length = max(1.0, sum(lines) / max(1, len(lines)))
    # Digits of numbers are packed to about half.
    size = path.stat().st_size * (2 if packed else 1)
    return Look(columns, len(columns), max(len(lines), round(size / length)))


def _parquet(path: Path) -> Look:
    import pyarrow.parquet as pq

    found = pq.ParquetFile(path)
    names = found.schema_arrow.names
    return Look(names, len(names), found.metadata.num_rows)


def _annotated(path: Path) -> Look:
    if path.is_dir():
        import zarr

        return _of_group(zarr.open_group(str(path), mode="r"))
    import h5py

    with h5py.File(path) as file:
        return _of_group(file)


def _of_group(group) -> Look:
    X, obs = group["X"], group["obs"]
    shape = X.attrs.get("shape")
    n, d = X.shape if shape is None else shape
    if hasattr(obs, "dtype"):
        # Before anndata 0.7, tables were arrays of records.
        return Look(list(obs.dtype.names), int(d), int(n))
    index = obs.attrs.get("_index", "_index")
    index = index.decode() if isinstance(index, bytes) else index
    columns = [name for name in obs if name not in (index, "__categories")]
    return Look(columns, int(d), int(n))


def _npz(path: Path) -> Look:
    with zipfile.ZipFile(path) as archive, archive.open("X.npy") as stream:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0
        n, d = (read if version == (1, 0) else np.lib.format.read_array_header_2_0)(stream)[0]
    return Look(None, int(d), int(n))
