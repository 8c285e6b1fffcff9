"""Data sets, their files, and a person's own tables: what is read, and what is refused and how."""

import json
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from sdcd.data.dataset import Dataset, read_dataset, write_dataset, zeros_and_ones
from sdcd.errors import InputError

N = 300


def dataset(**changes) -> Dataset:
    content = {
        "X": np.arange(6.0).reshape(2, 3),
        "intervened": np.zeros((2, 3), dtype=bool),
        "names": ("a", "b", "c"),
        **changes,
    }
    return Dataset(**content)


def values(d: int = 3) -> np.ndarray:
    """Values that survive being written with six digits."""
    return np.round(np.random.default_rng(0).normal(5, 2, size=(N, d)), 6)


def labels() -> list[str]:
    """Two hundred unperturbed rows, then single and double perturbations."""
    return ["control"] * 200 + ["a"] * 50 + ["b,c"] * 50


def expected_mask() -> np.ndarray:
    mask = np.zeros((N, 3), dtype=bool)
    mask[200:250, 0] = True
    mask[250:, 1:] = True
    return mask


def write_csv(path, rows) -> None:
    path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")


def table(header=("a", "b", "c"), X=None, extra=None) -> list[list]:
    X = values(len(header)) if X is None else X
    rows = [list(header), *[[repr(float(cell)) for cell in row] for row in X]]
    if extra is not None:
        for row, cell in zip(rows, extra, strict=True):
            row.append(cell)
    return rows


def refused(path, **options) -> str:
    with pytest.raises(InputError) as caught:
        read_dataset(path, **options)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and "\n" not in message
    return message.removeprefix(f"{path}: ")


# Dataset and .npz


def test_a_dataset_has_the_types_that_methods_expect():
    data = dataset(X=[[1, 2], [3, 4]], intervened=[[0, 1], [0, 0]], names=np.array(["a", "b"]),
                   adjacency=[[0, 1], [0, 0]])  # fmt: skip
    assert (data.X.dtype, data.intervened.dtype, data.adjacency.dtype) == (
        np.float32,
        bool,
        np.int8,
    )
    assert data.names == ("a", "b") and type(data.names[0]) is str
    assert (data.n, data.d) == (2, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": np.zeros(3)}, "X has shape (3,), expected (rows, variables)"),
        ({"X": np.zeros((0, 3))}, "X has shape (0, 3), expected"),
        ({"X": [["1", "2", "3"]] * 2}, "expected real numbers"),
        ({"X": [[0, np.nan, 0]] * 2}, "X[0, 1] (variable 'b') is nan: not finite"),
        ({"X": [[0, 0, 0], [0, 0, 1e39]]}, "variable 'c') is inf: beyond the range of float32"),
        ({"intervened": np.zeros((3, 2))}, "intervened has shape (3, 2), expected (2, 3)"),
        ({"intervened": np.full((2, 3), 2)}, "intervened has other entries than 0 and 1"),
        ({"names": ("a", "b")}, "2 names for 3 variables"),
        ({"names": ("a", "b", "a")}, "two variables are called 'a', expected distinct names"),
        ({"names": ("a", "b", "")}, "variable name '', expected a string that is not empty"),
        ({"names": (1, 2, 3)}, "variable name 1, expected a string"),
        ({"adjacency": np.zeros((2, 3))}, "adjacency has shape (2, 3), expected (3, 3)"),
        ({"adjacency": np.diag([0, 1, 0])}, "adjacency has a self-loop at 'b'"),
    ],
)
def test_a_dataset_refuses(changes, message):
    with pytest.raises(InputError) as caught:
        dataset(**changes)
    assert message in str(caught.value)


def test_npz_round_trip_with_equal_bytes(tmp_path):
    data = dataset(names=("α", "b c", "d"), adjacency=np.triu(np.ones((3, 3)), 1))
    for name in ("1.npz", "2.npz"):
        write_dataset(tmp_path / name, data)
    assert (tmp_path / "1.npz").read_bytes() == (tmp_path / "2.npz").read_bytes()
    read = read_dataset(tmp_path / "1.npz")
    for key in ("X", "intervened", "adjacency"):
        np.testing.assert_array_equal(getattr(read, key), getattr(data, key))
    assert read.names == data.names


def test_a_bare_npz_is_observational(tmp_path):
    np.savez(tmp_path / "x.npz", X=np.ones((2, 2)))
    read = read_dataset(tmp_path / "x.npz")
    assert not read.intervened.any() and read.names == ("X0", "X1") and read.adjacency is None


def test_npz_is_standardised_on_request_only(tmp_path):
    write_dataset(tmp_path / "x.npz", dataset(X=values(), intervened=np.zeros((N, 3))))
    as_is = read_dataset(tmp_path / "x.npz").X
    np.testing.assert_array_equal(as_is, values().astype(np.float32))
    z = read_dataset(tmp_path / "x.npz", standardise="yes").X
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(z.std(axis=0, ddof=1), 1, atol=1e-6)


