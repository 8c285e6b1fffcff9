"""Time and memory of SDCD's stages against the number of variables, and against the machine.

    python benchmarks/scaling.py              # what is missing in the tables (all: 10 minutes)
    python benchmarks/scaling.py --again      # everything anew
    python benchmarks/scaling.py --threads    # also two threads against one; needs two free cores
    python benchmarks/scaling.py --print      # tables as text, with exponents and projections

Every measurement is a child process on one core and one row of a table in `docs/benchmarks`,
written at once: the command can be stopped and started again. Rows whose code has changed since are
measured again. Data are random (neither time nor memory depends on them): n = 10,000 rows, of which
8,000 to train on, S = 32 steps of 256 rows in an epoch, h = 10 hidden units.

`scaling.csv`: the estimator with its defaults, for a few epochs. Stage 1 has all candidate parents
of t targets, E = t (d - 1) edges; stage 2 has E = 8 d random ones. `seconds_per_epoch` is CPU time,
the median of all epochs but the first; `peak_mb` is the most that was resident in the process (10^6
bytes), of which Python, the libraries and the compiled kernels take `base_mb`. At d = 20,000, stage
1 is one block of 250 targets.

`roofline.csv`: each engine's fastest epoch and what the machine could do at best, measured just
before: `peak_gflops` of single-precision matrix products (numpy) and `copy_gb_s` (bytes read plus
bytes written). What an epoch computes is counted from its shapes, with t targets and
P = h (E + 3 t) + 2 t parameters:

- floating-point operations: 4 h n E for the two products with the input weights (forward, and for
  the gradient), 22 n t h for the hidden units (sigmoid 8, the two heads 4, backward 10),
  16 S P for Adam with both penalties, and in stage 2 S E (4 h + 60) for the norms, their gradient,
  and 15 products with A and with its transpose;
- bytes: 4 n d for the rows, and 24 P (parameter and two moments, read and written) once an epoch in
  stage 1, whose targets are independent, and once a step in stage 2, where all wait for the
  penalty.

`bound_ms` is the longer of operations at `peak_gflops` and bytes at `copy_gb_s`; `share` is
`bound_ms` over the engine's time.

`threads.csv`: wall-clock seconds of the fastest epoch on one and on two threads, in two runs each,
and whether the weights learned by all four have the same bytes.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import numpy as np
from _page import markdown
from _rows import TABLES, read_rows, single_threaded, write_rows
from engine_epochs import fastest_epochs, gemm_rate, problem
from threadpoolctl import threadpool_limits

from sdcd.fits.child import own_peak_rss_mb
from sdcd.fits.fingerprint import fingerprint

ROWS, TRAIN, STEPS, HIDDEN, PARENTS = 10_000, 8_000, 32, 10, 8
SIZES = (10, 20, 50, 100, 200, 500, 1000, 2000)
GENOME = 20_000
BLOCK = 250
ENGINES = {"numba": 1000, "torch": 1000, "model": 200}
"""Largest d of the roofline's table, by engine."""
ROOFLINE_SIZES = (10, 20, 50, 100, 200, 500, 1000)
THREAD_SIZES = (100, 200, 500)
MEMORY_LIMIT_MB = 12 * 1024**3 / 1e6
GPU = {"fp32_tflops": 60, "tf32_tflops": 400, "memory_tb_s": 3.0}
"""One H100, as counted with; nothing here runs on a GPU."""


# What is counted


def operations(stage: int, targets: int, edges: int) -> float:
    """Floating-point operations of an epoch: see the module's docstring."""
    penalty = STEPS * edges * (4 * HIDDEN + 60) if stage == 2 else 0
    return (
        4 * HIDDEN * TRAIN * edges
        + 22 * TRAIN * targets * HIDDEN
        + 16 * STEPS * parameters(targets, edges)
        + penalty
    )


def traffic(stage: int, d: int, targets: int, edges: int) -> float:
    """Bytes of an epoch: see the module's docstring."""
    return 4 * TRAIN * d + 24 * parameters(targets, edges) * (STEPS if stage == 2 else 1)


def parameters(targets: int, edges: int) -> int:
    """Trainable numbers."""
    return HIDDEN * (edges + 3 * targets) + 2 * targets


