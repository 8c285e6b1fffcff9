"""Validate held-out pruning on data that its settings were not chosen on.

    python benchmarks/pruning.py                      # every cell of the protocol: a day on a core
    python benchmarks/pruning.py --cells d30 d40      # some of them
    python benchmarks/pruning.py --cells              # none: only the summary and the figure
    python benchmarks/pruning.py --cells --curves     # precision and recall against min_gain

`docs/pruning-protocol.md` says what is run and how it is judged. One row per data set and method
goes to `docs/benchmarks/pruning.csv` as soon as it is there; data sets that have their row are
passed over, so that a run which was stopped goes on where it was. The methods' graphs before
pruning are kept under `--out`, so that pruning alone can be repeated (`--again`). Seconds are the
processor's.
`docs/benchmarks/pruning_cells.csv` has a row for each cell and `docs/pruning.png` shows them.
`--curves` prunes the graphs of few rows, of weak edges and, beside them, of d = 30 as published at
other gains than the frozen one.
"""

import argparse
import time
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from _rows import ROOT, TABLES, read_rows, write_rows
from scipy import stats

from sdcd.data.dataset import Dataset
from sdcd.errors import MethodFailure
from sdcd.figures import style
from sdcd.files import read_npz, write_npz
from sdcd.fits.child import preload
from sdcd.methods import Graph
from sdcd.methods.pruned import prune_graph
from sdcd.methods.registry import method
from sdcd.metrics import score
from sdcd.published import published_runs
from sdcd.runs.table import write_csv
from sdcd.simulation import MECHANISMS, simulate, simulate_dcdi
from sdcd.statistics import of_sample

TABLE = TABLES / "pruning.csv"
CELLS = TABLES / "pruning_cells.csv"
FIGURE = ROOT / "docs" / "pruning.png"
CURVES = TABLES / "pruning_curves.csv"
CURVE_CELLS = ("d30", "n2000", "n500", "weak")
MIN_GAINS = (0.0, 0.005, 0.01, 0.02, 0.04, 0.08)
WEAK = (0.1, 0.4)
SETTINGS = {"SCORE": {"max_rows": 2000}}
"""What a method has other than its defaults: SCORE on all rows takes minutes, and 2 GB."""
BASELINES = ("sortnregress", "NOTEARS", "NOCURL", "GIES", "DCD-FG", "DCDI-G")
ADDED = ("SCORE", "NOBEARS")
"""Baselines that are not in the protocol: added after the others had been seen."""
METRICS = ("shd", "shd_cpdag", "precision", "recall", "average_precision")


@dataclass(frozen=True)
class Task:
    """One data set and one method."""

    cell: str
    method: str
    family: str
    d: int
    s: int
    seed: int
    fraction: float = 0.0
    mechanism: str = ""
    rows: int = 10_000
    weak: bool = False

    @property
    def name(self) -> str:
        """Of the method's graph before pruning, as a file."""
        data = f"{self.family}_{self.mechanism}_d{self.d}_s{self.s}_f{self.fraction:g}_n{self.rows}"
        return f"{data}{'_weak' if self.weak else ''}_seed{self.seed}/{self.method}"

    def dataset(self) -> Dataset:
        """The data."""
        if self.family == "dcdi":
            return simulate_dcdi(self.d, self.s, self.mechanism, self.seed, n=self.rows)
        options = {"weight_range": WEAK} if self.weak else {}
        if self.family == "interventional":
            options["fraction"] = self.fraction
        return simulate(self.d, self.s, self.seed, n_observational=self.rows, **options)


