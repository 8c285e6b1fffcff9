"""The picture of the method: its table from a fit, and what is drawn of it."""

import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import FancyArrowPatch, Rectangle

from sdcd.data.dataset import Dataset, write_dataset
from sdcd.errors import CorruptFile
from sdcd.experiments.plan import Experiment
from sdcd.figures import cartoon
from sdcd.files import write_json, write_npz
from sdcd.runs.cartoon import COLUMNS, collect_cartoon
from sdcd.runs.table import read_runs

BOUNDS = {"min_d": None, "max_d": None, "max_seeds": None, "fewer_seeds": None, "shortened": ""}
EXPERIMENT = Experiment(
    "interventional", [{"d": [4], "s": [1], "fractions": [1], "seeds": 1}], {"SDCD": BOUNDS}
)
# 2 -> 0 -> 3, 2 -> 1, 0 -> 1
TRUTH = np.array([[0, 1, 0, 1], [0, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]], dtype=np.int8)
# 2 -> 0 found, 0 -> 1 reversed, 3 -> 1 wrong; 0 -> 3 and 2 -> 1 missed.
LEARNED = np.array([[0, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]], dtype=np.int8)
STAGE_1 = np.where(TRUTH | LEARNED | LEARNED.T, 0.5, 0.1).astype(np.float32)
SELECTED = (STAGE_1 > 0.2) & ~np.eye(4, dtype=bool)


def results(folder, **left_out):
    name = "interventional/d4_s1_f1_seed0"
    names = ("a", "b", "c", "d")
    data = Dataset(np.zeros((5, 4)), np.zeros((5, 4), bool), names, TRUTH)
    write_dataset(folder / f"data/{name}.npz", data)
    arrays = {
        "weights": LEARNED * 0.7,
        "adjacency": LEARNED,
        "selected": SELECTED,
        "stage_1_weights": STAGE_1,
        "names": np.array(names),
    }
    arrays = {key: value for key, value in arrays.items() if key not in left_out}
    write_npz(folder / f"fits/{name}/SDCD.npz", **arrays)
    record = {"method": "SDCD", "status": "ok", "params": {"tau_1": 0.2, "tau_2": 0.1}}
    write_json(folder / f"fits/{name}/SDCD.json", record)
    return folder


def test_the_table_has_every_pair_through_the_stages(tmp_path):
    table = collect_cartoon(EXPERIMENT, results(tmp_path))
    assert list(table) == list(COLUMNS) and len(table) == 12
    for column, matrix in (
        ("true", TRUTH),
        ("stage_1_weight", STAGE_1),
        ("selected", SELECTED),
        ("stage_2_weight", LEARNED * 0.7),
        ("in_graph", LEARNED),
    ):
        np.testing.assert_allclose(table[column], matrix[table["parent"], table["child"]])


def test_a_fit_without_weights_of_stage_1_is_no_reason_to_draw_nothing_else(tmp_path):
    """None are kept beyond 100 variables, or made without stage 1."""
    table = collect_cartoon(EXPERIMENT, results(tmp_path, stage_1_weights=None))
    assert list(table) == list(COLUMNS) and not len(table)
    assert "has no weights of stage 1" in cartoon.draw(table).texts[0].get_text()


def test_a_failed_fit_has_no_rows_and_a_figure_that_says_so(tmp_path):
    left_out = dict.fromkeys(("weights", "adjacency", "selected", "stage_1_weights"))
    table = collect_cartoon(EXPERIMENT, results(tmp_path, **left_out))
    assert list(table) == list(COLUMNS) and not len(table)
    assert "failed" in cartoon.draw(table).texts[0].get_text()


def test_a_shortened_fit_is_marked(tmp_path):
    short = {**BOUNDS, "shortened": "epochs_1 = 40 instead of 2,000"}
    for bounds, marked in ((short, True), (BOUNDS, False)):
        experiment = Experiment("interventional", EXPERIMENT.grids, {"SDCD": bounds})
        table = collect_cartoon(experiment, results(tmp_path))
        table.to_csv(tmp_path / "table.csv", index=False)
        figure = cartoon.draw(pd.read_csv(tmp_path / "table.csv"))
        note = " ".join(figure.get_supxlabel().split())
        assert note.endswith("Shortened: epochs_1 = 40 instead of 2,000.") == marked


def test_the_script_s_table_is_known_to_be_whole(tmp_path, monkeypatch):
    scripts = Path(__file__).resolve().parents[1] / "workflow/scripts"
    monkeypatch.syspath_prepend(scripts)
    out = tmp_path / "runs/cartoon.csv"
    arguments = ["--table", "cartoon", "--experiment", EXPERIMENT.to_json()]
    arguments += ["--results", str(results(tmp_path)), "--out", str(out)]
    monkeypatch.setattr("sys.argv", ["derive.py", *arguments])
    runpy.run_path(str(scripts / "derive.py"))["main"]()
    assert len(read_runs(out)) == 12
    out.write_text("".join(out.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(CorruptFile, match="cut off"):
        read_runs(out)


def test_the_panels_are_the_stages(tmp_path):
    collect_cartoon(EXPERIMENT, results(tmp_path)).to_csv(tmp_path / "table.csv", index=False)
    figure = cartoon.draw(pd.read_csv(tmp_path / "table.csv"))
    first, mask, second, learned, true = [axes for axes in figure.axes if axes.get_title("left")]
    # The causal order is 2, 0, 1, 3: framed true edges lie above the diagonal.
    order = [2, 0, 1, 3]
    frames = [patch for patch in first.patches if isinstance(patch, Rectangle)]
    assert len(frames) == TRUTH.sum()
    assert all(frame.get_x() > frame.get_y() for frame in frames)
    off = ~np.eye(4, dtype=bool)
    expected = STAGE_1[np.ix_(order, order)]
    np.testing.assert_allclose(first.images[0].get_array()[off], expected[off])
    np.testing.assert_array_equal(mask.images[0].get_array(), SELECTED[np.ix_(order, order)])
    shown = second.images[0].get_array()
    np.testing.assert_array_equal(np.ma.getmaskarray(shown), ~SELECTED[np.ix_(order, order)])
    assert "of the 4 true" in mask.get_title("left") and "1 of them true" in learned.get_title(
        "left"
    )
    for axes, expected in (
        # Edges in the causal order of their parents, then of their children.
        (learned, [cartoon.RIGHT, cartoon.REVERSED, cartoon.WRONG]),
        (true, [cartoon.RIGHT, cartoon.MISSED, cartoon.MISSED, cartoon.MISSED]),
    ):
        arrows = [patch for patch in axes.patches if isinstance(patch, FancyArrowPatch)]
        colors = [to_hex(arrow.get_edgecolor()) for arrow in arrows]
        assert colors == [color.lower() for color in expected]
