"""The lock, the conda files and the installed packages agree; set-up says what it needs."""

import ast
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[1]
PIN = re.compile(r"([A-Za-z0-9_.-]+)==([A-Za-z0-9_.!]+)")


def pins(lines):
    found = {}
    for line in lines:
        match = PIN.fullmatch(line)
        assert match, f"{line!r} is not a pin such as numpy==2.0.0"
        found[match[1].lower().replace("_", "-")] = match[2]
    return found


def lock():
    lines = (ROOT / "envs/requirements.txt").read_text().splitlines()
    return pins(line for line in lines if line and not line.startswith("#"))


def conda(name):
    environment = yaml.safe_load((ROOT / f"envs/{name}").read_text())
    plain = [entry for entry in environment["dependencies"] if isinstance(entry, str)]
    nested = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    assert len(nested) == 1
    return plain, pins(nested[0])


def test_conda_and_lock_have_the_same_versions():
    plain, everything = conda("environment.yaml")
    assert everything == lock()
    plain_rules, rules = conda("sdcd.yaml")
    assert rules.items() <= lock().items()
    assert {"numpy", "torch", "pandas", "matplotlib", "causaldisco"} <= set(rules)
    assert not {"snakemake", "pytest", "ruff"} & set(rules)
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    for entries in (plain, plain_rules):
        assert entries == [f"python={requires.removeprefix('>=')}", "pip"]


def test_every_rule_with_a_script_names_the_conda_file():
    for path in (ROOT / "workflow/rules").glob("*.smk"):
        text = path.read_text()
        scripts = text.count("$SDCD_SCRIPTS/")
        assert text.count("../../envs/sdcd.yaml") == scripts, path.name


def test_what_the_project_asks_for_is_in_the_lock():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    asked = [*project["dependencies"], *(text for extra in extras for text in extra)]
    names = {re.match(r"[A-Za-z0-9_.-]+", text)[0].lower().replace("_", "-") for text in asked}
    assert names <= set(lock())


def test_a_library_whose_private_parts_are_used_has_an_upper_bound():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (numba,) = (text for text in project["dependencies"] if text.startswith("numba"))
    assert re.search(r"<0\.\d+$", numba)


def test_a_built_package_has_the_files_that_its_modules_read(tmp_path):
    """Captions, templates, the paper's numbers, claims and costs."""
    (tmp_path / "built").mkdir()
    shutil.copytree(ROOT / "sdcd", tmp_path / "sdcd", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    build = "import setuptools; setuptools.setup()"
    end = subprocess.run(
        [sys.executable, "-c", build, "-q", "build_py", "--build-lib", "built"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert end.returncode == 0, end.stderr
    source, built = tmp_path / "sdcd", tmp_path / "built/sdcd"
    files = {path.relative_to(source) for path in source.rglob("*") if path.is_file()}
    assert files == {path.relative_to(built) for path in built.rglob("*") if path.is_file()}


def test_the_list_of_a_room_has_every_module_of_it():
    """Where a room's first page lists its modules; with a leading underscore they need not be."""
    for page in (ROOT / "sdcd").rglob("__init__.py"):
        text = ast.get_docstring(ast.parse(page.read_text())) or ""
        listed = set(re.findall(r"^``(\w+)``", text, flags=re.MULTILINE))
        listed |= set(re.findall(r"``(\w+)``", text)) if listed else set()
        modules = {path.stem for path in page.parent.glob("[!_]*.py")}
        modules |= {path.parent.name for path in page.parent.glob("[!_]*/__init__.py")}
        assert not listed or modules <= listed, (page, modules - listed)


def test_the_lock_is_for_the_oldest_python_that_the_project_takes():
    """3.11.0, not only the patch release at hand: Debian 12 has 3.11.2."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = project["requires-python"].removeprefix(">=") + ".0"
    for name in lock():
        wanted = importlib.metadata.metadata(name).get("Requires-Python") or ""
        assert SpecifierSet(wanted).contains(oldest), f"{name} needs Python {wanted}"


def test_the_lock_is_for_every_platform():
    assert not [name for name in lock() if name.startswith(("nvidia", "triton", "cuda"))]
    assert "+" not in lock()["torch"]


def test_the_installed_packages_are_those_of_the_lock():
    differ = {}
    for name, version in lock().items():
        installed = importlib.metadata.version(name).partition("+")[0]
        if installed != version:
            differ[name] = (installed, version)
    assert differ == {}


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the lock is written with Python 3.11")
def test_the_lock_is_what_its_script_writes():
    subprocess.run([sys.executable, "envs/lock.py", "--check"], cwd=ROOT, check=True)


def set_up(tmp_path, version, path=None):
    """Run the set-up with a stand-in for Python that reports ``version``."""
    python = tmp_path / "some-python"
    answer = "exit 1" if version < (3, 11) else "exit 3"
    python.write_text(
        f'#!/bin/sh\ncase "$1" in -V) echo Python {version[0]}.{version[1]};; *) {answer};; esac\n'
    )
    python.chmod(0o755)
    environment = {**os.environ, "PYTHON": str(path or python), "VENV": str(tmp_path / "venv")}
    return subprocess.run(
        [ROOT / "envs/set_up.sh"], env=environment, capture_output=True, text=True, check=False
    )


def test_an_old_python_is_refused_in_one_line(tmp_path):
    end = set_up(tmp_path, (3, 9))
    assert end.returncode == 1
    assert "is Python 3.9, Python 3.11 or newer is needed" in end.stderr
    assert end.stderr.count("\n") == 1
    assert not (tmp_path / "venv").exists()


def test_a_missing_python_is_refused_in_one_line(tmp_path):
    end = set_up(tmp_path, (3, 11), path="no-such-python")
    assert end.returncode == 1
    assert "no program 'no-such-python'" in end.stderr
    assert end.stderr.count("\n") == 1


def test_the_citation_names_the_paper():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    paper = citation["preferred-citation"]
    assert paper["title"] == "Stable Differentiable Causal Discovery"
    assert [author["family-names"] for author in paper["authors"]] == [
        "Nazaret",
        "Hong",
        "Azizi",
        "Blei",
    ]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert citation["version"] == project["version"]
    assert citation["license"] == project["license"]
