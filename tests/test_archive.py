"""Results packed and taken in; what an archive from a stranger must not do."""

import hashlib
import io
import json
import os
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from sdcd.cli import main
from sdcd.errors import InputError
from sdcd.files import write_json, write_npz
from sdcd.published import published_runs
from sdcd.report import archive
from sdcd.report.archive import FORMAT, export, import_archive
from sdcd.report.overview import fit_names

KINDS = ("zip", "tar.gz")


@pytest.fixture
def results(tmp_path) -> Path:
    folder = tmp_path / "results"
    runs = published_runs("ablation_stage1").reset_index(drop=True)
    (folder / "runs").mkdir(parents=True)
    runs.to_csv(folder / "runs/ablation_stage1.csv", index=False)
    for name in fit_names(runs)[:3]:
        write_json(folder / f"fits/{name}.json", {"status": "ok", "seconds": 1.0})
        write_npz(folder / f"fits/{name}.npz", names=np.array(["a"]))
    # What is not of these runs stays at home.
    (folder / "logs").mkdir()
    (folder / "logs/private.log").write_text("x")
    write_json(folder / "fits/observational/d10_s4_seed99/SDCD.json", {})
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("graphs", [False, True])
def test_what_is_packed_comes_out_again(results, tmp_path, kind, graphs):
    archive = tmp_path / f"a.{kind}"
    names = export(results, archive, graphs=graphs)
    assert len(names) == len(set(names)) == 1 + 3 * (1 + graphs)
    out = tmp_path / "new/place"
    assert import_archive(archive, out) == names
    assert content(out) == {name: (results / name).read_bytes() for name in names}
    assert len({path.stat().st_mtime_ns for path in out.rglob("*.*")}) == 1
    first = archive.read_bytes()
    os.utime(results / names[0], (1, 1))
    export(results, archive, graphs=graphs)
    assert archive.read_bytes() == first


def pack(path: Path, members, *, listed=None, manifest=None) -> Path:
    """An archive with these members (name, content), honest or not."""
    if manifest is None:
        files = {
            name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in (members if listed is None else listed)
        }
        manifest = {"format": FORMAT, "files": files}
    members = [("manifest.json", json.dumps(manifest).encode()), *members]
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
            for name, data in members:
                packed.writestr(zipfile.ZipInfo(name), data)
    else:
        with tarfile.open(path, "w:gz") as packed:
            for name, data in members:
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                packed.addfile(entry, io.BytesIO(data))
    return path


RUNS = published_runs("ablation_stage1").to_csv(index=False).encode()
GOOD = ("runs/ablation_stage1.csv", RUNS)
FIT = "fits/observational/d10_s4_seed0/SDCD"


