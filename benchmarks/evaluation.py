"""Do statistics without the truth rank graphs as the truth does? And are a model's effects right?

    python benchmarks/evaluation.py

On the paper's interventional data sets with d = 20, every variable intervened on, two thirds of the
rows are fitted and a third is held out. The graphs are those of SDCD, SDCD-pruned,
GIES, sortnregress and the mean differences (all learned from the fitted rows), the true one, the
true one with edges dropped, added and turned, random ones, the empty and the complete one.

``docs/benchmarks/evaluation.csv`` has one row for each data set and graph: SHD, and the statistics
of :mod:`sdcd.data.evaluation` and the log density of the held-out rows (for DAGs).
``docs/benchmarks/effects.csv`` has one row for each data set and graph with a model: the error of
its effects against those of the simulator, for each variable set as in its perturbed rows. Data
sets that are there already are not done again.

``docs/benchmarks/evaluation_ranks.csv`` has the rank correlations (Spearman) of each statistic with
SHD over the graphs of a data set: mean, least and largest of all data sets; 1 where the statistic
says of every two graphs what SHD says.
"""

import numpy as np
import pandas as pd
from _rows import TABLES

from sdcd.data.evaluation import evaluate, moves, random_dag
from sdcd.errors import MethodFailure
from sdcd.estimator.generative import fit_generative
from sdcd.graphs import is_acyclic
from sdcd.methods.registry import method
from sdcd.metrics import shd
from sdcd.runs.table import write_csv
from sdcd.simulation import simulate

D = 20
DATA_SETS = [(s, seed) for s in (2, 4) for seed in range(3)]
METHODS = ("SDCD", "SDCD-pruned", "GIES", "sortnregress", "mean-difference")
WITH_EFFECTS = ("true", *METHODS)


def main() -> None:
    """Do what is missing; write the tables after each data set."""
    paths = TABLES / "evaluation.csv", TABLES / "effects.csv"
    tables = [pd.read_csv(p).to_dict("records") if p.exists() else [] for p in paths]
    done = {(row["s"], row["seed"]) for row in tables[0]}
    for s, seed in DATA_SETS:
        if (s, seed) in done:
            continue
        for table, new in zip(tables, one(s, seed), strict=True):
            table += new
        for path, table in zip(paths, tables, strict=True):
            write_csv(path, pd.DataFrame(table), float_format="%.4g")
    found = ranks(pd.read_csv(paths[0]))
    write_csv(TABLES / "evaluation_ranks.csv", found, float_format="%.3f")


# What a good graph has: much of it, or little.
STATISTICS = {"edge_distance": 1, "edges_moved": 1, "false_omission_rate": -1, "log_density": 1}


def ranks(table: pd.DataFrame) -> pd.DataFrame:
    """Rank correlations of the statistics with SHD, by kind of graphs."""
    from scipy.stats import spearmanr

    learned = table["graph"].isin(METHODS)
    spoilt = table["graph"].str.startswith("true")
    rows = []
    for kind, chosen in (("all", learned | ~learned), ("learned", learned), ("spoilt", spoilt)):
        for name, sign in STATISTICS.items():
            found, sizes = [], []
            for _, part in table[chosen].groupby(["s", "seed"]):
                there = part.dropna(subset=[name])
                # With fewer, or with equal values alone, there is no order.
                if len(there) > 2 and there[name].nunique() > 1:
                    found.append(-sign * spearmanr(there[name], there["shd"]).statistic)
                    sizes.append(len(there))
            rows.append(
                {
                    "graphs": kind,
                    "statistic": name,
                    "mean": np.mean(found) if found else None,
                    "least": min(found, default=None),
                    "largest": max(found, default=None),
                    "data_sets": len(found),
                    "graphs_each": np.mean(sizes) if sizes else None,
                }
            )
    return pd.DataFrame(rows)


