"""A table as a biologist has it: what is left out, what is said, and what is never assumed."""

import numpy as np
import pytest

from sdcd.cli import main
from sdcd.data.dataset import describe_dataset, read_dataset
from sdcd.data.own_data import TableOptions, looks_like_counts
from sdcd.errors import InputError

N = 120


def write(path, labels, names=("A", "B", "C"), X=None):
    X = np.random.default_rng(0).normal(5, 1, (N, len(names))) if X is None else X
    rows = [",".join(f"{x:.5f}" for x in row) for row in X]
    lines = [f'{row},"{label}"' for row, label in zip(rows, labels, strict=True)]
    path.write_text("\n".join([",".join([*names, "guide"]), *lines]) + "\n")
    return path


def labels(*last):
    return ["ctrl"] * (N - 40) + ["A"] * (40 - len(last)) + [*last]


def read(path, **options):
    return describe_dataset(path, TableOptions(**{"perturbation_column": "guide", **options}))


def refused(path, **options):
    with pytest.raises(InputError) as caught:
        read(path, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("label", "separator", "targets"),
    [("A+ctrl", "+", [0]), ("A_B", "_", [0, 1]), ("A || C", "||", [0, 2]), ("ctrl+B", "+", [1])],
)
def test_labels_of_several_targets(tmp_path, label, separator, targets):
    found = read(write(tmp_path / "x.csv", labels(label)), separator=separator)
    assert np.flatnonzero(found.dataset.intervened[-1]).tolist() == targets


def test_rows_whose_target_was_not_measured_are_never_controls(tmp_path):
    path = write(tmp_path / "x.csv", labels("Z", "Z", "A,Z"))
    message = refused(path)
    assert "unknown perturbation label 'Z'" in message and "--control" not in message
    assert "3 rows have such labels ('Z' 2, 'A,Z' 1): --drop-unmeasured" in message
    found = read(path, drop_unmeasured=True)
    assert found.dataset.n == N - 3
    assert found.left_out == ["3 rows with targets that are no variable: 'Z' 2, 'A,Z' 1"]
    # The rows that stay keep their own labels.
    assert found.dataset.intervened[:, 0].sum() == 37
    assert "left out: 3 rows with targets" in found.summary()[1]


def test_a_label_can_be_left_out(tmp_path):
    path = write(tmp_path / "x.csv", labels("odd", "odd"))
    found = read(path, drop_labels=("odd",))
    assert found.dataset.n == N - 2 and found.left_out == ["2 rows by --drop-label: 'odd' 2"]
    assert "no row has the label 'ood' of --drop-label (did you mean 'odd'?)" in refused(
        path, drop_labels=("ood",)
    )


@pytest.mark.parametrize("label", ["", "NA", "nan", "None"])
def test_rows_without_a_label_are_a_choice(tmp_path, label):
    path = write(tmp_path / "x.csv", labels(label, label))
    assert "no label, as in 2 row(s)" in refused(path)
    kept = read(path, unlabelled="control")
    assert kept.dataset.n == N and not kept.dataset.intervened[-2:].any()
    dropped = read(path, unlabelled="drop")
    assert dropped.dataset.n == N - 2 and dropped.left_out == ["2 rows without a label"]


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ({"controls": ("NT",)}, "--control"),
        ({"separator": "+"}, "--separator"),
        ({"unlabelled": "drop"}, "--unlabelled"),
        ({"drop_labels": ("A",)}, "--drop-label"),
        ({"drop_unmeasured": True}, "--drop-unmeasured"),
    ],
)
def test_what_is_said_of_labels_needs_labels(tmp_path, option, name):
    path = write(tmp_path / "x.csv", labels())
    line = refused(path, perturbation_column=None, ignore_columns=("guide",), **option)
    assert line == f"{path}: {name} is about labels, expected --perturbation-column too"