def pickled() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, names=np.array([{}], dtype=object))
    return stream.getvalue()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([("../outside.csv", b"x")], "no name of a file of results"),
        ([("/tmp/outside.csv", b"x")], "no name of a file of results"),
        ([("runs/../../outside.csv", b"x")], "no name of a file of results"),
        ([(f"{FIT}/../../../../../outside.json", b"{}")], "no name of a file of results"),
        ([("runs\\..\\outside.csv", b"x")], "no name of a file of results"),
        ([("Snakefile", b"x")], "no name of a file of results"),
        ([("figures/runtime.png", b"x")], "no name of a file of results"),
        ([("runs/observational.csv\n", b"x")], "no name of a file of results"),
        ([], "no table of runs"),
        ([("runs/ablation_stage1.csv", b"")], "not a table of runs"),
        ([("runs/ablation_stage1.csv", b"a,b\n1,2\n")], "not a table of runs"),
        ([("runs/observational.csv", RUNS)], "not a table of runs"),
        (
            [("runs/ablation_stage1.csv", RUNS.replace(b",SDCD,", b",../../../x,"))],
            "no name of a file of results",
        ),
        ([GOOD, (f"{FIT}.json", b"{")], "not a JSON file"),
        ([GOOD, (f"{FIT}.json", b"[]")], "not the record of a fit"),
        ([GOOD, (f"{FIT}.json", b"[" * 100_000)], "seed0/SDCD.json: maximum recursion depth"),
        ([GOOD, (f"{FIT}.json", b"1" * 5000)], "seed0/SDCD.json: Exceeds the limit"),
        ([GOOD, ("plan.json", b"[" * 100_000)], "plan.json: maximum recursion depth"),
        (
            [("runs/ablation_stage1.csv", RUNS.replace(b",10,", b",inf,", 1))],
            "runs/ablation_stage1.csv: cannot convert float infinity",
        ),
        ([GOOD, (f"{FIT}.npz", b"PK")], "not a readable .npz"),
        ([GOOD, (f"{FIT}.npz", pickled())], "not a readable .npz"),
        ([GOOD, ("plan.json", b"[1]")], "not a plan"),
        ([GOOD, GOOD], "is there twice"),
    ],
)
def test_hostile_and_broken_contents_are_refused(tmp_path, kind, members, message):
    archive = pack(tmp_path / f"a.{kind}", members)
    inside = tmp_path / "x/y/z"
    inside.mkdir(parents=True)
    before = set(tmp_path.rglob("*"))
    with pytest.raises(InputError, match=message) as caught:
        import_archive(archive, inside / "out")
    assert str(caught.value).startswith(f"{archive}: ") and "\n" not in str(caught.value)
    assert set(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("kind", KINDS)
def test_contents_that_differ_from_the_manifest_are_refused(tmp_path, kind):
    archive, out = tmp_path / f"a.{kind}", tmp_path / "out"
    longer = (GOOD[0], RUNS + b"\n" * 10_000_000)
    for members, listed in (([longer], [GOOD]), ([GOOD], [longer]), ([(GOOD[0], b"x")], [GOOD])):
        with pytest.raises(InputError, match="not the file that the manifest describes"):
            import_archive(pack(archive, members, listed=listed), out)
    with pytest.raises(InputError, match="in the manifest and missing"):
        import_archive(pack(archive, [], listed=[GOOD]), out)
    with pytest.raises(InputError, match="not in the manifest"):
        import_archive(pack(archive, [GOOD], listed=[]), out)
    entry = {"size": 10**12, "sha256": ""}
    for manifest, message in (
        ({"format": 99, "files": {}}, "found format 99, expected 1"),
        ({"format": 1}, "not a manifest"),
        ([], "not a manifest"),
        ({"format": 1, "files": {GOOD[0]: {"size": float("inf"), "sha256": ""}}}, "not a manifest"),
        ({"format": 1, "files": {GOOD[0]: entry}}, "is said to have 1000000000000 bytes"),
    ):
        with pytest.raises(InputError, match=message):
            import_archive(pack(archive, [GOOD], manifest=manifest), out)
    assert not out.exists()


def test_links_and_folders_are_refused(tmp_path):
    manifest = json.dumps({"format": FORMAT, "files": {GOOD[0]: {"size": 1, "sha256": ""}}})
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE):
        with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as packed:
            entry = tarfile.TarInfo("manifest.json")
            entry.size = len(manifest)
            packed.addfile(entry, io.BytesIO(manifest.encode()))
            entry = tarfile.TarInfo(GOOD[0])
            entry.type, entry.linkname = kind, "/etc/passwd"
            packed.addfile(entry)
        with pytest.raises(InputError, match="not a plain file"):
            import_archive(tmp_path / "a.tar.gz", tmp_path / "out")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        packed.writestr("manifest.json", manifest)
        entry = zipfile.ZipInfo(GOOD[0])
        entry.external_attr = 0o120777 << 16
        packed.writestr(entry, "/etc/passwd")
    with pytest.raises(InputError, match="not a plain file"):
        import_archive(tmp_path / "a.zip", tmp_path / "out")


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_archive_is_said_to_be_one(results, tmp_path, kind):
    archive = tmp_path / f"a.{kind}"
    export(results, archive)
    whole = archive.read_bytes()
    for broken in (b"", whole[: len(whole) // 2], b"not an archive", whole[:40] + bytes(200)):
        archive.write_bytes(broken)
        with pytest.raises(InputError, match=f"a.{kind}: "):
            import_archive(archive, tmp_path / "out")
    archive.unlink()
    with pytest.raises(InputError, match="no such file"):
        import_archive(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_files_that_change_meanwhile_are_not_packed(results, tmp_path, monkeypatch):
    name = f"fits/{fit_names(published_runs('ablation_stage1'))[0]}.json"
    writer = archive._writer

    def later(*arguments):
        write_json(results / name, {"status": "ok", "seconds": 2.0})
        return writer(*arguments)

    monkeypatch.setattr(archive, "_writer", later)
    with pytest.raises(InputError, match=f"{name}: was written during the export; export again"):
        export(results, tmp_path / "a.zip")
    assert not (tmp_path / "a.zip").exists()


def test_a_folder_in_use_is_left_alone(results, tmp_path):
    export(results, tmp_path / "a.zip")
    before = content(results)
    with pytest.raises(InputError, match="not an empty folder"):
        import_archive(tmp_path / "a.zip", results)
    assert content(results) == before
    (tmp_path / "empty").mkdir()
    import_archive(tmp_path / "a.zip", tmp_path / "empty")
    assert (tmp_path / "empty/runs/ablation_stage1.csv").exists()


def test_the_command_packs_takes_in_and_redraws(results, tmp_path, capsys):
    archive, out = str(tmp_path / "a.tar.gz"), str(tmp_path / "out")
    assert main(["export", str(results), "-o", archive]) == 0
    assert main(["import", archive, "-o", out]) == 0
    assert main(["report", out]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"{out}/report.html"
    assert "<h1>SDCD, reproduced" in (tmp_path / "out/report.html").read_text()
    for arguments, message in (
        (["export", str(results), "-o", "a.rar"], "must end in .zip or .tar.gz"),
        (["export", str(tmp_path), "-o", archive], "no table of runs"),
        (["import", archive, "-o", out], "not an empty folder"),
        (["report", out, "-o", "a.pdf"], "must end in .html"),
        (["report", str(tmp_path / "none")], "no table of runs"),
    ):
        assert main(arguments) == 2
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1