def tasks() -> list[Task]:
    """Everything that the protocol runs, in its order, and the baselines that were added."""
    out = []
    for d, seeds in ((30, 5), (40, 5), (50, 5), (10, 5), (100, 3)):
        out += [Task(f"d{d}", "SDCD", "observational", d, 4, k) for k in range(seeds)]
    out += [
        Task(f"interventional_d{d}", "SDCD", "interventional", d, s, k, f)
        for k, d, s, f in product(range(5), (20, 30, 40), (2, 4, 6), (0.0, 0.5, 1.0))
    ]
    for k in range(5):
        out += [Task(f"n{n}", "SDCD", "observational", 30, 4, k, rows=n) for n in (500, 2000)]
        out.append(Task("weak", "SDCD", "observational", 30, 4, k, weak=True))
    out += [
        Task(f"dcdi_d{d}", "SDCD", "dcdi", d, s, k, mechanism=mechanism)
        for k, mechanism, d, s in product(range(5), MECHANISMS, (10, 20), (1, 4))
    ]
    out += [Task("d200", "SDCD", "observational", 200, 4, k) for k in range(3)]
    out += [
        Task(f"baselines_d{d}", name, "observational", d, 4, k)
        for d, name, k in product((10, 20), (*BASELINES, *ADDED), range(3))
    ]
    return out


def base_graph(task: Task, dataset: Dataset, folder: Path) -> tuple[Graph, float]:
    """The method's own graph and its seconds, from the folder if it is there."""
    path = folder / f"{task.name}.npz"
    if path.exists():
        arrays = read_npz(path)
        seconds = float(arrays.pop("seconds"))
        kept = {name: arrays[name] for name in ("selected",) if name in arrays}
        return Graph(arrays["adjacency"], arrays.get("weights"), arrays=kept), seconds
    chosen = method(task.method)
    preload(chosen)
    start = time.process_time()
    settings = {**chosen.defaults, **SETTINGS.get(task.method, {})}
    graph = chosen.fit(dataset.X, dataset.intervened, dataset.names, 0, **settings)
    seconds = time.process_time() - start
    more = {} if graph.weights is None else {"weights": graph.weights}
    if "selected" in graph.arrays:
        more["selected"] = graph.arrays["selected"]
    write_npz(path, adjacency=graph.adjacency, seconds=np.array(seconds), **more)
    return graph, seconds


def run(task: Task, folder: Path) -> dict:
    """One row of the table."""
    dataset = task.dataset()
    row = {**asdict(task), "true_edges": int(dataset.adjacency.sum()), "reason": ""}
    try:
        graph, row["seconds"] = base_graph(task, dataset, folder)
        start = time.process_time()
        pruned = prune_graph(graph, dataset.X, dataset.intervened, seed=0)
        row["pruning_seconds"] = time.process_time() - start
    except MethodFailure as failure:
        return {**row, "reason": failure.reason}
    truth = dataset.adjacency != 0
    for when, result in (("", graph), ("_pruned", pruned)):
        scores = score(result.adjacency, result.weights, truth)
        row |= {metric + when: scores[metric] for metric in (*METRICS, "n_edges")}
    dropped = (pruned.arrays["unpruned"] != 0) & (pruned.adjacency == 0)
    row["true_dropped"] = int((dropped & truth).sum())
    row["false_dropped"] = int((dropped & ~truth).sum())
    row["pruning_rounds"] = pruned.diagnostics["pruning_rounds"]
    row["log_shd"] = log_shd(task)
    return row


def log_shd(task: Task) -> float:
    """SHD of the authors' logged run of the method on the same data, or NaN."""
    if task.family == "dcdi" or task.weak or task.rows != 10_000:
        return float("nan")
    logs = published_runs(task.family, complete=True)
    same = (logs["method"] == task.method) & (logs["d"] == task.d) & (logs["s"] == task.s)
    same &= (logs["fraction"] == task.fraction) & (logs["seed"] == task.seed)
    found = logs.loc[same, "shd"].astype(float)
    return float(found.iloc[0]) if len(found) else float("nan")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    everything = tasks()
    cells = list(dict.fromkeys(task.cell for task in everything))
    parser.add_argument("--cells", nargs="*", default=cells, choices=cells, metavar="CELL")
    parser.add_argument("--seeds", type=int, nargs="+", help="only these seeds")
    parser.add_argument("--methods", nargs="+", help="only these methods")
    parser.add_argument("--curves", action="store_true", help="also at other values of min_gain")
    parser.add_argument("--again", action="store_true", help="also what has its row")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "pruning")
    parser.add_argument("--table", type=Path, default=TABLE)
    options = parser.parse_args()
    done = read_table(options.table)
    for task in everything:
        wanted = task.cell in options.cells
        wanted &= options.seeds is None or task.seed in options.seeds
        wanted &= options.methods is None or task.method in options.methods
        if not wanted or (task.name in done and not options.again):
            continue
        row = run(task, options.out)
        # Another run may have added rows meanwhile.
        done = {**read_table(options.table), task.name: row}
        write_table(options.table, [done[t.name] for t in everything if t.name in done])
        print(task.name, {k: row.get(k) for k in ("shd", "shd_pruned", "log_shd")}, flush=True)
    if options.curves:
        curves(options.out)
    cells = summary(pd.read_csv(options.table))
    write_csv(CELLS, cells)
    draw(cells, FIGURE)


