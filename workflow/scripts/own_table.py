"""Read a person's own table as a fit takes it; beside it what there is to say about it."""

import argparse
import json
from pathlib import Path

import _script

from sdcd.data.dataset import describe_dataset, write_dataset
from sdcd.data.own_data import TableOptions, check_as_fitted
from sdcd.files import write_json


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="the table")
    parser.add_argument("--reading", type=json.loads, default={}, help="how, as JSON")
    parser.add_argument("--out", required=True, help="where the .npz goes; .json beside it")
    a = parser.parse_args()

    standardise = a.reading.pop("standardise", "auto")
    options = {key: tuple(v) if isinstance(v, list) else v for key, v in a.reading.items()}
    read = describe_dataset(a.data, TableOptions(**options), standardise=standardise)
    data = read.dataset
    check_as_fitted(a.data, data)
    write_dataset(a.out, data)
    about = {
        "file": Path(a.data).name,
        "n_rows": data.n,
        "n_variables": data.d,
        "n_perturbed_rows": int(data.intervened.any(axis=1).sum()),
        "n_perturbed_variables": int(data.intervened.any(axis=0).sum()),
        "summary": read.summary(),
    }
    write_json(Path(a.out).with_suffix(".json"), about)


if __name__ == "__main__":
    _script.run(main)
