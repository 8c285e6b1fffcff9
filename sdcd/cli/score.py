"""``sdcd score``: a fit beside the true graph."""

import argparse
import json
import math
from pathlib import Path

from sdcd.cli._files import Outputs, failure, note, read_fit, say
from sdcd.errors import InputError

SCORES = (
    *("shd", "shd_cpdag", "aid", "precision", "recall", "f1"),
    *("n_edges", "average_precision", "is_dag"),
)
"""Keys of what ``sdcd score`` prints."""

ABOUT_DIRECTIONS = ("shd_cpdag", "aid", "is_dag")
"""Those of them that are not defined of pairs."""


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

        A list of edges has the columns parent and child. A score that is not defined is null, and
        standard error says why; of a fit that failed every score is, and the exit code is 3.
        """,
    ).add_argument
    add("fit", metavar="FIT.npz", help="a fit written by 'sdcd fit'")
    add("--truth", required=True, metavar="FILE", help="a data set with its graph, or edges (.csv)")
    add("--undirected", action="store_true", help="compare pairs, whatever the direction")
    add(
        "--restrict",
        action="store_true",
        help="leave edges out of the list that are from a variable to itself or have an end that "
        "the fit does not have, and say how many",
    )


def _score(options: argparse.Namespace, outputs: Outputs) -> int:
    from sdcd.cli import EXIT_FAILED_FIT
    from sdcd.metrics import score

    graph, record = read_fit(options.fit)
    if graph is None:
        say(json.dumps(dict.fromkeys(SCORES), indent=2))
        why = failure(record)
        note(f"sdcd: {options.fit}: the fit failed{why and ': '}{why}")
        return EXIT_FAILED_FIT
    names = graph.arrays["names"].tolist()
    truth = _truth(Path(options.truth), names, options.restrict)
    graphs = graph.adjacency, graph.weights, truth
    scores = _scores_of_pairs(*graphs) if options.undirected else score(*graphs)
    plain = {key: _json_number(scores[key]) for key in SCORES}
    say(json.dumps(plain, indent=2))
    reasons = _why_undefined(*graphs)
    if options.undirected:
        reasons |= dict.fromkeys(ABOUT_DIRECTIONS, "about directions")
    if missing := [f"{key} ({reasons[key]})" for key in SCORES if plain[key] is None]:
        note(f"not defined: {', '.join(missing)}")
    return 0


def _why_undefined(adjacency, weights, truth) -> dict[str, str]:
    """What it means if a score is null."""
    from sdcd.metrics import aid

    whose = "the true graph" if math.isnan(aid(truth, truth)) else "the learned graph"
    no_true = "no true edge"
    return {
        "aid": f"{whose} has a cycle, or undirected edges of no DAG",
        "precision": "no learned edge",
        "recall": no_true,
        "f1": "neither a learned nor a true edge",
        "average_precision": "the method gives no weights" if weights is None else no_true,
    }


def _scores_of_pairs(adjacency, weights, truth) -> dict:
    """The scores of which pairs are joined, whatever the direction."""
    import numpy as np

    from sdcd.metrics import average_precision, score

    adjacency, weights, truth = (
        None if matrix is None else np.maximum(matrix, matrix.T)
        for matrix in (adjacency, weights, truth)
    )
    # Each pair once; all of them twice have the same average precision.
    scores = score(np.triu(adjacency, 1), None, np.triu(truth, 1))
    ranked = {"average_precision": average_precision(weights, truth)}
    return {**scores, **dict.fromkeys(ABOUT_DIRECTIONS), **ranked}


def _truth(path: Path, names: list[str], restrict: bool):
    """The true adjacency over ``names``, in their order."""
    from sdcd.data.dataset import read_dataset
    from sdcd.data.edges import read_edges
    from sdcd.data.tables import few, refuse_other_file
    from sdcd.files import read_npz

    if path.suffix.lower() == ".csv":
        left_out = [] if restrict else None
        truth = read_edges(path, names, left_out=left_out)[0]
        if left_out:
            if not truth.any():
                raise InputError(
                    f"{path}: no edge is left ({'; '.join(left_out)}), expected some between the "
                    f"variables of the fit ({few(names, names[0])})"
                )
            note(f"left out of {path}: {'; '.join(left_out)}")
        return truth
    if path.suffix != ".npz":
        raise InputError(f"{path}: expected a data set (.npz) or a list of edges (.csv)")
    refuse_other_file(path, "a data set (.npz)", besides=b"PK")
    if {"adjacency", "weights"} <= set(arrays := read_npz(path)) and "X" not in arrays:
        raise InputError(
            f"{path}: a fit, expected a data set with its graph (.npz) or a list of edges (.csv), "
            "such as the .edges.csv beside the fit"
        )
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
