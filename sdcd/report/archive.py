"""Results as one file that another person takes in, to redraw the figures without a fit.

An archive (``.zip``, or ``.tar.gz``) holds ``manifest.json`` and the files that it lists, each with
its size and SHA-256:

- ``plan.json``, what was run;
- ``runs/{experiment}.csv``, the tables of runs, of studies, and from the fits' weights;
- ``fits/{dataset}/{method}.json``, the records of the fits;
- if wanted, ``fits/{dataset}/{method}.npz``, the learned graphs.

Whoever takes one in need not trust it: names that are not of these forms, links, sizes and digests
that differ from the manifest, and contents that are not what the names say are refused, before
anything is written where results lie. Nothing in it is ever unpickled or run.
"""

import hashlib
import io
import json
import os
import re
import tarfile
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sdcd.errors import InputError
from sdcd.experiments.datasets import DATASET_PATTERN
from sdcd.experiments.plan import DERIVED, FAMILIES, FROM_DATA, STUDIES
from sdcd.files import atomic_path, read_json, read_npz
from sdcd.report.inputs import read_plan, read_tables
from sdcd.report.overview import fit_names
from sdcd.runs.table import read_runs

FORMAT = 1
"""Version of the layout described above."""

LARGEST_FILE = 2 * 10**9
LARGEST_ARCHIVE = 20 * 10**9
LARGEST_MANIFEST = 50 * 10**6
"""Bytes, unpacked; an archive that says or holds more is refused."""

_FIT = rf"fits/{DATASET_PATTERN}/[A-Za-z0-9][A-Za-z0-9_.+-]*"
_RUNS = rf"runs/({'|'.join([*FAMILIES, *STUDIES, *DERIVED, *FROM_DATA])})\.csv"
_ALLOWED = re.compile(rf"plan\.json|{_RUNS}|{_FIT}\.(json|npz)")


_UNREADABLE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
)
"""What the libraries raise on a damaged or encrypted archive."""


def export(results: str | Path, out: str | Path, *, graphs: bool = False) -> list[str]:
    """Write an archive of a folder of results.

    Parameters
    ----------
    results : path
        A folder as the workflow makes it.
    out : path
        ``.zip``, ``.tar.gz`` or ``.tgz``. Its bytes depend on the files that go into it alone.
    graphs : bool
        Whether the learned graphs go with it.

    Returns
    -------
    list of str
        The names of the files in it.

    Raises
    ------
    InputError
        If there are no runs, the name of ``out`` says no kind of archive, or a file changes
        meanwhile.
    """
    results, out = Path(results), Path(out)
    kind = _kind(out)
    tables = read_tables(results, read_plan(results))
    names = ["plan.json"] if (results / "plan.json").exists() else []
    names += [f"runs/{name}.csv" for name in tables]
    fits = dict.fromkeys(
        fit for name, table in tables.items() if name in FAMILIES for fit in fit_names(table)
    )
    for fit in fits:
        for suffix in (".json", ".npz") if graphs else (".json",):
            if (results / f"fits/{fit}{suffix}").exists():
                names.append(f"fits/{fit}{suffix}")
    for name in names:
        _check_name(name, results)
    contents = {}
    for name in names:
        content = (results / name).read_bytes()
        contents[name] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    manifest = json.dumps({"format": FORMAT, "files": contents}, indent=1).encode() + b"\n"
    with (
        atomic_path(out) as temporary,
        open(temporary, "wb") as stream,
        _writer(kind, stream) as add,
    ):
        add("manifest.json", manifest)
        for name in names:
            content = (results / name).read_bytes()
            if hashlib.sha256(content).hexdigest() != contents[name]["sha256"]:
                raise InputError(f"{results / name}: was written during the export; export again")
            add(name, content)
    return names


def import_archive(archive: str | Path, out: str | Path) -> list[str]:
    """Unpack an archive into a new folder of results.

    Parameters
    ----------
    archive : path
        As :func:`export` writes it.
    out : path
        The folder, which must not exist or be empty. It is complete or left as it was.

    Returns
    -------
    list of str
        The names of the files in it.

    Raises
    ------
    InputError
        If the folder is in use, or anything about the archive is not as it must be.
    """
    archive, out = Path(archive), Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out}: exists and is not an empty folder; name another one")
    kind = _kind(archive)
    out.absolute().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.absolute().parent) as folder:
        unpacked = Path(folder) / "results"
        try:
            with _reader(kind, archive) as members:
                names = _unpack(members, archive, unpacked)
        except FileNotFoundError:
            raise InputError(f"{archive}: no such file") from None
        except InputError:
            raise
        except _UNREADABLE as error:
            raise InputError(f"{archive}: not a readable {kind} archive ({error})") from None
        _check_contents(archive, unpacked, names)
        # One time for all: no file looks newer than what was made from it.
        now = time.time()
        for name in names:
            os.utime(unpacked / name, (now, now))
        if out.exists():
            out.rmdir()
        unpacked.rename(out)
    return names


