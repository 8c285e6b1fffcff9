"""The page on a person's own table: what the methods made of it, side by side.

Beside the page are its numbers: ``edges.csv``, every edge that some method has; ``agreement.csv``;
``evaluation.csv``; ``methods.csv``.
"""

import math
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from sdcd.data.evaluation import beside, moves
from sdcd.data.pairs import write_rows
from sdcd.files import atomic_path, read_json, read_npz
from sdcd.metrics import score
from sdcd.report.template import render
from sdcd.report.view import Span, Table, image
from sdcd.runs.own_data import (
    MOST,
    SAYS,
    MethodFits,
    SharedEdges,
    agreement,
    as_graph,
    perturbations_say,
    read_fits,
    shared_edges,
)

STATISTICS = (
    *("edges_tested", "edge_distance", "edges_moved"),
    *("pairs_omitted", "false_omission_rate"),
)
"""Of :func:`sdcd.data.evaluation.evaluate`, as the page shows them."""

SCORES = ("shd", "precision", "recall", "f1", "aid", "average_precision")
MOST_LISTED = 60
"""Edges on the page; all of them are in ``edges.csv``."""


def write(study: Mapping[str, object], results: Path, out: Path) -> None:
    """Write the page and its tables.

    Parameters
    ----------
    study : mapping
        As :meth:`sdcd.experiments.own_data.OwnStudy.to_json` writes it.
    results : path
        The folder with ``data/``, ``truth/`` and ``fits/``.
    out : path
        The page, ``.html``; the tables go beside it.

    Raises
    ------
    InputError
        If a file is missing or is not what it should be.
    """
    names, fits = read_fits(results, study)
    about = read_json(results / "data" / f"{study['name']}.json")
    truth, about_truth = None, None
    if study["truth"] is not None:
        truth = read_npz(results / "truth" / f"{study['name']}.npz")["adjacency"]
        about_truth = read_json(results / "truth" / f"{study['name']}.json")
    edges = shared_edges(fits, len(names))
    data = read_npz(results / "data" / f"{study['name']}.npz")
    says, rate = perturbations_say(data["X"], data["intervened"]) or (None, 0.0)
    evaluated = _evaluated(fits, data) if says is not None else {}
    scores = {method: _mean_scores(each, truth) for method, each in fits.items()}
    matrices = agreement(fits), agreement(fits, directed=False)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_rows(out.with_name("edges.csv"), *_all_edges(names, fits, edges, says, truth))
    write_rows(out.with_name("agreement.csv"), *_all_pairs(fits, matrices))
    write_rows(out.with_name("evaluation.csv"), *_all_statistics(evaluated))
    write_rows(out.with_name("methods.csv"), *_all_methods(fits, scores, truth))
    content = {
        "study": study,
        "about": about,
        "truth": about_truth,
        "methods": _methods_table(fits, scores, truth),
        "failures": _failures(fits),
        "agreement": _agreement_table(fits, matrices),
        "edges": _edges_table(names, fits, edges, says, truth),
        "says": None if says is None else _says_table(fits, edges, says),
        "evaluated": _evaluated_table(evaluated) if evaluated else None,
        "says_rate": f"{100 * rate:.3g}",
        "n_shared": int(edges.by_most().sum()),
        "n_edges": len(edges.parents),
        "n_listed": min(MOST_LISTED, len(edges.parents)),
        "n_methods": edges.n_methods,
        "shared_truth": _shared_truth(edges, truth),
        "pictures": _pictures(names, fits, edges),
    }
    text = render("own_data.html.j2", content)
    with atomic_path(out) as temporary:
        temporary.write_text(text, encoding="utf-8")


# Numbers


def _mean_scores(fits: MethodFits, truth: np.ndarray | None) -> dict[str, float]:
    """Means over the seeds' graphs; weights, and so average precision, are those of the first."""
    if truth is None or fits.adjacency is None:
        return {}
    found = []
    for directed, joined in zip(fits.directed, fits.joined, strict=True):
        # An undirected edge stands in both directions.
        graph = (directed | (joined & ~directed & ~directed.T)).astype(np.int8)
        found.append(score(graph, None, truth))
    whole = score(fits.adjacency, fits.weights, truth)
    means = {key: _mean([each[key] for each in found]) for key in SCORES}
    return {**means, "average_precision": whole["average_precision"]}