def one(s: int, seed: int) -> tuple[list[dict], list[dict]]:
    """Rows of both tables for one data set."""
    data = simulate(D, s, seed, fraction=1.0)
    order = np.random.default_rng(seed).permutation(data.n)
    held, fitted = np.sort(order[: data.n // 3]), np.sort(order[data.n // 3 :])
    X, mask = data.X[fitted], data.intervened[fitted]
    found = moves(data.X[held], data.intervened[held])
    shifts = true_shifts(s, seed)
    rows, effects = [], []
    for name, A in graphs(data, X, mask, seed).items():
        row = {"d": D, "s": s, "seed": seed, "graph": name, "shd": shd(A, data.adjacency)}
        row |= evaluate(A, found)
        model = fit_generative(A, X, mask) if is_acyclic(A) and name != "complete" else None
        row["log_density"] = None
        if model is not None:
            densities = model.log_density(data.X[held], data.intervened[held])
            row["log_density"] = float(np.nansum(densities, axis=1).mean())
        rows.append(row)
        if model is not None and name in WITH_EFFECTS:
            effects.append({"d": D, "s": s, "seed": seed, "graph": name, **errors(model, shifts)})
    return rows, effects


def graphs(data, X, mask, seed: int) -> dict[str, np.ndarray]:
    """Learned ones, the truth and spoilt ones, by name."""
    A, random = data.adjacency, np.random.default_rng(seed + 100)
    found = {"true": A}
    for name in METHODS:
        chosen = method(name)
        try:
            intervened = mask if chosen.data == "interventional" else np.zeros_like(mask)
            fit = chosen.fit(X, intervened, data.names, 0, **chosen.parameters({}))
        except MethodFailure:
            continue
        found[name] = fit.adjacency
    edges = np.argwhere(A)
    for share in (0.1, 0.3, 0.6):
        k = round(share * len(edges))
        chosen = edges[random.choice(len(edges), k, replace=False)]
        dropped, turned, added = A.copy(), A.copy(), A.copy()
        dropped[tuple(chosen.T)] = 0
        turned[tuple(chosen.T)] = 0
        turned[tuple(chosen.T[::-1])] = 1
        absent = np.argwhere((A == 0) & (A.T == 0) & ~np.eye(D, dtype=bool))
        added[tuple(absent[random.choice(len(absent), k, replace=False)].T)] = 1
        found |= {
            f"true, {share:.0%} dropped": dropped,
            f"true, {share:.0%} turned": turned,
            f"true, as many as {share:.0%} added": added,
        }
    for k in (len(edges) // 2, len(edges)):
        found[f"random, {k} edges"] = random_dag(D, k, random)
    found["empty"] = np.zeros_like(A)
    found["complete"] = 1 - np.eye(D, dtype=np.int8)
    return found


def true_shifts(s: int, seed: int) -> np.ndarray:
    """The simulator's effects: mean of j under its do(i), less the mean without one (d, d).

    From 20,000 rows without and 5,000 under each intervention, drawn apart from the data set, in
    standard deviations of the data set's columns: standard errors are about 0.015. NaN on the
    diagonal.
    """
    sd = simulate(D, s, seed, fraction=1.0, standardise=False).X.std(axis=0, ddof=1)
    many = {"n_observational": 20_000, "n_per_intervention": 5_000}
    data = simulate(D, s, seed, fraction=1.0, standardise=False, **many)
    control = data.X[~data.intervened.any(axis=1)].mean(axis=0, dtype=np.float64)
    out = np.full((D, D), np.nan)
    for i in range(D):
        rows = data.X[data.intervened[:, i]]
        out[i] = (rows.mean(axis=0, dtype=np.float64) - control) / sd
        out[i, i] = np.nan
    return out


def errors(model, shifts: np.ndarray) -> dict[str, float]:
    """Of the model's effects: how far from the simulator's, in standard deviations."""
    found = model.effects(model.perturbed, n=4000)
    there = np.isfinite(shifts)
    mine, true = found.shift[there], shifts[there]
    return {
        "pairs": int(there.sum()),
        "rms_true": float(np.sqrt(np.mean(true**2))),
        "rms_error": float(np.sqrt(np.mean((mine - true) ** 2))),
        "correlation": float(np.corrcoef(mine, true)[0, 1]) if mine.any() else None,
        "largest_monte_carlo_se": float(found.shift_se[there].max()),
    }


if __name__ == "__main__":
    main()
