"""A person's own table: read, and refused in one clear line if it is not what a fit needs.

Three formats, one table: cells of numbers under the names of the variables, and optionally a
*perturbation column* that says for each row which variables an intervention set.

=========  =========================================================================
``.csv``   UTF-8, commas, a header; a first column without a name holds row names
``.parquet``  columns of numbers; an index that pandas wrote is left out
``.h5ad``  ``X`` (dense or sparse) by ``var_names``; the perturbation column is in ``obs``
=========  =========================================================================

A row's perturbation is a label for unperturbed rows, or one or several names of variables separated
by commas. Beside targets, labels for unperturbed rows are passed over (``GENE1,non-targeting``).
"""

import csv
import difflib
import hashlib
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sdcd.errors import InputError

DEFAULT_CONTROLS = ("", "control", "non-targeting")
"""Labels of unperturbed rows, in any case, where the caller names none; ``""`` is a missing one."""

MIN_ROWS = 256
"""One batch of SDCD."""

SUFFIXES = (".csv", ".parquet", ".h5ad")

_MISSING = {"", "na", "n/a", "nan", "null", "none", "#n/a", "-"}
_CHUNK_CELLS = 2_000_000
_BLOCK_COLUMNS = 64
_SIGNATURES = {
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF8": "a GIF image",
    b"%PDF": "a PDF document",
    b"\x89HDF": "an HDF5 file",
    b"PAR1": "a Parquet file",
    b"PK": "a ZIP archive (such as .xlsx or .npz)",
    b"\xd0\xcf\x11\xe0": "an old Office document (such as .xls)",
    b"\x1f\x8b": "a gzip archive",
    b"\x93NUMPY": "a NumPy array",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
}


@dataclass
class _Table:
    """What a file holds: ``row(r)`` names row r as a person finds it in the file."""

    names: list[str]
    X: np.ndarray
    labels: Sequence[str] | None
    row: Callable[[int], str] = field(default=lambda r: f"row {r + 1}")


