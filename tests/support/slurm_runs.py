"""Runs of the workflow on SLURM, for tests that look at what became of them.

    python -m support.slurm_runs FOLDER NAME...

makes the runs of these names one after the other, each in FOLDER/NAME, on a SLURM cluster that is
this machine alone, and writes to FOLDER/NAME.json what happened. The cluster has no accounting, and
its GPU is none. What is set on the command line besides a profile is what only a test needs: the
scale, and how often Snakemake asks for the state of jobs.

Such runs mostly wait, so that tests need not: ``conftest.py`` starts this program when the tests
begin and ends it, with all that it has started, by closing its standard input. It has a lower
priority than they.
"""

import contextlib
import json
import os
import signal
import sys
import threading
import traceback
from pathlib import Path

import yaml
from support.slurm import Cluster, Unavailable, descendants, one_node_cluster
from support.tiny import TINY, add_slow_method, finished, started, wait_for
from support.workflow import begin, copy_of, new_clone, snakemake

from sdcd.files import write_json

ASKING = (
    "--slurm-status-command=squeue",
    "--slurm-init-seconds-before-status-checks=3",
    "--seconds-between-status-checks=3",
    "--latency-wait=10",
)
GRIDS = {
    "observational": [{"d": [5], "s": [2], "seeds": 1}],
    "interventional": [{"d": [5], "s": [2], "fractions": [1], "seeds": 1}],
}
"""In place of smoke's: one data set of each kind."""

GPU_FITS = [f"results/smoke/fits/observational/d{d}_s2_seed0/SDCD-GPU.npz" for d in (5, 6)]
FITS = [f"results/tiny/fits/observational/d5_s2_seed{seed}/slow.npz" for seed in (0, 1)]


def smoke(cluster: Cluster, folder: Path) -> dict:
    """Scale smoke, of each method one fit of an experiment, from start to report."""
    clone = new_clone(folder / "clone")
    (clone / "less.yaml").write_text(yaml.safe_dump({"scales": {"smoke": {"grids": GRIDS}}}))
    arguments = ("--profile", "slurm", *ASKING, "--configfile", "config.yaml", "less.yaml")
    arguments += ("--config", "scale=smoke", "gpu=false")
    snakemake(clone, *arguments, environment=cluster.environment)
    return {}


def gpu(cluster: Cluster, folder: Path) -> dict:
    """In a copy of that, a method more, which asks for a GPU; without CUDA it is unavailable."""
    whole = folder.parent / "smoke"
    if not whole.exists():
        smoke(cluster, whole)
    clone = copy_of(whole / "clone", folder / "clone")
    change = {
        "method_options": {"SDCD-GPU": {"gpu": True, "min_d": 5}},
        "scales": {"smoke": {"method_options": {"SDCD-GPU": {"settings": {"epochs_1": 40}}}}},
    }
    (clone / "gpu.yaml").write_text(yaml.safe_dump(change))
    before = len(cluster.jobs())
    arguments = ("--profile", "gpu", *ASKING, "--configfile", "config.yaml", "gpu.yaml")
    arguments += ("--config", "scale=smoke", "gpu=true", "--", *GPU_FITS)
    snakemake(clone, *arguments, environment=cluster.environment)
    return {"before": before}


class Tiny:
    """A clone with the data sets of the tiny scale, and a method that ends when it is let."""

    def __init__(self, cluster: Cluster, folder: Path):
        self.environment = cluster.environment
        self.clone = new_clone(folder / "clone")
        self.slow = folder / "slow"
        add_slow_method(self.clone, self.slow)
        data = [f"results/tiny/data/observational/d5_s2_seed{seed}.npz" for seed in (0, 1)]
        self.snakemake(*TINY, "--", *data)
        self.process = None

    def snakemake(self, *arguments: str) -> None:
        """Without SLURM."""
        snakemake(self.clone, *arguments, environment=self.environment)

    def start(self, *arguments: str) -> None:
        """The two fits by SLURM, and only up to those."""
        arguments = ("--profile", "slurm", *ASKING, *TINY, "gpu=false", *arguments, "--", *FITS)
        self.process = begin(self.clone, *arguments, environment=self.environment)

    def wait_until_started(self, times: int) -> None:
        """Until the method was started so often in all."""
        wait_for(lambda: self.process.poll() is not None or started(self.slow) >= times)

    def go(self) -> None:
        """Let the method end, now and from now on."""
        (self.slow / "go").touch()

    def end(self) -> dict:
        """Wait until Snakemake ends; what there is then."""
        code = self.process.wait(1200)
        records = [(self.clone / path).with_suffix(".json") for path in FITS]
        return {
            "code": code,
            "output": (self.clone / "output.txt").read_text()[-5000:],
            "started": started(self.slow),
            "records": [json.loads(path.read_text()) for path in records if path.exists()],
        }