def _mean(values) -> float:
    values = [math.nan if value is None else float(value) for value in values]
    return float(np.mean(values))


def _evaluated(fits, data) -> dict[str, dict]:
    """Each method's statistics of its first seed's graph, beside those of other graphs."""
    found = moves(data["X"], data["intervened"])
    return {
        method: beside(each.adjacency, found)
        for method, each in fits.items()
        if each.adjacency is not None
    }


def _all_edges(names, fits, edges, says, truth):
    head = ["parent", "child", "methods", "reversed", "support"]
    head += [] if says is None else ["perturbation"]
    head += [f"share {method}" for method in fits]
    head += [f"frequency {method}" for method, each in fits.items() if each.resamples]
    head += [] if truth is None else ["true"]
    rows = []
    for e, (i, j) in enumerate(zip(edges.parents, edges.children, strict=True)):
        row = [names[i], names[j], edges.methods[e], edges.against[e], f"{edges.support[e]:.4g}"]
        row += [] if says is None else [SAYS[says[i, j]]]
        row += ["" if each.share is None else f"{each.share[i, j]:.4g}" for each in fits.values()]
        row += [f"{each.frequency[i, j]:.4g}" for each in fits.values() if each.resamples]
        row += [] if truth is None else [int(truth[i, j])]
        rows.append(row)
    return head, rows


def _all_pairs(fits, matrices):
    rows = [
        [one, other, *(_plain(matrix[a, b]) for matrix in matrices)]
        for a, one in enumerate(fits)
        for b, other in enumerate(fits)
    ]
    return ["method", "other", "directed", "joined"], rows


def _all_methods(fits, scores, truth):
    head = ["method", "graphs", "failed", "edges", "seconds", "peak_rss_mb"]
    head += [] if truth is None else SCORES
    rows = []
    for method, each in fits.items():
        graphs, failed, edges, seconds, peak = _counts(each)
        row = [method, graphs, failed, _plain(edges), _plain(seconds), peak]
        row += [] if truth is None else [_plain(scores[method].get(key)) for key in SCORES]
        rows.append(row)
    return head, rows


def _all_statistics(evaluated):
    rows = [
        [method, graph, *(_plain(statistics[key]) for key in STATISTICS)]
        for method, graphs in evaluated.items()
        for graph, statistics in graphs.items()
    ]
    return ["method", "graph", *STATISTICS], rows


def _counts(fits: MethodFits) -> tuple[int, int, float, float, float]:
    """Graphs, failed fits, mean edges of a seed's graph, mean seconds of a fit, peak memory.

    An edge without direction counts once.
    """
    ran = list(fits.records.values())
    failed = sum(record["status"] != "ok" for record in ran)
    edges = np.mean([np.triu(each).sum() for each in fits.joined]) if fits.joined else math.nan
    seconds = np.mean([record["seconds"] for record in ran])
    return len(ran) - failed, failed, edges, seconds, max(r["peak_rss_mb"] for r in ran)


def _plain(value) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.6g}"


# What is shown


def _shown(value, digits: int = 2) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def _methods_table(fits, scores, truth) -> Table:
    head = ["method", "graphs", "failed", "edges", "seconds per fit", "peak MB"]
    head += [] if truth is None else ["SHD", "precision", "recall", "F1", "AID", "AP"]
    rows = []
    for method, each in fits.items():
        graphs, failed, edges, seconds, peak = _counts(each)
        row = [method, str(graphs), str(failed or ""), _shown(edges, 0)]
        row += [_shown(seconds, 1), _shown(peak, 0)]
        if truth is not None:
            digits = [1, 2, 2, 2, 2, 2]
            of_method = [scores[method].get(key) for key in SCORES]
            row += [_shown(*each) for each in zip(of_method, digits, strict=True)]
        rows.append(row)
    return Table(head, rows, headers=1, numeric=frozenset(range(1, len(head))))


def _failures(fits) -> list[str]:
    found = Counter(
        (method, record["status"], record["reason"])
        for method, each in fits.items()
        for record in each.records.values()
        if record["status"] != "ok"
    )
    return [
        f"{n} x {method}: {status}: {reason}" for (method, status, reason), n in found.most_common()
    ]


