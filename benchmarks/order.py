"""Validate the search over causal orders on data that its settings were not chosen on.

    python benchmarks/order.py                      # everything of the protocol, in its order
    python benchmarks/order.py --cells d10 d30      # some of it
    python benchmarks/order.py --cells              # none: make the page again from the table

`docs/order-protocol.md` says what is run and how it is judged. One row per data set and start goes
to `docs/benchmarks/order.csv` as soon as it is there; those that have their row are passed over, so
that a run which was stopped goes on where it was. The methods' graphs are kept under `--out`.
SDCD-pruned's SHD is that of `docs/benchmarks/pruning.csv`. Seconds are the processor's.
`docs/order.md` gets the tables between its markers.
"""

import argparse
import sys
import time
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pruning
from _page import markdown, write_tables
from _rows import ROOT, TABLES, read_rows
from pruning import Task, base_graph, log_shd

from sdcd.data.dataset import Dataset
from sdcd.errors import MethodFailure
from sdcd.estimator.ordered import Settings, learn
from sdcd.graphs import topological_order
from sdcd.methods.dag import as_dag
from sdcd.methods.ordered import warm_up
from sdcd.methods.pruned import prune_graph
from sdcd.metrics import score
from sdcd.simulation import MECHANISMS

TABLE = TABLES / "order.csv"
PAGE = ROOT / "docs" / "order.md"
METRICS = ("shd", "shd_cpdag", "precision", "recall")
VERSION = 2
"""Of the method. Rows of an earlier one stay until they are run again, and are marked; the
amendment of docs/order-protocol.md says what has changed."""
STARTS = ("random", "random, no mask", "sortnregress", "DCDI-G", "SCORE")
"""Besides SDCD's order with stage 1's mask. `random` is a random order with stage 1's mask, so it
needs no stage 2; the others are a method's own order, without a mask."""


@dataclass(frozen=True)
class Search:
    """A data set, where the search starts, and how many restarts it has."""

    task: Task
    start: str = "SDCD"
    restarts: int = 2

    @property
    def name(self) -> str:
        """Names the row."""
        return f"{self.task.name}/{self.start}/{self.restarts}"


def searches() -> list[Search]:
    """Everything that the protocol runs, in its order."""
    out = [Search(_observational("d20", 20, k)) for k in range(5)]
    out += [Search(_observational("d10", 10, k), restarts=16) for k in range(5)]
    for d in (30, 40, 50):
        out += [Search(_observational(f"d{d}", d, k), restarts=0) for k in range(5)]
    for k, d, s, f in product(range(5), (20, 30, 40), (2, 4, 6), (0.0, 0.5, 1.0)):
        task = Task(f"interventional_d{d}", "SDCD", "interventional", d, s, k, f)
        out.append(Search(task, restarts=0))
    out += [Search(_observational("d100", 100, k), restarts=0) for k in range(3)]
    for mechanism, s, k in product(MECHANISMS, (1, 4), range(5)):
        task = Task("dcdi_d20", "SDCD", "dcdi", 20, s, k, mechanism=mechanism)
        out.append(Search(task, restarts=0))
    for k in range(5):
        out.append(Search(_observational("weak", 30, k, weak=True), restarts=0))
        out += [Search(_observational(f"n{n}", 30, k, rows=n), restarts=0) for n in (500, 2000)]
    for d, start, k in product((10, 20), STARTS, range(3)):
        out.append(Search(_observational(f"start_d{d}", d, k), start, 0))
    out += [Search(_observational("d200", 200, k), restarts=0) for k in range(3)]
    out += [Search(_observational(f"d{d}", d, 0), restarts=0) for d in (500, 1000)]
    # Not named by the protocol's cells, whose linear data have interventions.
    for s, k in product((1, 4), range(5)):
        out.append(Search(Task("linear", "SDCD", "linear", 20, s, k), restarts=0))
    return out


def _observational(cell: str, d: int, k: int, **options) -> Task:
    return Task(cell, "SDCD", "observational", d, 4, k, **options)