def test_wrong_npz_files(tmp_path):
    path = tmp_path / "x.npz"
    assert refused(path) == "no such file"
    path.write_bytes(b"")
    assert refused(path) == "empty file, expected an .npz file"
    path.write_bytes(b"\x89PNG\r\n\x1a\n")
    assert refused(path) == "is a PNG image, expected an .npz file"
    path.write_text("a,b\n1,2\n")
    assert refused(path) == "is not an .npz file"
    np.savez(path, weights=np.ones(3))
    assert refused(path) == "no array 'X' (arrays found: weights)"
    path.write_bytes(path.read_bytes()[:100])
    assert "not a readable .npz file" in refused(path)
    np.savez(path, X=np.array([{}], dtype=object))
    assert "array 'X' holds Python objects, which are not read" in refused(path)
    write_dataset(path, dataset())
    assert "an .npz says in 'intervened'" in refused(path, perturbation_column="p")


# Tables


def test_csv_with_a_perturbation_column(tmp_path):
    path = tmp_path / "cells.csv"
    rows = table(extra=["guide", *(f'"{label}"' for label in labels())])
    write_csv(path, rows)
    read = read_dataset(path, perturbation_column="guide", standardise="no")
    assert read.names == ("a", "b", "c") and read.adjacency is None
    np.testing.assert_array_equal(read.X, values().astype(np.float32))
    np.testing.assert_array_equal(read.intervened, expected_mask())
    z = read_dataset(path, perturbation_column="guide").X
    X = values()
    np.testing.assert_allclose(z, (X - X.mean(0)) / X.std(0, ddof=1), atol=1e-6)


def test_csv_as_other_programs_write_it(tmp_path):
    path = tmp_path / "cells.csv"
    rows = table(header=("a", "b", "c"))
    text = "\ufeff" + "\r\n".join(
        ",".join([f'"{"" if r == 0 else f"cell {r}"}"', *(f'"{cell}"' for cell in row)])
        for r, row in enumerate(rows)
    )
    path.write_text(text + "\r\n\r\n", encoding="utf-8", newline="")
    read = read_dataset(path, standardise="no")
    assert read.names == ("a", "b", "c")
    np.testing.assert_array_equal(read.X, values().astype(np.float32))


def test_columns_can_be_ignored(tmp_path):
    path = tmp_path / "cells.csv"
    write_csv(path, table(extra=["batch", *["x"] * N]))
    assert read_dataset(path, ignore_columns=["batch"]).names == ("a", "b", "c")
    assert "column 'batch': 'x', expected a number" in refused(path)
    assert "no column 'bath', expected for --ignore-column one of batch, a, b, c" in refused(
        path, ignore_columns=["bath"]
    )


@pytest.mark.parametrize(
    ("label", "controls", "targets"),
    [
        ("", [""], []),
        ("Control", None, []),
        ("ctrl", None, []),
        ("NON-TARGETING", None, []),
        ("NT", ["NT"], []),
        ("a", None, ["a"]),
        (" a , c ", None, ["a", "c"]),
        ("a,non-targeting", None, ["a"]),
        ("d,e", None, ["d,e"]),
    ],
)
def test_perturbation_labels(tmp_path, label, controls, targets):
    path = tmp_path / "cells.csv"
    names = ("a", "c", "d,e")
    control = controls[0] if controls else "control"
    rows = table(names, extra=["p", *[control] * (N - 1), f'"{label}"'])
    rows[0][2] = '"d,e"'
    write_csv(path, rows)
    read = read_dataset(path, perturbation_column="p", controls=controls)
    found = [name for name, hit in zip(names, read.intervened[-1], strict=True) if hit]
    assert found == targets and not read.intervened[:-1].any()


def change(row: int, column: int, cell: object):
    def apply(rows):
        rows[row - 1][column] = cell
        return rows

    return apply


def constant(rows):
    return [rows[0], *[[row[0], "3.5", *row[2:]] for row in rows[1:]]]