# What is measured, each in a child process


def measure_scaling(stage: int, d: int, targets: int, threads: int, epochs: int):
    """One row of `scaling.csv`, the fastest epoch's seconds, and a digest of the weights."""
    from sdcd.estimator import SDCD, StageOne, fitting
    from sdcd.estimator.checkpoint import digest
    from sdcd.estimator.state import Candidates

    base = peak_mb_compiled()
    random = np.random.default_rng(0)
    X = random.standard_normal((ROWS, d), dtype=np.float32)
    clock = time.process_time if threads == 1 else time.perf_counter
    seconds = []
    make_engine = fitting.make_engine

    def timed(*arguments):
        engine = make_engine(*arguments)
        epoch = engine.epoch

        def run(order, gamma):
            start = clock()
            epoch(order, gamma)
            seconds.append(clock() - start)

        engine.epoch = run
        return engine

    model = SDCD(epochs_1=epochs, epochs_2=epochs, threads=threads, check_every=10**6)
    if stage == 1:
        fitting.make_engine = timed
        result = model.fit_stage_1(X, targets=range(targets))
        edges = targets * (d - 1)
        learned = result.weights if result.matrix is None else result.matrix
    else:
        # What a stage 1 of these data would be called, by one that costs nothing.
        model.set_params(epochs_1=1)
        identity = model.fit_stage_1(X, targets=[0]).identity
        parents = random.integers(0, d - 1, PARENTS * d)
        children = np.repeat(np.arange(d), PARENTS)
        pairs = np.unique(np.stack([children, parents + (parents >= children)]), axis=1)
        candidates = Candidates.of_edges(d, pairs[1], pairs[0])
        edges = pairs.shape[1]
        stage_1 = StageOne(
            candidates,
            weights=np.ones(edges, np.float32),
            W=np.zeros((edges, HIDDEN), np.float32),
            matrix=None,
            blocks=np.array([d]),
            epochs=np.array([1]),
            identity=identity,
        )
        fitting.make_engine = timed
        learned = model.fit(X, stage_1=stage_1).edges_.weights
    row = {
        "edges": edges,
        "epochs": epochs,
        "seconds_per_epoch": float(f"{statistics.median(seconds[1:]):.4g}"),
        "peak_mb": round(own_peak_rss_mb()),
        "base_mb": round(base),
    }
    return row, min(seconds[1:]), digest(learned)


def measure_roofline(stage: int, d: int, engines: list[str]) -> list[dict]:
    """The rows of `roofline.csv` for one d and stage."""
    from sdcd.estimator.fitting import make_engine

    with threadpool_limits(1):
        peak, copy = gemm_rate(), copy_rate()
        arguments = problem(d, stage)
        edges = len(arguments[4].candidates.parents)
        made = {name: make_engine(name, "cpu", False, 1, *arguments) for name in engines}
        times = fastest_epochs(made, seconds=2.0)
    flop, moved = operations(stage, d, edges), traffic(stage, d, d, edges)
    bound = max(flop / peak, moved / copy)
    return [
        {
            "edges": edges,
            "engine": name,
            "ms_per_epoch": float(f"{1e3 * times[name]:.4g}"),
            "gflop": float(f"{flop / 1e9:.4g}"),
            "mb": float(f"{moved / 1e6:.4g}"),
            "peak_gflops": round(peak / 1e9, 1),
            "copy_gb_s": round(copy / 1e9, 1),
            "bound_ms": float(f"{1e3 * bound:.4g}"),
            "share": round(bound / times[name], 3),
        }
        for name in engines
    ]


def copy_rate() -> float:
    """Bytes read plus bytes written per second when copying 256 MB, at their best."""
    source, target = np.ones(2**26, np.float32), np.empty(2**26, np.float32)
    best = 0.0
    for _ in range(5):
        start = time.perf_counter()
        np.copyto(target, source)
        best = max(best, 2 * source.nbytes / (time.perf_counter() - start))
    return best


def peak_mb_compiled() -> float:
    """Peak memory (10^6 bytes) once all kernels are there: compiling takes memory."""
    from sdcd.estimator.engine_numba import warm_up

    warm_up()
    return own_peak_rss_mb()