def curves(folder: Path) -> None:
    """Write precision and recall after pruning at each ``min_gain``, data set by data set."""
    rows = []
    for task in tasks():
        if task.cell not in CURVE_CELLS:
            continue
        dataset = task.dataset()
        truth = dataset.adjacency != 0
        graph, _ = base_graph(task, dataset, folder)
        for gain in MIN_GAINS:
            pruned = prune_graph(graph, dataset.X, dataset.intervened, seed=0, min_gain=gain)
            scores = score(pruned.adjacency, pruned.weights, truth)
            row = {"cell": task.cell, "seed": task.seed, "min_gain": gain}
            rows.append(row | {metric: scores[metric] for metric in ("shd", "precision", "recall")})
        print(task.name, "curve", flush=True)
    write_csv(CURVES, pd.DataFrame(rows), float_format="%.6g")


def read_table(path: Path) -> dict[str, dict]:
    """Rows of the table by the name of their task."""
    names = {task_key(asdict(task)): task.name for task in tasks()}
    return {names[task_key(row)]: row for row in read_rows(path) if task_key(row) in names}


def task_key(row) -> tuple:
    """What identifies a row, whether read from a file or not."""
    numbers = [float(row[key]) for key in ("d", "s", "seed", "fraction", "rows")]
    return row["cell"], row["method"], row["family"], row["mechanism"], str(row["weak"]), *numbers


AFTER = tuple(f"{metric}_pruned" for metric in (*METRICS, "n_edges"))
COLUMNS = (
    *Task.__dataclass_fields__,
    *("true_edges", *METRICS, "n_edges", *AFTER, "true_dropped", "false_dropped"),
    *("log_shd", "seconds", "pruning_seconds", "pruning_rounds", "reason"),
)


def write_table(path: Path, rows: list[dict], columns: tuple[str, ...] = COLUMNS) -> None:
    """Write the rows; numbers with six digits."""
    plain = [{key: _plain(value) for key, value in row.items()} for row in rows]
    write_rows(path, plain, columns)


def _plain(value):
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else f"{value:.6g}"
    return "" if value is None else value


# The summary


def groups(table: pd.DataFrame):
    """The table's rows by what the page has a row for, with a label."""
    table = table[table["shd_pruned"].notna()].fillna({"mechanism": ""})
    keys = ["cell", "method", "s", "fraction", "mechanism"]
    for (_, name, *_), rows in table.groupby(keys, sort=False):
        yield (name, ", ".join(label(rows))), rows


