"""Commands outside this package as methods: they read files, and write a graph.

``docs/outside-commands.md`` says how to write one and how to name it in the configuration.
"""

import csv
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sdcd.data.dataset import Dataset, write_dataset
from sdcd.data.edges import edges_from_rows, number, read_rows
from sdcd.errors import FitKilled, InputError, MethodFailure, UnreadableFile
from sdcd.files import read_npz
from sdcd.methods.contract import Graph, Method, register
from sdcd.methods.registry import method, methods
from sdcd.signals import FROM_OUTSIDE, name_of

INPUTS = ("input", "input_csv", "intervened_csv")
PLACEHOLDERS = (*INPUTS, "output", "seed", "threads", "n", "d")

_KEYS = {
    "name": (str, "a string"),
    "command": (list, "a list of strings"),
    "data": (str, "'observational' or 'interventional'"),
    "output": (str, "'csv' or 'npz'"),
    "settings": (dict, "a mapping of names to values"),
    "environment": (dict, "a mapping of names to strings"),
    "threshold": (int | float, "a number"),
    "source": (str, "a string"),
}


@dataclass(frozen=True)
class OutsideCommand:
    """The fit function of an outside command.

    Attributes
    ----------
    spec : dict
        As :func:`register_outside` takes it; JSON-compatible.
    """

    spec: Mapping[str, object]

    def __call__(
        self, X: np.ndarray, intervened: np.ndarray, names: tuple[str, ...], seed: int, **settings
    ) -> Graph:
        """Write the data, run the command, read the graph.

        Raises
        ------
        MethodFailure
            ``unavailable`` if there is no such program, ``error`` if it ended with another exit
            code than 0 (with the last line of its standard error) or wrote no graph, ``nan`` if a
            weight is not finite.
        FitKilled
            If it was killed by a signal that people, schedulers and systems send.
        """
        spec = self.spec
        with tempfile.TemporaryDirectory(prefix="sdcd-") as folder:
            output = Path(folder) / f"output.{spec.get('output', 'csv')}"
            values = {
                **{name: str(value) for name, value in settings.items()},
                "input": f"{folder}/input.npz",
                "input_csv": f"{folder}/input.csv",
                "intervened_csv": f"{folder}/intervened.csv",
                "output": str(output),
                "seed": str(seed),
                "threads": os.environ.get("OMP_NUM_THREADS", "1"),
                "n": str(X.shape[0]),
                "d": str(X.shape[1]),
            }
            used = {name for part in spec["command"] for name in _placeholders(part)}
            if "input" in used:
                write_dataset(values["input"], Dataset(X, intervened, names))
            if "input_csv" in used:
                # Nine digits give a float32 back exactly.
                _write_csv(values["input_csv"], names, X, "%.9g")
            if "intervened_csv" in used:
                _write_csv(values["intervened_csv"], names, intervened, "%d")
            _run([_filled(part, values) for part in spec["command"]], spec.get("environment", {}))
            return read_graph(output, names, float(spec.get("threshold", 0.0)))


def register_outside(spec: Mapping[str, object]) -> Method:
    """Register an outside command as a method.

    Parameters
    ----------
    spec : mapping
        ``name``
            The method's name.
        ``command``
            Program and arguments, a list of strings; no shell is involved. ``{input}``,
            ``{input_csv}``, ``{intervened_csv}``, ``{output}``, ``{seed}``, ``{threads}``, ``{n}``,
            ``{d}`` and the names of settings in braces are replaced.
        ``data``
            ``observational`` (the default) or ``interventional``.
        ``output``
            ``csv`` (the default) or ``npz``: the suffix of ``{output}``.
        ``settings``
            Parameters of the method with their defaults.
        ``environment``
            Environment variables for the command, besides those of the caller.
        ``threshold``
            ``|weight| > threshold`` is an edge where the command gives weights only; 0 by default.
        ``source``
            Where the method comes from, in one line.

    Raises
    ------
    InputError
        If a key is missing, unknown or of the wrong type, or the name belongs to another method.
    """
    _check(spec)
    name = spec["name"]
    if name in methods() and not isinstance(method(name).fit, OutsideCommand):
        raise InputError(f"outside command {name!r}: a method of this package has this name")
    register(
        name=name,
        data=spec.get("data", "observational"),
        defaults=spec.get("settings", {}),
        source=spec.get("source", "outside command: " + " ".join(spec["command"])),
    )(OutsideCommand(dict(spec)))
    return method(name)


