"""Tables of measurements as CSV files that grow row by row, and what and where was measured."""

import csv
import io
import os
import platform
import subprocess
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLES = ROOT / "docs" / "benchmarks"


def read_rows(path: Path) -> list[dict[str, str]]:
    """A table's rows; none if it is not there."""
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def write_rows(
    path: Path, rows: Iterable[Mapping[str, object]], columns: Sequence[str] | None = None
) -> None:
    """Write a table, complete or not at all; a cell that a row lacks is empty.

    ``columns`` are those of the rows, by default.
    """
    # A worker may run with an earlier version of the package.
    from sdcd.files import atomic_path

    rows = list(rows)
    columns = columns or dict.fromkeys(key for row in rows for key in row)
    with (
        atomic_path(path) as temporary,
        open(temporary, "w", newline="", encoding="utf-8") as stream,
    ):
        writer = csv.DictWriter(stream, columns, lineterminator="\n", restval="")
        writer.writeheader()
        writer.writerows(rows)


def put_row(
    path: Path, row: Mapping[str, object], key: Sequence[str], order: Callable | None = None
) -> None:
    """Write a table with a row more, in place of one with the same ``key``; print the row.

    Rows are sorted by ``order``, or the new one comes last.
    """
    kept = [old for old in read_rows(path) if any(old[k] != str(row[k]) for k in key)]
    rows = [*kept, {name: str(value) for name, value in row.items()}]
    write_rows(path, rows if order is None else sorted(rows, key=order), list(row))
    print(dict(row), flush=True)


def package_of(commit: str, folder: Path) -> None:
    """Unpack the package as it was in a commit into a folder."""
    command = ["git", "archive", commit, "sdcd"]
    archive = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")


def single_threaded(cores: int = 1) -> dict[str, str]:
    """Environment variables of a process whose libraries use one thread, or so many."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
    return {**os.environ, **dict.fromkeys(names, str(cores))}


def processor() -> str:
    """The processor's model and family as the system gives them."""
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        lines = facts.read_text(encoding="utf-8").splitlines()
        found = {
            name.strip(): value.strip() for name, _, value in (s.partition(":") for s in lines)
        }
        if "model name" in found:
            return f"{found['model name']} family {found.get('cpu family', '?')}"
    return platform.processor()
