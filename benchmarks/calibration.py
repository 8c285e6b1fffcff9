"""Are the frequencies of edges in resamples calibrated? On data whose graph is known.

    python benchmarks/calibration.py --d 20 --datasets 3     # half an hour on a core
    python benchmarks/calibration.py --d 50 --datasets 2     # an hour
    python benchmarks/calibration.py --summary               # tables and figure of what is there

A data set of the paper (s = 4; observational, or with half of the variables intervened on) is
fitted once with all rows, and to resamples of its rows as `sdcd fit --resamples` draws them: half
of the rows, and bootstraps. Pruning and order search start from the same graphs of SDCD. Each graph
is kept under `--out` as soon as it is there, so a run that was stopped goes on where it was.

`docs/benchmarks/calibration.csv` has a row for each data set, method, way of drawing and bin of
frequencies: how many edges have it, how many of them are true, how many are reversed in the truth.
`docs/benchmarks/calibration_graphs.csv` has the scores of the fit of all rows and of the consensus
graph. `docs/calibration.png` shows the first.
"""

import argparse
import sys
import time
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from _rows import ROOT, TABLES
from PIL import Image
from scipy.stats import binomtest

from sdcd.figures import style
from sdcd.files import atomic_path, read_npz, write_npz
from sdcd.fits.child import preload
from sdcd.fits.draws import HOW, draw
from sdcd.fits.resamples import consensus, count_edges
from sdcd.methods import Graph
from sdcd.methods.ordered import order_graph
from sdcd.methods.pruned import prune_graph
from sdcd.methods.registry import method
from sdcd.metrics import score
from sdcd.runs.table import write_csv
from sdcd.simulation import simulate

TABLE = TABLES / "calibration.csv"
GRAPHS = TABLES / "calibration_graphs.csv"
FIGURE = ROOT / "docs" / "calibration.png"
FAMILIES = {"observational": None, "interventional": 0.5}
STEPS = {"SDCD": None, "SDCD-pruned": prune_graph, "SDCD-ordered": order_graph}
S = 4
LEAST = 8
"""Fewer resamples than this are not summarised."""

LOW = np.array([0.0, 0.1, 0.3, 0.5, 0.7, 0.9])
"""Lower ends of the bins; a frequency of 0 is in none, one that is an end is in the bin above."""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--d", type=int, nargs="*", default=[20, 50])
    parser.add_argument("--datasets", type=int, default=2)
    parser.add_argument("--rows", type=int, default=10_000, help="observational, without a target")
    parser.add_argument("--resamples", type=int, default=20)
    parser.add_argument("--families", nargs="*", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--how", nargs="*", choices=HOW, default=list(HOW))
    parser.add_argument("--steps", nargs="*", choices=STEPS, default=["SDCD", "SDCD-pruned"])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "calibration")
    parser.add_argument("--summary", action="store_true", help="make no fit")
    options = parser.parse_args(arguments)
    if not options.summary:
        preload(method("SDCD-ordered" if "SDCD-ordered" in options.steps else "SDCD"))
        for d, seed, family in product(options.d, range(options.datasets), options.families):
            _fit_all(options, d, seed, family)
    summarise(options.out)