def files_of(spec: Mapping[str, object], settings: Mapping[str, object]) -> list[Path]:
    """The files that a command names: what it does depends on what is in them.

    Each argument that is the name of a file, or has one after a ``=`` or among its words (a command
    given to a shell), with settings put in; and the program, if it is given by its path. Folders,
    and what a script reads by itself, are not seen.

    Parameters
    ----------
    spec : mapping
        As :func:`register_outside` takes it.
    settings : mapping
        Those that differ from the defaults in ``spec``.

    Returns
    -------
    list of Path
        Existing files, each once, in the order in which they are named.
    """
    values = {**spec.get("settings", {}), **settings}
    program, *arguments = (
        _filled(part, {name: str(value) for name, value in values.items()})
        for part in spec["command"]
    )
    names = [program] if os.sep in program else []
    for argument in arguments:
        names += [argument, argument.partition("=")[2], *re.split(r"[\s\"'=;()]+", argument)]
    return list(dict.fromkeys(Path(name) for name in names if name and os.path.isfile(name)))


def read_graph(path: str | Path, names: tuple[str, ...], threshold: float = 0.0) -> Graph:
    """Read the graph that a command wrote.

    Parameters
    ----------
    path : path
        ``.npz`` with ``adjacency``, ``weights`` or both, or ``.csv`` with either

        - a list of edges: the header has ``parent`` and ``child``, and may have ``weight``; one
          row an edge, by names;
        - a matrix: a header of names, then one row for each parent; row names may stand in a first
          column. An entry of a matrix with other entries than 0 and 1 is a weight.
    names : tuple of d str
        Names of the variables.
    threshold : float
        Where there are weights only, ``|weight| > threshold`` is an edge.

    Raises
    ------
    MethodFailure
        ``error`` if there is no file or it does not hold a graph over these variables; ``nan`` if
        a weight is not finite.
    UnreadableFile
        If the file cannot be read, which says nothing about the command.
    """
    path = Path(path)
    if not path.exists():
        raise MethodFailure("error", "the command ended well but wrote no output file")
    try:
        if path.suffix == ".npz":
            arrays = read_npz(path)
            adjacency, weights = arrays.get("adjacency"), arrays.get("weights")
        else:
            adjacency, weights = _read_csv(path, names)
    except UnreadableFile:
        raise
    except InputError as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise MethodFailure("error", f"the command's output: {reason}") from None
    if adjacency is None and weights is None:
        raise MethodFailure("error", "the command's output has neither adjacency nor weights")
    shape = (len(names), len(names))
    for what, array in (("adjacency", adjacency), ("weights", weights)):
        if array is None:
            continue
        if array.shape != shape or array.dtype.kind not in "biuf":
            raise MethodFailure(
                "error",
                f"the command's {what} is {array.dtype} {array.shape}, expected numbers {shape}",
            )
        if not np.isfinite(array).all():
            raise MethodFailure("nan", f"the command's {what} has entries that are not finite")
    if weights is not None:
        weights = np.abs(weights.astype(np.float64))
    if adjacency is None:
        adjacency = weights > threshold
    return Graph(adjacency=adjacency != 0, weights=weights)