def run(search: Search, folder: Path) -> dict:
    """One row of the table."""
    task = search.task
    linear = task.family == "linear"
    dataset = linear_gaussian(task.d, task.s, task.seed) if linear else task.dataset()
    truth = dataset.adjacency != 0
    d = len(truth)
    row = {**asdict(task), "start": search.start, "restarts": search.restarts}
    row |= {"version": VERSION, "true_edges": int(truth.sum()), "reason": ""}
    row["log_shd"] = float("nan") if linear else log_shd(task)
    base_task = task
    if search.start not in ("SDCD", "random", "random, no mask"):
        base_task = replace(task, method=search.start)
    before = candidates = None
    try:
        if search.start == "random, no mask":
            row["seconds"] = 0.0
        else:
            graph, row["seconds"] = base_graph(base_task, dataset, folder)
            before = as_dag(graph)
            row["shd"] = score(graph.adjacency, graph.weights, truth)["shd"]
            candidates = before != 0
            if linear:
                pruned = prune_graph(graph, dataset.X, dataset.intervened, seed=0)
                row["shd_pruned"] = score(pruned.adjacency, pruned.weights, truth)["shd"]
            if search.start == "random":
                before = None
                candidates = np.zeros((d, d), dtype=bool)
            else:
                row["against_before"] = against(topological_order(before), truth)
            if search.start in ("SDCD", "random"):
                candidates = candidates | graph.arrays["selected"]
        start = time.process_time()
        result = learn(
            dataset.X,
            dataset.intervened,
            start=before,
            candidates=candidates,
            settings=Settings(restarts=search.restarts),
            progress=sys.stderr,
        )
        row["order_seconds"] = time.process_time() - start
    except MethodFailure as failure:
        return {**row, "reason": failure.reason}
    first = score(result.graphs[0], None, truth)
    last = score(result.adjacency, None, truth)
    row |= {f"{metric}_first": first[metric] for metric in METRICS}
    row |= {f"{metric}_order": last[metric] for metric in METRICS}
    row["against_after"] = against(result.order, truth)
    row["first_seconds"] = result.searches[0]["seconds"]
    row["edges"] = int(result.adjacency.sum())
    row["undetermined"], row["from_start"] = result.undetermined, int(result.from_start)
    row["determined"] = int(result.determined)
    row["rounds"], row["networks"] = len(result.history), result.fitted
    return row


def linear_gaussian(d: int, s: int, seed: int, n: int = 10_000) -> Dataset:
    """A random DAG with s d edges, weights of 0.5 to 2 of random sign, normal noise; standardised.

    No order is likelier than another of the same Markov equivalence class.
    """
    random = np.random.default_rng([d, s, seed])
    order = random.permutation(d)
    pairs = np.argwhere(np.triu(np.ones((d, d)), 1))
    pairs = pairs[random.choice(len(pairs), s * d, replace=False)]
    W = np.zeros((d, d))
    W[order[pairs[:, 0]], order[pairs[:, 1]]] = random.uniform(0.5, 2, s * d) * random.choice(
        [-1, 1], s * d
    )
    X = random.normal(size=(n, d))
    for j in order:
        X[:, j] += X @ W[:, j]
        X[:, j] = (X[:, j] - X[:, j].mean()) / X[:, j].std(ddof=1)
    adjacency = (W != 0).astype(np.int8)
    names = tuple(f"X{j}" for j in range(d))
    return Dataset(X.astype(np.float32), np.zeros((n, d), dtype=bool), names, adjacency)


def against(order: np.ndarray, truth: np.ndarray) -> int:
    """True edges that point from a later to an earlier variable."""
    place = np.argsort(order)
    return int((truth & (place[:, None] > place)).sum())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    everything = searches()
    cells = list(dict.fromkeys(search.task.cell for search in everything))
    parser.add_argument("--cells", nargs="*", default=cells, choices=cells, metavar="CELL")
    parser.add_argument("--seeds", type=int, nargs="+", help="only these seeds")
    parser.add_argument("--starts", nargs="+", help="only these starts")
    parser.add_argument("--again", action="store_true", help="also what has its row")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "order")
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    warm_up()
    for search in everything:
        wanted = search.task.cell in options.cells
        wanted &= options.seeds is None or search.task.seed in options.seeds
        wanted &= options.starts is None or search.start in options.starts
        there = read_table(options.table).get(search.name)
        if not wanted or (there and int(there["version"]) == VERSION and not options.again):
            continue
        row = run(search, options.out)
        # Another run may have added rows meanwhile.
        done = {**read_table(options.table), search.name: row}
        rows = [done[s.name] for s in everything if s.name in done]
        pruning.write_table(options.table, rows, COLUMNS)
        shown = ("shd", "shd_first", "shd_order", "log_shd", "seconds", "order_seconds")
        print(search.name, {key: row.get(key) for key in shown}, flush=True)
    write_page(options.page, pd.read_csv(options.table))


COLUMNS = (
    *Task.__dataclass_fields__,
    *("start", "restarts", "version", "true_edges", "log_shd", "shd", "shd_pruned"),
    *(f"{metric}_{when}" for when in ("first", "order") for metric in METRICS),
    *("against_before", "against_after", "edges", "undetermined", "determined"),
    "from_start",
    *("rounds", "networks"),
    *("seconds", "first_seconds", "order_seconds", "reason"),
)


def read_table(path: Path) -> dict[str, dict]:
    """Rows of the table by the name of their search."""
    names = {_key({**asdict(s.task), **vars(s)}): s.name for s in searches()}
    return {names[_key(row)]: row for row in read_rows(path) if _key(row) in names}


def _key(row) -> tuple:
    return (*pruning.task_key(row), row["start"], int(row["restarts"]))


