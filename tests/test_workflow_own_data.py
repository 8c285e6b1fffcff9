"""A person's own table in the workflow: what is planned, run, refused, and what the page says."""

import copy
import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from support.workflow import new_clone, planned, snakemake

from sdcd.data.dataset import Dataset, write_dataset
from sdcd.data.look import look
from sdcd.errors import InputError
from sdcd.experiments.configuration import checked
from sdcd.experiments.own_data import look_at_files, own_studies, read_small_files
from sdcd.experiments.plan import make_plan
from sdcd.files import write_json, write_npz
from sdcd.report import own_page
from sdcd.runs.own_data import (
    SAYS,
    MethodFits,
    agreement,
    as_graph,
    perturbations_say,
    shared_edges,
)

ROOT = Path(__file__).resolve().parents[1]
SCHEMA = yaml.safe_load((ROOT / "workflow/schemas/config.schema.yaml").read_text())
CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())
NAMES = ("a", "b", "c")


def studies(**content):
    content = {"data": "x.csv", "methods": ["GIES"], **content}
    return own_studies({**copy.deepcopy(CONFIG), "own_data": {"mine": content}}, SCHEMA)


def table(path, n=150):
    """A chain a -> b -> c, with rows in which a and b are perturbed."""
    rng = np.random.default_rng(0)
    label = np.array(["ctrl", "a", "b"])[np.arange(n) % 3]
    a = rng.normal(size=n) + 4 * (label == "a")
    b = np.where(label == "b", rng.normal(4, 1, n), 2 * a + rng.normal(0, 0.3, n))
    c = 1.5 * b + rng.normal(0, 0.3, n)
    rows = [f"{x},{y},{z},{w}" for x, y, z, w in zip(a, b, c, label, strict=True)]
    path.write_text("\n".join(["a,b,c,guide", *rows]) + "\n")
    return path


def test_each_method_is_fitted_with_every_seed_and_to_every_resample():
    study = studies(methods=["GIES", "SDCD"], seeds=[3, 1], resamples=2)["mine"]
    assert study.runs() == ["seed3", "seed1", "resample1", "resample2"]
    assert study.fits() == [(run, m) for m in ("GIES", "SDCD") for run in study.runs()]


def test_options_are_the_tables_own_and_not_a_scales():
    config = copy.deepcopy(CONFIG)
    config["method_options"] = {"SDCD": {"settings": {"alpha_1": 0.5, "alpha_2": 0.5}}}
    own = {"SDCD": {"settings": {"alpha_2": 0.25}, "threads": 2}}
    content = {"data": "x.csv", "methods": ["SDCD"], "method_options": own, "time_limit_s": 9}
    config |= {"scale": "smoke", "own_data": {"mine": content}}
    plan = own_studies(config, SCHEMA)["mine"].methods["SDCD"]
    assert plan.settings == {"alpha_1": 0.5, "alpha_2": 0.25}
    assert (plan.threads, plan.time_limit_s, plan.memory_limit_mb) == (2, 9, 16000)
    assert "alpha_2 = 0.25" in plan.shortened


def test_methods_by_kind_are_those_of_the_configuration():
    found = studies(methods="interventional", perturbation_column="guide")["mine"].methods
    assert "GIES" in found and "NOTEARS" not in found
    # Without a GPU.
    assert "SDCD-GPU" not in found
    assert "NOTEARS" in studies(methods="all")["mine"].methods


