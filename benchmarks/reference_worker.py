"""Time the authors' package (PyPI ``sdcd`` 0.1.4) on one data set; runs in its own environment.

``reference_worker.py data.npz out.json full`` trains it with its default settings.
``reference_worker.py data.npz out.json epochs`` times short runs and reports milliseconds per epoch
of each stage: the difference between runs that differ in one stage's number of epochs, so that
set-up and the first epoch's extra costs cancel. The first run of the process counts for nothing.
"""

import json
import sys
import time

import numpy as np
import pandas as pd
import torch

from sdcd.models import SDCD
from sdcd.utils import create_intervention_dataset, set_random_seed_all

SHORT, LONG = 2, 42


def load(path):
    data = np.load(path, allow_pickle=False)
    frame = pd.DataFrame(data["X"], columns=[str(name) for name in data["names"]])
    labels = np.full(len(frame), "observational", dtype=object)
    for row, column in zip(*np.nonzero(data["intervened"]), strict=True):
        labels[row] = str(data["names"][column])
    frame["perturbation_label"] = labels
    return create_intervention_dataset(frame, perturbation_colname="perturbation_label")


def train(dataset, **settings):
    set_random_seed_all(0)
    model = SDCD()
    start = time.process_time()
    model.train(dataset, **settings)
    return time.process_time() - start, model


def short_run(dataset, epochs_1, epochs_2):
    seconds, _ = train(
        dataset, stage1_kwargs={"n_epochs": epochs_1}, stage2_kwargs={"n_epochs": epochs_2}
    )
    return seconds


def main(data_path, out_path, mode):
    torch.set_num_threads(1)
    dataset = load(data_path)
    if mode == "full":
        seconds, model = train(dataset)
        adjacency = np.asarray(model.get_adjacency_matrix(threshold=True)) != 0
        result = {"seconds": seconds, "adjacency": adjacency.astype(int).tolist()}
    else:
        short_run(dataset, SHORT, SHORT)
        base = short_run(dataset, SHORT, SHORT)
        stage_1 = short_run(dataset, LONG, SHORT) - base
        stage_2 = short_run(dataset, SHORT, LONG) - base
        span = LONG - SHORT
        result = {"stage_1_ms": 1000 * stage_1 / span, "stage_2_ms": 1000 * stage_2 / span}
    with open(out_path, "w") as stream:
        json.dump(result, stream)


if __name__ == "__main__":
    main(*sys.argv[1:])