def identical(rows):
    return [rows[0], *[[row[0], row[1], row[0]] for row in rows[1:]]]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (change(7, 1, ""), "row 7, column 'b': missing value, expected a number"),
        (change(7, 1, "NA"), "row 7, column 'b': missing value ('NA'), expected a number"),
        (change(7, 1, "nan"), "row 7, column 'b': missing value, expected a finite number"),
        (change(7, 1, "x"), "row 7, column 'b': 'x', expected a number"),
        (change(7, 1, "True"), "row 7, column 'b': 'True', expected a number"),
        (change(301, 2, "inf"), "row 301, column 'c': inf, expected a finite number"),
        (change(2, 0, "1e39"), "row 2, column 'a': 1e+39, expected a finite number in the range"),
        (change(1, 1, "a"), "columns 1 and 2 are both called 'a', expected distinct names"),
        (change(1, 1, ""), "column 2 has no name"),
        (constant, "column 'b': constant, 3.5 in all 300 rows, expected values that vary"),
        (identical, "columns 'a' and 'c' are identical in all 300 rows"),
        (lambda rows: rows[:10], "9 rows, expected at least 10"),
        (lambda rows: rows[:1], "a header and no rows below it"),
        (lambda rows: [[""], *rows], "row 1: blank, expected a header"),
        (lambda rows: [*rows[:9], [1, 2], *rows[9:]], "row 10: 2 cells, expected 3 as in the"),
        (lambda rows: [row[:1] for row in rows], "1 column(s) of values, expected at least 2"),
        (lambda rows: [[";".join(map(str, row))] for row in rows], "separated by ';', expected"),
    ],
)  # fmt: skip
def test_faults_of_a_csv_are_named_by_line_and_column(tmp_path, fault, message):
    path = tmp_path / "cells.csv"
    write_csv(path, fault(table()))
    assert message in refused(path)


def test_lines_are_counted_as_in_an_editor(tmp_path):
    path = tmp_path / "cells.csv"
    rows = table(extra=["note", *["-"] * N])
    rows[3][3] = '"two\nlines"'
    rows[9][1] = "?"
    path.write_text("\n".join(",".join(map(str, row)) for row in rows).replace("\n", "\n\n", 1))
    assert "row 12, column 'b': '?', expected a number" in refused(path, ignore_columns=["note"])


def test_faults_of_perturbations(tmp_path):
    path = tmp_path / "cells.csv"
    write_csv(path, table(extra=["guide", *["control"] * 299, "AAVS1"]))
    message = refused(path, perturbation_column="guide")
    assert "row 301, column 'guide': unknown perturbation label 'AAVS1'" in message
    assert "expected a variable (a, b, c)" in message and "'ctrl', 'non-targeting')" in message
    assert "1 rows have such labels ('AAVS1' 1): no target is a variable" in message
    # Perturbed rows: nothing may suggest to call them controls.
    assert "--control" not in message
    message = refused(path, perturbation_column="guide", controls=["NT"])
    assert "row 2, column 'guide': unknown perturbation label 'control'" in message
    assert "which label means unperturbed is said with --control" in message
    assert "no column 'guides', expected for --perturbation-column one of guide, a" in refused(
        path, perturbation_column="guides"
    )
    assert "(a perturbation column is named with --perturbation-column)" in refused(path)
    write_csv(path, table(extra=["guide", *["b"] * N]))
    assert "column 'b': all 300 rows are perturbed" in refused(path, perturbation_column="guide")


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".h5ad"])
@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "is a PNG image, expected"),
        (b"%PDF-1.7", "is a PDF document, expected"),
        (b"PK\x03\x04", "is a ZIP archive (such as .xlsx or .npz), expected"),
        (b"\xff\xfea\0,\0b\0", "is UTF-16 text, expected"),
        (b"a,b\n1,\xe9\n", None),
        (b"", "empty file, expected"),
    ],
)
def test_a_file_that_is_not_what_its_name_says(tmp_path, suffix, content, kind):
    path = tmp_path / f"cells{suffix}"
    path.write_bytes(content)
    text = {".csv": "byte 0xe9 is not UTF-8 text", ".parquet": "is not a Parquet file",
            ".h5ad": "is not an .h5ad file"}  # fmt: skip
    assert (kind or text[suffix]) in refused(path)


def test_other_wrong_files(tmp_path):
    assert refused(tmp_path / "absent.csv") == "no such file"
    (tmp_path / "folder.csv").mkdir()
    assert "cannot be read" in refused(tmp_path / "folder.csv")
    assert "files called '.txt' are not read, expected .npz, .csv" in refused(tmp_path / "x.txt")
    (tmp_path / "x.parquet").write_bytes(b"PAR1 and nothing more")
    assert "not a readable Parquet file" in refused(tmp_path / "x.parquet")
    (tmp_path / "x.h5ad").write_bytes(b"\x89HDF\r\n\x1a\n and nothing more")
    assert "not a readable .h5ad file" in refused(tmp_path / "x.h5ad")


# Parquet


def write_parquet(path, **columns):
    import pandas as pd

    X = values()
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], **columns})
    frame.index = [f"cell{r}" for r in range(N)]
    frame.to_parquet(path)


