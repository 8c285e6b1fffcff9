"""Running the workflow as its user does, in copies of the clone."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SMOKE = ("--config", "scale=smoke")
LEFT_OUT = (".git", ".venv*", "results", ".snakemake", ".*_cache", ".hypothesis")


def snakemake(clone, *arguments, check=True, cores=2, environment=None):
    """Run Snakemake in the clone; its output, standard error included."""
    command = [sys.executable, "-m", "snakemake"]
    if "--profile" not in arguments:
        command += ["--cores", str(cores)]
    end = subprocess.run(
        [*command, *arguments],
        cwd=clone,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if check:
        assert end.returncode == 0, end.stdout[-5000:]
        return end.stdout
    return end.returncode, end.stdout


def begin(clone, *arguments, environment=None):
    """Snakemake in the background, in a process group of its own; it writes to output.txt."""
    with open(clone / "output.txt", "w") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "snakemake", *arguments],
            cwd=clone,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def planned(clone, *arguments, results="results/smoke"):
    """The first output of each job that Snakemake would run, without the folder of results."""
    text = snakemake(clone, "-n", *(arguments or SMOKE))
    outputs = re.findall(r"^    output: ([^,\n]+)", text, flags=re.MULTILINE)
    return {output.removeprefix(f"{results}/") for output in outputs}


def new_clone(target):
    """A copy of this clone as it is checked out, without anything that was made in it."""
    return Path(
        shutil.copytree(ROOT, target, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
    )


def copy_of(clone, target):
    """A copy of a clone with all its results."""
    return Path(
        shutil.copytree(clone, target, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT[:2]))
    )
