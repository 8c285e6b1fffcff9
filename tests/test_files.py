"""Files that cannot be read: only what proves that a file is damaged is said to be damage."""

import errno
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from support.workflow import ROOT

from sdcd.errors import CorruptFile, InputError, UnreadableFile
from sdcd.files import read_json, read_npz, write_npz
from sdcd.methods.outside import read_graph


@pytest.fixture
def npz(tmp_path):
    path = tmp_path / "a.npz"
    write_npz(path, X=np.arange(5000.0), names=np.array(["a", "b"]))
    return path


def damaged(whole: bytes, how: str) -> bytes:
    middle = len(whole) // 2
    # Where the archive's directory says how its first member is compressed.
    directory = whole.index(b"PK\x01\x02") + 10
    return {
        "empty": b"",
        "text": b"nothing",
        "cut": whole[:middle],
        "first bytes": b"\0\0\0\0" + whole[4:],
        "flipped": whole[:middle] + bytes(255 - byte for byte in whole[middle:][:64])
        + whole[middle + 64 :],
        "compression": whole[:directory] + b"\x63" + whole[directory + 1 :],
        "pickle": b"\x80\x04N.",
    }[how]  # fmt: skip


@pytest.mark.parametrize(
    "how", ["empty", "text", "cut", "first bytes", "flipped", "compression", "pickle"]
)
def test_damage_is_said_to_be_damage(npz, how):
    whole = npz.read_bytes()
    npz.write_bytes(damaged(whole, how))
    assert npz.read_bytes() != whole
    with pytest.raises(CorruptFile, match=r"a\.npz: not a readable \.npz file \(") as caught:
        read_npz(npz)
    assert "\n" not in str(caught.value)


FAULTS = [
    (MemoryError("Unable to allocate 8 GiB"), "too little memory"),
    (OSError(errno.ESTALE, os.strerror(errno.ESTALE)), os.strerror(errno.ESTALE)),
    (OSError(errno.EIO, os.strerror(errno.EIO)), os.strerror(errno.EIO)),
    (PermissionError(errno.EACCES, os.strerror(errno.EACCES)), os.strerror(errno.EACCES)),
    (OSError(errno.EMFILE, os.strerror(errno.EMFILE)), os.strerror(errno.EMFILE)),
]


@pytest.mark.parametrize(("fault", "cause"), FAULTS, ids=[cause for _, cause in FAULTS])
@pytest.mark.parametrize("late", [False, True], ids=["opening", "reading"])
def test_other_faults_name_their_cause(npz, monkeypatch, fault, cause, late):
    def fail(*args, **kwargs):
        raise fault

    monkeypatch.setattr(*((np.lib.npyio.NpzFile, "__getitem__") if late else (np, "load")), fail)
    with pytest.raises(UnreadableFile) as caught:
        read_npz(npz)
    assert str(caught.value) == f"{npz}: cannot be read ({cause})"
    # Nor is it a fault of the command that wrote it.
    with pytest.raises(UnreadableFile):
        read_graph(npz, ("a", "b"))


def test_json_likewise(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    with pytest.raises(InputError, match="no such file"):
        read_json(path)
    for content in (b"", b"{", b"\xff"):
        path.write_bytes(content)
        with pytest.raises(CorruptFile, match=r"a\.json: not a JSON file"):
            read_json(path)
    with pytest.raises(UnreadableFile, match=r"cannot be read \(Is a directory\)"):
        read_json(tmp_path)


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ("CorruptFile('a.npz: cut')", "a.npz: cut: delete that file and run snakemake again"),
        ("UnreadableFile('a.npz: cannot be read')", "a.npz: cannot be read"),
        ("InputError('a.npz: not a fit')", "a.npz: not a fit"),
        ("MemoryError('Unable to allocate 8 GiB')", "too little memory (Unable to allocate 8 GiB)"),
        ("PermissionError(13, 'Permission denied', 'a.csv')", "Permission denied for a.csv"),
        ("OSError(116, 'Stale file handle', 'a.csv')", "Stale file handle for a.csv"),
        (
            "OSError(28, 'No space left on device', 'a.csv')",
            "No space left on device for a.csv: make room and run snakemake again",
        ),
    ],
)
def test_scripts_advise_to_delete_only_what_is_damaged(tmp_path, fault, line):
    script = tmp_path / "collect.py"
    script.write_text(
        textwrap.dedent(f"""
            import sys
            sys.path.insert(0, {str(ROOT / "workflow/scripts")!r})
            import _script
            from sdcd.errors import CorruptFile, InputError, UnreadableFile
            def main():
                raise {fault}
            _script.run(main, advice=_script.DELETE_IT)
        """)
    )
    end = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert (end.returncode, end.stderr) == (2, f"collect.py: {line}\n")


@pytest.mark.parametrize(("content", "advised"), [(b"nothing", True), (None, False)])
def test_a_fit_says_whether_its_data_are_damaged(npz, tmp_path, content, advised):
    if content is not None:
        npz.write_bytes(content)
    script = ROOT / "workflow/scripts/fit.py"
    arguments = ["--data", "a.npz", "--method", "NOTEARS", "--out", "fit.npz", "--keep-in", "kept"]
    end = subprocess.run(
        [sys.executable, script, *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert end.returncode == 2 and end.stderr.startswith("fit.py: a.npz: ")
    assert ("delete that file" in end.stderr) == advised
