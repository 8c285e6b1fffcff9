"""How sure is an edge: a method fitted again to parts of the rows, and how often it finds the edge.

Not in the paper. Each *resample* is a draw of rows within each perturbation, with a seed of the
method's own: half of the rows without replacement ("half"), or as many as there are with
replacement ("bootstrap"). Half of the rows varies as a bootstrap does (an average over half of n
rows, drawn without replacement, has the variance of one over n rows drawn with replacement), costs
half, and holds no row twice: of a bootstrap's rows that SDCD sets aside for validation, more than
half have a copy among those that it trains on. ``docs/how-sure.md`` has what was measured.

==========================  =====================================================================
:func:`run_resamples`       the fits, several at once, in files of their own; it can be stopped
:func:`count_edges`         how often each edge is there
:func:`consensus`           the edges that most resamples have, as a DAG
:func:`resample`            all of it, from a data set to files
==========================  =====================================================================
"""

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sdcd.data.dataset import Dataset, read_dataset, write_dataset
from sdcd.data.pairs import write_pairs
from sdcd.errors import InputError
from sdcd.files import read_json, write_json, write_npz
from sdcd.fits.draws import HOW, draw_all
from sdcd.fits.provenance import difference
from sdcd.fits.record import load_fit
from sdcd.fits.several import run_fits
from sdcd.graphs import dag_trim
from sdcd.methods.contract import Graph, Method
from sdcd.methods.registry import method

THRESHOLD = 0.5
"""An edge of the consensus graph is in more than this share of the resamples."""

SUFFIX = ".resamples"
"""Of the folder with the fits, beside the fit of all rows."""


@dataclass(frozen=True)
class Frequencies:
    """How often each edge is in the graphs of the resamples.

    Attributes
    ----------
    directed : float64 (d, d)
        At ``[i, j]`` the share of the graphs with i -> j and not j -> i.
    undirected : float64 (d, d)
        The share with i - j (both directions), which some methods return; symmetric.
    n : int
        Graphs.
    """

    directed: np.ndarray
    undirected: np.ndarray
    n: int

    @property
    def adjacent(self) -> np.ndarray:
        """The share of the graphs in which i and j are joined, in any way: float64 (d, d)."""
        return self.directed + self.directed.T + self.undirected


@dataclass(frozen=True)
class Agreement:
    """What :func:`resample` found.

    Attributes
    ----------
    record : dict
        As written to ``fit.consensus.json``: ``method``, ``status``, ``reason``, ``seconds`` (of
        all fits together), ``peak_rss_mb`` (the largest), ``seed``, ``params``, ``data``, ``code``,
        ``versions``, ``machine``, and ``resamples``: ``count``, ``how``, ``threshold``, ``ok``,
        ``failed`` (how many ended with each other status), ``edges`` of the consensus graph and
        ``edges_in_fit``, those of them that the fit of all rows has.
    frequencies : Frequencies or None
        None if no resample was fitted.
    written : list of path
        Files.
    """

    record: dict
    frequencies: Frequencies | None
    written: list[Path]


