"""Read a list of true edges for a person's own table, before anything is fitted to that."""

import argparse
from pathlib import Path

import _script
import numpy as np

from sdcd.data.dataset import read_dataset
from sdcd.experiments.own_data import read_truth
from sdcd.files import write_json, write_npz


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="the table as it was read, .npz")
    parser.add_argument("--truth", required=True, help="a list of edges, .csv")
    parser.add_argument("--out", required=True, help="where the .npz goes; .json beside it")
    a = parser.parse_args()

    names = read_dataset(a.data).names
    adjacency, left_out = read_truth(a.truth, names)
    write_npz(a.out, adjacency=adjacency, names=np.array(names, dtype=np.str_))
    about = {"file": Path(a.truth).name, "n_edges": int(adjacency.sum()), "left_out": left_out}
    write_json(Path(a.out).with_suffix(".json"), about)


if __name__ == "__main__":
    _script.run(main)