def _fit_all(options: argparse.Namespace, d: int, seed: int, family: str) -> None:
    sizes = {"n_observational": options.rows, "n_per_intervention": options.rows // 20}
    data = simulate(d, S, seed, fraction=FAMILIES[family], **sizes)
    folder = options.out / f"{family}_d{d}_n{options.rows}_seed{seed}"
    write_npz(folder / "truth.npz", adjacency=data.adjacency)
    tasks = [("all", 0), *product(options.how, range(1, options.resamples + 1))]
    for how, k in sorted(tasks, key=lambda task: task[1]):
        rows, method_seed = np.arange(data.n), 0
        if how != "all":
            rows, method_seed = draw(data.intervened, 0, k, how)
        X, intervened = data.X[rows], data.intervened[rows]
        graph = None
        for name in options.steps:
            path = folder / name / how / f"{k:04d}.npz"
            if path.exists():
                graph = _read(path) if name == "SDCD" else graph
                continue
            start, kept = time.process_time(), {}
            if name == "SDCD":
                chosen = method(name)
                found = chosen.fit(X, intervened, data.names, method_seed, **chosen.defaults)
                kept["selected"] = found.arrays["selected"]
                kept["epochs"] = np.array([*found.diagnostics["epochs"].values()])
                graph = found
            else:
                found = STEPS[name](graph, X, intervened, seed=method_seed)
            seconds = time.process_time() - start
            arrays = {"adjacency": found.adjacency, "weights": found.weights}
            write_npz(path, **arrays, seconds=np.array(seconds), **kept)
            print(f"{path.relative_to(options.out)} {seconds:.1f} s", file=sys.stderr, flush=True)


def _read(path: Path) -> Graph:
    arrays = read_npz(path)
    return Graph(arrays["adjacency"], arrays["weights"], arrays={"selected": arrays["selected"]})


def summarise(out: Path) -> None:
    """Write both tables and the figure from the graphs that are there."""
    bins, graphs = [], []
    for folder in sorted(out.iterdir()):
        family, d, rows, seed = folder.name.split("_")
        key = {"family": family, "d": int(d[1:]), "rows": int(rows[1:]), "seed": int(seed[4:])}
        truth = read_npz(folder / "truth.npz")["adjacency"]
        for name, how in product(STEPS, HOW):
            paths = sorted((folder / name / how).glob("*.npz"))
            if len(paths) < LEAST:
                continue
            found = [read_npz(path)["adjacency"] for path in paths]
            directed = count_edges(found).directed
            own = {**key, "method": name, "how": how, "resamples": len(found)}
            bins += [{**own, **row} for row in by_frequency(directed, truth)]
            every = read_npz(folder / name / "all" / "0000.npz")
            agreed = consensus(directed)
            # As the list of edges is ranked: by frequency, equals by the weight in the fit.
            ranks = directed + 1e-6 * every["weights"] / every["weights"].max()
            of_one = [score(graph, None, truth) for graph in found]
            graphs.append(
                {
                    **own,
                    **_scores("fit", score(every["adjacency"], every["weights"], truth)),
                    **_scores("consensus", score(agreed, directed, truth)),
                    **_scores("ranked", score(agreed, ranks, truth), ["average_precision"]),
                    "shd_resample": round(float(np.mean([each["shd"] for each in of_one])), 2),
                }
            )
    bins, graphs = pd.DataFrame(bins), pd.DataFrame(graphs)
    write_csv(TABLE, bins)
    write_csv(GRAPHS, graphs)
    pooled = bins.groupby(["family", "d", "rows", "method", "how", "low", "high"], sort=False)
    pooled = pooled[["edges", "true", "reversed", "sum_of_frequencies"]].sum().reset_index()
    pooled["share_true"] = (pooled["true"] / pooled["edges"]).round(3)
    print(pooled.to_string(index=False))
    print(graphs.to_string(index=False))
    draw_figure(pooled, FIGURE)


def by_frequency(directed: np.ndarray, truth: np.ndarray) -> list[dict]:
    """For each bin of frequencies: edges with it, and how many are true, or reversed, in truth."""
    rows = []
    for low, high in zip(LOW, [*LOW[1:], 1.0], strict=True):
        last = directed <= 1 if high == 1 else directed < high
        inside = (directed > 0) & (directed >= low) & last
        rows.append(
            {
                "low": low,
                "high": high,
                "edges": int(inside.sum()),
                "true": int((truth[inside] != 0).sum()),
                "reversed": int((truth.T[inside] != 0).sum()),
                "sum_of_frequencies": round(float(directed[inside].sum()), 3),
            }
        )
    return rows


def _scores(of: str, scores: dict, keys=("shd", "precision", "recall", "average_precision")):
    return {f"{key}_{of}": round(float(scores[key]), 3) for key in keys}


def draw_figure(pooled: pd.DataFrame, path: Path) -> None:
    """The share of true edges in each bin of frequencies, a panel for each kind of data."""
    pooled = pooled[(pooled["how"] == "half") & (pooled["edges"] > 0)]
    panels = list(pooled.groupby(["d", "family", "rows"]))
    with style.context():
        figure = style.new_figure(1.2 + 2.0 * len(panels), 2.4)
        every = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for axes, ((d, family, rows), cell) in zip(every, panels, strict=True):
            axes.plot([0, 1], [0, 1], color="#777777", linewidth=0.8)
            for name, of in cell.groupby("method"):
                own, share = style.method_style(name), of["true"] / of["edges"]
                error = np.abs(wilson(of["true"], of["edges"]) - share.to_numpy())
                axes.errorbar(
                    of["sum_of_frequencies"] / of["edges"], share, error, color=own.color,
                    marker=own.marker, markersize=4, linestyle=own.line, linewidth=1, label=name,
                )  # fmt: skip
            axes.set_title(f"{family},\nd = {d}, {rows:,} rows", fontsize=8)
            axes.set_xlim(0, 1.03)
            axes.set_ylim(0, 1.02)
            axes.set_xlabel("frequency of the edge")
        every[0].set_ylabel("share that is true")
        every[0].legend(loc="upper left", fontsize=7)
    style.save(figure, path.with_suffix(""))
    path.with_suffix(".pdf").unlink()
    # A few colours, for a small file.
    with Image.open(path) as image, atomic_path(path) as temporary:
        image.convert("RGB").quantize(32).save(temporary, optimize=True)


def wilson(successes: pd.Series, n: pd.Series) -> np.ndarray:
    """Wilson's 95 % interval of shares: (2, m), its lower and upper ends."""
    tests = (binomtest(int(k), int(m)) for k, m in zip(successes, n, strict=True))
    return np.array([test.proportion_ci(method="wilson") for test in tests]).T


if __name__ == "__main__":
    main()
