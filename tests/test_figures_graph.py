"""The picture of a graph: complete, without lines behind nodes, honest about what it leaves out."""

import itertools

import numpy as np
import pytest
from matplotlib.patches import FancyBboxPatch, PathPatch, Polygon

from sdcd.figures import graph, style


def figure(adjacency, weights=None, names=None, title=""):
    names = names or [f"X{j}" for j in range(len(adjacency))]
    with style.context():
        return graph._figure(np.asarray(adjacency), weights, names, title)


def content(drawn):
    (axes,) = drawn.axes
    boxes = [patch for patch in axes.patches if isinstance(patch, FancyBboxPatch)]
    heads = [patch for patch in axes.patches if isinstance(patch, Polygon)]
    lines = [patch for patch in axes.patches if isinstance(patch, PathPatch)]
    texts = [text.get_text() for text in axes.texts]
    return boxes, heads, lines, texts


def random_dag(d: int, edges: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    pairs = np.array(list(itertools.combinations(rng.permutation(d), 2)))
    weights = np.zeros((d, d))
    for i, j in pairs[rng.choice(len(pairs), edges, replace=False)]:
        weights[i, j] = rng.uniform(0.1, 1)
    return weights


def test_every_node_and_every_edge_is_drawn():
    weights = random_dag(12, 25, 0)
    weights[:, 11] = weights[11] = 0
    drawn = figure(weights > 0, weights, title="a title")
    boxes, heads, lines, texts = content(drawn)
    assert len(boxes) == 12
    assert len(heads) == len(lines) == (weights > 0).sum()
    assert {f"X{j}" for j in range(12)} | {"a title"} <= set(texts)


def test_children_are_below_their_parents():
    weights = random_dag(15, 40, 1)
    layout = graph._Layout(graph._edges(weights > 0, weights), dict.fromkeys(range(15), 0.5))
    for i, j in np.argwhere(weights > 0):
        assert layout.places[i][1] < layout.places[j][1]


@pytest.mark.parametrize("seed", range(5))
def test_nodes_do_not_overlap_and_no_line_runs_behind_one(seed):
    weights = random_dag(14, 35, seed)
    boxes, _, lines, _ = content(figure(weights > 0, weights))
    frames = [box.get_window_extent() for box in boxes]
    for a, b in itertools.combinations(frames, 2):
        assert not a.overlaps(b)
    for line in lines:
        curve = line.get_path().transformed(line.get_transform())
        (points,) = curve.to_polygons(closed_only=False)
        for frame in frames:
            inside = frame.padded(-2).contains
            assert not any(inside(x, y) for x, y in points)


def test_every_figure_holds_its_content():
    for weights in (random_dag(14, 35, 0), random_dag(40, 30, 0), np.zeros((3, 3))):
        drawn = figure(weights > 0, weights, [f"variable {j}" for j in range(len(weights))])
        page = drawn.bbox
        for patch in drawn.axes[0].patches:
            extent = patch.get_window_extent()
            assert page.x0 <= extent.x0 and extent.x1 <= page.x1
            assert page.y0 <= extent.y0 and extent.y1 <= page.y1


def test_widths_follow_weights():
    weights = np.zeros((3, 3))
    weights[0, 1], weights[1, 2] = 1.0, 0.25
    _, _, lines, texts = content(figure(weights > 0, weights))
    thin, thick = sorted(line.get_linewidth() for line in lines)
    assert thick == pytest.approx(3.2) and thin == pytest.approx(0.6 + 0.25 * 2.6)
    assert "Width of an edge: its weight, here 0.25 to 1." in texts
    # A required edge may have no weight at all.
    _, _, lines, _ = content(figure(weights > 0, np.where(weights == 1, 1, 0)))
    assert min(line.get_linewidth() for line in lines) == pytest.approx(0.6)


def test_undirected_edges_and_cycles():
    adjacency = np.zeros((5, 5))
    for i, j in ((0, 1), (1, 2), (2, 0), (3, 4), (4, 3)):
        adjacency[i, j] = 1
    _, heads, lines, texts = content(figure(adjacency))
    assert (len(heads), len(lines)) == (3, 4)
    assert any("Lines without an arrowhead are undirected edges." in text for text in texts)


def test_large_graphs_are_cut_to_their_strongest_edges_and_say_so():
    weights = random_dag(300, 900, 0)
    boxes, heads, _, texts = content(figure(weights > 0, weights))
    assert len(boxes) <= graph.MAX_NODES
    (note,) = (text.replace("\n", " ") for text in texts if "Width" in text)
    strengths = np.sort(weights[weights > 0])[::-1]
    assert f"here {strengths[len(heads) - 1]:.3g} to {strengths[0]:.3g}" in note
    assert f"Only {len(heads)} of 900 edges are drawn, the strongest" in note
    assert f"{300 - len(boxes)} of 300 variables have none of them and are left out" in note
    _, _, lines, texts = content(figure(weights > 0))
    note = texts[-1].replace("\n", " ")
    assert f"Only {len(lines)} of 900 edges are drawn, those between well-connected" in note


def test_an_empty_graph_and_long_names():
    boxes, heads, _, texts = content(figure(np.zeros((2, 2)), names=["a" * 50, "$x_1$ of {y}"]))
    assert (len(boxes), len(heads)) == (2, 0)
    assert "a" * 19 + "…" in texts and "No edges." in texts


def test_files_are_repeatable(tmp_path):
    weights = random_dag(8, 12, 0)
    names = [f"X{j}" for j in range(8)]
    written = [
        graph.draw_graph(weights > 0, weights, names, tmp_path / run, title="t")
        for run in ("1.graph", "2.graph")
    ]
    for first, second in zip(*written, strict=True):
        assert first.read_bytes() == second.read_bytes()
    assert [path.name for path in written[0]] == ["1.graph.png", "1.graph.pdf"]
