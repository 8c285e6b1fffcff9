"""What commands write: refused beforehand where it cannot be, and said where it ended early."""

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from sdcd.errors import InputError

_TEMPORARY_NAME = 10
"""Characters that a temporary name beside an output has more than the output's own."""


class StandardOutputError(OSError):
    """Standard output could not be written."""


def say(text: str) -> None:
    """Print on standard output, now."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StandardOutputError(error.strerror or str(error)) from None


def note(text: str, end: str = "\n") -> None:
    """Print on standard error, now; nobody may be reading."""
    with contextlib.suppress(OSError):
        print(text, end=end, file=sys.stderr, flush=True)


@contextlib.contextmanager
def only_writer(out: Path) -> Iterator[None]:
    """Refuse to write ``out`` while another process does; :class:`InputError`.

    The lock is the system's, on a small file beside, so that it ends with the process that holds
    it, however that ends. Where there are no locks, or the file cannot be made, there is none.
    """
    lock = out.with_name(f".{out.stem}.lock")
    made = [folder for folder in lock.parents if not folder.exists()]
    try:
        handle = _locked(lock)
    except BlockingIOError as error:
        raise InputError(f"{out}: is being written by another fit{error}") from None
    except OSError:
        handle = None
    try:
        yield
    finally:
        if handle is not None:
            # Before the lock ends: whoever has it has the file of this name.
            lock.unlink(missing_ok=True)
            os.close(handle)
        with contextlib.suppress(OSError):
            for folder in made:
                folder.rmdir()


def _locked(lock: Path) -> int:
    """The descriptor of a file that is locked, and has the number of this process in it."""
    import fcntl

    lock.parent.mkdir(parents=True, exist_ok=True)
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its holder may have removed it in between.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), lock.stat()):
                    os.ftruncate(handle, 0)
                    os.write(handle, str(os.getpid()).encode())
                    return handle
        except BlockingIOError:
            number = os.read(handle, 20).decode()
            os.close(handle)
            raise BlockingIOError(f" (process {number})" if number else "") from None
        except OSError:
            os.close(handle)
            raise
        os.close(handle)


def failure(record: Mapping[str, object]) -> str:
    """Why a fit failed, in words, from its record; empty if that does not say."""
    status, reason = record.get("status"), record.get("reason")
    # The reason then begins with the kind of error.
    parts = (None if status == "error" and reason else status, reason)
    return ": ".join(filter(None, parts))


class Outputs:
    """The files that a command writes, looked at before it begins."""

    def __init__(self):
        self._before: dict[Path, tuple | None] = {}

    def expect(self, outputs: Iterable[str | Path], inputs: Iterable[str | Path] = ()) -> None:
        """Take note of the outputs, and refuse what could not or must not be written.

        Parameters
        ----------
        outputs : paths
            Every file that the command may write.
        inputs : paths
            Every file or folder that it reads.

        Raises
        ------
        InputError
            If an output is an input, by whatever path or link, or lies in one; if two are the same;
            if one is a folder, has too long a name, or is where nothing can be written.
        """
        outputs, inputs = [Path(path) for path in outputs], [Path(path) for path in inputs]
        for k, out in enumerate(outputs):
            for source in inputs:
                if _same(out, source):
                    raise InputError(f"{out}: the output would overwrite the input {source}")
                if source.is_dir() and source.resolve() in out.resolve().parents:
                    raise InputError(f"{out}: the output would lie in the input {source}")
            for other in outputs[:k]:
                if _same(out, other):
                    raise InputError(f"{out}: two outputs would be the same file, {other}")
            require_writable(out)
            self._before[out] = _stamp(out)

    def written(self) -> list[Path]:
        """The outputs that are there, new or changed since :meth:`expect`."""
        return [path for path, before in self._before.items() if _stamp(path) not in (None, before)]

    def in_words(self) -> str:
        """Which outputs are there, as the end of a message."""
        if not self._before:
            return ""
        there = ", ".join(map(str, self.written())) or "none"
        return f" (outputs written before that: {there})"


def read_fit(path: str | Path):
    """As :func:`sdcd.fits.record.load_fit`, of a file that a person has named."""
    from sdcd.data.tables import refuse_other_file
    from sdcd.fits.record import load_fit

    refuse_other_file(path, "a fit (.npz) as 'sdcd fit' writes it", besides=b"PK")
    return load_fit(path)


def require_suffix(path: str | Path, suffixes: Sequence[str]) -> None:
    """Refuse an output with another suffix, or with nothing before it; :class:`InputError`."""
    name = Path(path).name
    if not name.endswith(tuple(suffixes)) or name in suffixes:
        raise InputError(f"{path}: the name of the output must end in {' or '.join(suffixes)}")


def require_writable(out: Path) -> None:
    """Refuse an output that could not be written, before the work and not after it."""
    # os.path says no where Path would raise, as for a name that is too long.
    if os.path.isdir(out):
        raise InputError(f"{out}: is a folder, expected the name of a file")
    folder = out.absolute().parent
    while not os.path.exists(folder):
        folder = folder.parent
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise InputError(f"{out}: nothing can be written in {folder}")
    with contextlib.suppress(OSError, AttributeError):
        longest = os.pathconf(folder, "PC_NAME_MAX") - _TEMPORARY_NAME
        new = out.absolute().relative_to(folder).parts
        if any(len(os.fsencode(part)) > longest for part in new):
            raise InputError(f"{out}: too long a name, expected at most {longest} bytes")
    if os.path.exists(out) and not os.access(out, os.W_OK):
        raise InputError(f"{out}: there already, and cannot be written")


def _same(one: Path, other: Path) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samefile(one, other)
    return os.path.realpath(one) == os.path.realpath(other)


def _stamp(path: Path) -> tuple | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