def run_resamples(
    data_path: str | Path,
    name: str,
    *,
    folder: str | Path,
    count: int,
    how: str = HOW[0],
    seed: int = 0,
    settings: Mapping[str, object] | None = None,
    cores: int = 1,
    shown_as: str | Path | None = None,
    report: Callable[[int, int, int], None] | None = None,
    **limits,
) -> list[Path]:
    """Fit a method to resamples of a data set.

    Parameters
    ----------
    data_path : path
        A data set as :func:`sdcd.data.dataset.write_dataset` writes it. Its values are taken as
        they are: a part of the rows is not standardised again.
    name : str
        A registered method.
    folder : path
        Resample k is written to ``{k:04d}.npz``, its record beside it. One that is there, of these
        data, settings and seed, by the code of today, is not made again.
    count : int
        Resamples, numbered from 1.
    how : {"half", "bootstrap"}
        See :func:`sdcd.fits.draws.draw`.
    seed : int
        Of all draws.
    settings : mapping, optional
        Parameters of the method that differ from its defaults.
    cores : int, default 1
        Fits at the same time. The bytes of a fit do not depend on it.
    shown_as : path, optional
        What messages and records call the data, where ``data_path`` is a copy.
    report : callable, optional
        Told, at first and as each is done, how many resamples there are, of how many, and how many
        of them were made by this call.
    **limits
        ``time_limit_s``, ``memory_limit_mb`` and ``threads`` of :func:`sdcd.fits.run.run_fit`,
        for each fit.

    Returns
    -------
    list of path
        The fits, in order of their numbers. Some may have failed; their records say why.

    Raises
    ------
    InputError
        If a resample has too few rows or a constant column; no fit is made then. And as run_fit
        does.
    FitKilled
        As run_fit does. What is done stays.
    """
    chosen = method(name)
    settings, shown_as = dict(settings or {}), shown_as or data_path
    dataset = read_dataset(data_path)
    draws = draw_all(dataset, count, seed=seed, how=how, shown_as=shown_as)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = {k: folder / f"{k:04d}.npz" for k in draws}
    data = _digest(dataset)
    marks = {k: {"number": k, "how": how, "seed": seed, "data": data} for k in draws}
    kept = {"time_s": limits.get("time_limit_s"), "memory_mb": limits.get("memory_limit_mb")}
    missing = [k for k in draws if not _is_done(paths[k], marks[k], kept, chosen, settings)]
    report = report or (lambda done, count, new: None)
    new = 0
    report(count - len(missing), count, new)
    with tempfile.TemporaryDirectory(prefix="sdcd-") as work:

        def jobs():
            for k in missing:
                # The record comes last: without it, what is there of an older fit does not count.
                paths[k].with_suffix(".json").unlink(missing_ok=True)
                part = Path(work) / f"{k}.npz"
                rows = draws[k].rows
                write_dataset(
                    part, Dataset(dataset.X[rows], dataset.intervened[rows], dataset.names)
                )
                yield {
                    "data_path": str(part),
                    "name": name,
                    "out": str(paths[k]),
                    "seed": draws[k].seed,
                    "settings": settings,
                    "shown_as": str(shown_as),
                    **limits,
                }

        for position, record in run_fits(jobs(), cores=cores):
            k = missing[position]
            (Path(work) / f"{k}.npz").unlink()
            write_json(paths[k].with_suffix(".json"), {**record, "resample": marks[k]})
            new += 1
            report(count - len(missing) + new, count, new)
    return list(paths.values())


def count_edges(graphs: Iterable[np.ndarray]) -> Frequencies:
    """How often each edge is in graphs (d, d) over the same variables, one at least."""
    directed = undirected = None
    n = 0
    for graph in graphs:
        there = np.asarray(graph) != 0
        if directed is None:
            directed, undirected = (np.zeros(there.shape) for _ in range(2))
        directed += there & ~there.T
        undirected += there & there.T
        n += 1
    if directed is None:
        raise InputError("resamples: no graph, expected one or more")
    return Frequencies(directed / n, undirected / n, n)


def consensus(directed: np.ndarray) -> np.ndarray:
    """The graph of the edges that most resamples have: a DAG, int8 (d, d).

    Of the frequencies of directed edges, float (d, d), those above :data:`THRESHOLD` are added by
    decreasing frequency, equals in order of parent and child, except where that closes a cycle.
    """
    return dag_trim(np.asarray(directed, dtype=np.float64), np.nextafter(THRESHOLD, np.inf))