FAULTS = [
    ({"methods": ["GEIS"]}, "mine.methods: unknown method 'GEIS' (did you mean 'GIES'?)"),
    ({"methods": []}, "mine.methods: no method, expected one or more"),
    ({"methods": ["SDCD-GPU"]}, "mine.methods: found SDCD-GPU, which need a GPU, expected others"),
    (
        {"methods": ["NOTEARS"], "perturbation_column": "guide"},
        "mine.methods: found 'NOTEARS', which takes no data with interventions",
    ),
    (
        {"methods": ["SDCD", "GIES"], "tiers": "t.csv"},
        "mine.methods: found 'GIES', which cannot honour forbidden or required edges or tiers",
    ),
    ({"perturbation_colum": "g"}, "mine.perturbation_colum: unknown (did you mean 'perturbation_c"),
    ({"seeds": 0}, "mine.seeds: found 0, expected how many seeds"),
    ({"resamples": -1}, "mine.resamples: found -1, expected a number of resamples"),
    ({"resamples": 10**9}, "mine.resamples: found 1000000000, expected a number of resamples (a w"),
    ({"seeds": 10**9}, "mine.seeds: found 1000000000, expected how many seeds (a whole number"),
    ({"resamples": "many"}, 'mine.resamples: found "many", expected a number of resamples'),
    ({"unlabelled": "keep"}, 'mine.unlabelled: found "keep", expected refuse, control or drop'),
    ({"controls": "NT"}, 'mine.controls: found "NT", expected a list of texts'),
    ({"data": "a{b}.csv"}, 'mine.data: found "a{b}.csv", expected a path'),
    (
        {"method_options": {"GIES": {"settings": {"no": 1}}}},
        "mine.method_options.GIES.settings.no: unknown parameter of GIES",
    ),
    ({"method_options": {"GEIS": {}}}, "mine.method_options: unknown method 'GEIS'"),
    (
        {"methods": ["SDCD"], "method_options": {"SDCD": {"scatter": {"targets_per_job": 2}}}},
        "mine.method_options.SDCD.scatter: expected only for the data sets of the scales",
    ),
]


@pytest.mark.parametrize(("content", "line"), FAULTS, ids=[line[:50] for _, line in FAULTS])
def test_a_wrong_key_is_refused_in_one_line(content, line):
    with pytest.raises(InputError) as caught:
        studies(**content)
    message = str(caught.value)
    assert f"config key own_data.{line}" in message and "\n" not in message


def test_data_and_methods_are_needed_and_a_scale_cannot_have_the_folders_name():
    with pytest.raises(InputError, match=r"own_data\.mine\.data: missing, expected a path"):
        checked({**CONFIG, "own_data": {"mine": {"methods": ["GIES"]}}}, SCHEMA)
    scales = {**CONFIG["scales"], "own": CONFIG["scales"]["smoke"]}
    config = {**CONFIG, "scales": scales, "own_data": {"m": {"data": "x", "methods": ["GIES"]}}}
    make_plan(config, SCHEMA)
    with pytest.raises(InputError, match=r"scales\.own: found a scale of this name"):
        own_studies(config, SCHEMA)


def test_a_table_is_not_called_like_what_the_workflow_has_there():
    """Its page would be removed at the end of each run."""
    content = {"data": "x", "methods": ["GIES"]}
    with pytest.raises(InputError, match=r"^config key own_data\.finished: found a table of this"):
        own_studies({**copy.deepcopy(CONFIG), "own_data": {"finished": content}}, SCHEMA)


def refused(**content):
    (study,) = studies(**content).values()
    with pytest.raises(InputError) as caught:
        look_at_files(study)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix("config key own_data.mine.")


def test_a_small_table_is_read_before_anything_is_planned(tmp_path):
    path = str(table(tmp_path / "x.csv"))
    Path(tmp_path / "truth.csv").write_text("parent,child\nx,y\n")
    options = {"data": path, "perturbation_column": "guide"}
    for more, message in (
        ({"controls": ["NT"]}, "row 2, column 'guide': unknown perturbation label 'ctrl'"),
        ({"drop_labels": ["d"]}, "no row has the label 'd' of --drop-label"),
        ({"layer": "raw"}, "--layer is for .h5ad and .zarr"),
        ({"normalise": True}, "expected a count"),
        ({"ignore_columns": ["d"]}, "no column 'd', expected for --ignore-column"),
        ({"truth": str(tmp_path / "truth.csv")}, "no edge between the table's variables"),
    ):
        (study,) = studies(**options, **more).values()
        with pytest.raises(InputError, match=r"^config key own_data.mine: ") as caught:
            read_small_files(study, look_at_files(study))
        assert message in str(caught.value)
    (study,) = studies(**options).values()
    read_small_files(study, look_at_files(study))


