"""``sdcd fit``: a graph from a data set or from a person's own table."""

import argparse
import contextlib
import shutil
import sys
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sdcd.cli._files import (
    Outputs,
    failure,
    note,
    only_writer,
    require_suffix,
    require_writable,
    say,
)
from sdcd.cli._model import model_path, write_model
from sdcd.cli._resamples import (
    add_resample_options,
    refuse_without_resamples,
    require_resamples,
    resample_and_tell,
    resample_outputs,
)
from sdcd.cli._tables import ABOUT_TABLES, add_table_options, read_described, tell
from sdcd.cli._types import count, natural, positive, setting
from sdcd.errors import DataError, InputError

EDGE_ARRAYS = ("gain", "gain_se", "reversal", "reversal_se")
"""Arrays of a fit that are columns of its list of edges: see :mod:`sdcd.estimator.pruning` and
:class:`sdcd.estimator.ordered.Ordered`."""

PARTS = (".held_out.npz", ".fitted_on.npz")
"""What --hold-out-targets writes beside a fit."""

PICTURES = (".graph.png", ".graph.pdf")


def add(command) -> None:
    """Add the command."""
    parser = command(
        "fit",
        _fit,
        "Learn a graph from a data set or from your own table.",
        """\
        examples:
          sdcd fit data.npz --method SDCD -o fit.npz
          sdcd fit cells.csv --perturbation-column guide --control NT -o fit.npz
          sdcd fit screen.h5ad --perturbation-column perturbation --set alpha_2=0.001 -o fit.npz

"""
        + ABOUT_TABLES
        + """\

        written beside fit.npz (weights, adjacency, names):
          fit.json         method, status, reason, seconds, peak_rss_mb, params, versions, ...
          fit.edges.csv    parent, child, weight, the strongest edge first; with a model of the
                           graph also slope: how the child's mean moves with the parent, in standard
                           deviations, its sign that of the edge; after pruning also gain
                           and gain_se: how much the edge improves the prediction of its child;
                           after order search also reversal and reversal_se: the cost of reversing
                           the edge
          fit.model.npz    the model of the graph, for 'sdcd evaluate', 'effects' and 'sample'
          fit.graph.png, fit.graph.pdf    a picture of the graph

        with --resamples also:
          fit.edges.csv    has the columns frequency and frequency_reversed, and is ranked by the
                           former: the share of the resamples with this edge, with the opposite one
          fit.frequencies.csv    the same of every edge that any resample has
          fit.consensus.npz, .json    the graph of the edges that most resamples have, as a fit
          fit.resamples/   the fits; a command that was stopped goes on from them

        exit code: 0 done; 2 wrong input, nothing written; 3 the fit failed: fit.json says why;
        4 a system error such as a full disk, or the fit's process was killed from outside (the
        message lists what was written).
        """,
    )
    add = parser.add_argument
    add("file", metavar="FILE", help=".npz, .csv, .tsv, .parquet, .h5ad or .zarr")
    add("--method", default="SDCD", help="a name listed by 'sdcd methods' (default SDCD)")
    add("--seed", type=natural, default=0, help="seed of the method (default 0)")
    add(
        "--set",
        dest="settings",
        action="append",
        type=setting,
        metavar="KEY=VALUE",
        help="a setting of the method, as JSON or else as text; may be repeated",
    )
    add("-o", "--out", required=True, metavar="FILE.npz", help="the file to write the fit to")
    add("--threads", type=count, default=1, help="threads of the fit (default 1)")
    add("--time-limit", type=positive, metavar="SECONDS", help="stop the fit after this time")
    add(
        "--memory-limit",
        type=positive,
        metavar="MB",
        help="stop the fit above this memory, in 10^6 bytes",
    )
    add("--log", metavar="FILE", help="write what the method prints to this file")
    add(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="report SDCD's progress on standard error (default: if it is a terminal)",
    )
    add("--no-picture", action="store_true", help="do not draw the graph")
    add(
        "--model",
        action=argparse.BooleanOptionalAction,
        help="fit the model of the graph too, if it is a DAG (default: for SDCD and its variants)",
    )
    add = parser.add_argument_group("prior knowledge (for SDCD and its variants)").add_argument
    add("--forbid", metavar="FILE.csv", help="forbidden edges: columns parent, child")
    add("--require", metavar="FILE.csv", help="required edges: columns parent, child")
    add(
        "--tiers",
        metavar="FILE.csv",
        help="no edge from a later tier to an earlier one: columns variable, tier",
    )
    parser.add_argument(
        "--hold-out-targets",
        metavar="SHARE or NAME,...",
        help="leave this share of the perturbations out of the fit, or those of these variables, "
        "with as large a share of the unperturbed rows, and write fit.held_out.npz and "
        "fit.fitted_on.npz for 'sdcd evaluate'",
    )
    add_resample_options(parser)
    add_table_options(parser)


def _fit(options: argparse.Namespace, outputs: Outputs) -> int:
    require_suffix(options.out, (".npz",))
    # Before a folder is made for the lock.
    require_writable(Path(options.out))
    with only_writer(Path(options.out)):
        return _fit_alone(options, outputs)


