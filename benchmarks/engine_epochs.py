"""Milliseconds per epoch of each engine, by number of variables and stage, on one thread.

    python benchmarks/engine_epochs.py [--d 10 20 50] [--stages 1 2] [--engines numba torch model]

Data are random (what an epoch costs does not depend on them): 8,000 training rows, batches of 256.
Stage 1 has all candidate parents; stage 2 a random mask with as many per target as stage 1 leaves
on the paper's data. Each engine's epochs take turns in one process; the table has the fastest one.
"roofline" is the time of the two matrix products alone, 40 n E operations, at the fastest rate that
numpy's sgemm reaches here.
"""

import argparse
import time

import numpy as np
from threadpoolctl import threadpool_limits

from sdcd.estimator.engine import StageSettings
from sdcd.estimator.fitting import initial_state, make_engine
from sdcd.estimator.state import Candidates

ROWS = 8000
PARENTS = {10: 7.1, 20: 10.6, 50: 8.1, 100: 6.9, 200: 6.0}
"""Mean number of candidate parents per target after stage 1 on the paper's data, by d."""
SETTINGS = {
    1: StageSettings(alpha=1e-2, beta=2e-4, learning_rate=2e-3),
    2: StageSettings(alpha=5e-4, beta=5e-3, learning_rate=1e-3, penalty="spectral"),
}


def problem(d: int, stage: int):
    """Engine arguments for random data: see :class:`~sdcd.estimator.engine.Engine`."""
    random = np.random.default_rng(0)
    X = random.standard_normal((ROWS, d), dtype=np.float32)
    X[:, 1:] += np.tanh(X[:, :-1])
    candidates = Candidates.all(d)
    if stage == 2:
        chosen = random.random((d, d)) < PARENTS.get(d, 6.0) / (d - 1)
        np.fill_diagonal(chosen, False)
        candidates = Candidates.of_edges(d, *np.nonzero(chosen))
    state = initial_state(candidates, SETTINGS[stage].hidden, 0, stage)
    return X, None, X[:2000], None, state, SETTINGS[stage]


def fastest_epochs(engines: dict, seconds: float) -> dict[str, float]:
    """CPU seconds of each engine's fastest epoch; the engines take turns of a quarter each."""
    order = np.random.default_rng(0).permutation(ROWS)
    best = dict.fromkeys(engines, float("inf"))
    for _ in range(4):
        for name, engine in engines.items():
            engine.epoch(order, 0.1)  # fills the caches
            end = time.monotonic() + seconds / 4
            while True:
                start = time.process_time()
                engine.epoch(order, 0.1)
                best[name] = min(best[name], time.process_time() - start)
                if time.monotonic() > end:
                    break
    return best


def gemm_rate() -> float:
    """Floating-point operations per second of single-precision matrix products, at their best."""
    best = 0.0
    for m, k, n in ((512, 512, 512), (256, 200, 2000), (1000, 256, 1000)):
        a, b = np.ones((m, k), np.float32), np.ones((k, n), np.float32)
        for _ in range(10):
            start = time.perf_counter()
            a @ b
            best = max(best, 2 * m * k * n / (time.perf_counter() - start))
    return best


def table(options: argparse.Namespace) -> None:
    """Measure and print, row by row."""
    rate = gemm_rate()
    print(f"sgemm: {rate / 1e9:.0f} GFLOP/s\n")
    print("| d | stage | edges |", *(f" {name} |" for name in options.engines), " roofline |")
    print("|---|---|---|", "---|" * (len(options.engines) + 1), sep="")
    for d in options.d:
        for stage in options.stages:
            arguments = problem(d, stage)
            engines = {
                name: make_engine(name, "cpu", False, 1, *arguments) for name in options.engines
            }
            edges = len(arguments[4].candidates.parents)
            times = fastest_epochs(engines, options.seconds)
            cells = [1e3 * times[name] for name in options.engines] + [40e3 * ROWS * edges / rate]
            print(f"| {d} | {stage} | {edges} |", *(f" {cell:.3g} |" for cell in cells), flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--d", type=int, nargs="+", default=sorted(PARENTS))
    parser.add_argument("--stages", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--engines", nargs="+", default=["numba", "torch", "model"])
    parser.add_argument("--seconds", type=float, default=3.0, help="per engine, d and stage")
    options = parser.parse_args()
    with threadpool_limits(1):
        table(options)


if __name__ == "__main__":
    main()