def test_no_unperturbed_row_is_said(tmp_path):
    path = write(tmp_path / "x.csv", ["A", "B", "C"] * (N // 3))
    assert any("no row is unperturbed" in warning for warning in read(path).warnings)
    everything = write(tmp_path / "y.csv", ["Z"] * N)
    line = refused(everything, drop_unmeasured=True)
    assert "no perturbed row is left (120 rows with targets" in line


def test_a_perturbation_column_without_perturbed_rows_is_said(tmp_path):
    path = write(tmp_path / "x.csv", ["ctrl"] * 80 + ["Z"] * 40)
    assert "no perturbed row is left (40 rows" in refused(path, drop_unmeasured=True)
    (warning,) = read(path, drop_labels=("Z",)).warnings
    assert warning == "no row is perturbed: the data count as observational"


@pytest.mark.parametrize("drop_unmeasured", [False, True])
def test_targets_by_other_names_than_the_variables(tmp_path, drop_unmeasured):
    import anndata
    import pandas as pd

    guides = ["ctrl"] * 60 + ["TP53"] * 30 + ["MYC"] * 30
    data = anndata.AnnData(
        np.random.default_rng(0).normal(size=(N, 4)),
        obs=pd.DataFrame({"guide": guides}, index=[f"c{r}" for r in range(N)]),
        var=pd.DataFrame(
            {"n": [1, 2, 3, 4], "symbol": ["TP53", "KRAS", "MYC", "EGFR"]},
            index=["ENSG01", "ENSG02", "ENSG03", "ENSG04"],
        ),
    )
    path = tmp_path / "x.h5ad"
    data.write_h5ad(path)
    line = refused(path, drop_unmeasured=drop_unmeasured)
    assert line.endswith("; 2 of them are in the column 'symbol' of var: --names-column takes it")
    if not drop_unmeasured:
        assert "expected a variable (ENSG01, ENSG02, " in line and "--drop" not in line
        assert "60 rows have such labels ('TP53' 30, 'MYC' 30): no target is a variable" in line
    found = read(path, names_column="symbol").dataset
    assert found.names == ("TP53", "KRAS", "MYC", "EGFR")
    assert found.intervened.sum(axis=0).tolist() == [30, 0, 30, 0]
    assert "no column 'symbl', expected for --names-column one of symbol" in refused(
        path, names_column="symbl"
    )
    table = write(tmp_path / "x.csv", labels())
    assert "--names-column is for .h5ad and .zarr" in refused(table, names_column="symbol")


def test_counts_are_said_and_can_be_normalised(tmp_path):
    X = np.random.default_rng(0).poisson(20, (N, 3)).astype(float)
    path = write(tmp_path / "x.csv", labels(), X=X)
    (warning,) = read(path).warnings
    assert warning.startswith("the values are whole numbers, as raw counts are")
    found = describe_dataset(
        path, TableOptions(perturbation_column="guide", normalise=True), standardise="no"
    )
    totals = X.sum(axis=1, keepdims=True)
    expected = np.log1p(X / totals * np.median(totals))
    np.testing.assert_allclose(found.dataset.X, expected, rtol=1e-6)
    assert found.warnings == []
    assert not looks_like_counts(X > 20) and not looks_like_counts(X - 50)


def test_only_counts_are_normalised(tmp_path):
    X = np.random.default_rng(0).poisson(20, (N, 3)).astype(float)
    X[7] = 0
    path = write(tmp_path / "x.csv", labels(), X=X)
    (warning,) = read(path, normalise=True).warnings
    assert warning == "row 9: no count at all, as in 1 row(s); they stay zero"
    for r, value in ((3, -1.0), (4, 0.5)):
        Y = X.copy()
        Y[r, 1] = value
        line = refused(write(tmp_path / "y.csv", labels(), X=Y), normalise=True)
        assert f"row {r + 2}, column 'B': {value:g}, expected a count" in line


def test_columns_that_may_be_no_variables_are_named(tmp_path):
    X = np.random.default_rng(0).normal(5, 1, (N, 5))
    X[:, 1], X[:, 3] = np.arange(N) % 2, np.arange(N)
    names = ("A", "batch", "B", "cell", "C")
    (warning,) = read(write(tmp_path / "x.csv", labels(), names, X)).warnings
    assert warning.startswith("'batch', 'cell': whole numbers beside others")
    left = read(tmp_path / "x.csv", ignore_columns=("batch", "cell"))
    assert left.dataset.names == ("A", "B", "C") and not left.warnings
    # A perturbed one is a variable.
    assert not read(write(tmp_path / "z.csv", labels(), ("B", "A", "C"), X[:, :3])).warnings
    counts = np.random.default_rng(0).poisson(20, (N, 3)).astype(float)
    counts[:, 2] = np.arange(1, N + 1)
    said = read(write(tmp_path / "y.csv", labels(), X=counts)).warnings
    assert len(said) == 2 and said[0].startswith("'C': ")


def test_ordered_says_before_it_fits_that_rows_are_too_few(tmp_path, capsys):
    from sdcd.estimator.ordered import Settings, require_rows

    np.savez(tmp_path / "x.npz", X=np.random.default_rng(0).normal(size=(19, 3)))
    how = ["--method", "SDCD-ordered", "--no-picture", "--set", "batch_size=4"]
    assert main(["fit", str(tmp_path / "x.npz"), *how, "-o", str(tmp_path / "fit.npz")]) == 2
    line = f"{tmp_path / 'x.npz'}: 19 rows, expected at least 20 for a search over orders"
    assert line in capsys.readouterr().err and not (tmp_path / "fit.json").exists()
    require_rows(20, Settings())


@pytest.mark.parametrize(
    ("factor", "message"),
    [(4, "columns 'A' and 'C' are identical"), (-2, "'A' and 'C' are each other's negative")],
)
def test_columns_that_are_one_once_standardised_are_named(tmp_path, capsys, factor, message):
    X = np.random.default_rng(0).integers(-99, 99, size=(60, 3)) / 8
    X[:, 2] = factor * X[:, 0]
    path = write(tmp_path / "x.csv", ["NT"] * 60, X=X)
    fit = ["fit", str(path), "--ignore-column", "guide", "-o", str(tmp_path / "fit.npz")]
    assert main(fit) == 2
    assert f"x.csv: columns {message.removeprefix('columns ')}" in capsys.readouterr().err


def test_ten_rows_are_not_nearly_constant(tmp_path):
    X = np.random.default_rng(0).normal(size=(10, 3))
    path = write(tmp_path / "x.csv", ["ctrl"] * 5 + ["A"] * 5, X=X)
    assert read(path).warnings == []
    assert read(path, drop_constant=True).dataset.d == 3


def test_constant_columns_are_all_named_and_can_be_left_out(tmp_path):
    X = np.random.default_rng(0).normal(size=(N, 6))
    X[:, [1, 4]], X[:, 5] = 2.0, 0.0
    X[:3, 5] = 1.0
    names = ("A", "B", "C", "D", "E", "F")
    path = write(tmp_path / "x.csv", labels(), names, X)
    assert "2 constant columns: 'B', 'E' (the first 2 in all rows)" in refused(path)
    found = read(path, drop_constant=True)
    assert found.dataset.names == ("A", "C", "D")
    assert found.left_out == ["3 (nearly) constant columns: B, E, F"]
    X[:, [1, 4]] = np.random.default_rng(1).normal(size=(N, 2))
    (warning,) = read(write(tmp_path / "y.csv", labels(), names, X)).warnings
    assert warning.startswith("1 nearly constant columns") and ": F; --drop-constant" in warning


def test_rows_that_perturb_a_column_that_was_left_out_are_not_controls(tmp_path):
    X = np.random.default_rng(0).normal(size=(N, 4))
    X[:, 3] = 0.0
    path = write(tmp_path / "x.csv", labels(*["D"] * 9), ("A", "B", "C", "D"), X)
    message = refused(path, drop_constant=True)
    assert "unknown perturbation label 'D' (left out)" in message and "'D' 9" in message
    found = read(path, drop_constant=True, drop_unmeasured=True)
    assert found.dataset.names == ("A", "B", "C") and found.dataset.n == N - 9
    assert found.dataset.intervened.sum() == 31


def screen(path, write_as):
    import anndata
    import pandas as pd

    X = np.random.default_rng(0).poisson(5, (N, 3)).astype(np.float32)
    data = anndata.AnnData(
        np.log1p(X),
        obs=pd.DataFrame({"guide": labels()}, index=[f"c{r}" for r in range(N)]),
        var=pd.DataFrame(index=["A", "B", "C"]),
        layers={"counts": X},
    )
    data.raw = data.copy()
    getattr(data, write_as)(path)
    return path, X


@pytest.mark.parametrize(("name", "write_as"), [("x.h5ad", "write_h5ad"), ("x.zarr", "write_zarr")])
def test_layers_raw_and_zarr(tmp_path, name, write_as):
    path, X = screen(tmp_path / name, write_as)
    how = {"perturbation_column": "guide", "standardise": "no"}
    np.testing.assert_array_equal(read_dataset(path, **how).X, np.log1p(X))
    np.testing.assert_array_equal(read_dataset(path, layer="raw", **how).X, np.log1p(X))
    counts = describe_dataset(path, TableOptions(perturbation_column="guide", layer="counts"))
    assert "(layers here: counts, raw)" in counts.warnings[0]
    assert counts.dataset.intervened[:, 0].sum() == 40
    assert "no layer 'count', expected one of counts, raw" in refused(path, layer="count")
    assert "--layer is for .h5ad and .zarr" in refused(
        write(tmp_path / "y.csv", labels()), layer="counts"
    )


@pytest.mark.parametrize(("name", "write_as"), [("x.h5ad", "write_h5ad"), ("x.zarr", "write_zarr")])
def test_a_layer_called_raw_comes_before_raw_x(tmp_path, name, write_as):
    import anndata

    path, X = screen(tmp_path / "screen.h5ad", "write_h5ad")
    data = anndata.read_h5ad(path)
    data.layers["raw"] = X
    getattr(data, write_as)(tmp_path / name)
    how = {"perturbation_column": "guide", "standardise": "no"}
    np.testing.assert_array_equal(read_dataset(tmp_path / name, layer="raw", **how).X, X)


def test_the_scale_is_that_of_the_rows_that_stay(tmp_path):
    found = read(write(tmp_path / "x.csv", labels("Z")), drop_unmeasured=True)
    raw = read_dataset(
        tmp_path / "x.csv", perturbation_column="guide", drop_unmeasured=True, standardise="no"
    ).X
    np.testing.assert_allclose(found.mean, raw.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(found.sd, raw.std(axis=0, ddof=1), rtol=1e-4)
    np.testing.assert_allclose(found.dataset.X.mean(axis=0), 0, atol=1e-6)


def test_the_command_says_what_it_read(tmp_path, capsys):
    path = write(tmp_path / "x.csv", labels("Z", "Z"))
    how = ["--perturbation-column", "guide", "--drop-unmeasured", "--method", "GIES"]
    out = ["--no-picture", "-o", str(tmp_path / "fit.npz")]
    assert main(["fit", str(path), *how, *out]) == 0
    assert capsys.readouterr().err.splitlines() == [
        f"GIES on {path}: 3 variables, 118 rows, 38 of them perturbed",
        "perturbed variables: 1, with rows: A 38",
        "left out: 2 rows with targets that are no variable: 'Z' 2",
    ]


def test_truth_files_as_they_come(tmp_path, capsys):
    import json

    np.savez(
        tmp_path / "fit.npz",
        adjacency=np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]]),
        names=np.array(["A", "B", "C"]),
    )
    truth = tmp_path / "truth.csv"
    truth.write_text("Gene1,Gene2,Type\nB,A,+\nC,B,-\nC,C,+\nZ,A,+\nY,Z,+\n")
    command = ["score", str(tmp_path / "fit.npz"), "--truth", str(truth)]
    assert main(command) == 2
    assert "row 4: an edge from 'C' to itself" in capsys.readouterr().err
    assert main([*command, "--restrict"]) == 0
    out, err = capsys.readouterr()
    said = "2 edges with an end that is no variable; 1 edges from a variable to itself"
    assert err.splitlines()[0] == f"left out of {truth}: {said}"
    directed = json.loads(out)
    assert (directed["shd"], directed["precision"], directed["recall"]) == (2, 0.0, 0.0)
    assert main([*command, "--restrict", "--undirected"]) == 0
    out, err = capsys.readouterr()
    pairs = json.loads(out)
    assert (pairs["shd"], pairs["precision"], pairs["recall"]) == (1, 1.0, 0.5)
    # Their directions are no more than the order of the columns.
    assert (pairs["shd_cpdag"], pairs["aid"], pairs["is_dag"]) == (None, None, None)
    assert "shd_cpdag (about directions), aid (about directions)" in err


