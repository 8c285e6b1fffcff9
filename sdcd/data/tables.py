"""Tables as files hold them: cells of numbers under names, and labels of rows.

=====================================  =========================================================
``.csv``, ``.tsv``, either ``.gz``     UTF-8, commas or tabs, a header; a first column without a
                                       name holds row names
``.parquet``                           columns of numbers; an index that pandas wrote is left out
=====================================  =========================================================

``.h5ad`` and ``.zarr`` are in :mod:`sdcd.data.annotated`.
"""

import csv
import difflib
import gzip
import operator
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sdcd.errors import InputError

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "#n/a", "-"})
"""What other programs write where there is nothing, in small letters."""

_CHUNK_CELLS = 2_000_000
_KINDS = {",": "a CSV file", "\t": "a file of tab-separated values"}
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
class Table:
    """What a file holds: ``row(r)`` names row r as a person finds it in the file.

    ``other_names`` are further names of the variables, by the column of ``var`` that holds them.
    """

    names: list[str]
    X: np.ndarray
    labels: Sequence[str] | None
    row: Callable[[int], str] = field(default=lambda r: f"row {r + 1}")
    layers: Sequence[str] = ()
    other_names: Mapping[str, Sequence[str]] = field(default_factory=dict)


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
    if path.is_fifo():
        raise InputError(f"{path}: is a pipe, expected {expected} that can be read twice")
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


def read_text(
    path: Path, perturbation_column: str | None, ignored: Sequence[str], delimiter: str
) -> Table:
    """Read a table of cells separated by commas or tabs, as it is or compressed by gzip."""
    packed = path.name.lower().endswith(".gz")
    if packed:
        refuse_other_file(path, "a gzip archive", besides=b"\x1f\x8b")
    else:
        refuse_other_file(path, _KINDS[delimiter])
    chunks, labels, lines = [], [], []

    def keep(rows: list[list[str]], their_lines: list[int]) -> None:
        chunks.append(columns.numbers(rows, their_lines))
        labels.extend(columns.labels(rows))
        lines.extend(their_lines)

    try:
        opened = gzip.open if packed else open
        with opened(path, "rt", newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream, strict=True, delimiter=delimiter)
            header = [cell.strip() for cell in next(reader, [])]
            columns = _Columns(path, header, perturbation_column, ignored, delimiter)
            pending, pending_lines = [], []
            chunk_rows = max(1, _CHUNK_CELLS // len(header))
            line = reader.line_num + 1
            for cells in reader:
                if cells:
                    columns.check_width(cells, line)
                    pending.append(cells)
                    pending_lines.append(line)
                    if len(pending) == chunk_rows:
                        keep(pending, pending_lines)
                        pending, pending_lines = [], []
                line = reader.line_num + 1
            if pending:
                keep(pending, pending_lines)
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: byte 0x{error.object[error.start]:02x} is not UTF-8 text, expected "
            f"{_KINDS[delimiter]}"
        ) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: not a readable gzip archive ({one_line(error)})") from None
    except csv.Error as error:
        raise InputError(
            f"{path}: row {reader.line_num}: not {_KINDS[delimiter]} ({error})"
        ) from None
    if not chunks:
        raise InputError(f"{path}: a header and no rows below it, expected a table")
    return Table(
        names=columns.names,
        X=np.concatenate(chunks),
        labels=labels if perturbation_column is not None else None,
        row=lambda r: f"row {lines[r]}",
    )


class _Columns:
    """The columns of a CSV file by what they are for."""

    def __init__(self, path: Path, header: list[str], perturbation_column, ignored, delimiter: str):
        self.path, self.header = path, header
        if not any(header):
            raise InputError(f"{path}: row 1: blank, expected a header with the variables' names")
        if header[0].startswith("#"):
            raise InputError(
                f"{path}: row 1: {shortened(header[0])}, a comment? expected the header with the "
                "variables' names"
            )
        if len(header) == 1 and (separator := _other_separator(header[0], delimiter)):
            expected = {",": "commas", "\t": "tabs"}[delimiter]
            if separator == "\t":
                expected += ", or a name that ends in .tsv"
            raise InputError(
                f"{path}: row 1: cells are separated by {separator!r}, expected {expected}"
            )
        _refuse_values_as_header(path, header)
        check_header(path, header[1:] if not header[0] else header, "column", first=not header[0])
        check_present(path, header, [*ignored], "--ignore-column")
        left_out = {*ignored, ""}
        self._label = None
        if perturbation_column is not None:
            check_present(path, header, [perturbation_column], "--perturbation-column")
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
            # Python takes 1_000 for a number; in a table it is a name or a slip.
            if any("_" in "".join(cells) for cells in rows):
                raise ValueError
            return np.array(rows, dtype=np.float64).reshape(len(rows), len(self.names))
        except ValueError:
            for line, cells in zip(lines, rows, strict=True):
                for name, cell in zip(self.names, cells, strict=True):
                    _check_number(self.path, cell, f"row {line}", name, self._label is None)
            raise