def _check(spec: Mapping[str, object]) -> None:
    where = f"outside command {spec.get('name', '')!r}"
    for key in ("name", "command"):
        if key not in spec:
            raise InputError(f"{where}: key {key!r} is missing")
    for key, value in spec.items():
        if key not in _KEYS:
            raise InputError(f"{where}: unknown key {key!r} (known: {', '.join(_KEYS)})")
        kind, expected = _KEYS[key]
        allowed = {"data": ("observational", "interventional"), "output": ("csv", "npz")}
        if not isinstance(value, kind) or value not in allowed.get(key, (value,)):
            raise InputError(f"{where}: {key} is {value!r}, expected {expected}")
    command = spec["command"]
    if not command or not all(isinstance(part, str) for part in command):
        raise InputError(f"{where}: command is {command!r}, expected a list of strings")
    for name, value in spec.get("environment", {}).items():
        if not isinstance(value, str):
            raise InputError(f"{where}: environment {name} is {value!r}, expected a string")
    for name in spec.get("settings", {}):
        if name in PLACEHOLDERS or not re.fullmatch(r"\w+", name):
            raise InputError(f"{where}: a setting cannot be called {name!r}")
    used = {name for part in command for name in _placeholders(part)}
    if "output" not in used or not used & {"input", "input_csv"}:
        raise InputError(
            f"{where}: the command must contain {{output}}, and {{input}} or {{input_csv}}"
        )


def _placeholders(part: str) -> list[str]:
    return re.findall(r"\{(\w+)\}", part)


def _filled(part: str, values: Mapping[str, str]) -> str:
    # Other braces stay as they are: programs given as an argument have some.
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), part)


def _run(arguments: list[str], environment: Mapping[str, str]) -> None:
    program = Path(arguments[0]).name
    last = ""
    try:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, **environment},
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise MethodFailure(
            "unavailable", f"cannot run {arguments[0]!r}: {error.strerror}"
        ) from None
    with process:
        for line in process.stderr:
            sys.stderr.write(line)
            last = line.strip() or last
    if process.returncode == 0:
        return
    # A shell or a launcher between us and the program reports a signal as 128 + its number.
    code = process.returncode
    name = name_of(-code if code < 0 else code - 128)
    if name in FROM_OUTSIDE:
        raise FitKilled(f"{program} was killed by {name}")
    how = f"was killed by {name}" if code < 0 else f"ended with exit code {code}"
    raise MethodFailure("error", f"{program} {how}" + (f": {last}" if last else ""))


def _write_csv(path: str, names: tuple[str, ...], values: np.ndarray, format: str) -> None:
    with open(path, "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, lineterminator="\n").writerow(names)
        np.savetxt(stream, values, fmt=format, delimiter=",")


def _read_csv(path: Path, names: tuple[str, ...]) -> tuple[np.ndarray | None, np.ndarray | None]:
    rows = read_rows(path)
    if {"parent", "child"} <= set(rows[0][1]):
        return edges_from_rows(path, rows, names)
    return _matrix(path, rows[0][1], rows[1:], names)


def _matrix(path, header, rows, names) -> tuple[np.ndarray | None, np.ndarray | None]:
    d = len(names)
    if len(rows) != d:
        raise InputError(f"{path}: {len(rows)} rows below the header, expected {d}")
    lines, rows = zip(*rows, strict=True)
    widths = {len(row) for row in rows}
    if widths == {d + 1} and len(header) in (d, d + 1):
        row_names = [row[0] for row in rows]
        header, rows = header[-d:], [row[1:] for row in rows]
    elif widths == {d} and len(header) == d:
        row_names = header
    else:
        raise InputError(f"{path}: rows of {sorted(widths)} cells, expected {d}")
    entries = np.array(
        [
            [number(path, cell, line, header[j]) for j, cell in enumerate(row)]
            for line, row in zip(lines, rows, strict=True)
        ]
    )
    entries = entries[_positions(path, row_names, names)][:, _positions(path, header, names)]
    if np.isin(entries, (0, 1)).all():
        return entries, None
    return None, entries


def _positions(path, found: list[str], names: tuple[str, ...]) -> list[int]:
    """Where each variable stands; by position if the names were changed (R does so) or left out."""
    if sorted(found) == sorted(names):
        return [found.index(name) for name in names]
    for j, name in enumerate(found):
        if name in names and name != names[j]:
            raise InputError(
                f"{path}: {name!r} stands at position {j + 1}, where {names[j]!r} is expected, "
                "and not all variables are named"
            )
    return list(range(len(names)))
