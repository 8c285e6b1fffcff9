"""Write the lock and the conda files of this folder from the environment that runs this script.

To move to newer versions: install the package with all extras in a new environment, run the tests,
and then

    python envs/lock.py

The lock, ``requirements.txt``, pins everything that pyproject.toml asks for and what those packages
need, as it is installed. The conda files take Python from conda-forge and the same pinned packages
through pip, so that whoever uses conda runs the same versions: ``environment.yaml`` has all of
them, ``sdcd.yaml`` what the rules of the workflow need (``snakemake --sdm conda``).
"""

import argparse
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HERE = Path(__file__).resolve().parent
PYTHON = "3.11"
RUNTIME_EXTRAS = ("baselines", "data", "figures")
# What a CUDA build of torch needs comes with it; the CPU build has none of it.
LEFT_TO_TORCH = ("cuda-", "nvidia-", "triton")

LOCK_HEADER = """\
# Every package at the version that was tested. Written by 'python envs/lock.py', which says how.
# torch: pip takes the build for the machine, with CUDA or without.
"""
CONDA_HEADER = """\
# {what} Written by 'python envs/lock.py', which says how.
name: {name}
channels:
  - conda-forge
dependencies:
  - python={python}
  - pip
  - pip:
"""


def closure(project: dict, extras: tuple[str, ...]) -> dict[str, str]:
    """Name and installed version of all that the project and the extras need, directly or not."""
    wanted = list(project["dependencies"])
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    pending = [(Requirement(text), {""}) for text in wanted]
    found: dict[str, str] = {}
    done = set()
    while pending:
        requirement, of_extras = pending.pop()
        marker = requirement.marker
        if marker and not any(marker.evaluate({"extra": extra}) for extra in of_extras):
            continue
        name = canonicalize_name(requirement.name)
        key = (name, frozenset(requirement.extras))
        if key in done or name.startswith(LEFT_TO_TORCH):
            continue
        done.add(key)
        try:
            package = distribution(name)
        except PackageNotFoundError:
            sys.exit(f"envs/lock.py: {requirement} is not installed here")
        found[package.metadata["Name"]] = package.version.partition("+")[0]
        pending += [
            (Requirement(text), {"", *requirement.extras}) for text in package.requires or ()
        ]
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))


def files() -> dict[Path, str]:
    """The text of each file of this folder that this script writes."""
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]
    everything = closure(project, tuple(project["optional-dependencies"]))
    runtime = closure(project, RUNTIME_EXTRAS)
    return {
        HERE / "requirements.txt": LOCK_HEADER + _lines(everything),
        HERE / "environment.yaml": _conda(everything, "sdcd", "Everything, tests included."),
        HERE / "sdcd.yaml": _conda(runtime, "sdcd-rules", "What the rules of the workflow need."),
    }


def _lines(packages: dict[str, str], indent: str = "") -> str:
    return "".join(f"{indent}{name}=={version}\n" for name, version in packages.items())


def _conda(packages: dict[str, str], name: str, what: str) -> str:
    header = CONDA_HEADER.format(what=what, name=name, python=PYTHON)
    return header + _lines(packages, "      - ")


def main() -> None:
    """Write the files, or check that they are as they would be written."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if one differs")
    check = parser.parse_args().check
    for path, text in files().items():
        if not check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            sys.exit(f"{path.relative_to(HERE.parent)} differs from the installed packages")


if __name__ == "__main__":
    main()