def resample(
    fit: str | Path, data_path: str | Path, name: str, *, count: int, **how
) -> "Agreement":
    """Fit resamples, and write what they have in common beside the fit of all rows.

    ``fit.consensus.npz`` is a fit like any other: ``weights`` and ``frequency`` are
    :attr:`Frequencies.directed`, ``adjacency`` is the :func:`consensus`, ``frequency_undirected``
    is :attr:`Frequencies.undirected`. ``fit.frequencies.csv`` has every edge that any resample has,
    as :func:`write_ranked_edges` ranks them. If no resample was fitted, the ``.npz`` holds the
    names only, and there is no list.

    Parameters
    ----------
    fit : path
        ``fit.npz``, of all rows: its edges are marked in the list. The resamples go to
        ``fit.resamples/``.
    data_path, name, count, **how
        As :func:`run_resamples` takes them.

    Returns
    -------
    Agreement

    Raises
    ------
    InputError, FitKilled
        As :func:`run_resamples` does.
    """
    fit = Path(fit)
    own, _ = load_fit(fit)
    paths = run_resamples(data_path, name, folder=fit.with_suffix(SUFFIX), count=count, **how)
    records, graphs, failed = [], [], {}
    for path in paths:
        graph, record = load_fit(path)
        records.append(record)
        if graph is None:
            failed[record["status"]] = failed.get(record["status"], 0) + 1
        else:
            graphs.append(graph.adjacency)
    found = count_edges(graphs) if graphs else None
    record = _common_record(records, failed)
    names = own.arrays["names"]
    out, listed = fit.with_suffix(".consensus.npz"), fit.with_suffix(".frequencies.csv")
    listed.unlink(missing_ok=True)
    written = [out, out.with_suffix(".json")]
    if found is None:
        write_npz(out, names=names)
    else:
        agreed = consensus(found.directed)
        record["resamples"]["edges"] = int(agreed.sum())
        record["resamples"]["edges_in_fit"] = int((agreed * (own.adjacency != 0)).sum())
        write_npz(
            out,
            weights=found.directed,
            adjacency=agreed,
            names=names,
            frequency=found.directed,
            frequency_undirected=found.undirected,
        )
        marks = {"in_fit": own.adjacency != 0, "in_consensus": agreed != 0}
        seen = (found.directed + found.undirected) > 0
        _write_ranked(listed, names, seen, found, {**_columns(own, found), **marks})
        written.append(listed)
    write_json(out.with_suffix(".json"), record)
    return Agreement(record, found, written)


def write_ranked_edges(
    path: str | Path, graph: Graph, found: Frequencies, more: Mapping[str, np.ndarray]
) -> None:
    """Write a fit's edges by how often resamples have them.

    The columns are ``parent, child, weight, frequency, frequency_reversed`` (the share with the
    edge the other way round), ``frequency_undirected`` where some graph has undirected edges, and
    ``more``, each (d, d). Equals come by weight, then by how often the two are joined, then in
    order of parent and child.
    """
    columns = {**_columns(graph, found), **more}
    _write_ranked(path, graph.arrays["names"], graph.adjacency != 0, found, columns)


def _write_ranked(path, names, pairs: np.ndarray, found: Frequencies, columns) -> None:
    parents, children = np.nonzero(pairs)
    ends = parents, children
    weight = np.nan_to_num(columns["weight"][ends])
    ranks = (-found.directed[ends], -weight, -found.adjacent[ends])
    order = np.lexsort((children, parents, *reversed(ranks)))
    write_pairs(path, np.asarray(names).tolist(), parents[order], children[order], columns)


def _columns(fit: Graph, found: Frequencies) -> dict[str, np.ndarray]:
    weight = np.full(fit.adjacency.shape, np.nan) if fit.weights is None else fit.weights
    columns = {"weight": weight, "frequency": found.directed}
    columns["frequency_reversed"] = found.directed.T
    if found.undirected.any():
        columns["frequency_undirected"] = found.undirected
    return columns


def _common_record(records: list[dict], failed: dict[str, int]) -> dict:
    first = records[0]
    reasons = [each["reason"] for each in records if each["status"] != "ok"]
    none = len(reasons) == len(records)
    mark = first["resample"]
    return {
        "method": first["method"],
        "status": first["status"] if none else "ok",
        "reason": f"no resample was fitted, the first because: {reasons[0]}" if none else "",
        "seconds": round(sum(each["seconds"] for each in records), 4),
        "peak_rss_mb": max(each["peak_rss_mb"] for each in records),
        "seed": mark["seed"],
        **{key: first[key] for key in ("params", "data", "code", "versions", "machine")},
        "resamples": {
            "count": len(records),
            "how": mark["how"],
            "threshold": THRESHOLD,
            "ok": len(records) - len(reasons),
            "failed": failed,
        },
    }


def _digest(dataset: Dataset) -> str:
    digest = hashlib.sha256()
    for array in (dataset.X, np.packbits(dataset.intervened), np.array(dataset.names)):
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _is_done(path: Path, mark: dict, limits: dict, chosen: Method, settings: dict) -> bool:
    """Whether a resample is there that would be made in the same way again."""
    record_path = path.with_suffix(".json")
    if difference(record_path, chosen, settings):
        return False
    record = read_json(record_path)
    same = record.get("resample") == mark
    if same and record.get("status") != "ok":
        same = record.get("limits") == limits
    try:
        return same and load_fit(path) is not None
    except InputError:
        return False