def _agreement_table(fits, matrices) -> Table:
    rows = [
        [one, *([Span(_shown(x)), Span(_shown(y), "paper")] for x, y in zip(*of_one, strict=True))]
        for one, *of_one in zip(fits, *matrices, strict=True)
    ]
    return Table(["", *fits], rows, headers=1)


def _says_table(fits, edges: SharedEdges, says: np.ndarray) -> Table:
    rows = []

    def add(name, parents, children):
        counts = np.bincount(says[parents, children], minlength=len(SAYS))
        rows.append([name, str(len(parents)), *map(str, counts)])

    for method, each in fits.items():
        if each.share is not None:
            add(method, *np.nonzero(each.share > MOST))
    if edges.n_methods > 1:
        kept = edges.by_most()
        add("shared by most", edges.parents[kept], edges.children[kept])
    head = ["", "directed edges", *SAYS]
    return Table(head, rows, headers=1, numeric=frozenset(range(1, len(head))))


def _evaluated_table(evaluated) -> Table:
    digits = dict.fromkeys(STATISTICS, 2) | dict.fromkeys(("edges_tested", "pairs_omitted"), 0)

    def cells(statistics, compared=None):
        found = [Span(_shown(statistics[key], digits[key])) for key in digits]
        if compared is None:
            return [[span] for span in found]
        others = [Span(_shown(compared[key], digits[key]), "paper") for key in digits]
        return [list(pair) for pair in zip(found, others, strict=True)]

    rows = [
        [method, *cells(graphs["graph"], graphs["random"])] for method, graphs in evaluated.items()
    ]
    first = next(iter(evaluated.values()))
    rows += [[f"the {name} graph", *cells(first[name])] for name in ("empty", "complete")]
    head = ["", "edges tested", "distance", "edges that move", "pairs without a path"]
    return Table([*head, "of them move"], rows, headers=1)


def _edges_table(names, fits, edges: SharedEdges, says, truth) -> Table:
    resampled = [method for method, each in fits.items() if each.resamples]
    head = ["parent", "child", "methods", "reversed", "support"]
    head += [] if says is None else ["perturbation"]
    head += [] if truth is None else ["true"]
    # With resamples how often each method finds the edge again, else whether it has it.
    head += resampled or list(fits)
    rows = []
    listed = zip(edges.parents[:MOST_LISTED], edges.children[:MOST_LISTED], strict=True)
    for e, (i, j) in enumerate(listed):
        row = [names[i], names[j], f"{edges.methods[e]} of {edges.n_methods}"]
        row += [str(edges.against[e] or ""), _shown(edges.support[e])]
        row += [] if says is None else [SAYS[says[i, j]]]
        if truth is not None:
            row.append("yes" if truth[i, j] else "reversed" if truth[j, i] else "no")
        for method in resampled or fits:
            each = fits[method]
            of_method = each.frequency if resampled else each.share
            row.append("–" if of_method is None else _shown(of_method[i, j]))
        rows.append(row)
    return Table(head, rows, headers=2, numeric=frozenset(range(2, len(head))))


def _shared_truth(edges: SharedEdges, truth) -> dict | None:
    if truth is None:
        return None
    kept = edges.by_most()
    right = truth[edges.parents, edges.children] != 0
    return {
        "shared": int(kept.sum()),
        "right": int((kept & right).sum()),
        "others": int((~kept).sum()),
        "others_right": int((~kept & right).sum()),
        "all": int(truth.sum()),
    }


def _pictures(names, fits, edges) -> list[dict]:
    from sdcd.figures.graph import draw_graph

    found = []
    with tempfile.TemporaryDirectory() as folder:

        def add(title, adjacency, weights):
            png, _ = draw_graph(adjacency, weights, names, Path(folder) / f"{len(found)}")
            found.append({"title": title, **image(png)})

        shared = as_graph(edges, names)
        if len(fits) > 1 and shared[0].any():
            add("The edges that most methods share", *shared)
        for method, each in fits.items():
            if each.adjacency is not None:
                add(f"{method}, first seed", each.adjacency, each.weights)
    return found