def test_files_are_looked_at_before_anything_is_planned(tmp_path):
    path = str(table(tmp_path / "x.csv"))
    assert refused(data=str(tmp_path / "no.csv")).endswith("no.csv: no such file")
    assert "expected a file called .npz, .csv" in refused(data=str(tmp_path / "x.xlsx"))
    assert "has no column 'giude' (did you mean 'guide'?)" in refused(
        data=path, perturbation_column="giude"
    )
    assert refused(data=path, truth="no.csv") == "truth: no.csv: no such file"
    assert "expected a .csv of edges" in refused(data=path, truth="edges.txt")
    sdcd = {"data": path, "methods": ["SDCD"]}
    assert refused(**sdcd, forbid="no.csv") == "forbid: no.csv: no such file"
    assert "expected a .csv of variables and tiers" in refused(**sdcd, tiers="tiers.txt")
    (tmp_path / "empty.csv").touch()
    assert "empty file" in refused(data=str(tmp_path / "empty.csv"))
    (tmp_path / "x.h5ad").write_text("no HDF5")
    assert "not a readable .h5ad" in refused(data=str(tmp_path / "x.h5ad"))
    X = np.random.default_rng(0).normal(size=(30, 3))
    write_dataset(tmp_path / "x.npz", Dataset(X, np.zeros((30, 3), bool), NAMES))
    assert "says itself what was perturbed" in refused(
        data=str(tmp_path / "x.npz"), perturbation_column="guide"
    )


def test_a_look_finds_columns_and_sizes_of_every_format(tmp_path):
    anndata, pd = pytest.importorskip("anndata"), pytest.importorskip("pandas")
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    X, labels = rng.poisson(2, (40, 3)).astype(np.float32), ["ctrl"] * 40
    frame = pd.DataFrame(X, columns=list(NAMES)).assign(guide=labels)
    for name in ("x.csv", "y.tsv.csv"):
        frame.to_csv(tmp_path / name, index=False)
    frame.to_csv(tmp_path / "x.tsv.gz", index=False, sep="\t")
    frame.to_parquet(tmp_path / "x.parquet")
    obs = pd.DataFrame({"guide": labels}, index=[f"c{r}" for r in range(40)])
    for name, matrix in (("sparse", sp.csr_matrix(X)), ("dense", X)):
        anndata.AnnData(matrix, obs=obs).write_h5ad(tmp_path / f"{name}.h5ad")
    names = ("x.csv", "y.tsv.csv", "x.tsv.gz", "x.parquet", "sparse.h5ad", "dense.h5ad")
    for name in names:
        found = look(tmp_path / name)
        assert "guide" in found.columns, name
        assert abs(found.d - 3) <= 1, name
        assert 10 <= found.n <= 200, name
    assert look(tmp_path / "sparse.h5ad").n == look(tmp_path / "x.parquet").n == 40


def test_a_table_too_large_for_the_plan_is_refused_where_it_is_read(tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 3))
    X[:, 2] = -2 * X[:, 0]
    np.savetxt(tmp_path / "x.csv", X, delimiter=",", header="a,b,c", comments="")
    script = ROOT / "workflow/scripts/own_table.py"
    how = ["--data", tmp_path / "x.csv", "--out", tmp_path / "x.npz"]
    end = subprocess.run([sys.executable, script, *how], capture_output=True, text=True)
    assert end.returncode == 2 and end.stderr.count("\n") == 1
    assert "x.csv: columns 'a' and 'c' are each other's negative in all 30 rows" in end.stderr
    assert not (tmp_path / "x.npz").exists()


# What is computed


def graph(*edges):
    found = np.zeros((3, 3), dtype=bool)
    for i, j in edges:
        found[i, j] = True
    return found


def fits_of(*graphs, frequency=None):
    there = [graph(*edges) for edges in graphs]
    return MethodFits(
        directed=there,
        joined=[each | each.T for each in there],
        share=np.mean(there, axis=0),
        frequency=frequency,
    )


def test_agreement_is_shared_edges_over_all_edges():
    fits = {
        "one": fits_of([(0, 1), (1, 2)], [(0, 1)]),
        "two": fits_of([(1, 0), (1, 2)]),
        "none": fits_of([]),
        "failed": MethodFits(),
    }
    found = agreement(fits)
    # 1 -> 2 of three edges, and none of three; whatever the direction both edges, and one of two.
    assert found[0, 1] == found[1, 0] == pytest.approx((1 / 3 + 0) / 2)
    joined = agreement(fits, directed=False)
    assert joined[0, 1] == pytest.approx((2 / 2 + 1 / 2) / 2)
    # A method with itself: its two seeds share one of two edges. With one seed there is no pair.
    assert found[0, 0] == pytest.approx(1 / 2)
    assert np.isnan(found[1, 1]) and np.isnan(found[3]).all()
    assert found[0, 2] == 0


