"""Read what is known beforehand about the edges of a person's own table."""

import argparse
import json
from pathlib import Path

import _script

from sdcd.data.dataset import read_dataset
from sdcd.data.knowledge import read_knowledge
from sdcd.data.required import refuse_required_cycle
from sdcd.files import write_json


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="the table as it was read, .npz")
    parser.add_argument("--files", type=json.loads, required=True, help="by kind, as JSON")
    parser.add_argument("--out", required=True, help="where the .json goes")
    a = parser.parse_args()

    names = read_dataset(a.data).names
    refuse_required_cycle(names, a.files.get("require"))
    write_json(Path(a.out), read_knowledge(names, **a.files))


if __name__ == "__main__":
    _script.run(main)