def _fit_alone(options: argparse.Namespace, outputs: Outputs) -> int:
    from sdcd.cli import EXIT_FAILED_FIT
    from sdcd.data.knowledge import read_knowledge
    from sdcd.data.own_data import suffix_of
    from sdcd.data.required import refuse_required_cycle
    from sdcd.files import atomic_path
    from sdcd.fits.child import require_kind
    from sdcd.fits.run import run_fit
    from sdcd.methods.registry import method

    refuse_without_resamples(options)
    source, out = Path(options.file), Path(options.out)
    if suffix_of(source) != ".zarr" and source.is_dir():
        raise InputError(f"{source}: is a folder, expected a file (or a .zarr folder)")
    files = {"forbid": options.forbid, "require": options.require, "tiers": options.tiers}
    known = [path for path in files.values() if path is not None]
    parts = [out.with_suffix(end) for end in PARTS] if options.hold_out_targets is not None else []
    outputs.expect(_may_write(options, out, parts), [options.file, *known])
    refuse_input_that_goes(out, [options.file, *known, *([options.log] if options.log else [])])
    settings = dict(options.settings or [])
    chosen = method(options.method)
    # Refused at once by a method that cannot; what the files say follows when names are known.
    chosen.parameters({**settings, "knowledge": {"forbid": []} if known else None})
    read = read_described(options, source)
    require_kind(chosen, read.dataset, source)
    kept, held_out = _without_targets(options, read.dataset) if parts else (read.dataset, None)
    require_resamples(options, kept)
    if known:
        refuse_required_cycle(read.dataset.names, files["require"])
        settings["knowledge"] = read_knowledge(read.dataset.names, **files)
    tell(replace(read, dataset=kept), source, f"{options.method} on ")
    with tempfile.TemporaryDirectory(prefix="sdcd-") as folder:
        data, mean, sd = _write_rows(options, read, kept, held_out, Path(folder))
        del read, kept, held_out
        record = run_fit(
            data,
            options.method,
            shown_as=source,
            seed=options.seed,
            settings=settings,
            out=out,
            time_limit_s=options.time_limit,
            memory_limit_mb=options.memory_limit,
            threads=options.threads,
            log=options.log,
            progress=sys.stderr.isatty() if options.progress is None else options.progress,
        )
        # If what follows is interrupted, nothing of an earlier fit lies beside this one.
        remove_views(out)
        for path, end in zip(parts, PARTS, strict=False):
            with atomic_path(path) as temporary:
                shutil.copyfile(Path(folder, end[1:]), temporary)
        slopes = None
        # Those that honour what is known beforehand are SDCD and its variants.
        if chosen.knowledge if options.model is None else options.model:
            slopes = write_model(out, data, mean, sd, seed=options.seed, threads=options.threads)
        agreed = resample_and_tell(options, record, out, data, settings)
    written = [out, out.with_suffix(".json")]
    written += write_views(
        out, picture=not options.no_picture, frequencies=agreed.frequencies, slopes=slopes
    )
    written += [*([] if slopes is None else [model_path(out)]), *agreed.written, *parts]
    for failed in (record, agreed.record):
        if failed["status"] != "ok":
            note(f"sdcd: fit failed: {failure(failed)}")
            return EXIT_FAILED_FIT
    for sentence in record["diagnostics"].get("warnings", ()):
        note(f"sdcd: warning: {sentence}")
    say("\n".join(map(str, written)))
    return 0


def _may_write(options: argparse.Namespace, out: Path, parts: list[Path]) -> list[Path | str]:
    """Every file that the command can leave."""
    files = [out, out.with_suffix(".json"), out.with_suffix(".edges.csv")]
    files += [] if options.no_picture else [out.with_suffix(end) for end in PICTURES]
    files += resample_outputs(out) if options.resamples else []
    files += [] if options.model is False else [model_path(out)]
    return [*files, *parts, *([options.log] if options.log else [])]


def _write_rows(options: argparse.Namespace, read, kept, held_out, folder: Path):
    """The file of the rows to fit; mean and standard deviation of its columns in the input's units.

    Rows held out, and those fitted beside them, are written to the folder too, in the input's
    units. They go beside the fit when it is there, and not before: those of an earlier fit are what
    that one may be evaluated on.
    """
    from sdcd.data.checks import scale_of, scaled
    from sdcd.data.dataset import write_dataset
    from sdcd.data.own_data import suffix_of

    source = Path(options.file)
    is_npz = suffix_of(source) == ".npz"
    standardised = options.standardise == "yes" or (options.standardise == "auto" and not is_npz)
    mean, sd = read.mean, read.sd
    if held_out is not None:
        for part, end in zip((held_out, kept), PARTS, strict=True):
            X = (part.X * sd + mean).astype(part.X.dtype)
            write_dataset(folder / end[1:], replace(part, X=X))
        if standardised:
            # Nothing of what is held out counts, its scale neither.
            own_mean, own_sd = scale_of(kept.X)
            kept = replace(kept, X=scaled(kept.X, own_mean, own_sd))
            mean, sd = mean + own_mean * sd, own_sd * sd
    elif is_npz and not standardised:
        return source, mean, sd
    data = folder / "data.npz"
    write_dataset(data, kept)
    return data, mean, sd


