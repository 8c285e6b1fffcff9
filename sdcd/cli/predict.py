"""``sdcd evaluate``, ``sdcd effects``, ``sdcd sample``: what a graph says of other data."""

import argparse
import json
from pathlib import Path

from sdcd.cli._files import Outputs, note, read_fit, require_suffix, say
from sdcd.cli._model import model_path, read_model
from sdcd.cli._tables import add_table_options, table_options
from sdcd.cli._types import count, natural
from sdcd.errors import InputError

_ABOUT_MODELS = """\
        The model of the graph is a network for each variable that predicts it from its parents
        (sdcd.estimator.generative). It is the one that 'sdcd fit' left beside the fit
        (fit.model.npz); or it is fitted to the data of --fitted-on, in a few seconds and in the
        same way each time. The graph must be a DAG, of whatever method. Data are taken in their
        own units.
"""


def add(command) -> None:
    """Add the commands."""
    parser = command(
        "evaluate",
        _evaluate,
        "Ask held-out perturbations about a graph; prints JSON.",
        """\
        examples:
          sdcd evaluate fit.npz --data held_out.npz
          sdcd evaluate fit.npz --data held_out.csv --perturbation-column guide

        without any truth, for the graph and beside it for the empty, the complete and a random
        graph, and for the largest mean differences:
          edge_distance        mean Wasserstein distance between a child's values where a parent is
                               perturbed and where nothing is, in standard deviations of the latter
          edges_moved          the share of these edges whose child moves (Mann-Whitney, 5 %)
          false_omission_rate  the share of moved pairs among those without a path
        null where there is no such pair; if there is none at all, standard error says why. With
        a model also the log density of the held-out values, in nats, by variable and by
        perturbation.

"""
        + _ABOUT_MODELS,
    )
    _add_common(parser)
    parser.add_argument("--data", required=True, metavar="FILE", help="the held-out data")

    parser = command(
        "effects",
        _effects,
        "Say how each variable's mean moves if another one is set.",
        """\
        example:
          sdcd effects fit.npz -o effects.csv

        effects.csv has a row for each ordered pair with a path: variable, set_to, child, shift,
        shift_se. Each variable is set to one standard deviation above its mean. shift_se is the
        error of the simulation alone; it does not say how good the model is.

"""
        + _ABOUT_MODELS,
    )
    _add_common(parser)
    parser.add_argument("-n", type=count, default=4000, help="draws (default 4000)")
    parser.add_argument("-o", "--out", required=True, metavar="FILE.csv", help="the file to write")

    parser = command(
        "sample",
        _sample,
        "Draw rows from the model of a graph, also under interventions.",
        """\
        example:
          sdcd sample fit.npz --do X3=2.5 -n 500 -o rows.csv

"""
        + _ABOUT_MODELS,
    )
    _add_common(parser)
    parser.add_argument(
        "--do",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a variable, in its own units; may be repeated",
    )
    parser.add_argument("-n", type=count, default=1000, help="rows (default 1000)")
    parser.add_argument("-o", "--out", required=True, metavar="FILE.csv", help="the file to write")


def _add_common(parser) -> None:
    """The fit, what it was made from, and how tables are read."""
    add = parser.add_argument
    add("fit", metavar="FIT.npz", help="a fit written by 'sdcd fit'")
    add(
        "--fitted-on",
        metavar="FILE",
        help="fit the model to these data, those of the fit (default: take fit.model.npz)",
    )
    add("--seed", type=natural, default=0, help="of draws, and of a model fitted here (default 0)")
    add_table_options(parser)
    parser.set_defaults(standardise="no")


def _evaluate(options: argparse.Namespace, outputs: Outputs) -> int:
    import numpy as np

    from sdcd.data.evaluation import beside, by_perturbation, moves, why_untested

    graph, names = _graph(options.fit)
    held_out = _read(options, options.data, names)
    moved = moves(held_out.X, held_out.intervened, seed=options.seed)
    found = {"without_truth": beside(graph, moved, seed=options.seed)}
    if not moved.tested.any():
        note(f"nothing to say of edges: {options.data}: {why_untested(held_out.intervened)}")
    if moved.left_out:
        note(f"{moved.left_out} perturbations were not looked at, to end in reasonable time")
    model = _model(options, graph, names)
    if model is None:
        note(f"no log density: {_no_model(options, graph)}")
    else:
        density = model.log_density(held_out.X, held_out.intervened)
        with np.errstate(invalid="ignore"):
            counts = np.isfinite(density).sum(axis=0)
            means = np.nansum(density, axis=0) / np.where(counts, counts, np.nan)
        found["log_density"] = {
            "by_variable": {
                name: None if np.isnan(mean) else float(mean)
                for name, mean in zip(names, means.tolist(), strict=True)
            },
            "by_perturbation": by_perturbation(density, held_out.intervened, names),
        }
    say(json.dumps(found, indent=2))
    return 0


