"""Graphs judged by perturbations alone, and the commands that ask a graph's model."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from scipy.stats import mannwhitneyu, wasserstein_distance

from sdcd.cli import main
from sdcd.data.dataset import Dataset, read_dataset, write_dataset
from sdcd.data.evaluation import Moves, beside, evaluate, hold_out, moves
from sdcd.errors import FitKilled, InputError
from sdcd.estimator.generative import GenerativeModel, fit_generative
from sdcd.simulation import simulate


def chain(seed=0, n=400, each=40):
    """X0 -> X1 -> X2, and X3 alone; X0, X1 and X3 are perturbed."""
    rng = np.random.default_rng(seed)
    intervened = np.zeros((n + 3 * each, 4), dtype=bool)
    for k, target in enumerate((0, 1, 3)):
        intervened[n + k * each : n + (k + 1) * each, target] = True
    X = rng.standard_normal(intervened.shape)
    for j in (0, 1, 2, 3):
        if j in (1, 2):
            X[:, j] = 0.3 * X[:, j] + X[:, j - 1]
        X[intervened[:, j], j] = 3 + rng.standard_normal(intervened[:, j].sum())
    return X.astype(np.float32), intervened


TRUE = np.zeros((4, 4), dtype=np.int8)
TRUE[0, 1] = TRUE[1, 2] = 1


def test_distances_and_tests_are_scipy_s():
    X, intervened = chain()
    found = moves(X, intervened)
    control, perturbed = X[~intervened.any(axis=1), 2], X[intervened[:, 0], 2]
    distance = wasserstein_distance(perturbed, control) / control.std(ddof=1)
    assert found.distance[0, 2] == pytest.approx(distance, rel=1e-5)
    p_value = mannwhitneyu(perturbed, control).pvalue
    assert found.p_value[0, 2] == pytest.approx(p_value)
    assert np.isnan(found.distance[2]).all() and np.isnan(np.diag(found.p_value)).all()


def test_the_true_graph_is_told_from_its_reverse():
    found = moves(*chain())
    true, reverse = evaluate(TRUE, found), evaluate(TRUE.T, found)
    assert true["edges_moved"] == 1 and true["edge_distance"] > 1
    # X1 -> X0 alone has a perturbed parent, and does not move X0; X0 moves both others.
    assert reverse["edges_tested"] == 1 and reverse["edge_distance"] < 0.5
    assert reverse["false_omission_rate"] > true["false_omission_rate"]
    # From X0 and X1 a path leads to 3 pairs of the 9 that are tested.
    assert true["pairs_omitted"] == 6


def test_graphs_without_such_pairs_have_no_number():
    found = moves(*chain())
    table = beside(TRUE, found)
    assert table["empty"]["edge_distance"] is None and table["empty"]["pairs_omitted"] == 9
    assert table["complete"]["false_omission_rate"] is None
    assert table["complete"]["edges_tested"] == 9
    assert table["random"]["n_edges"] == 2 and table["mean difference"]["edges_moved"] == 1
    X, intervened = chain()
    for nothing in (moves(X, np.zeros_like(intervened)), moves(X[400:], intervened[400:])):
        assert set(beside(TRUE, nothing)["graph"].values()) == {2, 0, None}


def test_of_a_large_screen_some_perturbations_are_drawn():
    X, intervened = chain()
    whole, part = moves(X, intervened), moves(X, intervened, most_pairs=6)
    assert whole.left_out == 0 and part.left_out == 1
    there = part.tested.any(axis=1)
    assert there.sum() == 2
    assert (part.p_value[there] == whole.p_value[there])[part.tested[there]].all()


def test_a_variable_moves_at_the_5_percent_level_by_5_rows():
    p_value = np.array([[np.nan, 0.049], [0.051, np.nan]])
    assert Moves(np.ones((2, 2)), p_value).moved.tolist() == [[False, True], [False, False]]
    for each, looked_at in ((5, 3), (4, 0)):
        assert moves(*chain(each=each)).tested.any(axis=1).sum() == looked_at
    for n, looked_at in ((5, 3), (4, 0)):
        assert moves(*chain(n=n)).tested.any(axis=1).sum() == looked_at


def test_whole_perturbations_are_held_out():
    _, intervened = chain()
    rows, variables = hold_out(intervened, 0.4, seed=3)
    assert len(variables) == 1
    assert rows[intervened[:, variables[0]]].all()
    assert not rows[intervened.any(axis=1) & ~intervened[:, variables[0]]].any()
    assert rows[:400].sum() == 160
    again, _ = hold_out(intervened, 0.4, seed=3)
    assert (again == rows).all()


def test_the_named_perturbations_are_held_out_with_their_share_of_the_rest():
    _, intervened = chain()
    rows, variables = hold_out(intervened, [3, 0])
    assert variables.tolist() == [0, 3] and rows[intervened[:, [0, 3]].any(axis=1)].all()
    assert rows.sum() == 80 + round(2 / 3 * 400) and not rows[intervened[:, 1]].any()
    # What is perturbed together with those alone is not left either.
    together = intervened.copy()
    together[:, 0] |= together[:, 1]
    for mask, which in ((intervened, [0, 1, 3]), (together, [0, 3])):
        with pytest.raises(InputError, match="all perturbed rows would be held out, expected some"):
            hold_out(mask, which)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fit")
    X, intervened = chain()
    names = ("a", "b", "c", "e")
    write_dataset(folder / "data.npz", Dataset(X, intervened, names, TRUE))
    # Another order of the variables, and one more.
    X, intervened = chain(seed=1)
    order = [2, 0, 3, 1]
    wider = Dataset(
        np.column_stack([X[:, order], X[:, 0]]),
        np.column_stack([intervened[:, order], np.zeros(len(X), dtype=bool)]),
        ("c", "a", "e", "b", "more"),
    )
    write_dataset(folder / "other.npz", wider)
    fit = ["fit", f"{folder}/data.npz", "--method", "mean-difference", "--no-picture"]
    assert main([*fit, "-o", f"{folder}/fit.npz"]) == 0
    return folder


def test_evaluate_says_both_and_the_density_of_other_rows(files, capsys):
    capsys.readouterr()
    arguments = [f"{files}/fit.npz", "--data", f"{files}/other.npz"]
    assert main(["evaluate", *arguments, "--fitted-on", f"{files}/data.npz"]) == 0
    found = json.loads(capsys.readouterr().out)
    adjacency = np.load(files / "fit.npz")["adjacency"]
    X, intervened = chain(seed=1)
    assert found["without_truth"]["graph"] == evaluate(adjacency, moves(X, intervened))
    train = read_dataset(files / "data.npz")
    model = fit_generative(adjacency, train.X, train.intervened, names=train.names)
    density = model.log_density(X, intervened)
    by_variable = found["log_density"]["by_variable"]
    assert by_variable["b"] == pytest.approx(np.nanmean(density[:, 1]))
    of_control = found["log_density"]["by_perturbation"]["control"]
    assert of_control["rows"] == 400
    assert of_control["log_density_per_row"] == pytest.approx(density[:400].sum(axis=1).mean())
    assert set(found["log_density"]["by_perturbation"]) == {"control", "a", "b", "e"}


def test_effects_and_samples_are_the_model_s(files):
    arguments = [f"{files}/fit.npz", "--fitted-on", f"{files}/data.npz"]
    assert main(["effects", *arguments, "-o", f"{files}/effects.csv"]) == 0
    table = pd.read_csv(files / "effects.csv").set_index(["variable", "child"])
    # One standard deviation more of a: as much of b, whose slope on a is one.
    assert table.loc[("a", "b"), "shift"] == pytest.approx(table.loc[("a", "b"), "set_to"], rel=0.3)
    assert main(["sample", *arguments, "--do", "a=2", "-n", "300", "-o", f"{files}/s.csv"]) == 0
    rows = pd.read_csv(files / "s.csv")
    assert (rows["a"] == 2).all() and rows["b"].mean() == pytest.approx(2, abs=0.3)


def test_every_pair_with_a_path_has_an_effect(files, tmp_path):
    data = read_dataset(files / "data.npz")
    path = np.eye(4, k=1)
    np.savez(tmp_path / "f.npz", adjacency=path, names=np.array(data.names))
    model = fit_generative(path, data.X, data.intervened, names=data.names)
    # That b acts on c is in the graph, and comes to nothing.
    model.theta["W"][1] = 0
    model.save(tmp_path / "f.model.npz")
    assert main(["effects", f"{tmp_path}/f.npz", "-n", "50", "-o", f"{tmp_path}/e.csv"]) == 0
    table = pd.read_csv(tmp_path / "e.csv").set_index(["variable", "child"])["shift"]
    assert "".join(a + b for a, b in table.index) == "abacaebcbece"
    assert table["b", "c"] == 0 and table["c", "e"] != 0


def test_draws_are_as_many_as_asked_and_those_of_the_seed(tmp_path, capsys):
    X, intervened = chain()
    write_dataset(tmp_path / "d.npz", Dataset(X, intervened, tuple("abce")))
    np.savez(tmp_path / "f.npz", adjacency=TRUE, names=np.array(list("abce")))
    model = fit_generative(TRUE, X, intervened, names=tuple("abce"))
    model.save(tmp_path / "f.model.npz")
    how = ["-n", "7", "--seed", "5", "-o", f"{tmp_path}/x.csv"]
    assert main(["sample", f"{tmp_path}/f.npz", *how]) == 0
    expected = model.sample(7, {}, 5)
    assert pd.read_csv(tmp_path / "x.csv").to_numpy() == pytest.approx(expected)
    assert main(["effects", f"{tmp_path}/f.npz", *how]) == 0
    expected = model.effects(n=7, seed=5).shift[[0, 0, 1], [1, 2, 2]]
    assert pd.read_csv(tmp_path / "x.csv")["shift"].to_numpy() == pytest.approx(expected)
    capsys.readouterr()
    evaluate = ["evaluate", f"{tmp_path}/f.npz", "--data", f"{tmp_path}/d.npz", "--seed", "5"]
    assert main(evaluate) == 0
    found = json.loads(capsys.readouterr().out)["without_truth"]["random"]
    random = [beside(TRUE, moves(X, intervened), seed=seed)["random"] for seed in (0, 5)]
    assert random[0] != found == random[1]


@pytest.fixture(scope="module")
def own_table(tmp_path_factory):
    """A fit of a table in units of its own, with its model."""
    folder = tmp_path_factory.mktemp("model")
    X, intervened = chain()
    table = pd.DataFrame(-100 * X + 7, columns=list("abce"))
    table["guide"] = ["abce"[row.argmax()] if row.any() else "control" for row in intervened]
    table.to_csv(folder / "t.csv", index=False)
    fit = ["fit", f"{folder}/t.csv", "--perturbation-column", "guide", "--no-picture"]
    fit += ["--method", "mean-difference", "-o", f"{folder}/f.npz"]
    assert main([*fit, "--model"]) == 0
    return folder, fit


def test_a_fit_leaves_its_model_in_the_units_of_the_table(own_table, capsys):
    folder, _ = own_table
    model = GenerativeModel.load(folder / "f.model.npz")
    assert model.mean == pytest.approx(pd.read_csv(folder / "t.csv").iloc[:, :4].mean(), rel=1e-6)
    rows = ["--data", f"{folder}/t.csv", "--perturbation-column", "guide"]
    capsys.readouterr()
    assert main(["evaluate", f"{folder}/f.npz", *rows]) == 0
    found = json.loads(capsys.readouterr().out)["log_density"]["by_variable"]
    X, intervened = chain()
    density = model.log_density(-100 * X + 7, intervened)
    assert found["b"] == pytest.approx(np.nanmean(density[:, 1]), rel=1e-5)
    assert main(["sample", f"{folder}/f.npz", "--do", "a=-193", "-o", f"{folder}/s.csv"]) == 0
    sampled = pd.read_csv(folder / "s.csv")
    # a = 2 in units of the chain, and b follows with slope one.
    assert (sampled["a"] == -193).all() and sampled["b"].mean() == pytest.approx(-193, abs=30)


def test_a_column_says_how_a_child_moves_with_its_parent(own_table):
    folder, _ = own_table
    slopes = pd.read_csv(folder / "f.edges.csv").set_index(["parent", "child"])["slope"]
    table = pd.read_csv(folder / "t.csv")
    free = table[table["guide"] != "b"]
    # The only parent of b, and linear: the regression's, in standard deviations of all rows.
    slope = np.polyfit(free["a"], free["b"], 1)[0] * table["a"].std() / table["b"].std()
    assert slopes["a", "b"] == pytest.approx(slope, rel=0.1)


def test_a_model_that_is_not_the_fits_is_not_taken(own_table, tmp_path, capsys):
    folder, fit = own_table
    shutil.copy(folder / "f.model.npz", tmp_path / "f.model.npz")
    main([*fit, "--set", "false_discovery_rate=1e-300", "--no-model", "-o", f"{tmp_path}/f.npz"])
    effects = ["effects", f"{tmp_path}/f.npz", "-o", f"{tmp_path}/e.csv"]
    assert "slope" not in (tmp_path / "f.edges.csv").read_text()
    assert not (tmp_path / "f.model.npz").exists()
    assert main(effects) == 2
    assert "no model beside it" in capsys.readouterr().err
    shutil.copy(folder / "f.model.npz", tmp_path / "f.model.npz")
    assert main(effects) == 2
    assert "f.model.npz: the model of another graph than that of" in capsys.readouterr().err
    assert main([*effects, "--layer", "x"]) == 2
    assert "expected one to read: --fitted-on" in capsys.readouterr().err
    shutil.copy(folder / "t.csv", tmp_path / "f.model.npz")
    assert main([*fit[:1], f"{tmp_path}/f.model.npz", "-o", f"{tmp_path}/f.npz"]) == 2
    assert "would overwrite the input" in capsys.readouterr().err
    assert main(effects) == 2
    assert "f.model.npz" in capsys.readouterr().err


def test_a_graph_with_a_cycle_has_no_model(tmp_path, capsys):
    X, intervened = chain()
    write_dataset(tmp_path / "d.npz", Dataset(X, np.zeros_like(intervened), tuple("abce")))
    fit = ["fit", f"{tmp_path}/d.npz", "--method", "GIES", "--no-picture", "--model"]
    assert main([*fit, "-o", f"{tmp_path}/f.npz"]) == 0
    assert "no model of the graph, and no slopes: the graph has a cycle" in capsys.readouterr().err
    assert main(["effects", f"{tmp_path}/f.npz", "-o", f"{tmp_path}/e.csv"]) == 2
    assert "the graph has a cycle, expected a DAG" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sample", "--do", "a", "-o", "x.csv"], "--do a: expected NAME=VALUE"),
        (["sample", "--do", "A=1", "-o", "x.csv"], "no variable 'A'"),
        (["sample", "--do", "a=1", "--do", "a=2", "-o", "x.csv"], "set twice"),
        (["effects", "-o", "x.npz"], "must end in .csv"),
        (["effects", "-o", "x.csv", "--standardise", "yes"], "data are taken as they are"),
    ],
)
def test_wrong_input_is_one_line(files, tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    command, *rest = arguments
    code = main([command, f"{files}/fit.npz", "--fitted-on", f"{files}/data.npz", *rest])
    assert code == 2 and message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_data_of_other_variables_are_refused(files, tmp_path, capsys):
    simulated = simulate(5, 1, 0, n_observational=50)
    write_dataset(tmp_path / "x.npz", simulated)
    assert main(["evaluate", f"{files}/fit.npz", "--data", f"{tmp_path}/x.npz"]) == 2
    assert "no variable 'a', 'b', 'c', 'e', expected the 4 of" in capsys.readouterr().err


def test_rows_that_perturb_what_the_fit_does_not_have_are_not_controls(files, tmp_path, capsys):
    X, intervened = chain(seed=1)
    more = np.zeros((len(X), 1), dtype=bool)
    more[:50] = True
    X[:50, :] += 5
    names = ("a", "b", "c", "e", "more")
    wider = np.column_stack([X, X[:, 0]]), np.column_stack([intervened, more])
    write_dataset(tmp_path / "wider.npz", Dataset(*wider, names))
    write_dataset(tmp_path / "right.npz", Dataset(X[50:], intervened[50:], names[:4]))
    evaluate = ["evaluate", f"{files}/fit.npz", "--fitted-on", f"{files}/data.npz", "--data"]
    found = {}
    for name in ("wider", "right"):
        capsys.readouterr()
        assert main([*evaluate, f"{tmp_path}/{name}.npz"]) == 0
        found[name] = capsys.readouterr()
    assert found["wider"].out == found["right"].out and not found["right"].err
    why = f"rows that perturb more, which {files}/fit.npz does not have"
    assert found["wider"].err == f"left out of {tmp_path}/wider.npz: 50 {why}\n"
    write_dataset(tmp_path / "no.npz", Dataset(*(part[:50] for part in wider), names))
    assert main([*evaluate, f"{tmp_path}/no.npz"]) == 2
    assert f"no.npz: only {why}" in capsys.readouterr().err


def test_rows_that_evaluate_leaves_out_are_said(own_table, tmp_path, capsys):
    folder, _ = own_table
    table = pd.read_csv(folder / "t.csv")
    table.loc[:2, "guide"] = "Z"
    table.to_csv(tmp_path / "t.csv", index=False)
    rows = ["--data", f"{tmp_path}/t.csv", "--perturbation-column", "guide", "--drop-unmeasured"]
    capsys.readouterr()
    assert main(["evaluate", f"{folder}/f.npz", *rows]) == 0
    said = "3 rows with targets that are no variable: 'Z' 3"
    assert f"left out of {tmp_path}/t.csv: {said}\n" in capsys.readouterr().err


def test_a_fit_without_some_perturbations(files, tmp_path, capsys):
    fit = ["fit", f"{files}/data.npz", "--method", "mean-difference", "--no-picture"]
    out = ["-o", f"{tmp_path}/f.npz", "--hold-out-targets", "0.3", "--seed", "1"]
    assert main([*fit, *out]) == 0
    said = capsys.readouterr().err
    assert "held out: 160 rows, with all that perturb" in said
    assert "data.npz: 4 variables, 360 rows, " in said
    held_out = read_dataset(tmp_path / "f.held_out.npz")
    fitted_on = read_dataset(tmp_path / "f.fitted_on.npz")
    assert held_out.n == 160 and fitted_on.n == 360
    assert not (held_out.intervened.any(axis=0) & fitted_on.intervened.any(axis=0)).any()
    parts = ["--data", f"{tmp_path}/f.held_out.npz", "--fitted-on", f"{tmp_path}/f.fitted_on.npz"]
    assert main(["evaluate", f"{tmp_path}/f.npz", *parts]) == 0


def test_rows_that_an_earlier_fit_held_out_go_with_it(files, tmp_path, capsys):
    out = tmp_path / "f.npz"
    fit = ["--method", "mean-difference", "--no-picture", "-o", str(out)]
    assert main(["fit", f"{files}/data.npz", *fit, "--hold-out-targets", "0.3"]) == 0
    parts = {tmp_path / "f.held_out.npz", tmp_path / "f.fitted_on.npz"}
    assert parts <= set(tmp_path.iterdir())
    capsys.readouterr()
    assert main(["fit", f"{tmp_path}/f.fitted_on.npz", *fit]) == 2
    assert "f.fitted_on.npz: belongs to the earlier fit" in capsys.readouterr().err
    assert main(["fit", f"{files}/data.npz", *fit]) == 0
    assert not parts & set(tmp_path.iterdir())


@pytest.mark.parametrize("standardise", ["auto", "no"])
def test_the_scale_is_that_of_the_rows_that_are_fitted(
    own_table, tmp_path, monkeypatch, standardise
):
    folder, fit = own_table
    seen = []

    def looks(path, *_, **__):
        seen.append(read_dataset(path).X)
        raise InputError

    monkeypatch.setattr("sdcd.fits.run.run_fit", looks)
    how = ["-o", f"{tmp_path}/f.npz", "--hold-out-targets", "a", "--standardise", standardise]
    assert main([*fit[:-2], *how]) == 2
    table = pd.read_csv(folder / "t.csv")
    raw = table.loc[table["guide"] != "a", list("abce")]
    assert len(seen[0]) < len(raw)
    if standardise == "auto":
        assert seen[0].mean(axis=0) == pytest.approx(np.zeros(4), abs=1e-6)
        assert seen[0].std(axis=0, ddof=1) == pytest.approx(np.ones(4), rel=1e-6)
    else:
        assert seen[0].std(axis=0) == pytest.approx(raw.std().to_numpy(), rel=0.1)


def test_rows_held_out_are_those_of_the_fit_that_is_there(files, tmp_path, monkeypatch):
    fit = ["fit", f"{files}/data.npz", "--method", "mean-difference", "--no-picture"]
    fit += ["-o", f"{tmp_path}/f.npz", "--hold-out-targets"]
    assert main([*fit, "a"]) == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for error, code in ((KeyboardInterrupt, 130), (FitKilled, 4), (InputError, 2)):

        def fails(*_, error=error, **__):
            raise error

        monkeypatch.setattr("sdcd.fits.run.run_fit", fails)
        assert main([*fit, "b"]) == code
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("keep", "why"),
    [
        (lambda mask: ~mask.any(axis=1), "no row is perturbed"),
        (lambda mask: mask.any(axis=1), "0 unperturbed rows, expected at least 5"),
        (lambda mask: mask.sum(axis=1).cumsum() <= 2, "alone in at least 5 rows"),
    ],
)
def test_what_cannot_be_evaluated_is_said(files, tmp_path, capsys, keep, why):
    data = read_dataset(files / "data.npz")
    rows = keep(data.intervened)
    write_dataset(tmp_path / "x.npz", Dataset(data.X[rows], data.intervened[rows], data.names))
    capsys.readouterr()
    assert main(["evaluate", f"{files}/fit.npz", "--data", f"{tmp_path}/x.npz"]) == 0
    first = capsys.readouterr().err.splitlines()[0]
    assert first.startswith(f"nothing to say of edges: {tmp_path}/x.npz: ") and why in first


def test_perturbations_are_held_out_by_name(files, tmp_path, capsys):
    fit = ["fit", f"{files}/data.npz", "--method", "mean-difference", "--no-picture"]
    fit += ["-o", f"{tmp_path}/f.npz", "--hold-out-targets"]
    assert main([*fit, "a,e"]) == 0
    assert "rows, with all that perturb a, e" in capsys.readouterr().err
    left = read_dataset(tmp_path / "f.fitted_on.npz")
    assert left.intervened.any(axis=0).tolist() == [False, True, False, False]
    for name in ("c", "A", "1.5"):
        (tmp_path / "f.npz").unlink(missing_ok=True)
        assert main([*fit, f"b,{name}"]) == 2
        expected = "--hold-out-targets: 'c' is not perturbed" if name == "c" else "is no variable"
        assert expected in capsys.readouterr().err and not (tmp_path / "f.npz").exists()
    assert main([*fit, "1.5"]) == 2
    assert "'1.5' is no variable, expected names or a share between 0 and 1" in (
        capsys.readouterr().err
    )


def test_what_cannot_be_fitted_without_some_perturbations_is_refused(tmp_path, capsys):
    X, intervened = chain()
    intervened[:, :2] = False
    intervened[-10:, 2:] = True, False
    # Constant, but for the rows that perturb it.
    X[~intervened[:, 3], 3] = 1.0
    write_dataset(tmp_path / "data.npz", Dataset(X, intervened, ("a", "b", "c", "e")))
    fit = ["fit", f"{tmp_path}/data.npz", "--method", "mean-difference", "--no-picture"]
    codes = []
    for seed in range(4):
        out = ["-o", f"{tmp_path}/f{seed}.npz", "--hold-out-targets", "0.5", "--seed", str(seed)]
        codes.append(main([*fit, *out]))
        refused = capsys.readouterr().err
        if codes[-1]:
            assert "without the rows that perturb e: " in refused
            assert not list(tmp_path.glob(f"f{seed}*"))
    assert set(codes) == {0, 2}