def read_own(
    path: str | Path,
    *,
    perturbation_column: str | None = None,
    controls: Iterable[str] | None = None,
    ignore_columns: Iterable[str] = (),
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Read and check a table.

    Parameters
    ----------
    path : path
        ``.csv``, ``.parquet`` or ``.h5ad``.
    perturbation_column : str, optional
        Column of the table, or of ``obs``. Without one every row is unperturbed.
    controls : iterable of str, optional
        Labels of unperturbed rows, exactly as written; :data:`DEFAULT_CONTROLS` if absent.
    ignore_columns : iterable of str
        Columns (for ``.h5ad``: variables) that are left out.

    Returns
    -------
    X : float32 or float64 (n, d)
        Values, as they are in the file.
    intervened : bool (n, d)
        Which values an intervention set.
    names : tuple of d str
        Names of the variables.

    Raises
    ------
    InputError
        For the first fault found. Rows are named as they are found in the file: in a ``.csv`` the
        line, the header being line 1; elsewhere the row, counted from 1.
    """
    path = Path(path)
    readers = {".csv": _read_csv, ".parquet": _read_parquet, ".h5ad": _read_h5ad}
    if path.suffix not in readers:
        raise InputError(
            f"{path}: files called {path.suffix or 'without a suffix'!r} are not read, expected "
            f".npz, {', '.join(readers)}"
        )
    table = readers[path.suffix](path, perturbation_column, tuple(ignore_columns))
    if len(table.names) < 2:
        raise InputError(
            f"{path}: {len(table.names)} column(s) of values, expected at least 2 variables"
        )
    check_cells(path, table.names, table.X, table.row)
    names = tuple(table.names)
    if table.labels is None:
        intervened = np.zeros(table.X.shape, dtype=bool)
    else:
        intervened = _targets(path, table, perturbation_column, controls)
    check_fittable(path, names, table.X, intervened)
    return table.X, intervened, names


def check_cells(path: Path, names: Sequence[str], X: np.ndarray, row: Callable[[int], str]) -> None:
    """Refuse missing and infinite values, and values beyond the range of float32."""
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


def check_fittable(
    path: str | Path, names: Sequence[str], X: np.ndarray, intervened: np.ndarray
) -> None:
    """Refuse data from which no method can learn.

    Raises
    ------
    InputError
        If there are fewer rows than :data:`MIN_ROWS`, a column is constant, two columns are
        identical, or a variable is intervened on in every row.
    """
    n, d = X.shape
    if n < MIN_ROWS:
        raise InputError(f"{path}: {n} rows, expected at least {MIN_ROWS} (one batch)")
    always = np.flatnonzero(intervened.all(axis=0))
    if always.size:
        raise InputError(
            f"{path}: column {names[always[0]]!r}: all {n} rows are perturbed, expected some that "
            "are not"
        )
    constant, seen = [], {}
    for start in range(0, d, _BLOCK_COLUMNS):
        block = np.ascontiguousarray(X[:, start : start + _BLOCK_COLUMNS].T)
        for j, column in enumerate(block, start=start):
            if column.min() == column.max():
                constant.append(j)
                continue
            # Adding zero makes -0.0 and 0.0 the same bytes.
            digest = hashlib.blake2b((column + 0).tobytes(), digest_size=16).digest()
            if digest in seen:
                raise InputError(
                    f"{path}: columns {names[seen[digest]]!r} and {names[j]!r} are identical in "
                    f"all {n} rows, expected distinct variables"
                )
            seen[digest] = j
    if constant:
        more = f" (and so are {len(constant) - 1} more columns)" if len(constant) > 1 else ""
        raise InputError(
            f"{path}: column {names[constant[0]]!r}: constant, {X[0, constant[0]]:g} in all {n} "
            f"rows{more}, expected values that vary"
        )


def standardised(X: np.ndarray) -> np.ndarray:
    """Columns with mean 0 and standard deviation 1 (ddof 1) over all rows, float32 (n, d)."""
    Z = np.empty(X.shape, dtype=np.float32)
    for start in range(0, X.shape[1], _BLOCK_COLUMNS):
        columns = slice(start, start + _BLOCK_COLUMNS)
        block = X[:, columns].astype(np.float64)
        Z[:, columns] = (block - block.mean(axis=0)) / block.std(axis=0, ddof=1)
    return Z


def refuse_other_file(path: str | Path, expected: str, besides: bytes = b"") -> None:
    """Refuse an empty file, and one that begins like another kind of file than expected.

    Parameters
    ----------
    path : path
        The file.
    expected : str
        What it should be, for the message.
    besides : bytes
        How a file of the expected kind begins, if that is one of the known beginnings.
    """
    path = Path(path)
    try:
        with open(path, "rb") as stream:
            head = stream.read(16)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    if not head:
        raise InputError(f"{path}: empty file, expected {expected}")
    for signature, kind in _SIGNATURES.items():
        if head.startswith(signature) and not (besides and signature.startswith(besides)):
            raise InputError(f"{path}: is {kind}, expected {expected}")
    if besides and not head.startswith(besides):
        raise InputError(f"{path}: is not {expected}")


# Formats


def _read_csv(path: Path, perturbation_column, ignored) -> _Table:
    refuse_other_file(path, "a CSV file")
    chunks, labels, lines = [], [], []
    try:
        with open(path, newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream, strict=True)
            header = [cell.strip() for cell in next(reader, [])]
            columns = _Columns(path, header, perturbation_column, ignored)
            pending, pending_lines = [], []
            chunk_rows = max(1, _CHUNK_CELLS // len(header))
            line = reader.line_num + 1
            for cells in reader:
                if cells:
                    columns.check_width(cells, line)
                    pending.append(cells)
                    pending_lines.append(line)
                    if len(pending) == chunk_rows:
                        chunks.append(columns.numbers(pending, pending_lines))
                        labels += columns.labels(pending)
                        lines += pending_lines
                        pending, pending_lines = [], []
                line = reader.line_num + 1
            if pending:
                chunks.append(columns.numbers(pending, pending_lines))
                labels += columns.labels(pending)
                lines += pending_lines
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: byte 0x{error.object[error.start]:02x} is not UTF-8 text, expected a CSV file"
        ) from None
    except csv.Error as error:
        raise InputError(f"{path}: row {reader.line_num}: not a CSV file ({error})") from None
    if not chunks:
        raise InputError(f"{path}: a header and no rows below it, expected a table")
    return _Table(
        names=columns.names,
        X=np.concatenate(chunks),
        labels=labels if perturbation_column is not None else None,
        row=lambda r: f"row {lines[r]}",
    )


class _Columns:
    """The columns of a CSV file by what they are for."""

    def __init__(self, path: Path, header: list[str], perturbation_column, ignored):
        self.path, self.header = path, header
        if not any(header):
            raise InputError(f"{path}: row 1: blank, expected a header with the variables' names")
        if len(header) == 1 and (separator := _other_separator(header[0])):
            raise InputError(
                f"{path}: row 1: cells are separated by {separator!r}, expected commas"
            )
        _check_header(path, header[1:] if not header[0] else header, "column", first=not header[0])
        _check_present(path, header, [*ignored], "--ignore-column")
        left_out = {*ignored, ""}
        self._label = None
        if perturbation_column is not None:
            _check_present(path, header, [perturbation_column], "--perturbation-column")
            self._label = header.index(perturbation_column)
            left_out.add(perturbation_column)
        self._values = [j for j, name in enumerate(header) if name not in left_out]
        self.names = [header[j] for j in self._values]

    def check_width(self, cells: list[str], line: int) -> None:
        if len(cells) != len(self.header):
            raise InputError(
                f"{self.path}: row {line}: {len(cells)} cells, expected {len(self.header)} as in "
                "the header"
            )

    def labels(self, rows: list[list[str]]) -> list[str]:
        return [] if self._label is None else [cells[self._label].strip() for cells in rows]

    def numbers(self, rows: list[list[str]], lines: list[int]) -> np.ndarray:
        if len(self._values) != len(self.header) and len(self._values) > 1:
            rows = list(map(operator.itemgetter(*self._values), rows))
        elif len(self._values) != len(self.header):
            rows = [[cells[j] for j in self._values] for cells in rows]
        try:
            return np.array(rows, dtype=np.float64).reshape(len(rows), len(self.names))
        except ValueError:
            for line, cells in zip(lines, rows, strict=True):
                for name, cell in zip(self.names, cells, strict=True):
                    _check_number(self.path, cell, f"row {line}", name, self._label is None)
            raise


def _check_number(path: Path, cell: str, row: str, column: str, no_labels: bool) -> None:
    try:
        float(cell)
    except ValueError:
        text = cell.strip()
        if text.lower() in _MISSING:
            found = f"missing value ({text!r})" if text else "missing value"
            raise InputError(
                f"{path}: {row}, column {column!r}: {found}, expected a number"
            ) from None
        hint = " (a perturbation column is named with --perturbation-column)" if no_labels else ""
        raise InputError(
            f"{path}: {row}, column {column!r}: {_shortened(text)}, expected a number{hint}"
        ) from None


def _read_parquet(path: Path, perturbation_column, ignored) -> _Table:
    refuse_other_file(path, "a Parquet file", besides=b"PAR1")
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise InputError(f"{path}: reading needs pip install -e '.[data]' ({error})") from None
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: not a readable Parquet file ({_one_line(error)})") from None
    pandas = table.schema.pandas_metadata or {}
    index = {name for name in pandas.get("index_columns", []) if isinstance(name, str)}
    header = table.schema.names
    _check_header(path, header, "column")
    _check_present(path, header, [*ignored], "--ignore-column")
    labels = None
    left_out = {*ignored, *(index - {perturbation_column})}
    if perturbation_column is not None:
        _check_present(path, header, [perturbation_column], "--perturbation-column")
        left_out.add(perturbation_column)
        column = table.column(perturbation_column)
        labels = ["" if label is None else str(label).strip() for label in column.to_pylist()]
    names = [name for name in header if name not in left_out]
    if not table.num_rows:
        raise InputError(f"{path}: columns without rows, expected a table")
    types = {table.schema.field(name).type for name in names}
    exact = np.float32 if types == {pa.float32()} else np.float64
    X = np.empty((table.num_rows, len(names)), dtype=exact)
    for j, name in enumerate(names):
        column = table.column(name)
        kind = column.type
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy())[0])
            raise InputError(
                f"{path}: row {row + 1}, column {name!r}: missing value, expected a number"
            )
        if not (
            pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        ):
            hint = "" if labels else " (a perturbation column is named with --perturbation-column)"
            raise InputError(
                f"{path}: row 1, column {name!r}: {_shortened(str(column[0]))} ({kind}), expected "
                f"a number{hint}"
            )
        X[:, j] = column.to_numpy()
    return _Table(names=names, X=X, labels=labels)


def _read_h5ad(path: Path, perturbation_column, ignored) -> _Table:
    refuse_other_file(path, "an .h5ad file (HDF5)", besides=b"\x89HDF")
    try:
        import h5py
        from anndata.io import read_elem
    except ImportError as error:
        raise InputError(f"{path}: reading needs pip install -e '.[data]' ({error})") from None
    try:
        with h5py.File(path) as file:
            for part in ("X", "obs", "var"):
                if part not in file:
                    raise InputError(f"{path}: an HDF5 file without {part!r}, expected AnnData's")
            # Only what is needed: layers and embeddings can be much larger.
            X, obs, var = (read_elem(file[part]) for part in ("X", "obs", "var"))
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{path}: not a readable .h5ad file ({_one_line(error)})") from None
    if X is None:
        raise InputError(f"{path}: X is empty, expected a matrix of values")
    names = [str(name) for name in var.index]
    cells = [str(name) for name in obs.index]
    _check_header(path, names, "variable")
    if not cells:
        raise InputError(f"{path}: variables without rows, expected a table")
    labels = None
    if perturbation_column is not None:
        _check_present(path, list(obs.columns), [perturbation_column], "--perturbation-column")
        column = obs[perturbation_column]
        labels = column.astype(object).where(column.notna(), "").astype(str).str.strip().tolist()
    _check_present(path, names, [*ignored], "--ignore-column")
    kept = [j for j, name in enumerate(names) if name not in ignored]
    if X.dtype.kind not in "fiub":
        raise InputError(f"{path}: X has dtype {X.dtype}, expected real numbers")
    if len(kept) < len(names):
        X, names = X[:, kept], [names[j] for j in kept]
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    return _Table(names, X, labels, row=lambda r: f"row {r + 1} (cell {cells[r]!r})")


# Perturbations


def _targets(path: Path, table: _Table, column: str, controls) -> np.ndarray:
    index = {name: j for j, name in enumerate(table.names)}
    if controls is None:
        shown, spelled = DEFAULT_CONTROLS, {label.lower() for label in DEFAULT_CONTROLS}

        def is_control(label: str) -> bool:
            return label.lower() in spelled
    else:
        shown = tuple(controls)
        is_control = frozenset(shown).__contains__
    known: dict[str, list[int]] = {}
    intervened = np.zeros(table.X.shape, dtype=bool)
    for r, label in enumerate(table.labels):
        if label not in known:
            whole = label in index or is_control(label)
            parts = [label] if whole else [part.strip() for part in label.split(",")]
            wrong = [part for part in parts if part not in index and not is_control(part)]
            if wrong:
                raise InputError(
                    f"{path}: {table.row(r)}, column {column!r}: unknown perturbation label "
                    f"{_shortened(wrong[0] if len(parts) > 1 else label)}, expected a variable "
                    f"({_few(table.names, wrong[0])}) or a label of unperturbed rows "
                    f"({', '.join(map(repr, shown))}; --control)"
                )
            known[label] = [index[part] for part in parts if not is_control(part)]
        intervened[r, known[label]] = True
    return intervened


# Messages


def _check_header(path: Path, names: list[str], what: str, first: bool = False) -> None:
    seen: dict[str, int] = {}
    for position, name in enumerate(names, start=2 if first else 1):
        if not name:
            raise InputError(f"{path}: {what} {position} has no name")
        if name in seen:
            raise InputError(
                f"{path}: {what}s {seen[name]} and {position} are both called {name!r}, expected "
                "distinct names"
            )
        seen[name] = position


def _check_present(path: Path, names: list[str], wanted: list[str], option: str) -> None:
    for name in wanted:
        if name not in names or not name:
            raise InputError(
                f"{path}: no column {name!r}, expected for {option} one of {_few(names, name)}"
            )


def _few(names: Sequence[str], wanted: str) -> str:
    """A few names for a message, the closest to what was wanted first."""
    shown = difflib.get_close_matches(wanted, names, n=3)
    shown += [name for name in names if name and name not in shown][: 5 - len(shown)]
    text = ", ".join(shown) or "none"
    return text if len(names) <= len(shown) else f"{text}, ... {len(names)} in all"


def _other_separator(header: str) -> str | None:
    return next((separator for separator in (";", "\t", "|") if separator in header), None)


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