@pytest.mark.parametrize("categorical", [False, True])
def test_parquet(tmp_path, categorical):
    import pandas as pd

    path = tmp_path / "cells.parquet"
    guide = ["control"] * 199 + [None] + ["a"] * 50 + ["b,c"] * 50
    write_parquet(path, guide=pd.Categorical(guide) if categorical else guide)
    message = refused(path, perturbation_column="guide")
    assert "row 200, column 'guide': no label, as in 1 row(s)" in message
    read = read_dataset(path, perturbation_column="guide", unlabelled="control", standardise="no")
    assert read.names == ("a", "b", "c")
    np.testing.assert_array_equal(read.X, values().astype(np.float32))
    np.testing.assert_array_equal(read.intervened, expected_mask())


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([1.0] * 9 + [None] * 291, "row 10, column 'd': missing value, expected a number"),
        (["1"] * N, "row 1, column 'd': '1' (string), expected a number"),
        ([True, False] * 150, "row 1, column 'd': 'True' (bool), expected a number"),
        ([0.5] * 9 + [np.inf] * 291, "row 10, column 'd': inf, expected a finite number"),
        ([7] * N, "column 'd': constant, 7 in all 300 rows"),
    ],
)
def test_faults_of_parquet(tmp_path, column, message):
    path = tmp_path / "cells.parquet"
    write_parquet(path, d=column)
    found = refused(path)
    assert message in found.replace("large_string", "string")


# AnnData


def write_h5ad(path, X, guide=None, names=("a", "b", "c")):
    import anndata
    import pandas as pd

    obs = pd.DataFrame(index=[f"cell{r}" for r in range(len(guide or labels()))])
    obs["guide"] = pd.Categorical(guide or labels())
    anndata.AnnData(X, obs=obs, var=pd.DataFrame(index=list(names))).write_h5ad(path)


@pytest.mark.parametrize("form", ["dense", "csr", "csc", "integer"])
def test_h5ad(tmp_path, form):
    import scipy.sparse as sp

    X = np.round(values())
    content = {
        "dense": X.astype(np.float32),
        "csr": sp.csr_matrix(X),
        "csc": sp.csc_matrix(X.astype(np.float32)),
        "integer": sp.csr_matrix(X.astype(np.int64)),
    }[form]
    path = tmp_path / "cells.h5ad"
    write_h5ad(path, content)
    read = read_dataset(path, perturbation_column="guide", standardise="no")
    assert read.names == ("a", "b", "c")
    np.testing.assert_array_equal(read.X, X.astype(np.float32))
    np.testing.assert_array_equal(read.intervened, expected_mask())
    assert not read_dataset(path).intervened.any()
    assert read_dataset(path, ignore_columns=["b"]).names == ("a", "c")


def test_faults_of_h5ad(tmp_path):
    import h5py

    path = tmp_path / "cells.h5ad"
    X = values()
    X[4, 1] = np.nan
    write_h5ad(path, X)
    assert "row 5 (cell 'cell4'), column 'b': missing value" in refused(path)
    write_h5ad(path, values(), guide=["control"] * 299 + ["zz"])
    message = refused(path, perturbation_column="guide")
    assert "row 300 (cell 'cell299'), column 'guide': unknown perturbation label 'zz'" in message
    assert "no column 'gide', expected for --perturbation-column one of guide" in refused(
        path, perturbation_column="gide"
    )
    write_h5ad(path, values()[:9], guide=["control"] * 9)
    assert "9 rows, expected at least 10" in refused(path)
    with pytest.warns(UserWarning, match="not unique"):
        write_h5ad(path, values(), names=("a", "b", "a"))
    assert "variables 1 and 3 are both called 'a'" in refused(path)
    with h5py.File(path, "w") as file:
        file["X"] = values()
    assert refused(path) == "an HDF5 file without 'obs', expected AnnData's"


def test_reading_csv_loads_no_heavy_library(tmp_path):
    path = tmp_path / "cells.csv"
    write_csv(path, table())
    program = (
        "import sys, json; from sdcd.data.dataset import read_dataset; read_dataset(sys.argv[1]);"
        "print(json.dumps(sorted({m.partition('.')[0] for m in sys.modules})))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    assert not {"pandas", "anndata", "torch", "matplotlib", "scipy"} & set(
        json.loads(result.stdout)
    )


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int64, np.float32])
def test_zeros_and_ones_are_told_from_other_numbers_in_little_memory(dtype):
    array = np.zeros((2000, 1000), dtype=dtype)
    array[3, 4] = 1
    tracemalloc.start()
    assert zeros_and_ones(array)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < array.size / 10  # less than a mask of the array would take
    assert zeros_and_ones(array[:0])
    others = {bool: [], np.uint8: [2]}.get(dtype, [2, -1])
    for other in [*others, 0.5, np.nan] if dtype == np.float32 else others:
        array[1999, 5] = other
        assert not zeros_and_ones(array)
