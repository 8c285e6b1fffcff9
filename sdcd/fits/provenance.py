"""Where a result comes from: the code that made it, and the data that it was made from."""

import hashlib
import json
import re
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from sdcd.errors import InputError
from sdcd.files import read_json
from sdcd.fits.fingerprint import PACKAGE, fingerprint
from sdcd.methods.contract import Method
from sdcd.methods.outside import files_of

CONTRACT = "sdcd.fits.child"
"""What every fit depends on besides its method: the program of its process, and how it reads data
and takes a graph."""


def fit_fingerprint(chosen: Method, settings: Mapping[str, object] = MappingProxyType({})) -> str:
    """The fingerprint of all code that the result of a fit depends on.

    The one answer to the question whether a fit would be made in the same way again, for the
    workflow, which reruns fits by it, for a fit's record, and for the checkpoint it goes on from.

    Parameters
    ----------
    chosen : Method
        Its modules count, and those of :data:`CONTRACT`, with all that they import from this
        package (:mod:`sdcd.fits.fingerprint`); a module outside this package does not. Of an
        outside command, its description counts and every file that it names
        (:func:`sdcd.methods.outside.files_of`).
    settings : mapping
        Those that differ from the method's defaults; they matter where they stand for a part of an
        outside command.

    Returns
    -------
    str
        16 hexadecimal digits.
    """
    own = [module for module in chosen.modules if module.partition(".")[0] == PACKAGE.name]
    spec = getattr(chosen.fit, "spec", None)
    if spec is None:
        return fingerprint(CONTRACT, *own)
    code = fingerprint(CONTRACT, *own, data=files_of(spec, settings))
    text = f"{code} {json.dumps(spec, sort_keys=True)}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def code_of(
    chosen: Method, settings: Mapping[str, object] = MappingProxyType({})
) -> dict[str, str | None]:
    """The code behind a fit, as its record has it.

    Returns
    -------
    dict
        ``fingerprint``: see :func:`fit_fingerprint`. ``commit``: see :func:`commit`.
    """
    return {"fingerprint": fit_fingerprint(chosen, settings), "commit": commit()}


def difference(record_path: str | Path, chosen: Method, settings: Mapping[str, object]) -> str:
    """Why this version would not make the fit with this record; empty if it would.

    Parameters
    ----------
    record_path : path
        The record, ``.json``.
    chosen : Method
        The method, as it is registered here.
    settings : mapping
        Those that would be given to it.
    """
    try:
        record = read_json(record_path)
    except InputError:
        return "not a readable record"
    if not isinstance(record, dict) or record.get("method") != chosen.name:
        return f"not a record of {chosen.name}"
    code = record.get("code")
    found = code.get("fingerprint") if isinstance(code, dict) else None
    if found != fit_fingerprint(chosen, settings):
        return f"made by other code ({found})"
    if record.get("params") != chosen.parameters(settings):
        return "made with other settings"
    return ""


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