# The page


def write_page(path: Path, table: pd.DataFrame) -> None:
    """Put the tables between the page's markers."""
    table = table[table["shd_order"].notna()].fillna({"mechanism": ""})
    known = _pruned_shd()
    table["pruned"] = [known.get(_row_key(row), row["shd_pruned"]) for _, row in table.iterrows()]
    starts = table["cell"].str.startswith("start_") | (
        table["cell"].isin(["d10", "d20"]) & (table["seed"] < 3)
    )
    own = table[~table["cell"].str.startswith("start_")]
    write_tables(path, {"scores": scores_table(own), "starts": starts_table(table[starts])})


def _pruned_shd() -> dict:
    pruned = pd.read_csv(pruning.TABLE).fillna({"mechanism": ""})
    pruned = pruned[pruned["method"] == "SDCD"]
    return {_row_key(row): row["shd_pruned"] for _, row in pruned.iterrows()}


def _row_key(row) -> tuple:
    keys = ("family", "d", "s", "seed", "fraction", "mechanism", "rows", "weak")
    return tuple(row[key] for key in keys)


def groups(table: pd.DataFrame):
    """The table's rows by what the page has a row for, with a label."""
    keys = ["cell", "s", "fraction", "mechanism", "restarts"]
    for _, rows in table.groupby(keys, sort=False):
        parts = pruning.label(rows)
        if rows["family"].iloc[0] == "linear":
            parts.insert(0, "linear, normal noise")
        if (rows["version"] < VERSION).any():
            parts[-1] += " ‡"
        yield ", ".join(parts), rows


def scores_table(table: pd.DataFrame) -> list[str]:
    """SHD from the log to the end, the ratio to the log, what is exact, and the time."""
    head = (
        *("data", "data sets", "SHD, log", "SDCD", "pruned", "first search", "result"),
        *("ratio to log", "difference to pruned", "exact", "pairs against the order"),
        *("undetermined, told, from start", "seconds of SDCD", "of the first search", "of all"),
    )
    found = []
    for label, rows in groups(table):
        logged = rows[rows["log_shd"].notna()]
        restarts = int(rows["restarts"].iloc[0])
        pruned = rows[rows["pruned"].notna()]
        cells = [
            *(label, str(len(rows)), _mean_of_some(rows["log_shd"]), f"{rows['shd'].mean():.1f}"),
            _mean_of_some(rows["pruned"]),
            f"{rows['shd_first'].mean():.1f}",
            f"{rows['shd_order'].mean():.1f}" + (f" ({restarts})" if restarts else ""),
            pruning.ratio(logged["shd_order"], logged["log_shd"]),
            pruning.interval(pruned["shd_order"] - pruned["pruned"], 1),
            f"{(rows['shd_order'] == 0).sum()}",
            f"{rows['against_before'].mean():.1f} to {rows['against_after'].mean():.1f}",
            _undetermined(rows),
            f"{rows['seconds'].mean():.1f}",
            f"{rows['first_seconds'].mean():.1f}",
            f"{rows['order_seconds'].mean():.1f}",
        ]
        found.append(cells)
    return markdown(head, found)


def _mean_of_some(column: pd.Series) -> str:
    """The mean of what is there, with its number if that is not all."""
    there = column.dropna()
    if there.empty:
        return ""
    return f"{there.mean():.1f}" + (f" ({len(there)})" if len(there) < len(column) else "")


def _undetermined(rows: pd.DataFrame) -> str:
    """Share of edges that are; and on how many data sets the method says that the order is."""
    if (rows["version"] < VERSION).any():
        return ""
    told = int((rows["determined"] == 0).sum())
    kept = int(rows["from_start"].sum())
    return f"{rows['undetermined'].sum() / rows['edges'].sum():.0%}, {told}, {kept}"


def starts_table(table: pd.DataFrame) -> list[str]:
    """The first search's SHD by where it starts."""
    head = (
        *("data", "start", "data sets", "SHD of the start", "pairs against the order", "after"),
        *("SHD", "seconds of the start", "of the search"),
    )
    found = []
    for (d, start), rows in table.groupby(["d", "start"], sort=False):
        before, own = rows["against_before"], rows["shd"]
        mark = " ‡" if (rows["version"] < VERSION).any() else ""
        cells = [
            *(f"d = {d}, s = 4{mark}", start, str(len(rows))),
            f"{own.mean():.1f}" if start in ("SDCD", "sortnregress", "DCDI-G", "SCORE") else "",
            f"{before.mean():.1f}" if before.notna().all() else "",
            f"{rows['against_after'].mean():.1f}",
            f"{rows['shd_first'].mean():.1f}",
            *(f"{rows[name].mean():.1f}" for name in ("seconds", "first_seconds")),
        ]
        found.append(cells)
    return markdown(head, found)


if __name__ == "__main__":
    main()
