"""Weights cut at other thresholds than the method's own."""

import numpy as np
import pandas as pd
import pytest
from support.exhibited import draw, make

from sdcd.data.dataset import Dataset, write_dataset
from sdcd.experiments.plan import Experiment
from sdcd.figures import style
from sdcd.figures.thresholds import CHANCE
from sdcd.files import write_json, write_npz
from sdcd.graphs import dag_trim
from sdcd.methods import Graph
from sdcd.metrics import average_precision, n_edges, shd
from sdcd.runs.thresholds import COLUMNS, GRID, collect_thresholds, fit_rows, own_threshold, steps
from sdcd.tables import thresholds as numbers

BOUNDS = {"min_d": None, "max_d": None, "max_seeds": None, "fewer_seeds": None, "shortened": ""}


def cut(weights, threshold, rule):
    return dag_trim(weights, threshold) if rule == "dag trim" else weights > threshold


def problem(seed, d=7):
    generator = np.random.default_rng(seed)
    # Rounded, so that there are ties and zeros.
    weights = np.round(generator.exponential(0.4, (d, d)) * (generator.random((d, d)) < 0.7), 1)
    np.fill_diagonal(weights, 0.0)
    truth = np.triu(generator.random((d, d)) < 0.4, 1)
    order = generator.permutation(d)
    return weights, truth[np.ix_(order, order)].astype(np.int8)


@pytest.mark.parametrize("rule", ["dag trim", "cut"])
@pytest.mark.parametrize("seed", range(5))
def test_steps_are_the_shd_of_the_graph_cut_at_the_threshold(rule, seed):
    weights, truth = problem(seed)
    curve = steps(weights, truth, rule)
    # On the weights themselves too, where "from t on" and "above t" differ.
    thresholds = np.unique([0.05, 0.33, 9.0, *weights[weights > 0]])
    for t, index in zip(thresholds, curve.at(thresholds), strict=True):
        graph = cut(weights, t, rule)
        assert curve.shd[index] == shd(graph, truth)
        assert curve.n_edges[index] == n_edges(graph)


@pytest.mark.parametrize("rule", ["dag trim", "cut"])
def test_the_best_threshold_gives_the_lowest_shd(rule):
    for seed in range(5):
        weights, truth = problem(seed)
        curve = steps(weights, truth, rule)
        threshold, index = curve.best()
        every = [shd(cut(weights, t, rule), truth) for t in np.linspace(0.001, 4, 500)]
        assert shd(cut(weights, threshold, rule), truth) == curve.shd[index] == min(every)


def test_weights_without_an_edge_give_the_empty_graph():
    truth = np.triu(np.ones((3, 3)), 1)
    curve = steps(np.zeros((3, 3)), truth, "cut")
    assert curve.shd.tolist() == [3] and np.isnan(curve.best()[0])


def test_the_own_threshold_is_kept_only_where_it_gives_the_graph():
    weights, truth = problem(0)
    record = {"diagnostics": {"threshold": 0.3}, "params": {}}
    own = fit_rows(Graph(weights > 0.3, weights), record, truth)[0]
    assert (own["point"], own["rule"], own["threshold"]) == ("own", "cut", 0.3)
    assert own["shd"] == shd(weights > 0.3, truth)
    assert own["average_precision"] == average_precision(weights, truth)
    own = fit_rows(Graph(weights > 0.5, weights), record, truth)[0]
    assert np.isnan(own["threshold"]) and own["shd"] == shd(weights > 0.5, truth)


def test_sdcd_is_cut_by_dag_trim_at_tau_2():
    weights, truth = problem(1)
    record = {"diagnostics": {}, "params": {"tau_2": 0.2}}
    rows = fit_rows(Graph(dag_trim(weights, 0.2), weights), record, truth)
    assert {row["rule"] for row in rows} == {"dag trim"}
    assert rows[0]["threshold"] == own_threshold(record) == 0.2
    assert [row["point"] for row in rows] == ["own", "best", *["grid"] * len(GRID)]
    for row in rows[2:]:
        assert row["shd"] == shd(dag_trim(weights, row["threshold"]), truth)


def test_a_method_without_weights_has_its_graph_only():
    _, truth = problem(2)
    rows = fit_rows(Graph(truth), {"params": {"threshold": 0.3}}, truth)
    assert len(rows) == 1 and rows[0]["rule"] == "none" and rows[0]["shd"] == 0
    assert np.isnan(rows[0]["threshold"]) and rows[0]["average_precision"] is None


