"""A fingerprint changes with the code that is really used, and with nothing else."""

import textwrap
from pathlib import Path

import pytest

from sdcd.fits import fingerprint as module
from sdcd.fits.fingerprint import closure, fingerprint
from sdcd.methods.registry import methods


@pytest.fixture
def package(tmp_path):
    files = {
        "__init__.py": '"""The package."""\n\n__version__ = "1.0"\n',
        "used.py": "def helper():\n    return 1\n",
        "unused.py": "VALUE = 1\n",
        "late.py": "VALUE = 2\n",
        "sub/__init__.py": "",
        "sub/relative.py": "VALUE = 3\n",
        "sub/method.py": """
            '''A method.'''
            import json
            from toy.used import helper
            from .relative import VALUE
            from importlib import import_module

            def fit():
                '''Fit.'''
                if VALUE > 9:
                    raise RuntimeError("overflow", f"the value {VALUE} is too large", "of all")
                from toy import late
                import_module("toy.unused")
                return helper() + VALUE + late.VALUE
        """,
    }
    for name, text in files.items():
        path = tmp_path / "toy" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return tmp_path / "toy"


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_closure_follows_every_kind_of_import(package):
    assert closure(["toy.sub.method"], package) == {
        "toy",
        "toy.sub",
        "toy.sub.method",
        "toy.sub.relative",
        "toy.used",
        "toy.late",
    }


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("sub/method.py", "helper() + VALUE", "helper() - VALUE"),
        ("sub/relative.py", "3", "4"),
        ("used.py", "return 1", "return 2"),
        ("late.py", "2", "'2'"),
        # A status, not a message.
        ("sub/method.py", "overflow", "nan"),
        ("sub/method.py", "VALUE > 9", "VALUE > 8"),
        ("sub/method.py", "RuntimeError", "ValueError"),
        ("__init__.py", '"""The package."""\n', "x = 1\n"),
        ("sub/__init__.py", "", "x = 1\n"),
    ],
)
def test_an_edit_of_what_is_imported_counts(package, name, old, new):
    before = fingerprint("toy.sub.method", package=package)
    edit(package / name, old, new) if old else (package / name).write_text(new)
    assert fingerprint("toy.sub.method", package=package) != before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("unused.py", "1", "2"),
        ("sub/method.py", "'''Fit.'''", "'''Fit it.'''"),
        ("sub/method.py", "'''A method.'''", ""),
        ("sub/method.py", "the value {VALUE} is too large", "too large: {VALUE + 1}"),
        ("sub/method.py", "of all", "above 9"),
        ("sub/method.py", "import json\n", "import json  # for later\n\n\n"),
        ("used.py", "def helper():", "# helps\ndef helper(\n):"),
        ("__init__.py", "The package.", "Another text."),
        ("__init__.py", "1.0", "1.1"),
    ],
)
def test_an_edit_of_anything_else_does_not(package, name, old, new):
    before = fingerprint("toy.sub.method", package=package)
    edit(package / name, old, new)
    assert fingerprint("toy.sub.method", package=package) == before


def test_scripts_and_data_count(package, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("from toy.used import helper\n")
    data = tmp_path / "table.csv"
    data.write_text("1\n")

    def now():
        return fingerprint(scripts=[script], data=[data], package=package)

    first = now()
    edit(package / "unused.py", "1", "2")
    assert now() == first
    edit(package / "used.py", "1", "2")
    second = now()
    data.write_text("2\n")
    third = now()
    script.write_text("from toy.used import helper\nhelper()\n")
    assert len({first, second, third, now()}) == 4


def test_it_does_not_depend_on_where_the_package_lies(package, tmp_path):
    before = fingerprint("toy.sub.method", package=package)
    home = tmp_path / "home"
    home.mkdir()
    moved = package.rename(home / "toy")
    assert fingerprint("toy.sub.method", package=moved) == before


def test_a_module_that_does_not_exist_is_an_error(package):
    with pytest.raises(ModuleNotFoundError, match=r"toy\.none"):
        fingerprint("toy.none", package=package)


def test_methods_depend_on_the_contract_and_not_on_each_other():
    # Other tests may have registered outside commands.
    modules = {method.module for method in methods().values()} - {"sdcd.methods.outside"}
    assert len(modules) > 5
    for name in modules:
        found = closure([name])
        assert {"sdcd.methods.contract", "sdcd.errors"} <= found
        others = modules - {name}
        assert not found & others, f"{name} imports {found & others}"


def test_a_method_depends_on_what_it_runs_by_another_interpreter():
    assert "sdcd.baselines._avici_worker" in closure([methods()["AVICI"].module])


def test_importing_the_fingerprints_is_light():
    """Every job of the workflow imports this module, the plan and the registry again."""
    import subprocess
    import sys

    heavy = {"torch", "numba", "pandas", "anndata", "matplotlib", "sklearn", "snakemake"}
    code = (
        "import sys; import sdcd.experiments.plan, sdcd.fits.fingerprint, sdcd.fits.costs;"
        "from sdcd.methods.registry import methods; methods(); print(*sys.modules)"
    )
    root = Path(module.__file__).resolve().parents[1]
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root
    ).stdout
    assert not heavy & set(output.split())