def test_pairs_are_ranked_among_pairs(tmp_path, capsys):
    import json

    weights = np.array([[0, 0, 0], [2.0, 0, 0], [0, 1.0, 0]])
    names = np.array(["A", "B", "C"])
    np.savez(tmp_path / "fit.npz", adjacency=weights > 0, weights=weights, names=names)
    (tmp_path / "truth.csv").write_text("parent,child\nA,B\nA,C\n")
    command = ["score", f"{tmp_path}/fit.npz", "--truth", f"{tmp_path}/truth.csv"]
    assert main([*command, "--undirected"]) == 0
    # Of the three pairs A-B comes first, then B-C, which is false, then A-C.
    found = json.loads(capsys.readouterr().out)["average_precision"]
    assert found == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)


@pytest.mark.parametrize(
    ("label", "hint"),
    [
        ("a", "label 'a' (variables are matched in exactly their case: 'A'), expected"),
        ("A_g1", "label 'A_g1' (a guide of 'A'? labels name variables), expected"),
        ("A-1.2", "label 'A-1.2' (a guide of 'A'? labels name variables), expected"),
        ("A1", "label 'A1', expected"),
    ],
)
def test_a_label_that_is_nearly_a_variable_is_said_to_be(tmp_path, label, hint):
    assert hint in refused(write(tmp_path / "x.csv", labels(label)))


@pytest.mark.parametrize(
    ("label", "separator"), [("a+ctrl", "+"), ("a || b", "||"), ("b_a", "_"), ("a;b", ";")]
)
@pytest.mark.parametrize("drop_unmeasured", [False, True])
def test_labels_with_another_separator_are_not_taken_for_unmeasured(
    tmp_path, label, separator, drop_unmeasured
):
    path = tmp_path / "table.csv"
    labels = ["ctrl"] * 20 + [label] * 20
    rows = [f"{k / 7 % 1},{k / 5 % 1},{name}" for k, name in enumerate(labels)]
    path.write_text("\n".join(["a,b,guide", *rows]) + "\n", encoding="utf-8")
    options = TableOptions(perturbation_column="guide", drop_unmeasured=drop_unmeasured)
    with pytest.raises(InputError) as refused:
        describe_dataset(path, options)
    assert f"--separator {separator!r} reads it" in str(refused.value)