def in_child(function: str, cores: int, **arguments):
    """Run one of the functions above in a process of its own, on so many cores."""
    allowed = sorted(os.sched_getaffinity(0))[:cores]
    if len(allowed) < cores:
        sys.exit(f"scaling.py: {cores} cores needed, {len(allowed)} may be used")
    end = subprocess.run(
        [sys.executable, __file__, "--child", json.dumps([function, arguments])],
        env=single_threaded(cores),
        stdout=subprocess.PIPE,
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, allowed),
    )
    return json.loads(end.stdout.splitlines()[-1])


# Tables


class Table:
    """A CSV file of rows, each named by its first columns and complete or absent."""

    def __init__(self, name: str, key: list[str], columns: list[str]):
        self.path = TABLES / f"{name}.csv"
        self.key, self.columns = key, [*key, *columns, "code"]
        self.rows = {self.name(row): row for row in read_rows(self.path)}

    def name(self, row) -> tuple[str, ...]:
        """What names a row."""
        return tuple(str(row[column]) for column in self.key)

    def has(self, code: str, **key) -> bool:
        """Whether there is a row that this code made."""
        row = self.rows.get(self.name(key))
        return row is not None and row["code"] == code

    def add(self, **row) -> None:
        """Add or replace a row, on disk too."""
        self.rows[self.name(row)] = {column: str(row[column]) for column in self.columns}
        order = sorted(self.rows, key=lambda name: [(len(part), part) for part in name])
        write_rows(self.path, [self.rows[name] for name in order], self.columns)
        print(*(f"{key}={value}" for key, value in row.items() if key != "code"), flush=True)

    def text(self) -> str:
        """As Markdown."""
        columns = self.columns[:-1]
        return "\n".join(
            markdown(columns, ([row[c] for c in columns] for row in self.rows.values()))
        )


def tables() -> tuple[Table, Table, Table]:
    columns = ["edges", "epochs", "seconds_per_epoch", "peak_mb", "base_mb"]
    scaling = Table("scaling", ["stage", "d", "targets"], columns)
    columns = ["edges", "ms_per_epoch", "gflop", "mb", "peak_gflops", "copy_gb_s"]
    roofline = Table("roofline", ["stage", "d", "engine"], [*columns, "bound_ms", "share"])
    threads = Table("threads", ["stage", "d"], ["seconds_1", "seconds_2", "speed_up", "same_bytes"])
    return scaling, roofline, threads


def epochs_of(stage: int, d: int) -> int:
    """So many that a measurement takes seconds, but at least two after the first."""
    targets = BLOCK if stage == 1 and d == GENOME else d
    edges = targets * (d - 1) if stage == 1 else PARENTS * d
    expected = operations(stage, targets, edges) / 40e9
    return max(3, min(200, int(5 / expected)))


def measure(options: argparse.Namespace) -> None:
    """Everything that is missing."""
    scaling, roofline, threads = tables()
    # Not the loop over epochs: what is measured is what an engine and its data cost.
    code = fingerprint("sdcd.estimator.estimator")

    # Kernels are compiled once, by a process whose memory does not count.
    in_child("peak_mb_compiled", 1)

    def missing(table, **key):
        return options.again or not table.has(code, **key)

    for stage in (1, 2):
        for d in (*SIZES, GENOME):
            targets = BLOCK if stage == 1 and d == GENOME else d
            key = {"stage": stage, "d": d, "targets": targets}
            if missing(scaling, **key):
                arguments = {**key, "threads": 1, "epochs": epochs_of(stage, d)}
                row, *_ = in_child("measure_scaling", 1, **arguments)
                scaling.add(**key, **row, code=code)
                if row["peak_mb"] > MEMORY_LIMIT_MB:
                    print(f"scaling.py: more than {MEMORY_LIMIT_MB:.0f} MB", file=sys.stderr)
        for d in ROOFLINE_SIZES:
            engines = [name for name, largest in ENGINES.items() if d <= largest]
            if any(missing(roofline, stage=stage, d=d, engine=name) for name in engines):
                for row in in_child("measure_roofline", 1, stage=stage, d=d, engines=engines):
                    roofline.add(stage=stage, d=d, **row, code=code)
        for d in THREAD_SIZES if options.threads else ():
            if missing(threads, stage=stage, d=d):
                arguments = {"stage": stage, "d": d, "targets": d, "epochs": epochs_of(stage, d)}
                # Taking turns: the machine's speed drifts.
                runs = [
                    in_child("measure_scaling", 2, threads=number, **arguments)
                    for number in (1, 2, 1, 2)
                ]
                one, two = (min(fastest for _, fastest, _ in runs[k::2]) for k in (0, 1))
                same = len({weights for *_, weights in runs}) == 1
                threads.add(
                    stage=stage,
                    d=d,
                    seconds_1=float(f"{one:.4g}"),
                    seconds_2=float(f"{two:.4g}"),
                    speed_up=round(one / two, 2),
                    same_bytes="yes" if same else "no",
                    code=code,
                )


