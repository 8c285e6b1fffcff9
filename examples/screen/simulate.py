"""A perturbation screen, simulated: counts of 200 genes in 6,000 cells, 60 genes knocked down.

    python examples/screen/simulate.py        # build/screen/screen.h5ad and true_edges.csv
    python examples/screen/simulate.py --out DIR --seed 1

Each gene has an activity, a sum of tanh of its regulators' activities and of noise, in the order of
a random acyclic graph with two regulators per gene in the mean. A knockdown replaces the gene's
activity by a low one of its own. What a sequencer sees are counts: negative binomial around the
exponential of the activity, times the cell's depth, with a gene's own mean level from rare to
frequent. So the counts are not what the graph is about: there is noise between them and the
activities, as there is in real screens, and rare genes show little of theirs.

The same seed gives the same file.
"""

import argparse
from pathlib import Path

import numpy as np

GENES, KNOCKED_DOWN, PER_TARGET, CONTROLS = 200, 60, 50, 3_000
REGULATORS = 2.0
"""Of a gene, in the mean."""

DISPERSION = 0.1
"""A count's variance is m + DISPERSION * m^2 for its mean m."""


def simulate(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts, targets, and the graph.

    Returns
    -------
    counts : int32 (n, d)
        Cells by genes.
    target : int64 (n,)
        The gene that was knocked down in a cell; -1 in controls.
    graph : int8 (d, d)
        1 at ``[i, j]`` where gene i regulates gene j.
    """
    rng = np.random.default_rng(seed)
    d, n = GENES, CONTROLS + KNOCKED_DOWN * PER_TARGET
    order = rng.permutation(d)
    later = np.zeros((d, d), dtype=bool)
    later[np.ix_(order, order)] = np.triu(np.ones((d, d), dtype=bool), 1)
    graph = later & (rng.random((d, d)) < REGULATORS * 2 / (d - 1))
    strength = rng.uniform(0.6, 1.2, (d, d)) * rng.choice([-1.0, 1.0], (d, d)) * graph
    targets = np.sort(rng.choice(d, KNOCKED_DOWN, replace=False))
    target = np.concatenate([np.full(CONTROLS, -1), np.repeat(targets, PER_TARGET)])
    target = target[rng.permutation(n)]
    noise = rng.normal(0.0, 0.5, (n, d))
    activity = np.zeros((n, d))
    for j in order:
        activity[:, j] = np.tanh(activity) @ strength[:, j] + noise[:, j]
        down = target == j
        activity[down, j] = -2.5 + 0.3 * noise[down, j]
    level = rng.lognormal(1.5, 0.8, d)
    depth = rng.lognormal(0.0, 0.25, n)
    mean = depth[:, None] * level * np.exp(activity)
    counts = rng.negative_binomial(1 / DISPERSION, 1 / (1 + DISPERSION * mean))
    return counts.astype(np.int32), target, graph.astype(np.int8)


def main() -> None:
    """Simulate and write."""
    import anndata
    import pandas as pd
    import scipy.sparse as sp

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("build/screen"), help="folder")
    parser.add_argument("--seed", type=int, default=0)
    a = parser.parse_args()

    counts, target, graph = simulate(a.seed)
    genes = [f"GENE{j + 1}" for j in range(GENES)]
    labels = ["non-targeting" if t < 0 else genes[t] for t in target]
    screen = anndata.AnnData(
        sp.csr_matrix(counts.astype(np.float32)),
        obs=pd.DataFrame({"guide": labels}, index=[f"cell{r + 1}" for r in range(len(counts))]),
        var=pd.DataFrame(index=genes),
    )
    a.out.mkdir(parents=True, exist_ok=True)
    screen.write_h5ad(a.out / "screen.h5ad", compression="gzip")
    lines = [f"{genes[i]},{genes[j]}" for i, j in np.argwhere(graph)]
    (a.out / "true_edges.csv").write_text("\n".join(["parent,child", *lines]) + "\n")
    print(f"{a.out / 'screen.h5ad'}: {len(counts)} cells, {GENES} genes, {len(lines)} true edges")


if __name__ == "__main__":
    main()