def label(rows: pd.DataFrame) -> list[str]:
    """What the data sets of a cell are, in words."""
    first = rows.iloc[0]
    parts = [f"d = {first['d']}", f"s = {first['s']}"]
    if first["family"] == "interventional":
        parts.append(f"fraction {first['fraction']:g}")
    if first["mechanism"]:
        parts.insert(0, first["mechanism"])
    if first["rows"] != 10_000:
        parts.append(f"{first['rows']:,} rows")
    if first["weak"]:
        parts.append("weak")
    return parts


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """One row for each cell: scores before and after, paired differences, what was dropped."""
    rows = []
    for (name, label), found in groups(table):
        logged = found[found["log_shd"].notna()]
        row = {"method": name, "data": label, "data_sets": len(found), "logged": len(logged)}
        row["shd_log"] = _text(logged["log_shd"], 1)
        for metric, digits in DIGITS.items():
            after = f"{metric}_pruned"
            row[metric], row[after] = _text(found[metric], digits), _text(found[after], digits)
            row[f"{metric}_difference"] = interval(found[after] - found[metric], digits)
        row["shd_ratio_to_log"] = ratio(logged["shd_pruned"], logged["log_shd"])
        for column in ("true_edges", "true_dropped", "false_dropped", "seconds"):
            row[column] = _text(found[column], 1)
        share = found["pruning_seconds"].sum() / found["seconds"].sum()
        row["pruning_share_of_seconds"] = f"{share:.2f}"
        rows.append(row)
    return pd.DataFrame(rows)


DIGITS = {"shd": 1, "shd_cpdag": 1, "precision": 3, "recall": 3, "average_precision": 3}


def draw(cells: pd.DataFrame, path: Path) -> None:
    """SHD after pruning over SHD before, for each cell of SDCD and each baseline."""
    shown = cells.assign(
        ratio=cells["shd_pruned"].astype(float) / cells["shd"].astype(float),
        label=np.where(
            cells["method"] == "SDCD", cells["data"], cells["method"] + ", " + cells["data"]
        ),
    )
    shown = shown[np.isfinite(shown["ratio"])]
    shown = shown.sort_values("ratio", kind="stable", ignore_index=True)
    with style.context():
        figure = style.new_figure(6.6, 0.5 + 0.145 * len(shown))
        axes = figure.subplots()
        for own, color, label in ((True, "#0072B2", "SDCD"), (False, "#D55E00", "a baseline")):
            of = shown[(shown["method"] == "SDCD") == own]
            axes.plot(of["ratio"], of.index, "o", markersize=4, color=color, label=label)
        axes.axvline(1, color="#777777", linewidth=0.9)
        axes.set_yticks(shown.index, shown["label"], fontsize=6.5)
        axes.set_ylim(-0.7, len(shown) - 0.3)
        axes.set_xlim(0, None)
        axes.set_xlabel("SHD with held-out pruning / SHD without (below 1: better)")
        axes.legend(loc="upper left")
    style.save(figure, path.with_suffix(""))
    path.with_suffix(".pdf").unlink()


def _text(values: pd.Series, digits: int) -> str:
    return "" if values.dropna().empty else f"{values.mean():.{digits}f}"


def interval(values: pd.Series, digits: int) -> str:
    """Mean of differences with Student's 95 % interval."""
    values = values.dropna().to_numpy(float)
    if not len(values):
        return ""
    estimate = of_sample(values)
    low, high = estimate.interval()
    text = f"{estimate.value:+.{digits}f}"
    return text if np.isnan(low) else f"{text} ({low:+.{digits}f} to {high:+.{digits}f})"


def ratio(ours: pd.Series, logs: pd.Series) -> str:
    """Ratio of the means with Fieller's 95 % interval."""
    a, b = ours.to_numpy(float), logs.to_numpy(float)
    n = len(a)
    if not n or b.mean() == 0:
        return ""
    text = f"{a.mean() / b.mean():.2f}"
    if n < 2:
        return text
    # All r for which the mean of a - r b does not differ from 0.
    t = stats.t.ppf(0.975, n - 1) ** 2 / n
    (aa, ab), (_, bb) = np.cov(a, b)
    roots = np.roots([b.mean() ** 2 - t * bb, -2 * (a.mean() * b.mean() - t * ab),
                      a.mean() ** 2 - t * aa])  # fmt: skip
    if b.mean() ** 2 <= t * bb or np.iscomplex(roots).any():
        return f"{text} (no bound)"
    low, high = sorted(roots.real)
    return f"{text} ({max(low, 0):.2f} to {high:.2f})"


if __name__ == "__main__":
    main()
