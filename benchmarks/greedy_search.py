"""Time GIES beside the package ``gies``, and set its graphs beside the authors' logged runs.

    python benchmarks/greedy_search.py             # times: docs/benchmarks/gies.csv
    python benchmarks/greedy_search.py --logs      # logged runs: docs/benchmarks/gies_logs.csv

`gies.csv`: the paper's observational data, s = 4. Seconds are the processor's, from data in memory
to graph, one thread, compiled code loaded before. Up to d = 20 the package runs between our two
runs, on float64 values because it centres in the data's type; ``same_graph`` says whether the
graphs are equal. ``peak_rss_mb`` (10^6 bytes) is that of the process in which the workflow makes
the same fit. Written row by row.

`gies_logs.csv`: all logged runs of GIES that ended. ``same`` says whether SHD, precision, recall
and number of edges are the log's. Numpy before 2.0 keeps the package's covariances of float32 data
in float32, whose last digits depend on the order of summation. So the search also starts from
covariances made in float32, with the rows in ``ORDERS`` random orders: ``float32_same`` counts
those in which all four numbers are the log's, ``float32_graphs`` the different graphs.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from _rows import TABLES, write_rows
from threadpoolctl import threadpool_limits

from sdcd.baselines._gies_search import search, warm_up
from sdcd.baselines.gies import gies
from sdcd.data.dataset import write_dataset
from sdcd.fits.fingerprint import fingerprint
from sdcd.fits.run import run_fit
from sdcd.metrics import score
from sdcd.published import published_runs
from sdcd.simulation import simulate

SIZES = {10: 5, 30: 3, 40: 3, 50: 3, 100: 3, 200: 1, 300: 1, 20: 5}
"""Seeds for each d; the package takes longest last."""
PACKAGE_UP_TO = 20
ORDERS = 20


def fit(data):
    names = tuple(f"X{j}" for j in range(data.X.shape[1]))
    return gies(data.X, data.intervened, names, 0, extract_dag=False)


def seconds(function, *arguments):
    start = time.process_time()
    result = function(*arguments)
    return time.process_time() - start, result


def package(X):
    from gies import fit_bic

    return fit_bic([X.astype(float)], [[]])


def peak(data):
    """Peak memory of the fit in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        write_dataset(path, data)
        return run_fit(path, "GIES", out=Path(folder) / "fit.npz")["peak_rss_mb"]


def timed(d, seed, with_package):
    data = simulate(d, 4, seed)
    row = {"d": d, "s": 4, "seed": seed, "n": len(data.X), "peak_rss_mb": peak(data)}
    row["seconds"], graph = seconds(fit, data)
    if with_package:
        row["package_seconds"], (essential, total) = seconds(package, data.X)
        row["seconds_again"], _ = seconds(fit, data)
        ours = (row["seconds"] + row["seconds_again"]) / 2
        row["ratio"] = round(row["package_seconds"] / ours)
        row["same_graph"] = np.array_equal(graph.adjacency, essential != 0)
        row["score_difference"] = f"{graph.diagnostics['bic'] - total:.1e}"
    else:
        row["seconds_again"], _ = seconds(fit, data)
    row["edges"] = int(graph.adjacency.sum())
    row["shd"] = score(graph.adjacency, None, data.adjacency)["shd"]
    row |= {key: graph.diagnostics[key] for key in ("undirected_edges", "steps", "local_scores")}
    return {key: round(x, 4) if isinstance(x, float) else x for key, x in row.items()}


def in_float32(data, rng):
    """The graph from covariances in float32, with the rows in a random order."""
    targets, regime = np.unique(data.intervened, axis=0, return_inverse=True)
    regime = regime.ravel()
    products = []
    for e in range(len(targets)):
        X = data.X[rng.permutation(np.flatnonzero(regime == e))]
        X = X - X.mean(axis=0)
        products.append(np.float32(1 / len(X)) * X.T @ X * np.float32(len(X)))
    assert all(product.dtype == np.float32 for product in products)
    usable, group = np.unique(~targets, axis=1, return_inverse=True)
    rows = usable.T @ np.bincount(regime)
    cov = np.array([sum(p for p, u in zip(products, use, strict=True) if u) for use in usable.T])
    separated = (targets.T @ ~targets) | (~targets.T @ targets)
    group = group.ravel()
    A, _, _ = search(
        cov / rows[:, None, None], group, rows[group], 0.5 * np.log(len(data.X)), separated
    )
    return A


def found(A, truth):
    scored = score(A, None, truth)
    return (
        int(scored["shd"]),
        int(A.sum()),
        round(scored["precision"], 5),
        round(scored["recall"], 5),
    )


def beside_log(family, log):
    fraction = None if family == "observational" else float(log["fraction"])
    data = simulate(int(log["d"]), int(log["s"]), int(log["seed"]), fraction=fraction)
    expected = int(log["shd"]), int(log["n_edges"]), log["precision"], log["recall"]
    ours = found(fit(data).adjacency, data.adjacency)
    rng = np.random.default_rng(0)
    graphs = [in_float32(data, rng) for _ in range(ORDERS)]
    return {
        "family": family,
        "d": log["d"],
        "s": log["s"],
        "fraction": fraction,
        "seed": log["seed"],
        "shd_log": expected[0],
        "shd": ours[0],
        "edges_log": expected[1],
        "edges": ours[1],
        "same": agree(ours, expected),
        "float32_same": sum(agree(found(A, data.adjacency), expected) for A in graphs),
        "float32_graphs": len({A.tobytes() for A in graphs}),
    }


def agree(ours, log):
    return ours[:2] == log[:2] and np.allclose(ours[2:], log[2:], atol=2e-5)


def write(path, rows):
    """Write what there is after every row, so that a run which is stopped keeps it."""
    done = []
    for row in rows:
        print(row, flush=True)
        done = sorted([*done, row], key=lambda each: each["d"])
        write_rows(path, done)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logs", action="store_true")
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--no-package", action="store_true")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    warm_up()
    if arguments.logs:
        rows = (
            beside_log(family, log)
            for family in ("observational", "interventional")
            for _, log in published_runs(family).query("method == 'GIES'").iterrows()
        )
        write(arguments.out or TABLES / "gies_logs.csv", rows)
        return
    code = fingerprint("sdcd.baselines.gies")
    write(
        arguments.out or TABLES / "gies.csv",
        (
            timed(d, seed, d <= PACKAGE_UP_TO and not arguments.no_package) | {"code": code}
            for d in arguments.sizes
            for seed in range(SIZES[d])
        ),
    )


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