def test_edges_are_ranked_by_methods_then_by_how_often_they_are_found_again():
    often = np.zeros((3, 3))
    often[0, 1], often[1, 2] = 0.25, 0.75
    fits = {
        "one": fits_of([(0, 1), (1, 2)], frequency=often),
        "two": fits_of([(0, 1), (1, 2)], [(0, 1), (1, 2)], frequency=often),
        "three": fits_of([(2, 1)], frequency=np.zeros((3, 3))),
        "failed": MethodFits(),
    }
    edges = shared_edges(fits, 3)
    assert list(zip(edges.parents, edges.children, strict=True)) == [(1, 2), (0, 1), (2, 1)]
    assert edges.methods.tolist() == [2, 2, 1]
    assert edges.against.tolist() == [1, 0, 2]
    assert edges.support == pytest.approx([0.5, 0.5 / 3, 0])
    assert edges.n_methods == 3
    adjacency, weights = as_graph(edges, NAMES)
    assert np.argwhere(adjacency).tolist() == [[0, 1], [1, 2]]
    assert weights[1, 2] == pytest.approx(0.5)


def test_perturbations_say_of_a_direction_what_moved():
    """A chain a -> b -> c and d apart; a, b and d are perturbed."""
    rng = np.random.default_rng(0)
    target = np.arange(800) % 4
    a = rng.normal(size=800) + 5 * (target == 1)
    b = np.where(target == 2, rng.normal(9, 1, 800), a + rng.normal(0, 0.3, 800))
    c = b + rng.normal(0, 0.3, 800)
    d = rng.normal(size=800) + 5 * (target == 3)
    intervened = np.zeros((800, 4), dtype=bool)
    for value, variable in ((1, 0), (2, 1), (3, 3)):
        intervened[target == value, variable] = True
    X = np.stack([a, b, c, d], axis=1).astype(np.float32)
    says, rate = perturbations_say(X, intervened)
    words = np.array(SAYS)[says]
    assert words[0, 1] == words[0, 2] == words[1, 2] == "agrees"
    assert words[1, 0] == words[2, 0] == words[2, 1] == "opposite"
    assert words[0, 3] == words[3, 2] == words[2, 3] == "no move"
    assert rate == pytest.approx(3 / 9)
    assert perturbations_say(X, np.zeros_like(intervened)) is None
    only_a = intervened.copy()
    only_a[:, [1, 3]] = False
    assert np.array(SAYS)[perturbations_say(X, only_a)[0]][1, 2] == "not tested"