def _check_number(path: Path, cell: str, row: str, column: str, no_labels: bool) -> None:
    try:
        if "_" in cell:
            raise ValueError
        float(cell)
    except ValueError:
        text = cell.strip()
        if text.lower() in MISSING:
            found = f"missing value ({text!r})" if text else "missing value"
            raise InputError(
                f"{path}: {row}, column {column!r}: {found}, expected a number"
            ) from None
        hint = " (--ignore-column leaves a column out that is no variable)"
        if no_labels:
            hint = " (a perturbation column is named with --perturbation-column)"
        if re.fullmatch(r"[-+]?\d+,\d+", text):
            hint = " with a decimal point"
        raise InputError(
            f"{path}: {row}, column {column!r}: {shortened(text)}, expected a number{hint}"
        ) from None


def read_parquet(path: Path, perturbation_column: str | None, ignored: Sequence[str]) -> Table:
    """Read a Parquet file."""
    refuse_other_file(path, "a Parquet file", besides=b"PAR1")
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise InputError(f"{path}: reading needs pip install -e '.[data]' ({error})") from None
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: not a readable Parquet file ({one_line(error)})") from None
    pandas = table.schema.pandas_metadata or {}
    index = {name for name in pandas.get("index_columns", []) if isinstance(name, str)}
    header = table.schema.names
    check_header(path, header, "column")
    check_present(path, header, [*ignored], "--ignore-column")
    labels = None
    left_out = {*ignored, *(index - {perturbation_column})}
    if perturbation_column is not None:
        check_present(path, header, [perturbation_column], "--perturbation-column")
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
                f"{path}: row 1, column {name!r}: {shortened(str(column[0]))} ({kind}), expected "
                f"a number{hint}"
            )
        X[:, j] = column.to_numpy()
    return Table(names=names, X=X, labels=labels)


# For messages


def check_header(path: Path, names: list[str], what: str, first: bool = False) -> None:
    """Refuse a name that is empty or comes twice; counted from 2 if the first column is unnamed."""
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


def check_present(path: Path, names: list[str], wanted: list[str], option: str) -> None:
    """Refuse an option that names a column which is not there, with the closest that are."""
    for name in wanted:
        if name not in names or not name:
            raise InputError(
                f"{path}: no column {name!r}, expected for {option} one of {few(names, name)}"
            )


def few(names: Sequence[str], wanted: str) -> str:
    """A few names for a message, the closest to what was wanted, in any case, first."""
    by_lower = {name.lower(): name for name in names}
    shown = [by_lower[word] for word in difflib.get_close_matches(wanted.lower(), by_lower, n=3)]
    shown += [name for name in names if name and name not in shown][: 5 - len(shown)]
    text = ", ".join(shown) or "none"
    return text if len(names) <= len(shown) else f"{text}, ... {len(names)} in all"


def _other_separator(header: str, own: str) -> str | None:
    others = (separator for separator in (";", "\t", "|", ",") if separator != own)
    return next((separator for separator in others if separator in header), None)


def _refuse_values_as_header(path: Path, header: list[str]) -> None:
    """Refuse a file without a header, whose first row would become the variables' names."""
    names = [name for name in header if name]
    try:
        numbers = [float(name) for name in names]
    except ValueError:
        return
    counted = [str(j) for j in range(len(names))], [str(j + 1) for j in range(len(names))]
    if len(numbers) > 1 and names not in counted:
        raise InputError(
            f"{path}: row 1: only numbers ({few(names, names[0])}), expected a header with the "
            "variables' names"
        )


def shortened(text: str) -> str:
    """Some text in quotes, its end left out if it is long."""
    return repr(text if len(text) <= 40 else text[:37] + "...")


def one_line(error: Exception) -> str:
    """What an exception says, in one line."""
    return " ".join(str(error).split())[:200]
