"""AVICI's inference, run by the interpreter of AVICI's own environment (envs/avici.txt).

``_avici_worker.py input.npz output.npz checkpoint_folder max_rows seed`` reads ``X`` and
``intervened`` and writes ``weights``, the probability of each edge. Imports nothing of this
project: the two environments cannot be one.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np


def main(input_path, output_path, checkpoint, max_rows, seed):
    """Load the checkpoint, predict edge probabilities, write them."""
    import avici

    data = np.load(input_path, allow_pickle=False)
    X, intervened = data["X"], data["intervened"]
    if len(X) > int(max_rows):
        rows = np.random.default_rng(int(seed)).choice(len(X), int(max_rows), replace=False)
        rows.sort()
        X, intervened = X[rows], intervened[rows]
    with tempfile.TemporaryDirectory() as folder:
        model = avici.load_pretrained(
            checkpoint_dir=str(_loadable(checkpoint, Path(folder))), expects_counts=False
        )
        probabilities = model(x=X, interv=intervened.astype(int), return_probs=True)
    np.savez(output_path, weights=np.asarray(probabilities, dtype=np.float64))


def _loadable(checkpoint, folder):
    """Lay the checkpoint out as avici 1.0.7 wants it: ``kwargs.json`` in the parent folder too."""
    model = folder / "model"
    model.mkdir()
    source = Path(checkpoint).resolve()
    for file in [*source.glob("*.pkl"), source / "kwargs.json"]:
        (model / file.name).symlink_to(file)
    (folder / "kwargs.json").symlink_to(source / "kwargs.json")
    return model


if __name__ == "__main__":
    main(*sys.argv[1:])
