"""A scale of seconds, and a method that ends when a test lets it."""

import csv
import json
import sys
import time

import yaml

TINY = ("--configfile", "config.yaml", "mine.yaml", "--config", "scale=tiny")

# Says in a file that it was started, takes memory, waits until it may end, finds the empty graph.
SLOW = """
import os, sys, time
import numpy as np
source, target, folder = sys.argv[1:]
names = np.load(source, allow_pickle=False)["names"]
with open(f"{folder}/started", "a") as stream:
    stream.write(f"{os.getpid()}\\n")
if os.path.exists(f"{folder}/megabytes"):
    taken = np.ones(int(open(f"{folder}/megabytes").read()) * 2**17)
    time.sleep(4)
while not os.path.exists(f"{folder}/go"):
    time.sleep(0.05)
np.savez(target, adjacency=np.zeros((len(names), len(names)), int))
"""


def configure(clone, **options):
    """A scale of two data sets and few quick methods."""
    scale = {
        "n_observational": 500,
        "n_per_intervention": 50,
        "time_limit_s": 100,
        "memory_limit_mb": 4000,
        "grids": {"observational": [{"d": [5], "s": [2], "seeds": 2}]},
        "method_options": options.pop("method_options", {}),
    }
    content = {"methods": ["sortnregress", "NOTEARS"], "scales": {"tiny": scale}, **options}
    (clone / "mine.yaml").write_text(yaml.safe_dump(content))


def add_slow_method(clone, folder, **options):
    folder.mkdir(exist_ok=True)
    (clone / "slow.py").write_text(SLOW)
    command = [sys.executable, str(clone / "slow.py"), "{input}", "{output}", str(folder)]
    outside = {"slow": {"command": command, "output": "npz"}}
    configure(clone, methods=["sortnregress", "slow"], outside_methods=outside, **options)


def started(folder):
    path = folder / "started"
    return len(path.read_text().splitlines()) if path.exists() else 0


def wait_for(condition, seconds=300):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def fits(clone):
    """Modification times of the graphs."""
    folder = clone / "results/tiny/fits"
    return {path.relative_to(folder): path.stat().st_mtime_ns for path in folder.rglob("*.npz")}


def finished(clone, method):
    """How many fits of a method the run has kept, should Snakemake be killed."""
    records = (clone / "results/tiny/finished").glob("*.json")
    return sum(json.loads(path.read_text())["method"] == method for path in records)


def rows(clone, target):
    """A table of runs."""
    with open(clone / target, newline="") as stream:
        return list(csv.DictReader(stream))
