"""Where a result comes from: code, commit, data."""

import subprocess

import pytest

from sdcd.fits.fingerprint import fingerprint
from sdcd.fits.provenance import code_of, commit


def git(folder, *arguments):
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    end = subprocess.run(
        ["git", "-C", folder, *identity, *arguments], capture_output=True, text=True, check=True
    )
    return end.stdout.strip()


def test_the_code_of_a_method_is_its_module_and_what_runs_it():
    code = code_of("sdcd.baselines.gies")
    assert code["fingerprint"] == fingerprint("sdcd.fits.child", "sdcd.baselines.gies")
    assert code["fingerprint"] != code_of("sdcd.baselines.nocurl")["fingerprint"]
    assert code_of("a.module.of.somebody")["fingerprint"] == fingerprint("sdcd.fits.child")


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
