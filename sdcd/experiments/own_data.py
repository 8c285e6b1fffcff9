"""Tables of a person's own, as the workflow fits them: ``own_data`` of the configuration.

Each has a name. Every method is fitted to all rows with each seed, and to each resample of the rows
once; a fit of all is ``fits/{name}/seed{k}/{method}.npz``, one of a resample
``fits/{name}/resample{k}/{method}.npz`` in the folder of results ``own``.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from sdcd.data.dataset import read_dataset
from sdcd.data.edges import read_edges
from sdcd.data.knowledge import KEYS, read_knowledge
from sdcd.data.look import Look, look
from sdcd.data.own_data import TableOptions, check_as_fitted
from sdcd.errors import InputError
from sdcd.experiments.configuration import checked
from sdcd.experiments.plan import (
    MethodPlan,
    check_names,
    method_plan,
    named_methods,
    require_interventional,
    seeds_of,
)
from sdcd.methods.registry import methods as registered_methods
from sdcd.parameters import closest

FOLDER = "own"
"""The folder of results, beside those of the scales."""

TAKEN = ("finished", "progress.json")
"""What the workflow removes, or writes, in this folder: no table can be called so."""

OF_GRIDS = {"min_d", "max_d", "max_seeds", "fewer_seeds", "scatter"}
"""Options of a method that say nothing of a single table."""

SMALL = 2_000_000
"""Values of a table that is read before anything is planned: it takes a second or two."""

RUN_PATTERN = r"(?:seed|resample)\d+"
"""Matches what a method is fitted to: all rows with a seed, or a resample."""

_READING = (*(field.name for field in fields(TableOptions)), "standardise")


@dataclass(frozen=True)
class OwnStudy:
    """One table, with all that is fitted to it.

    Attributes
    ----------
    name : str
        What the person calls it.
    data : str
        The file.
    reading : dict
        Fields of :class:`~sdcd.data.own_data.TableOptions`, and ``standardise``, where given.
    truth : str or None
        A list of edges that the graphs are compared with.
    knowledge : dict of str to str
        Files that say what is known beforehand, by :data:`sdcd.data.knowledge.KEYS`.
    seeds : list of int
        Of the methods, on all rows.
    resamples : int
        Draws of the rows, numbered from 1; see :mod:`sdcd.fits.draws`.
    methods : dict of str to MethodPlan
        In the order of the configuration.
    """

    name: str
    data: str
    reading: Mapping[str, object]
    truth: str | None
    knowledge: Mapping[str, str]
    seeds: list[int]
    resamples: int
    methods: Mapping[str, MethodPlan]

    def runs(self) -> list[str]:
        """What each method is fitted to: ``seed0``, ..., ``resample1``, ..."""
        numbers = range(1, self.resamples + 1)
        return [f"seed{k}" for k in self.seeds] + [f"resample{k}" for k in numbers]

    def fits(self) -> list[tuple[str, str]]:
        """Every pair of run and method, by method."""
        return [(run, method) for method in self.methods for run in self.runs()]

    def to_json(self) -> str:
        """All that a report needs, on one line."""
        content = {**asdict(self), "methods": {m: p.shortened for m, p in self.methods.items()}}
        return json.dumps(content, separators=(",", ":"), ensure_ascii=False)


def of_run(run: str) -> tuple[str, int]:
    """``seed`` or ``resample``, and its number."""
    kind = run.rstrip("0123456789")
    return kind, int(run.removeprefix(kind))


def own_studies(config: Mapping[str, object], schema: Mapping[str, object]) -> dict[str, OwnStudy]:
    """The tables of a configuration, by name; files are not looked at.

    Parameters
    ----------
    config, schema : mapping
        As for :func:`sdcd.experiments.plan.make_plan`, which has registered the outside commands.

    Raises
    ------
    InputError
        For the first fault found, in one line that names the config key.
    """
    config = checked(config, schema)
    kinds = {name: method.data for name, method in registered_methods().items()}
    if config["own_data"] and FOLDER in config["scales"]:
        raise InputError(
            f"config key scales.{FOLDER}: found a scale of this name, expected another: the "
            f"results of 'own_data' are called {FOLDER}"
        )
    found = {}
    for name, content in config["own_data"].items():
        where = f"own_data.{name}"
        if name in TAKEN:
            raise InputError(
                f"config key {where}: found a table of this name, expected another: the workflow "
                f"has something called {name} where its page would go"
            )
        for method, options in content["method_options"].items():
            for key in sorted(OF_GRIDS & options.keys()):
                raise InputError(
                    f"config key {where}.method_options.{method}.{key}: expected only for the "
                    "data sets of the scales"
                )
        names = named_methods(config, content["methods"], kinds)
        check_names(names, f"{where}.methods", kinds)
        check_names(content["method_options"], f"{where}.method_options", kinds)
        if not names:
            raise InputError(f"config key {where}.methods: no method, expected one or more")
        if content.get("perturbation_column") is not None:
            instead = ", or no perturbation_column"
            require_interventional(names, f"{where}.methods", kinds, instead)
        known = {key: content[key] for key in KEYS if key in content}
        if known:
            _require_knowledge(names, f"{where}.methods")
        plans = {method: method_plan(config, content, where, method) for method in names}
        if config["gpu"] not in (True, "true"):
            plans = {method: plan for method, plan in plans.items() if not plan.gpu}
        if not plans:
            raise InputError(
                f"config key {where}.methods: found {', '.join(names)}, which need a GPU, expected "
                "others too, or gpu: true"
            )
        found[name] = OwnStudy(
            name=name,
            data=content["data"],
            reading={key: content[key] for key in _READING if key in content},
            truth=content.get("truth"),
            knowledge=known,
            seeds=seeds_of(content["seeds"]),
            resamples=int(content["resamples"]),
            methods=plans,
        )
    return found


def _require_knowledge(names: Iterable[str], where: str) -> None:
    for name in names:
        if not registered_methods()[name].knowledge:
            raise InputError(
                f"config key {where}: found {name!r}, which cannot honour forbidden or required "
                "edges or tiers, expected SDCD and its variants, or none of forbid, require, tiers"
            )


def look_at_files(study: OwnStudy) -> Look:
    """Look at a study's files before anything is made from them.

    Raises
    ------
    InputError
        If one is missing or is not what its name says, or a column is not there.
    """
    where = f"config key own_data.{study.name}"
    try:
        found = look(study.data)
    except InputError as error:
        raise InputError(f"{where}.data: {error}") from None
    given = [key for key in study.reading if key != "standardise"]
    if found.columns is None and given:
        raise InputError(
            f"{where}.{given[0]}: {study.data} says itself what was perturbed, expected no options "
            "about columns"
        )
    column = study.reading.get("perturbation_column")
    if column is not None and column not in found.columns:
        shown = ", ".join(found.columns[:8]) + (", ..." if len(found.columns) > 8 else "")
        raise InputError(
            f"{where}.perturbation_column: {study.data} has no column {column!r}"
            f"{closest(column, found.columns) or f' (columns: {shown})'}"
        )
    for key, path in {"truth": study.truth, **study.knowledge}.items():
        if path is None:
            continue
        if not path.endswith(".csv"):
            what = "variables and tiers" if key == "tiers" else "edges"
            raise InputError(f"{where}.{key}: found {path!r}, expected a .csv of {what}")
        if not Path(path).is_file():
            raise InputError(f"{where}.{key}: {path}: no such file")
    return found


def read_small_files(study: OwnStudy, found: Look) -> None:
    """Read a study's files as its jobs will, if its table has at most :data:`SMALL` values.

    Raises
    ------
    InputError
        For the first fault, such as a label that is no variable, as ``sdcd fit`` would find it.
    """
    from sdcd.data.required import refuse_required_cycle
    from sdcd.fits.child import require_kind

    if found.n * found.d > SMALL:
        return
    path = study.data
    try:
        data = read_dataset(path, **study.reading)
        check_as_fitted(path, data)
        for name in study.methods:
            require_kind(registered_methods()[name], data, path)
        refuse_required_cycle(data.names, study.knowledge.get("require"))
        read_knowledge(data.names, **study.knowledge)
        if study.truth is not None:
            read_truth(study.truth, data.names)
    except InputError as error:
        raise InputError(f"config key own_data.{study.name}: {error}") from None


def read_truth(path: str, names: Sequence[str]) -> tuple[np.ndarray, list[str]]:
    """The true graph over a table's variables, int8 (d, d), and in words what is left out of it.

    Raises
    ------
    InputError
        If the file is no list of edges, or none is between the variables.
    """
    left_out: list[str] = []
    adjacency, _ = read_edges(path, names, left_out=left_out)
    if not adjacency.any():
        raise InputError(
            f"{path}: no edge between the table's variables ({'; '.join(left_out) or 'empty'})"
        )
    return adjacency, left_out
