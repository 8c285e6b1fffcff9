"""Files that are either complete or absent, and from which no code is ever loaded."""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from sdcd.errors import InputError


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
    """Read a JSON file; raise :class:`InputError` if it is missing or not JSON."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{path}: not a JSON file ({error})") from None


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
        If the file is missing, truncated, not an ``.npz``, or holds pickled objects.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except Exception as error:
        raise InputError(f"{path}: not a readable .npz file ({error})") from None