def exponent(points: list[tuple[float, float]]) -> float:
    """Slope of log y against log x."""
    x, y = np.log(np.array(points)).T
    return float(np.polyfit(x, y, 1)[0])


def report() -> None:
    """The tables as text, and what follows from them."""
    scaling, roofline, threads = tables()
    for table in (scaling, roofline, threads):
        print(f"{table.path.stem}\n\n{table.text()}\n")
    per_epoch = {}
    for stage in (1, 2):
        rows = [r for r in scaling.rows.values() if int(r["stage"]) == stage]
        whole = [r for r in rows if 500 <= int(r["d"]) == int(r["targets"])]
        seconds = exponent([(float(r["d"]), float(r["seconds_per_epoch"])) for r in whole])
        above = [(float(r["d"]), float(r["peak_mb"]) - float(r["base_mb"])) for r in whole]
        print(
            f"stage {stage}, d >= 500: seconds ~ d^{seconds:.2f}, memory ~ d^{exponent(above):.2f}"
        )
        per_epoch[stage] = next(
            float(r["seconds_per_epoch"]) for r in rows if int(r["d"]) == GENOME
        )
    blocks = GENOME // BLOCK
    hours = [2000 * blocks * per_epoch[1] / 3600, 2000 * per_epoch[2] / 3600]
    print(
        f"\nd = {GENOME:,}, 2000 epochs of each stage, projected: stage 1 {hours[0]:.0f} hours of "
        f"a core ({blocks} blocks of {hours[0] / blocks:.1f}), stage 2 {hours[1]:.1f}"
    )
    # Ten passes over the hidden units, and each parent's rows gathered for both products.
    numbers = TRAIN * GENOME * (10 * HIDDEN + 4 * PARENTS)
    stage_2 = 2000 * 4 * numbers / (GPU["memory_tb_s"] * 1e12)
    print(f"one H100 by counting: stage 2 {stage_2:.0f} s, if no launch is waited for")
    edges = GENOME * (GENOME - 1)
    for kind in ("fp32", "tf32"):
        products = 4 * HIDDEN * TRAIN * edges / (GPU[f"{kind}_tflops"] * 1e12)
        # A block's parameters and moments do not stay in the GPU's cache from step to step.
        moved = 24 * STEPS * parameters(GENOME, edges) / (GPU["memory_tb_s"] * 1e12)
        # Ten passes over the hidden units of all rows.
        units = 10 * 4 * TRAIN * GENOME * HIDDEN / (GPU["memory_tb_s"] * 1e12)
        total = 2000 * (products + moved + units) / 3600
        print(
            f"one H100 by counting, {kind}: stage 1 {total:.1f} hours at full rates (products "
            f"{products:.2f} s, parameters {moved:.2f} s, hidden units {units:.2f} s an epoch)"
        )


def main() -> None:
    """Measure what is missing, or print what there is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--again", action="store_true", help="also what is there already")
    parser.add_argument("--threads", action="store_true", help="also two threads against one")
    parser.add_argument("--print", action="store_true", help="only print what is there")
    parser.add_argument("--child", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        function, arguments = options.child
        print(json.dumps(globals()[function](**arguments)))
        return
    if not options.print:
        measure(options)
    report()


if __name__ == "__main__":
    main()
