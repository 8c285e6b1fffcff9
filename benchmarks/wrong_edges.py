"""Which edges of SDCD pruning drops: where they lie in the causal order, their weights and gains.

    python benchmarks/wrong_edges.py --results results/quick

Reads every fit of SDCD-pruned that has the fit of SDCD on the same data beside it, and writes
docs/benchmarks/wrong_edges.csv.
"""

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
from _rows import ROOT, TABLES

from sdcd.data.dataset import read_dataset
from sdcd.data.paths import reachable
from sdcd.experiments.datasets import DatasetKey
from sdcd.files import read_npz
from sdcd.runs.table import write_csv

TABLE = TABLES / "wrong_edges.csv"


def classes(true: np.ndarray) -> dict[str, np.ndarray]:
    """What an edge can be with respect to the true graph: bool (d, d) each, disjoint.

    Parameters
    ----------
    true : bool (d, d)
        A DAG.
    """
    precedes = reachable(true)
    unordered = ~precedes & ~precedes.T & ~np.eye(len(true), dtype=bool)
    return {
        "true": true,
        "wrong, from an ancestor to a descendant": precedes & ~true,
        "wrong, between two that neither precedes": unordered,
        "wrong, reversed": true.T,
        "wrong, otherwise against the order": precedes.T & ~true.T,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=ROOT / "results" / "quick")
    parser.add_argument("--table", type=Path, default=TABLE)
    options = parser.parse_args()
    # For each kind of data and class: weight, gain and whether it was dropped, edge by edge.
    found = defaultdict(lambda: defaultdict(list))
    counts = defaultdict(int)
    for path in sorted((options.results / "fits").glob("*/*/SDCD-pruned.npz")):
        key = DatasetKey.parse("/".join(path.parts[-3:-1]))
        pruned, own = read_npz(path), path.with_name("SDCD.npz")
        if "unpruned" not in pruned or not own.exists():
            continue
        weights = read_npz(own)["weights"]
        before, after = pruned["unpruned"] != 0, pruned["adjacency"] != 0
        kind = f"{key.family}, d = {key.d}, s = {key.s}"
        counts[kind] += 1
        true = read_dataset(options.results / "data" / f"{key.name}.npz").adjacency != 0
        for name, cells in classes(true).items():
            at = before & cells
            edges = np.stack([weights[at], pruned["gain"][at], (before & ~after)[at]], axis=1)
            found[kind][name].append(edges)
    if not found:
        raise SystemExit(f"{options.results}/fits: no fits of SDCD-pruned beside SDCD")
    rows = []
    for kind, by_class in found.items():
        edges = {name: np.concatenate(parts) for name, parts in by_class.items()}
        for name, cells in edges.items():
            row = {"data": kind, "data_sets": counts[kind], "class": name, "edges": len(cells)}
            rows.append(row | described(cells, edges["true"]))
    write_csv(options.table, pd.DataFrame(rows))


def described(edges: np.ndarray, true: np.ndarray) -> dict[str, float]:
    """How many were dropped, medians, and how often a true edge has the larger weight or gain."""
    if not len(edges):
        return {}
    weight, gain, _ = np.median(edges, axis=0)
    return {
        "dropped": int(edges[:, 2].sum()),
        "median_weight": round(weight, 2),
        "median_gain": round(gain, 3),
        "true_edge_has_larger_weight": round(share_larger(true[:, 0], edges[:, 0]), 2),
        "true_edge_has_larger_gain": round(share_larger(true[:, 1], edges[:, 1]), 2),
    }


def share_larger(first: np.ndarray, second: np.ndarray) -> float:
    """Share of the pairs in which the value of the first is larger, equal ones counting half."""
    difference = first[:, None] - second[None, :]
    return float((difference > 0).mean() + (difference == 0).mean() / 2)


if __name__ == "__main__":
    main()