def _effects(options: argparse.Namespace, outputs: Outputs) -> int:
    import numpy as np
    import pandas as pd

    from sdcd.data.paths import reachable

    _expect_table(options, outputs)
    graph, names = _graph(options.fit)
    found = _needed_model(options, graph, names).effects(n=options.n, seed=options.seed)
    i, j = np.nonzero(reachable(graph != 0))
    table = pd.DataFrame(
        {
            "variable": [names[k] for k in i],
            "set_to": found.values[i],
            "child": [names[k] for k in j],
            "shift": found.shift[i, j],
            "shift_se": found.shift_se[i, j],
        }
    )
    return _write_table(options, table)


def _sample(options: argparse.Namespace, outputs: Outputs) -> int:
    import pandas as pd

    _expect_table(options, outputs)
    graph, names = _graph(options.fit)
    do = dict(_assignment(text) for text in options.do)
    if len(do) < len(options.do):
        raise InputError("--do: a variable is set twice")
    rows = _needed_model(options, graph, names).sample(options.n, do, options.seed)
    return _write_table(options, pd.DataFrame(rows, columns=list(names)))


def _expect_table(options: argparse.Namespace, outputs: Outputs) -> None:
    require_suffix(options.out, (".csv",))
    inputs = [options.fit, options.fitted_on or model_path(options.fit)]
    outputs.expect([options.out], inputs)


def _write_table(options: argparse.Namespace, table) -> int:
    from sdcd.runs.table import write_csv

    write_csv(options.out, table)
    say(str(options.out))
    return 0


def _assignment(text: str) -> tuple[str, float]:
    name, found, value = text.rpartition("=")
    try:
        number = float(value)
    except ValueError:
        found = ""
    if not (found and name):
        raise InputError(f"--do {text}: expected NAME=VALUE with a number, as X3=2.5")
    return name, number


def _graph(path):
    graph, record = read_fit(path)
    if graph is None:
        raise InputError(f"{path}: a fit that failed ({record.get('status')}), without a graph")
    return graph.adjacency, tuple(graph.arrays["names"].tolist())


def _read(options: argparse.Namespace, path, names: tuple[str, ...]):
    """The data set in a file, with the fit's variables in the fit's order.

    Without the rows that perturb a variable that the fit does not have: these are not unperturbed.
    """
    import numpy as np

    from sdcd.data.checks import listing
    from sdcd.data.dataset import Dataset, describe_dataset

    if options.standardise != "no":
        raise InputError("--standardise: two files, two scales; data are taken as they are")
    read = describe_dataset(Path(path), table_options(options), standardise=options.standardise)
    for warning in read.warnings:
        note(f"warning: {path}: {warning}")
    left_out, dataset = read.left_out, read.dataset
    missing = [name for name in names if name not in dataset.names]
    if missing:
        more = ", ..." if len(missing) > 5 else ""
        raise InputError(
            f"{path}: no variable {', '.join(map(repr, missing[:5]))}{more}, expected the "
            f"{len(names)} of {options.fit}"
        )
    columns = [dataset.names.index(name) for name in names]
    X, intervened = dataset.X[:, columns], dataset.intervened[:, columns]
    others = [j for j, name in enumerate(dataset.names) if name not in names]
    targets = [dataset.names[j] for j in others if dataset.intervened[:, j].any()]
    if targets:
        kept = ~dataset.intervened[:, others].any(axis=1)
        why = f"rows that perturb {listing(targets)}, which {options.fit} does not have"
        if not kept.any():
            raise InputError(f"{path}: only {why}, expected others")
        left_out = [*left_out, f"{np.count_nonzero(~kept)} {why}"]
        X, intervened = X[kept], intervened[kept]
    if left_out:
        note(f"left out of {path}: {'; '.join(left_out)}")
    return Dataset(X, intervened, names)


def _needed_model(options: argparse.Namespace, graph, names):
    from sdcd.data.own_data import TableOptions

    reads = table_options(options) != TableOptions() or options.standardise != "no"
    if reads and options.fitted_on is None:
        raise InputError("options about reading a table, expected one to read: --fitted-on")
    model = _model(options, graph, names)
    if model is None:
        raise InputError(_no_model(options, graph))
    return model


def _no_model(options: argparse.Namespace, graph) -> str:
    from sdcd.graphs import is_acyclic

    if not is_acyclic(graph):
        return f"{options.fit}: the graph has a cycle, expected a DAG, which alone has a model"
    return (
        f"{options.fit}: no model beside it ({model_path(options.fit)}), expected a fit made with "
        "--model, or its data (--fitted-on)"
    )


def _model(options: argparse.Namespace, graph, names):
    """The model fitted to --fitted-on, else the one beside the fit, if there is one."""
    from sdcd.estimator.generative import fit_generative

    if options.fitted_on is None:
        return read_model(options.fit, graph, names)
    data = _read(options, options.fitted_on, names)
    try:
        return fit_generative(graph, data.X, data.intervened, names=names, seed=options.seed)
    except InputError as error:
        raise InputError(f"{options.fit} on {options.fitted_on}: {error}") from None
