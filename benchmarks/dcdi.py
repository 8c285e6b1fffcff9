"""What DCDI-G, DCDI-DSF and DCD-FG cost: before their kernels were compiled as a whole, and now.

    python benchmarks/dcdi.py pairs --before ../old    # docs/benchmarks/dcdi_pairs.csv
    python benchmarks/dcdi.py fits METHOD ...          # docs/benchmarks/dcdi_fits.csv

``pairs`` compares this checkout with another one (``git worktree add ../old 2d01ea2``): processor
seconds of an epoch (DCDI-G, DCD-FG) or of 1,000 steps (DCDI-DSF), validation included, on the same
core in turns: before, after, after, before. A process fits three times, the last time with more
rounds than the second; the difference counts, so that starts and compilation do not. The rows say
how far the edges' probabilities are apart after all rounds, in the precision as run and in float64.

``fits`` fits to the end, at the published settings: processor seconds, peak memory, rounds, SHD.
DCDI-DSF on the simulations of the paper on DCDI (e = 1, one data set per mechanism), the others on
the SDCD paper's observational data (s = 4, seed 0). Rows that are there already are kept.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from _rows import ROOT, TABLES, processor, put_row, read_rows, single_threaded

PAIRS = TABLES / "dcdi_pairs.csv"
FITS = TABLES / "dcdi_fits.csv"
ROUNDS = {"DCDI-G": "max_epochs", "DCD-FG": "max_epochs", "DCDI-DSF": "max_steps"}
# Method, d, dtype: rounds of the short fit, further rounds of the long one.
PAIRED = {
    ("DCDI-G", 10, "float32"): (2, 16),
    ("DCDI-G", 10, "float64"): (2, 16),
    ("DCDI-G", 20, "float32"): (2, 16),
    ("DCDI-G", 30, "float32"): (2, 16),
    ("DCDI-G", 50, "float32"): (2, 8),
    ("DCDI-DSF", 10, "float64"): (200, 1000),
    ("DCDI-DSF", 20, "float64"): (200, 1000),
    ("DCD-FG", 10, "float32"): (2, 16),
    ("DCD-FG", 10, "float64"): (2, 16),
    ("DCD-FG", 20, "float32"): (2, 16),
    ("DCD-FG", 50, "float32"): (2, 16),
    ("DCD-FG", 100, "float32"): (2, 8),
    ("DCD-FG", 200, "float32"): (2, 4),
}
SIZES = {"DCDI-G": [10, 20, 30, 40, 50], "DCD-FG": [10, 20, 30, 50, 100, 200], "DCDI-DSF": [10, 20]}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    pairs = commands.add_parser("pairs")
    pairs.add_argument("--before", type=Path, required=True)
    pairs.add_argument("--methods", nargs="*", default=list(ROUNDS))
    fits = commands.add_parser("fits")
    fits.add_argument("methods", nargs="+", choices=list(ROUNDS))
    fits.add_argument("--d", nargs="*", type=int)
    worker = commands.add_parser("worker")
    worker.add_argument("arguments")
    arguments = parser.parse_args()
    if arguments.command == "worker":
        work(**json.loads(arguments.arguments))
    elif arguments.command == "pairs":
        compare(arguments.before.resolve(), arguments.methods)
    else:
        fit_all(arguments.methods, arguments.d)


def data(d: int, mechanism: str | None):
    """The data set: the paper's, or DCDI's with this mechanism."""
    from sdcd.simulation import simulate, simulate_dcdi

    return simulate(d, 4, 0) if mechanism is None else simulate_dcdi(d, 1, mechanism, 0)


def work(
    method: str, d: int, mechanism: str | None, settings: list[dict], weights: str | None
) -> None:
    """Fit with each of ``settings`` in turn; print what each took as JSON."""
    from sdcd.methods.registry import method as registered
    from sdcd.metrics import shd

    dataset = data(d, mechanism)
    known = registered(method)
    for chosen in settings:
        start = time.process_time()
        graph = known.fit(
            dataset.X, dataset.intervened, dataset.names, 0, **known.parameters(chosen)
        )
        seconds = time.process_time() - start
        result = {
            "seconds": seconds,
            "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
            "rounds": graph.diagnostics.get("epochs", graph.diagnostics.get("steps")),
            "stopped": graph.diagnostics["stopped"],
            "edges": int(graph.adjacency.sum()),
            "shd": float(shd(graph.adjacency, dataset.adjacency)),
        }
        print(json.dumps(result), flush=True)
    if weights:
        np.save(weights, graph.weights)


def run(checkout: Path, **arguments) -> list[dict]:
    """:func:`work` in a process of its own that uses this checkout's package."""
    done = subprocess.run(
        [sys.executable, __file__, "worker", json.dumps(arguments)],
        env={**single_threaded(), "PYTHONPATH": str(checkout)},
        cwd=checkout,
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def compare(before: Path, methods: list[str]) -> None:
    """Write ``dcdi_pairs.csv``."""
    for (method, d, dtype), (short, more) in PAIRED.items():
        if method not in methods:
            continue
        limit = ROUNDS[method]
        settings = [{"dtype": dtype, limit: rounds} for rounds in (short, short, short + more)]
        mechanism = "NL-NN" if method == "DCDI-DSF" else None
        seconds = {before: [], ROOT: []}
        with tempfile.TemporaryDirectory() as folder:
            for checkout in (before, ROOT, ROOT, before):
                weights = f"{folder}/{'before' if checkout == before else 'after'}.npy"
                _, first, second = run(
                    checkout, method=method, d=d, mechanism=mechanism, settings=settings,
                    weights=weights,
                )  # fmt: skip
                per_round = (second["seconds"] - first["seconds"]) / more
                seconds[checkout].append(per_round * (1000 if limit == "max_steps" else 1))
            P_before, P_after = (
                np.load(f"{folder}/{name}.npy", allow_pickle=False) for name in ("before", "after")
            )
            apart = np.abs(P_before - P_after).max()
        mean_before, mean_after = (float(np.mean(seconds[key])) for key in (before, ROOT))
        row = {
            "method": method,
            "d": d,
            "dtype": dtype,
            "unit": "1000 steps" if limit == "max_steps" else "epoch",
            "before_seconds": f"{mean_before:.4g}",
            "after_seconds": f"{mean_after:.4g}",
            "ratio": f"{mean_before / mean_after:.3g}",
            "rounds": short + more,
            "largest_difference_of_P": f"{apart:.2g}",
            "processor": f"{processor()}, one core",
        }
        put_row(PAIRS, row, ("method", "d", "dtype"))


def fit_all(methods: list[str], sizes: list[int] | None) -> None:
    """Write ``dcdi_fits.csv``."""
    done = {(row["method"], row["d"], row["data"]) for row in read_rows(FITS)}
    for method in methods:
        for d in sizes or SIZES[method]:
            for mechanism in ("L", "NL-Add", "NL-NN") if method == "DCDI-DSF" else (None,):
                if (method, str(d), mechanism or "paper") in done:
                    continue
                chosen = {"dtype": "float64"} if (method, d) == ("DCDI-G", 50) else {}
                arguments = {"method": method, "d": d, "mechanism": mechanism, "weights": None}
                (result,) = run(ROOT, **arguments, settings=[chosen])
                row = {
                    "method": method,
                    "d": d,
                    "data": mechanism or "paper",
                    "dtype": chosen.get("dtype", "as published"),
                    **result,
                    "seconds": f"{result['seconds']:.4g}",
                    "peak_rss_mb": f"{result['peak_rss_mb']:.0f}",
                    "processor": f"{processor()}, one core",
                }
                put_row(FITS, row, ("method", "d", "data"))


if __name__ == "__main__":
    main()
