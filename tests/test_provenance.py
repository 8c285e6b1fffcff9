"""Where a result comes from: code, commit, data."""

import dataclasses
import subprocess
from pathlib import Path

import pytest

import sdcd.methods.contract
from sdcd.files import write_json
from sdcd.fits.fingerprint import closure, fingerprint
from sdcd.fits.provenance import code_of, commit, difference, fit_fingerprint
from sdcd.methods.outside import files_of, register_outside
from sdcd.methods.registry import method, methods


def git(folder, *arguments):
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    end = subprocess.run(
        ["git", "-C", folder, *identity, *arguments], capture_output=True, text=True, check=True
    )
    return end.stdout.strip()


def test_the_code_of_a_method_is_its_module_and_the_contract():
    gies, nocurl = method("GIES"), method("NOCURL")
    assert fit_fingerprint(gies) == fingerprint("sdcd.fits.child", gies.module)
    assert fit_fingerprint(gies) != fit_fingerprint(nocurl)
    assert code_of(gies)["fingerprint"] == fit_fingerprint(gies)
    foreign = dataclasses.replace(gies, module="a.module.of.somebody")
    assert fit_fingerprint(foreign) == fingerprint("sdcd.fits.child")


def test_the_contract_is_small():
    """All fits are made again when one of these is edited."""
    assert closure(["sdcd.fits.child"]) == {
        *("sdcd", "sdcd.cores", "sdcd.data", "sdcd.data.dataset", "sdcd.errors", "sdcd.files"),
        *("sdcd.fits", "sdcd.fits.child", "sdcd.parameters"),
        *("sdcd.methods", "sdcd.methods.contract", "sdcd.methods.registry"),
    }


def test_resamples_are_fitted_again_when_what_draws_them_changes():
    """Not when it is how fits are watched or counted."""
    of_fits = {name for name in closure(["sdcd.fits.draws"]) if name.startswith("sdcd.fits.")}
    assert of_fits == {"sdcd.fits.draws"}


@pytest.fixture
def outside(monkeypatch, tmp_path):
    """An outside command, in a folder where it finds its files."""
    monkeypatch.setattr(sdcd.methods.contract, "REGISTERED", dict(methods()))
    monkeypatch.chdir(tmp_path)
    for name in ("mine.py", "model.txt", "large.txt", "lib.R"):
        (tmp_path / name).write_text("1\n")
    command = ["sh", "-c", "cd . && python mine.py {input} {output}", "--model={size}.txt", "lib.R"]
    return register_outside({"name": "mine", "command": command, "settings": {"size": "model"}})


def test_files_that_an_outside_command_names(outside, tmp_path):
    def files(**settings):
        return [str(path) for path in files_of(outside.fit.spec, settings)]

    assert files() == ["mine.py", "model.txt", "lib.R"]
    assert files(size="large") == ["mine.py", "large.txt", "lib.R"]
    (tmp_path / "python").write_text("1\n")
    # The program is looked up elsewhere, unless it is given by its path.
    assert files_of({"command": ["python", "{output}"]}, {}) == []
    assert files_of({"command": ["./python", "{output}"]}, {}) == [Path("./python")]


def test_every_file_of_an_outside_command_counts_and_its_description(outside, tmp_path):
    found = [fit_fingerprint(outside), fit_fingerprint(outside, {"size": "large"})]
    for name in ("mine.py", "model.txt", "lib.R"):
        (tmp_path / name).write_text("2\n")
        found.append(fit_fingerprint(outside))
    found.append(fit_fingerprint(register_outside({**outside.fit.spec, "threshold": 0.5})))
    found.append(fit_fingerprint(method("mine+prune")))
    assert len(set(found)) == len(found)
    (tmp_path / "large.txt").write_text("2\n")
    assert fit_fingerprint(method("mine+prune")) == found[-1]


def test_a_record_says_whether_this_version_would_make_the_same(tmp_path):
    chosen, path = method("NOTEARS"), tmp_path / "fit.json"
    record = {"method": "NOTEARS", "params": chosen.parameters({}), "code": code_of(chosen)}
    write_json(path, record)
    assert difference(path, chosen, {}) == ""
    assert difference(path, chosen, {"lambda_1": 0.5}) == "made with other settings"
    assert difference(path, method("NOCURL"), {}) == "not a record of NOCURL"
    write_json(path, {**record, "code": {"fingerprint": "f" * 16}})
    assert difference(path, chosen, {}) == f"made by other code ({'f' * 16})"
    path.write_text("{")
    assert difference(path, chosen, {}) == "not a readable record"


@pytest.fixture
def repository(tmp_path):
    git(tmp_path, "init", "-q")
    package = tmp_path / "package"
    package.mkdir()
    (package / "file.py").write_text("a = 1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    git(tmp_path, "tag", "-a", "v1", "-m", "a tag does not stand in for the commit")
    return tmp_path


def test_the_commit_says_whether_files_differ_from_it(repository):
    head = git(repository, "rev-parse", "HEAD")
    assert commit(repository / "package") == head
    commit.cache_clear()
    (repository / "package/file.py").write_text("a = 2\n")
    assert commit(repository / "package") == head + "-dirty"


def test_a_package_installed_inside_a_repository_has_no_commit(repository):
    installed = repository / "venv/package"
    installed.mkdir(parents=True)
    (installed / "file.py").write_text("a = 1\n")
    assert commit(installed) is None


def test_without_git_there_is_no_commit(repository, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert commit(repository / "package") is None