def read(path):
    with open(path, newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.workflow
def test_a_change_inside_of_a_folder_is_seen(tmp_path):
    zarr = pytest.importorskip("zarr")
    anndata = pytest.importorskip("anndata")
    clone = new_clone(tmp_path / "clone")
    X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    anndata.AnnData(X).write_zarr(clone / "cells.zarr")
    content = {"data": "cells.zarr", "methods": ["GIES"]}
    (clone / "mine.yaml").write_text(yaml.safe_dump({"own_data": {"mine": content}}))
    target = (*MINE[:-1], "results/own/data/mine.npz")
    snakemake(clone, *target)
    assert planned(clone, *target, results="results/own") == set()
    before = (clone / "cells.zarr").stat().st_mtime_ns
    zarr.open_group(str(clone / "cells.zarr"), mode="r+")["X"][0, 0] = 9
    assert (clone / "cells.zarr").stat().st_mtime_ns == before
    assert planned(clone, *target, results="results/own") == {"data/mine.npz"}


@pytest.fixture
def made(tmp_path):
    """Fits of three methods to a table, one of which failed twice, with three true edges."""
    truth = graph((0, 1), (0, 2), (1, 2)).astype(np.int8)
    graphs = {
        "GIES": ([(0, 1), (1, 2)], [(0, 1), (2, 1)], [(0, 1), (1, 2)]),
        "mean-difference": ([(1, 0), (0, 2), (1, 2)],) * 2 + ([(1, 0), (0, 2)],),
        "tree-importance": ([(0, 1)], None, None),
    }
    for method, edges in graphs.items():
        for run, found in zip(("seed0", "seed1", "resample1"), edges, strict=True):
            arrays = {"names": np.array(NAMES)}
            if found is not None:
                arrays |= {"adjacency": graph(*found).astype(np.int8)}
            write_npz(tmp_path / f"fits/mine/{run}/{method}.npz", **arrays)
            record = {"method": method, "seconds": 2.0, "peak_rss_mb": 50.0}
            record |= {"status": "nan" if found is None else "ok", "reason": "broke"}
            write_json(tmp_path / f"fits/mine/{run}/{method}.json", record)
    # A chain; a is perturbed in some rows, b in others, which have the a of the unperturbed.
    z, noise = np.random.default_rng(0).normal(size=(2, 50))
    a = np.concatenate([z, z + 4, z])
    b = np.concatenate([2 * a[:100], noise + 9])
    intervened = np.zeros((150, 3), dtype=bool)
    intervened[50:100, 0] = intervened[100:, 1] = True
    X = np.stack([a, b, 1.5 * b + np.tile(noise, 3)], axis=1)
    write_dataset(tmp_path / "data/mine.npz", Dataset(X, intervened, NAMES))
    write_npz(tmp_path / "truth/mine.npz", adjacency=truth, names=np.array(NAMES))
    for part in ("data", "truth"):
        write_json(tmp_path / f"{part}/mine.json", {})
    content = {"methods": list(graphs), "truth": "edges.csv", "seeds": 2, "resamples": 1}
    return tmp_path, json.loads(studies(**content)["mine"].to_json())


def test_the_numbers_of_the_page_by_hand(made, monkeypatch):
    results, study = made
    shown = {}
    monkeypatch.setattr(own_page, "_pictures", lambda *_: [])
    monkeypatch.setattr(own_page, "render", lambda _, content: shown.update(content) or "")
    own_page.write(study, results, results / "mine/report.html")
    assert shown["failures"] == ["2 x tree-importance: nan: broke"]
    # Means over seeds; both graphs of GIES lack an edge, and one has another reversed.
    methods = {row["method"]: row for row in read(results / "mine/methods.csv")}
    for method, expected in (
        ("GIES", (3, 0, 2, 1.5, 0.75, 0.5)),
        ("mean-difference", (3, 0, 3, 1, 2 / 3, 2 / 3)),
        ("tree-importance", (1, 2, 1, 2, 1, 1 / 3)),
    ):
        columns = ("graphs", "failed", "edges", "shd", "precision", "recall")
        found = [float(methods[method][column]) for column in columns]
        assert found == pytest.approx(expected, abs=1e-5)
    # One of four edges and none of five; two of three pairs, twice.
    pairs = {(row["method"], row["other"]): row for row in read(results / "mine/agreement.csv")}
    between = pairs["GIES", "mean-difference"]
    assert float(between["directed"]) == pytest.approx(0.125)
    assert float(between["joined"]) == pytest.approx(2 / 3, abs=1e-5)
    # How often resamples have it, else the seeds.
    third = f"{1 / 3:.2f}"
    assert [row[:7] for row in shown["edges"].rows] == [
        ["a", "b", "2 of 3", "1", "0.67", "agrees", "yes"],
        ["a", "c", "1 of 3", "", third, "agrees", "yes"],
        ["b", "a", "1 of 3", "2", third, "opposite", "reversed"],
        ["b", "c", "1 of 3", "", third, "agrees", "yes"],
    ]
    assert shown["edges"].head[7:] == ["GIES", "mean-difference"]
    again = [row[7:] for row in shown["edges"].rows]
    assert again == [["1.00", "0.00"], ["0.00", "1.00"], ["0.00", "1.00"], ["1.00", "0.00"]]
    counts = {"shared": 1, "right": 1, "others": 3, "others_right": 2, "all": 3}
    assert shown["shared_truth"] == counts
    says = [row[:4] for row in shown["says"].rows]
    assert says == [
        ["GIES", "1", "1", "0"],
        ["mean-difference", "3", "2", "1"],
        ["tree-importance", "1", "1", "0"],
        ["shared by most", "1", "1", "0"],
    ]
    assert (shown["n_shared"], shown["n_edges"], shown["n_methods"]) == (1, 4, 3)


# The workflow

MINE = ("--configfile", "config.yaml", "mine.yaml", "--", "own_data")


def configure(clone, **changes):
    content = {
        "data": "cells.csv",
        "perturbation_column": "guide",
        "truth": "edges.csv",
        "methods": ["GIES", "mean-difference"],
        "resamples": 1,
        **changes,
    }
    (clone / "mine.yaml").write_text(yaml.safe_dump({"own_data": {"mine": content}}))


def planned_own(clone):
    return planned(clone, *MINE, results="results/own")


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    clone = new_clone(tmp_path_factory.mktemp("own") / "clone")
    table(clone / "cells.csv")
    (clone / "edges.csv").write_text("Gene1,Gene2\na,b\nb,c\nc,x\nc,c\n")
    configure(clone)
    return clone, snakemake(clone, *MINE)


@pytest.mark.workflow
def test_the_page_and_its_tables(ran):
    clone, _ = ran
    folder = clone / "results/own/mine"
    rows = read(folder / "edges.csv")
    by_edge = {row["parent"] + row["child"]: row for row in rows}
    assert {edge: row["true"] for edge, row in by_edge.items()} == {"ab": "1", "bc": "1", "ac": "0"}
    assert rows[0] is by_edge["bc"] and rows[0]["methods"] == "2"
    assert by_edge["ac"]["frequency mean-difference"] == "1"
    assert by_edge["ac"]["perturbation"] == by_edge["bc"]["perturbation"] == "agrees"
    by_method = {row["method"]: row for row in read(folder / "methods.csv")}
    assert by_method["GIES"]["graphs"] == "2" and float(by_method["GIES"]["recall"]) == 1
    statistics = {(row["method"], row["graph"]): row for row in read(folder / "evaluation.csv")}
    assert float(statistics["GIES", "graph"]["edges_moved"]) == 1
    assert statistics["GIES", "empty"]["edges_moved"] == ""
    assert statistics["GIES", "complete"]["pairs_omitted"] == "0"
    page = (folder / "report.html").read_text()
    assert "false omission" in page
    assert "left out: 1 edges with an end that is no variable; 1 edges from a variable to" in page
    assert "3 variables, 150 rows,\n100 of them perturbed" in page
    assert page.count("data:image/png;base64,") == 3
    assert "src=" not in re.sub(r'src="data:', "", page)
    record = json.loads((clone / "results/own/fits/mine/resample1/GIES.json").read_text())
    # Half of the rows of each perturbation.
    assert (record["n_rows"], record["data"]["name"]) == (75, "mine.npz")


@pytest.mark.workflow
@pytest.mark.slow
def test_what_reruns(ran):
    clone, _ = ran
    assert planned_own(clone) == set()
    configure(clone, methods=["GIES", "mean-difference", "tree-importance"])
    fits = {f"fits/mine/{run}/tree-importance.npz" for run in ("seed0", "resample1")}
    assert planned_own(clone) == {*fits, "mine/report.html"}
    (clone / "edges.csv").write_text("parent,child\na,b\n")
    configure(clone)
    assert planned_own(clone) == {"truth/mine.npz", "mine/report.html"}
    configure(clone, drop_constant=True)
    assert {"data/mine.npz", "fits/mine/seed0/GIES.npz"} <= planned_own(clone)
    configure(clone, perturbation_column="giude")
    code, text = snakemake(clone, "-n", *MINE, check=False)
    assert code != 0
    assert "Error: config key own_data.mine.perturbation_column: cells.csv has no column" in text


@pytest.mark.workflow
@pytest.mark.slow
def test_what_is_known_beforehand_holds_and_a_change_reruns_the_fits(ran):
    clone, _ = ran
    (clone / "no.csv").write_text("parent,child\na,b\n")
    (clone / "must.csv").write_text("parent,child\na,c\n")
    short = {"SDCD-pruned": {"settings": {"epochs_1": 5, "epochs_2": 5}}}
    content = {"methods": ["SDCD-pruned"], "method_options": short, "resamples": 0}
    configure(clone, **content, forbid="no.csv", require="must.csv")
    snakemake(clone, *MINE)
    fit = clone / "results/own/fits/mine/seed0/SDCD-pruned"
    assert np.load(f"{fit}.npz")["adjacency"][0].tolist() == [0, 0, 1]
    params = json.loads(fit.with_suffix(".json").read_text())["params"]
    assert params["knowledge"] == {"forbid": [["a", "b"]], "require": [["a", "c"]]}
    page = (clone / "results/own/mine/report.html").read_text()
    assert "forbidden edges from <code>no.csv</code>, required edges from" in page
    assert planned_own(clone) == set()
    made = {"fits/mine/seed0/SDCD-pruned.npz", "mine/report.html"}
    configure(clone, **content, require="must.csv")
    assert planned_own(clone) == {"knowledge/mine.json", *made}
    configure(clone, **content)
    assert planned_own(clone) == made
