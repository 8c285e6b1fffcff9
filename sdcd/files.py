"""Files that are either complete or absent, and from which no code is ever loaded."""

import json
import os
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from sdcd.errors import CorruptFile, InputError, UnreadableFile


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Give a temporary path beside ``path``; rename it to ``path`` if the block succeeds.

    The temporary name keeps the suffix, so that writers which look at it behave the same. If the
    block raises, the temporary file is removed and ``path`` is left as it was.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}.", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: str | Path, content: object) -> None:
    """Write ``content`` as indented JSON (UTF-8, keys in the order given, NaN refused)."""
    text = json.dumps(content, indent=2, allow_nan=False) + "\n"
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_json(path: str | Path) -> object:
    """Read a JSON file.

    Raises
    ------
    InputError
        If the file is missing; :class:`CorruptFile` if it is not JSON; :class:`UnreadableFile` if
        it cannot be read.
    """
    with _named_faults(path):
        try:
            return json.loads(Path(path).read_text(encoding="utf-8"))
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise CorruptFile(f"{path}: not a JSON file ({error})") from None


def write_npz(path: str | Path, **arrays: np.ndarray) -> None:
    """Write a compressed ``.npz`` whose bytes depend on the arrays alone.

    Object arrays are refused: they would need pickle to be read back.
    """
    for name, array in arrays.items():
        if np.asarray(array).dtype.hasobject:
            raise TypeError(f"array {name!r} has dtype object, which an .npz must not hold")
    with atomic_path(path) as temporary, open(temporary, "wb") as stream:
        np.savez_compressed(stream, **arrays)


def read_npz(path: str | Path) -> dict[str, np.ndarray]:
    """Read all arrays of an ``.npz`` without pickle.

    Raises
    ------
    InputError
        If the file is missing; :class:`CorruptFile` if it is truncated, damaged, not an ``.npz``,
        or holds pickled objects; :class:`UnreadableFile` if it cannot be read.
    """
    with _named_faults(path):
        try:
            with np.load(path, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        except _NOT_AN_NPZ as error:
            raise CorruptFile(f"{path}: not a readable .npz file ({error})") from None


# What numpy and zipfile find wrong with content. A damaged header can name an unknown compression
# (NotImplementedError) or say that a member is encrypted (RuntimeError).
_NOT_AN_NPZ = (
    *(zipfile.BadZipFile, zlib.error, EOFError, ValueError, KeyError),
    *(NotImplementedError, RuntimeError, struct.error),
)


@contextmanager
def _named_faults(path: str | Path) -> Iterator[None]:
    """Say in one line why a file could not be read, where its content is not the reason."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise UnreadableFile(f"{path}: cannot be read ({error.strerror or error})") from None
    except MemoryError:
        raise UnreadableFile(f"{path}: cannot be read (too little memory)") from None