def _without_targets(options: argparse.Namespace, dataset):
    """The data set to fit, without some perturbations, and what is left out of it."""
    from sdcd.data.checks import check_fittable
    from sdcd.data.evaluation import hold_out

    which = _targets(options.hold_out_targets, dataset)
    try:
        rows, variables = hold_out(dataset.intervened, which, options.seed)
    except InputError as error:
        raise InputError(f"{options.file}: {error}") from None
    names = ", ".join(dataset.names[j] for j in variables)
    kept, held_out = (
        replace(dataset, X=dataset.X[part], intervened=dataset.intervened[part])
        for part in (~rows, rows)
    )
    try:
        check_fittable(kept.names, kept.X, kept.intervened)
    except DataError as error:
        raise InputError(
            f"{options.file}: without the rows that perturb {names}: {error}"
        ) from None
    note(f"held out: {rows.sum()} rows, with all that perturb {names}")
    return kept, held_out


def _targets(text: str, dataset) -> float | list[int]:
    """The share or the variables that --hold-out-targets says."""
    from sdcd.parameters import closest

    with contextlib.suppress(ValueError):
        if 0 < float(text) < 1:
            return float(text)
    # A name may have a comma itself.
    names = [text] if text in dataset.names else [name.strip() for name in text.split(",")]
    for name in names:
        where = f"--hold-out-targets: {name!r}"
        if name not in dataset.names:
            hint = closest(name, dataset.names)
            raise InputError(
                f"{where} is no variable{hint}, expected names or a share between 0 and 1"
            )
        if not dataset.intervened[:, dataset.names.index(name)].any():
            raise InputError(f"{where} is not perturbed in any row, expected one that is")
    return [dataset.names.index(name) for name in names]


def _views(fit: Path) -> list[Path]:
    """What a fit may have beside its graph: edges, pictures, model, rows held out."""
    suffixes = (".edges.csv", *PICTURES, *PARTS)
    return [*map(fit.with_suffix, suffixes), model_path(fit)]


def refuse_input_that_goes(fit: Path, inputs: Sequence[str | Path]) -> None:
    """Refuse to read, or log to, what goes away with the earlier fit of this name."""
    going = [path for path in (*_views(fit), *resample_outputs(fit)[:-1]) if path.exists()]
    for source in map(Path, inputs):
        if source.exists() and any(path.samefile(source) for path in going):
            raise InputError(
                f"{source}: belongs to the earlier fit {fit}, which the new one replaces, expected "
                "another name for the new one (-o)"
            )


def remove_views(fit: Path) -> None:
    """Remove what an earlier fit of this name left beside its graph."""
    for path in _views(fit):
        path.unlink(missing_ok=True)


def write_views(
    fit: str | Path, *, picture: bool = True, frequencies=None, slopes=None
) -> list[Path]:
    """Write what a person looks at beside a fit: its edges by name, and a picture.

    Parameters
    ----------
    fit : path
        ``fit.npz``. ``fit.edges.csv``, ``fit.graph.png`` and ``fit.graph.pdf`` are written beside
        it.
    picture : bool
        Whether to draw. Without matplotlib nothing is drawn, and standard error says so.
    frequencies : sdcd.fits.resamples.Frequencies, optional
        Of the edges, to rank them by, and to be columns of their list.
    slopes : float64 (d, d), optional
        Of the edges, to be a column.

    Returns
    -------
    list of Path
        What was written.
    """
    from sdcd.data.edges import write_edges
    from sdcd.fits.record import load_fit
    from sdcd.fits.resamples import write_ranked_edges

    fit = Path(fit)
    edges, stem = fit.with_suffix(".edges.csv"), fit.with_suffix(".graph")
    graph, record = load_fit(fit)
    if graph is None:
        return []
    names = graph.arrays["names"].tolist()
    more = {} if slopes is None else {"slope": slopes}
    more |= {name: graph.arrays[name] for name in EDGE_ARRAYS if name in graph.arrays}
    if frequencies is None:
        write_edges(edges, graph.adjacency, graph.weights, names, more)
    else:
        write_ranked_edges(edges, graph, frequencies, more)
    if not picture:
        return [edges]
    try:
        from sdcd.figures.graph import draw_graph
    except ImportError as error:
        note(f"sdcd: no picture: {error}; install with: pip install -e '.[figures]'")
        return [edges]
    title = f"{record.get('method', '')}, {int(graph.adjacency.sum())} edges".removeprefix(", ")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        drawn = draw_graph(graph.adjacency, graph.weights, names, stem, title=title)
    if any("missing from" in str(warning.message) for warning in caught):
        note("sdcd: the picture's font lacks some characters of the names")
    return [edges, *drawn]