def _unpack(members, archive: Path, folder: Path) -> list[str]:
    """Write the members that the manifest lists, each checked against it."""
    expected: dict[str, dict] | None = None
    left: set[str] = set()
    for name, is_file, size, stream in members:
        if not is_file:
            raise InputError(f"{archive}: {name!r} is not a plain file")
        if expected is None:
            if name != "manifest.json" or size > LARGEST_MANIFEST:
                raise InputError(f"{archive}: does not begin with a manifest.json")
            expected = _read_manifest(archive, stream().read(LARGEST_MANIFEST))
            left = set(expected)
            continue
        if name not in left:
            raise InputError(f"{archive}: {name!r} is not in the manifest, or is there twice")
        left.remove(name)
        _copy(archive, name, stream(), folder / name, expected[name])
    if expected is None:
        raise InputError(f"{archive}: empty, expected an archive of results")
    if left:
        raise InputError(f"{archive}: {min(left)!r} is in the manifest and missing")
    return list(expected)


def _read_manifest(archive: Path, content: bytes) -> dict[str, dict]:
    try:
        manifest = json.loads(content)
        version, files = manifest["format"], dict(manifest["files"])
        sizes = [int(entry["size"]) for entry in files.values()]
        digests = [str(entry["sha256"]) for entry in files.values()]
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise InputError(f"{archive}: manifest.json is not a manifest ({error!r})") from None
    if version != FORMAT:
        raise InputError(f"{archive}: found format {version!r}, expected {FORMAT}")
    for name, size in zip(files, sizes, strict=True):
        _check_name(name, archive)
        if not 0 <= size <= LARGEST_FILE:
            raise InputError(f"{archive}: {name!r} is said to have {size} bytes")
    if sum(sizes) > LARGEST_ARCHIVE:
        raise InputError(f"{archive}: is said to hold {sum(sizes)} bytes, more than is unpacked")
    return {
        name: {"size": size, "sha256": digest}
        for name, size, digest in zip(files, sizes, digests, strict=True)
    }


def _check_name(name: str, where: Path) -> None:
    if not _ALLOWED.fullmatch(name) or ".." in name:
        raise InputError(f"{where}: {name!r} is no name of a file of results")


def _copy(archive: Path, name: str, stream, path: Path, expected: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    digest, size = hashlib.sha256(), 0
    with open(path, "wb") as out:
        while chunk := stream.read(1 << 20):
            size += len(chunk)
            if size > expected["size"]:
                break
            digest.update(chunk)
            out.write(chunk)
    if size != expected["size"] or digest.hexdigest() != expected["sha256"]:
        raise InputError(f"{archive}: {name!r} is not the file that the manifest describes")


def _check_contents(archive: Path, folder: Path, names: list[str]) -> None:
    """Whether every file is what its name says."""
    name = "plan.json"
    try:
        read_plan(folder)
        for name in names:
            path = folder / name
            if name.startswith("runs/"):
                _check_runs(path)
            elif path.suffix == ".json":
                if not isinstance(read_json(path), dict):
                    raise InputError(f"{path}: not the record of a fit")
            else:
                read_npz(path)
        read_tables(folder)
    except InputError as error:
        message = str(error).replace(f"{folder}/", "")
        raise InputError(f"{archive}: {message}") from None
    except (ValueError, OverflowError, RecursionError) as error:
        # Numbers and depths that a file can have and Python cannot.
        raise InputError(f"{archive}: {name}: {error}") from None


def _check_runs(path: Path) -> None:
    try:
        table = read_runs(path)
        if path.stem in FAMILIES:
            for fit in fit_names(table):
                _check_name(f"fits/{fit}.json", path)
            wrong = set(table["experiment"]) - {path.stem}
            if wrong:
                raise ValueError(f"experiment {min(map(str, wrong))!r} in it")
    except InputError:
        raise
    except (ValueError, KeyError) as error:
        # What pandas raises on a file that is no table is a ValueError as well.
        raise InputError(f"{path}: not a table of runs ({error})") from None


# The two kinds of archive


def _kind(path: Path) -> str:
    for suffix, kind in ((".zip", "zip"), (".tar.gz", "tar.gz"), (".tgz", "tar.gz")):
        if path.name.endswith(suffix):
            return kind
    raise InputError(f"{path}: expected a name that ends in .zip or .tar.gz")


@contextmanager
def _writer(kind: str, stream):
    """A function that adds a file of this name and content, with no date and no owner."""
    if kind == "zip":
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as packed:

            def add(name: str, content: bytes) -> None:
                entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                entry.external_attr = 0o100644 << 16
                packed.writestr(entry, content, zipfile.ZIP_DEFLATED)

            yield add
        return
    import gzip

    # Without the name and the time that gzip would write into its header.
    with (
        gzip.GzipFile("", "wb", fileobj=stream, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as packed,
    ):

        def add(name: str, content: bytes) -> None:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            packed.addfile(entry, io.BytesIO(content))

        yield add


@contextmanager
def _reader(kind: str, path: Path) -> Iterator:
    """For each member its name, whether it is a plain file, its size and a way to open it."""
    if kind == "zip":
        with zipfile.ZipFile(path) as packed:
            yield (
                (
                    # Names as they stand in the archive: zipfile would tidy those it extracts.
                    entry.orig_filename,
                    not entry.is_dir() and (entry.external_attr >> 28) in (0, 0o10),
                    entry.file_size,
                    lambda entry=entry: packed.open(entry),
                )
                for entry in packed.infolist()
            )
        return
    with tarfile.open(path, "r|gz") as packed:
        yield (
            (entry.name, entry.isreg(), entry.size, lambda entry=entry: packed.extractfile(entry))
            for entry in packed
        )
