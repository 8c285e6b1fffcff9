"""The ``sdcd`` command.

Exit codes: 0 success; 2 wrong input, said in one line on standard error, nothing written; 3 the fit
failed, its record is kept; 4 the fit's process was killed by somebody else, nothing written; 129,
130 and 143 interrupted, nothing written.
"""

import argparse
import contextlib
import json
import math
import os
import signal
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path

import sdcd
from sdcd.errors import FitKilled, InputError
from sdcd.signals import Terminated, terminable

EXIT_INPUT = 2
EXIT_FAILED_FIT = 3
EXIT_KILLED = 4

SCORES = (
    "shd",
    "shd_cpdag",
    "aid",
    "precision",
    "recall",
    "f1",
    "n_edges",
    "average_precision",
    "is_dag",
)
"""Keys of what ``sdcd score`` prints."""

EDGE_ARRAYS = ("gain", "gain_se", "reversal", "reversal_se")
"""Arrays of a fit that are columns of its list of edges: see :mod:`sdcd.estimator.pruning` and
:class:`sdcd.estimator.ordered.Ordered`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = _parser()
    try:
        with terminable():
            options = parser.parse_args(arguments)
            code = options.run(options)
            sys.stdout.flush()
            return code
    except InputError as error:
        print(f"sdcd: error: {error}", file=sys.stderr)
        return EXIT_INPUT
    except FitKilled as error:
        print(f"sdcd: error: {error}", file=sys.stderr)
        return EXIT_KILLED
    except KeyboardInterrupt:
        print("sdcd: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except Terminated as end:
        # The terminal may be gone.
        with contextlib.suppress(OSError):
            print("sdcd: terminated", file=sys.stderr)
        return 128 + end.number
    except BrokenPipeError:
        # The reader has left; keep Python from flushing into the closed pipe at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


# simulate


def _simulate(options: argparse.Namespace) -> int:
    from sdcd.data.dataset import write_dataset
    from sdcd.simulation import simulate

    _require_output(options.out)
    dataset = simulate(
        options.d,
        options.s,
        options.seed,
        fraction=options.fraction,
        n_observational=options.n_observational,
        n_per_intervention=options.n_per_intervention,
        standardise=not options.raw,
    )
    write_dataset(options.out, dataset)
    return 0


# fit


def _fit(options: argparse.Namespace) -> int:
    from sdcd.data.dataset import read_dataset, write_dataset
    from sdcd.data.own_data import check_fittable
    from sdcd.fits.child import require_kind
    from sdcd.fits.run import run_fit
    from sdcd.methods.registry import method

    _require_output(options.out, other_than=options.file)
    settings = dict(options.settings or [])
    chosen = method(options.method)
    chosen.parameters(settings)
    source = Path(options.file)
    dataset = read_dataset(
        source,
        perturbation_column=options.perturbation_column,
        controls=options.control,
        ignore_columns=options.ignore_column or (),
        standardise=options.standardise,
    )
    if source.suffix == ".npz":
        check_fittable(source, dataset.names, dataset.X, dataset.intervened)
    require_kind(chosen, dataset, source)
    perturbed = int(dataset.intervened.any(axis=1).sum())
    print(
        f"{options.method} on {source}: {dataset.d} variables, {dataset.n} rows, "
        f"{perturbed} of them perturbed",
        file=sys.stderr,
    )
    with tempfile.TemporaryDirectory(prefix="sdcd-") as folder:
        data = source
        if source.suffix != ".npz" or options.standardise == "yes":
            data = Path(folder) / f"{source.stem}.npz"
            write_dataset(data, dataset)
        del dataset
        record = run_fit(
            data,
            options.method,
            shown_as=source,
            seed=options.seed,
            settings=settings,
            out=options.out,
            time_limit_s=options.time_limit,
            memory_limit_mb=options.memory_limit,
            threads=options.threads,
            log=options.log,
            progress=sys.stderr.isatty() if options.progress is None else options.progress,
        )
    written = [Path(options.out), Path(options.out).with_suffix(".json")]
    written += write_views(options.out, picture=not options.no_picture)
    if record["status"] != "ok":
        print(f"sdcd: fit failed: {record['status']}: {record['reason']}", file=sys.stderr)
        return EXIT_FAILED_FIT
    print("\n".join(map(str, written)))
    return 0


def write_views(fit: str | Path, *, picture: bool = True) -> list[Path]:
    """Write what a person looks at beside a fit: its edges by name, and a picture.

    Parameters
    ----------
    fit : path
        ``fit.npz``. ``fit.edges.csv``, ``fit.graph.png`` and ``fit.graph.pdf`` are written beside
        it; those of an earlier fit go away if this one failed.
    picture : bool
        Whether to draw. Without matplotlib nothing is drawn, and standard error says so.

    Returns
    -------
    list of Path
        What was written.
    """
    from sdcd.data.edges import write_edges
    from sdcd.fits.record import load_fit

    fit = Path(fit)
    edges, stem = fit.with_suffix(".edges.csv"), fit.with_suffix(".graph")
    for path in (edges, *(stem.with_name(f"{stem.name}{suffix}") for suffix in (".png", ".pdf"))):
        path.unlink(missing_ok=True)
    graph, record = load_fit(fit)
    if graph is None:
        return []
    names = graph.arrays["names"].tolist()
    more = {name: graph.arrays[name] for name in EDGE_ARRAYS if name in graph.arrays}
    write_edges(edges, graph.adjacency, graph.weights, names, more)
    if not picture:
        return [edges]
    try:
        from sdcd.figures.graph import draw_graph
    except ImportError as error:
        print(
            f"sdcd: no picture: {error}; install with: pip install -e '.[figures]'", file=sys.stderr
        )
        return [edges]
    title = f"{record.get('method', '')}, {int(graph.adjacency.sum())} edges".removeprefix(", ")
    return [edges, *draw_graph(graph.adjacency, graph.weights, names, stem, title=title)]


# score


def _score(options: argparse.Namespace) -> int:
    from sdcd.fits.record import load_fit
    from sdcd.metrics import score

    graph, _ = load_fit(options.fit)
    if graph is None:
        scores = dict.fromkeys(SCORES)
    else:
        names = graph.arrays["names"].tolist()
        scores = score(graph.adjacency, graph.weights, _truth(Path(options.truth), names))
    plain = {key: _json_number(scores[key]) for key in SCORES}
    print(json.dumps(plain, indent=2))
    return 0


def _truth(path: Path, names: list[str]):
    """The true adjacency over ``names``, in their order."""
    from sdcd.data.dataset import read_dataset
    from sdcd.data.edges import read_edges

    if path.suffix == ".csv":
        return read_edges(path, names)[0]
    if path.suffix != ".npz":
        raise InputError(f"{path}: expected a data set (.npz) or a list of edges (.csv)")
    dataset = read_dataset(path)
    if dataset.adjacency is None:
        raise InputError(f"{path}: no array 'adjacency', expected the true graph")
    if set(dataset.names) != set(names):
        missing = sorted(set(names) ^ set(dataset.names))
        raise InputError(
            f"{path}: {dataset.d} variables, the fit has {len(names)}; not in both: "
            f"{', '.join(missing[:5])}{', ...' if len(missing) > 5 else ''}"
        )
    order = [dataset.names.index(name) for name in names]
    return dataset.adjacency[order][:, order]


def _json_number(value):
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return value.item() if hasattr(value, "item") else value


# progress


def _progress(options: argparse.Namespace) -> int:
    from sdcd.experiments.progress import page, read_progress

    print(page(read_progress(options.results)))
    return 0


# methods


def _methods(options: argparse.Namespace) -> int:
    from sdcd.methods.registry import methods

    known = methods()
    if options.json:
        listing = {
            name: {"data": m.data, "source": m.source, "defaults": dict(m.defaults)}
            for name, m in known.items()
        }
        print(json.dumps(listing, indent=2))
        return 0
    print("observational: takes data without interventions only; interventional: takes both.\n")
    twins = [name for name in known if name.endswith("+prune")]
    ordered = [name for name in known if name.endswith("+order")]
    for name, m in known.items():
        if name in twins or name in ordered:
            continue
        settings = ", ".join(f"{key}={json.dumps(value)}" for key, value in m.defaults.items())
        print(f"{name}  ({m.data})")
        for line in (m.source, settings or "no settings"):
            print(textwrap.fill(line, 98, initial_indent="    ", subsequent_indent="      "))
    print(
        f"NAME+prune  (as NAME)\n    each of {len(twins)}, then held-out pruning as in SDCD-pruned"
    )
    print(
        f"NAME+order  (as NAME)\n    each of {len(ordered)}, then a search over causal orders as "
        "in SDCD-ordered"
    )
    return 0


# report, export, import


def _report(options: argparse.Namespace) -> int:
    from sdcd.report.redraw import redraw

    out = Path(options.out or Path(options.results) / "report.html")
    _require_writable(out, (".html",))
    written = redraw(options.results, out)
    print(written[-1])
    return 0


def _export(options: argparse.Namespace) -> int:
    from sdcd.report.archive import export

    out = Path(options.out)
    _require_writable(out, (".zip", ".tar.gz", ".tgz"))
    names = export(options.results, out, graphs=options.graphs)
    print(f"{out}: {len(names):,} files, {out.stat().st_size / 1e6:.1f} MB")
    return 0


def _import(options: argparse.Namespace) -> int:
    from sdcd.report.archive import import_archive

    names = import_archive(options.archive, options.out)
    print(f"{options.out}: {len(names):,} files; redraw with: sdcd report {options.out}")
    return 0


# The parser


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="sdcd",
        description="Stable Differentiable Causal Discovery and the methods it is compared with.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"sdcd {sdcd.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)

    def command(name: str, run, description: str, epilog: str) -> argparse.ArgumentParser:
        added = commands.add_parser(
            name,
            help=description,
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            epilog=textwrap.dedent(epilog),
        )
        added.set_defaults(run=run)
        return added

    add = command(
        "simulate",
        _simulate,
        "Draw one of the paper's data sets.",
        """\
        examples:
          sdcd simulate --d 20 --s 4 --seed 3 -o data.npz
          sdcd simulate --d 20 --s 2 --seed 0 --fraction 0.5 -o data.npz

        The same d, s and seed give the data set of the published run, value for value.
        """,
    ).add_argument
    add("--d", type=int, required=True, metavar="D", help="number of variables")
    add("--s", type=int, required=True, metavar="S", help="edges per variable")
    add("--seed", type=int, default=0, help="of graph, mechanisms and interventions (default 0)")
    add(
        "--fraction",
        type=float,
        metavar="F",
        help="intervene on this fraction of the variables, 0 to 1 (without: observational data)",
    )
    add("--raw", action="store_true", help="do not standardise")
    add(
        "--n-observational",
        type=int,
        default=10_000,
        metavar="N",
        help="rows without interventions (default 10000)",
    )
    add(
        "--n-per-intervention",
        type=int,
        default=500,
        metavar="N",
        help="rows for each variable intervened on (default 500)",
    )
    add("-o", "--out", required=True, metavar="FILE.npz", help="where the data set goes")

    add = command(
        "fit",
        _fit,
        "Learn a graph from a data set or from your own table.",
        """\
        examples:
          sdcd fit data.npz --method SDCD -o fit.npz
          sdcd fit cells.csv --perturbation-column guide --control NT -o fit.npz
          sdcd fit screen.h5ad --perturbation-column perturbation --set alpha_2=0.001 -o fit.npz

        Your own table (.csv, .parquet, .h5ad) has one column a variable and one row a sample, at
        least 256 of them. A cell of the perturbation column holds the name of the variable that
        was perturbed in this row, several separated by commas, or the value for unperturbed rows.
        In .h5ad the variables are those of X, the perturbation column is one of obs. In .csv a
        first column without a name (row names) is ignored.

        written beside fit.npz (weights, adjacency, names):
          fit.json         method, status, reason, seconds, peak_rss_mb, params, versions, ...
          fit.edges.csv    parent, child, weight, the strongest edge first; of a pruned graph also
                           gain and gain_se, what the edge adds to the prediction of its child;
                           of an ordered graph reversal and reversal_se, what turning it costs
          fit.graph.png, fit.graph.pdf    a picture of the graph

        exit code: 0 done; 2 wrong input, nothing written; 3 the fit failed: fit.json says why;
        4 the fit's process was killed from outside, nothing written.
        """,
    ).add_argument
    add("file", metavar="FILE", help=".npz, .csv, .parquet or .h5ad")
    add("--method", default="SDCD", help="as 'sdcd methods' lists it (default SDCD)")
    add("--seed", type=int, default=0, help="of the method (default 0)")
    add(
        "--set",
        dest="settings",
        action="append",
        type=_setting,
        metavar="KEY=VALUE",
        help="a setting of the method, as JSON or else as text; may be repeated",
    )
    add("-o", "--out", required=True, metavar="FILE.npz", help="where the fit goes")
    add(
        "--perturbation-column",
        metavar="COLUMN",
        help="which variables were perturbed in a row (without: none in any row)",
    )
    add(
        "--control",
        action="append",
        metavar="LABEL",
        help="value for unperturbed rows, may be repeated (default: an empty cell, 'control' and "
        "'non-targeting' in any case)",
    )
    add(
        "--ignore-column",
        action="append",
        metavar="COLUMN",
        help="a column that is no variable; may be repeated",
    )
    add(
        "--standardise",
        choices=("auto", "yes", "no"),
        default="auto",
        help="give each column mean 0 and standard deviation 1; auto: own tables, but not .npz",
    )
    add("--threads", type=_count, default=1, help="threads of the fit (default 1)")
    add("--time-limit", type=_positive, metavar="SECONDS", help="end the fit after so long")
    add("--memory-limit", type=_positive, metavar="MB", help="end the fit above so many 10^6 bytes")
    add("--log", metavar="FILE", help="keep what the method prints")
    add(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="say how far SDCD is on standard error (default: on a terminal)",
    )
    add("--no-picture", action="store_true", help="do not draw the graph")

    add = command(
        "score",
        _score,
        "Compare a fit with the true graph; prints JSON.",
        """\
        examples:
          sdcd score fit.npz --truth data.npz
          sdcd score fit.npz --truth edges.csv

        A list of edges has the columns parent and child. A score that is not defined, or of a fit
        that failed, is null.
        """,
    ).add_argument
    add("fit", metavar="FIT.npz", help="as 'sdcd fit' writes it")
    add("--truth", required=True, metavar="FILE", help="a data set with its graph, or edges (.csv)")

    add = command(
        "progress",
        _progress,
        "How far a run of the workflow is, what is left, and what failed.",
        """\
        examples:
          sdcd progress results/quick
          watch -n 60 sdcd progress results/paper

        Reads the folder alone: it can be asked from any machine that sees it, during the run too.
        """,
    ).add_argument
    add("results", nargs="?", default="results/quick", help="folder of a scale (results/quick)")

    add = command(
        "methods",
        _methods,
        "List the methods: the data they take, their source, their settings.",
        "",
    ).add_argument
    add("--json", action="store_true", help="for programs")

    add = command(
        "report",
        _report,
        "Redraw figures, tables, verdicts and the report from results alone.",
        """\
        examples:
          sdcd report results/quick
          sdcd report results/quick -o elsewhere/report.html

        Reads runs/, the records in fits/ and plan.json; nothing is fitted. Figures, tables and
        verdicts are written beside the report.
        """,
    ).add_argument
    add("results", metavar="FOLDER", help="such as results/quick")
    add("-o", "--out", metavar="FILE.html", help="where the report goes (FOLDER/report.html)")

    add = command(
        "export",
        _export,
        "Pack results into one archive, for another person to redraw.",
        """\
        example:
          sdcd export results/quick -o quick.tar.gz

        Holds the tables of runs and the records of the fits, not the data sets, which are
        simulated anew from their seeds.
        """,
    ).add_argument
    add("results", metavar="FOLDER", help="such as results/quick")
    add("-o", "--out", required=True, metavar="FILE", help=".zip or .tar.gz")
    add("--graphs", action="store_true", help="with the learned graphs and weights")

    add = command(
        "import",
        _import,
        "Unpack such an archive into a new folder of results.",
        """\
        example:
          sdcd import quick.tar.gz -o results/quick
          sdcd report results/quick

        Everything in the archive is checked before the folder appears. In results/{scale} of a
        clone, snakemake then draws from it what is missing, and fits nothing.
        """,
    ).add_argument
    add("archive", metavar="FILE", help="as 'sdcd export' writes it")
    add("-o", "--out", required=True, metavar="FOLDER", help="must not exist, or be empty")
    return parser


_EPILOG = """\
examples:
  sdcd simulate --d 20 --s 4 --seed 3 -o data.npz
  sdcd fit data.npz --method SDCD -o fit.npz
  sdcd score fit.npz --truth data.npz
  sdcd methods

'sdcd COMMAND --help' says more.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str):
        raise InputError(f"{message} (see {self.prog} --help)")


def _setting(text: str) -> tuple[str, object]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise argparse.ArgumentTypeError(f"{text!r}, expected key=value")
    try:
        return key, json.loads(value)
    except json.JSONDecodeError:
        return key, value


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r}, expected a positive number")
    return number


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r}, expected a positive integer")
    return number


def _require_output(path: str, other_than: str = "") -> None:
    """Refuse an output that could not be written, before the work and not after it."""
    out = Path(path)
    _require_writable(out, (".npz",))
    if other_than and out.resolve() == Path(other_than).resolve():
        raise InputError(f"{path}: the output would overwrite the input")


def _require_writable(out: Path, suffixes: Sequence[str]) -> None:
    if not out.name.endswith(tuple(suffixes)):
        raise InputError(f"{out}: the name of the output must end in {' or '.join(suffixes)}")
    folder = out.absolute().parent
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(f"{out}: nothing can be written in {folder}")


if __name__ == "__main__":
    sys.exit(main())
