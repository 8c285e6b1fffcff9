"""``sdcd score``: a fit beside the true graph."""

import argparse
import json
import math
from pathlib import Path

import numpy as np

from sdcd.cli._files import Outputs, note, say
from sdcd.errors import InputError

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


def add(command) -> None:
    """Add the command."""
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
    add("fit", metavar="FIT.npz", help="a fit written by 'sdcd fit'")
    add("--truth", required=True, metavar="FILE", help="a data set with its graph, or edges (.csv)")
    add("--undirected", action="store_true", help="ignore the direction of edges")
    add(
        "--restrict",
        action="store_true",
        help="leave edges out of the list that are from a variable to itself or have an end that "
        "the fit does not have, and say how many",
    )


def _score(options: argparse.Namespace, outputs: Outputs) -> int:
    from sdcd.fits.record import load_fit
    from sdcd.metrics import score

    graph, _ = load_fit(options.fit)
    if graph is None:
        scores = dict.fromkeys(SCORES)
    else:
        names = graph.arrays["names"].tolist()
        truth = _truth(Path(options.truth), names, options.restrict)
        adjacency, weights = graph.adjacency, graph.weights
        if options.undirected:
            truth, adjacency, weights = map(_undirected, (truth, adjacency, weights))
        scores = score(adjacency, weights, truth)
    plain = {key: _json_number(scores[key]) for key in SCORES}
    say(json.dumps(plain, indent=2))
    return 0


def _undirected(matrix):
    """Each pair once, with the larger of its two entries: the upper triangle."""
    return None if matrix is None else np.triu(np.maximum(matrix, matrix.T), 1)


def _truth(path: Path, names: list[str], restrict: bool):
    """The true adjacency over ``names``, in their order."""
    from sdcd.data.dataset import read_dataset
    from sdcd.data.edges import read_edges

    if path.suffix == ".csv":
        left_out = [] if restrict else None
        truth = read_edges(path, names, left_out=left_out)[0]
        if left_out:
            note(f"left out of {path}: {'; '.join(left_out)}")
        return truth
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
