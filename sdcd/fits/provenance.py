"""Where a result comes from: the code that made it, and the data that it was made from."""

import hashlib
import re
import subprocess
from functools import cache
from pathlib import Path

from sdcd.fits.fingerprint import PACKAGE, fingerprint


def code_of(*modules: str) -> dict[str, str | None]:
    """The code behind a fit by a method of ``modules``.

    Returns
    -------
    dict
        ``fingerprint``: that of the modules and of the module that runs fits (see
        :mod:`sdcd.fits.fingerprint`); a module outside this package does not count. ``commit``: see
        :func:`commit`.
    """
    own = [module for module in modules if module.partition(".")[0] == PACKAGE.name]
    return {"fingerprint": fingerprint("sdcd.fits.child", *own), "commit": commit()}


@cache
def commit(folder: str | Path = PACKAGE) -> str | None:
    """The git commit of the files in ``folder``: 40 hexadecimal digits.

    ``-dirty`` is appended if tracked files differ from it. ``None`` if git does not track the
    folder (an installed package) or is not there.
    """
    if not _git(folder, "ls-files", "."):
        return None
    described = _git(folder, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    return described if re.fullmatch(r"[0-9a-f]{40}(-dirty)?", described) else None


def digest(path: str | Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _git(folder: str | Path, *arguments: str) -> str:
    # Without optional locks: many fits may ask at once.
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    try:
        end = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return end.stdout.strip()