def killed(cluster: Cluster, folder: Path) -> dict:
    """Snakemake alone is killed, its jobs go on; it is run again when they have ended."""
    tiny = Tiny(cluster, folder)
    tiny.start()
    tiny.wait_until_started(2)
    tiny.process.kill()
    tiny.process.wait()
    tiny.go()
    wait_for(lambda: finished(tiny.clone, "slow") == 2)
    tiny.snakemake(*TINY, "--unlock")
    tiny.start()
    return tiny.end()


def cancelled(cluster: Cluster, folder: Path) -> dict:
    """One of two jobs is cancelled."""
    tiny = Tiny(cluster, folder)
    before = len(cluster.jobs())
    tiny.start()
    tiny.wait_until_started(2)
    cluster.run("scancel", cluster.jobs()[before].number)
    tiny.go()
    return tiny.end()


def edited(cluster: Cluster, folder: Path) -> dict:
    """The configuration is edited while one job runs and the other waits."""
    tiny = Tiny(cluster, folder)
    tiny.start("--jobs", "1")
    tiny.wait_until_started(1)
    add_slow_method(tiny.clone, tiny.slow, method_options={"slow": {"time_limit_s": 50}})
    tiny.go()
    return tiny.end()


def memory(cluster: Cluster, folder: Path) -> dict:
    """The first attempt asks for less memory than the method takes."""
    tiny = Tiny(cluster, folder)
    tiny.go()
    (tiny.slow / "megabytes").write_text("600")
    tiny.start("--set-resources", "fit:mem_mb=500 if attempt == 1 else 3000")
    return tiny.end()


def late(cluster: Cluster, folder: Path) -> dict:
    """The first attempt asks for a minute, and its method does not end in that."""
    tiny = Tiny(cluster, folder)
    before = len(cluster.jobs())
    add_slow_method(tiny.clone, tiny.slow, method_options={"slow": {"time_limit_s": 1000}})
    tiny.start("--set-resources", "fit:runtime=1 if attempt == 1 else 60")
    wait_for(lambda: [job.state for job in cluster.jobs()[before:]][:2] == ["TIMEOUT"] * 2)
    tiny.go()
    return tiny.end()


def node(cluster: Cluster, folder: Path) -> dict:
    """The node goes down with the jobs on it, and comes back."""
    tiny = Tiny(cluster, folder)
    tiny.start()
    tiny.wait_until_started(2)
    cluster.kill_node()
    wait_for(lambda: cluster.state().startswith("down"))
    cluster.start_node()
    tiny.go()
    return tiny.end()


PROGRAMS = (
    (smoke, gpu),
    (killed, cancelled, edited, memory, late, node),
)
"""What one call of this program does, and another."""


def main() -> None:
    """Make the runs, on one cluster."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    threading.Thread(target=_end_with_standard_input, daemon=True).start()
    os.nice(5)
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    runs = {run.__name__: run for program in PROGRAMS for run in program}
    done = []
    try:
        with one_node_cluster() as cluster:
            for name in names:
                before = len(cluster.jobs())
                (folder / name).mkdir(exist_ok=True)
                try:
                    found = runs[name](cluster, folder / name)
                except Exception:
                    found = {"error": traceback.format_exc()}
                jobs = [job._asdict() for job in cluster.jobs()[found.get("before", before) :]]
                write_json(folder / f"{name}.json", {**found, "jobs": jobs})
                done.append(name)
    except Unavailable as error:
        for name in names:
            if name not in done:
                write_json(folder / f"{name}.json", {"unavailable": str(error)})
    finally:
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _end_with_standard_input() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