@pytest.fixture
def table(tmp_path):
    """Fits on two sizes and three seeds; SDCD, DAGMA, GIES without weights, and one failure."""
    experiment = Experiment(
        "observational",
        [{"d": [6, 7], "s": [2], "seeds": 3}],
        dict.fromkeys(("SDCD", "DAGMA", "GIES", "NOCURL"), BOUNDS),
    )
    for position, (key, name) in enumerate(experiment.fits()):
        weights, truth = problem(position // 4, key.d)
        names = np.array([f"X{j}" for j in range(key.d)])
        data = Dataset(np.zeros((4, key.d)), np.zeros((4, key.d), bool), tuple(names), truth)
        write_dataset(tmp_path / f"data/{key.name}.npz", data)
        path = tmp_path / f"fits/{key.name}/{name}.npz"
        record = {"method": name, "status": "ok", "params": {}, "diagnostics": {}}
        if name == "SDCD":
            weights = weights + 2 * truth
            record |= {"params": {"tau_2": 0.1}, "first_stage": {"parts": 2}}
            write_npz(path, weights=weights, adjacency=dag_trim(weights, 0.1), names=names)
        elif name == "DAGMA":
            record["diagnostics"] = {"threshold": 0.3}
            adjacency = (weights > 0.3).astype(np.int8)
            write_npz(path, weights=weights, adjacency=adjacency, names=names)
        elif name == "GIES":
            write_npz(path, weights=weights * np.nan, adjacency=truth, names=names)
        else:
            record["status"] = "timeout"
            write_npz(path, names=names)
        write_json(path.with_suffix(".json"), record)
    return collect_thresholds(experiment, tmp_path)


def test_the_table_has_every_finished_fit(table):
    assert list(table) == list(COLUMNS)
    counts = table.groupby("method").size()
    curve = len(GRID) + 2
    assert counts.to_dict() == {"SDCD": 6 * curve, "DAGMA": 6 * curve, "GIES": 6}


def test_what_the_record_shows_as_shortened_is_marked(table):
    marked = table[table["shortened"] != ""]
    assert set(marked["method"]) == {"SDCD"}
    assert set(marked["shortened"]) == {"stage 1 stops early in 2 parts"}


class TestFigure:
    def figure(self, table, tmp_path, name="thresholds_observational"):
        # As the workflow hands it over.
        table.to_csv(tmp_path / "table.csv", index=False)
        return draw(name, pd.read_csv(tmp_path / "table.csv"))

    def test_it_says_that_it_is_not_in_the_paper(self, table, tmp_path):
        figure = self.figure(table, tmp_path)
        assert figure.get_suptitle().startswith("Not in the paper")
        assert [a.get_title() for a in figure.axes][::2] == ["d = 6, s = 2", "d = 7, s = 2"]

    def test_the_own_threshold_is_marked_on_the_curve(self, table, tmp_path):
        axes = self.figure(table, tmp_path).axes[0]
        own = table[(table["point"] == "own") & (table["d"] == 6)].groupby("method")
        marks = {
            line.get_markerfacecolor(): (line.get_xdata()[0], line.get_ydata()[0])
            for line in axes.lines
            if line.get_markersize() >= 8 and len(line.get_xdata()) == 1
        }
        shds = own["shd"].mean()
        for name, threshold in (("SDCD", 0.1), ("DAGMA", 0.3)):
            mark = marks[style.method_style(name).color]
            assert mark == pytest.approx((threshold, shds[name]))
        # Beside the panel, in parts of its width.
        assert marks[style.method_style("GIES").color] == pytest.approx((1.025, shds["GIES"]))

    def test_the_references_are_the_empty_graph_and_chance(self, table, tmp_path):
        panels = self.figure(table, tmp_path).axes[:2]
        # 12 edges, of 30 ordered pairs of 6 variables.
        for axes, look, y in zip(panels, (style.REFERENCE, CHANCE), (12, 12 / 30), strict=True):
            (line,) = [line for line in axes.lines if line.get_color() == look["color"]]
            assert line.get_ydata() == pytest.approx([y, y])

    def test_methods_stand_by_their_shd_above_their_average_precision(self, table, tmp_path):
        axes = self.figure(table, tmp_path).axes[1]
        own = table[(table["point"] == "own") & (table["d"] == 6)]
        order = own.groupby("method")["shd"].mean().sort_values().index.tolist()
        assert [label.get_text() for label in axes.get_xticklabels()] == order
        points = [line for line in axes.lines if line.get_markerfacecolor() == "white"]
        drawn = sorted(value for line in points for value in line.get_ydata())
        assert drawn == pytest.approx(sorted(own["average_precision"].dropna()))

    def test_of_many_fractions_three_are_shown(self, table, tmp_path):
        tables = [
            table.assign(experiment="interventional", fraction=fraction)
            for fraction in (0, 0.25, 0.5, 0.75, 1)
        ]
        figure = self.figure(pd.concat(tables), tmp_path, "thresholds_interventional")
        titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
        assert [title.split(", ")[2] for title in titles] == [
            f"{percent} % of variables intervened on" for percent in (0, 50, 100)
        ]

    def test_nothing_finished_is_said(self, table):
        figure = draw("thresholds_observational", table.iloc[:0])
        assert "every fit failed" in figure.texts[0].get_text()


class TestTable:
    def test_its_numbers_by_hand(self):
        keys = {"experiment": "observational", "d": 10, "s": 4, "fraction": 0.0, "shortened": None}
        rows = [
            {"seed": seed, "point": point, "threshold": t, "shd": shd, "n_edges": 30}
            for seed, curve in enumerate([(10, 4, 8), (20, 28, 22)])
            for point, t, shd in [
                ("own", 0.1, curve[0]),
                ("best", 0.5, min(curve)),
                *[("grid", t, shd) for t, shd in zip((0.1, 1.0, 2.0), curve, strict=True)],
            ]
        ]
        rows = [{**keys, **row, "method": "SDCD", "average_precision": 0.5} for row in rows]
        rows.append({**keys, "method": "GIES", "seed": 0, "point": "own", "shd": 9, "n_edges": 5})
        cells = numbers.summarise(pd.DataFrame(rows)).set_index("method")
        assert cells.index.tolist() == ["GIES", "SDCD"]
        found = cells.loc["SDCD", ["n", "shd", "best_shd", "one_shd", "one_threshold"]]
        # Means of the curves: 15, 16, 15; of equal ones the smallest threshold.
        assert found.tolist() == [2, 15, 12, 15, 0.1]
        assert np.isnan(
            cells.loc["GIES", ["best_shd", "one_shd", "average_precision"]].tolist()
        ).all()

    def test_it_is_written_with_the_empty_graph_and_the_best_in_bold(self, table, tmp_path):
        shortened = table.assign(shortened=np.where(table["method"] == "DAGMA", "x", ""))
        _, laid_out = make("thresholds_observational", shortened)
        assert laid_out.caption.startswith("Not in the paper")
        rows = {keys[1]: [entry[""] for entry in entries] for keys, entries in laid_out.rows}
        assert [keys[1] for keys, _ in laid_out.rows].count("empty graph") == 2
        assert "14" in [
            entries[0][""] for keys, entries in laid_out.rows if keys[1] == "empty graph"
        ]
        assert rows["empty graph"][3] == f"{2 / 6:.2f}"
        for first in (0, 4):
            group = range(first, first + 3)
            precisions = {row: laid_out.rows[row][1][3][""] for row in group}
            bold = {row for row in group if (row, 3) in laid_out.best}
            (highest,) = {precisions[row] for row in bold}
            assert highest == max(text for text in precisions.values() if text != "–")
            assert len(set(precisions.values())) == 3
        assert "* shortened: DAGMA: x." in laid_out.notes
        # GIES returned the true graph, and has no weights.
        assert rows["GIES"][0] == "0.0" and "–" in rows["GIES"]

    def test_the_page_of_the_documentation_is_made_from_runs(
        self, benchmark, table, tmp_path, monkeypatch
    ):
        thresholds = benchmark("thresholds")
        page = tmp_path / "page.md"
        page.write_text("a\n<!-- observational -->old<!-- end of observational -->\nb\n")
        (tmp_path / "tiny/runs").mkdir(parents=True)
        table.to_csv(tmp_path / "tiny/runs/thresholds_observational.csv", index=False)
        arguments = ["thresholds.py", "--results", str(tmp_path / "tiny"), "--page", str(page)]
        monkeypatch.setattr("sys.argv", arguments)
        thresholds.main()
        text = page.read_text()
        assert text.startswith("a\n") and text.endswith("\nb\n") and "old" not in text
        own = table[(table["point"] == "own") & (table["d"] == 6) & (table["method"] == "DAGMA")]
        assert f"| DAGMA | {own['shd'].mean():.1f} |" in text
        assert "Scale tiny." in text and "| d = 7, s = 2 | SHD |" in text
        assert "| GIES | **0.0** | – | – | – |" in text
        thresholds.main()
        assert page.read_text() == text
        with pytest.raises(SystemExit, match="no place for the table 'other'"):
            thresholds.write_tables(page, {"other": []})
