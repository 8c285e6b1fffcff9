"""The documentation's notebook: it runs, and what it shows is what it would show now."""

import json
import runpy
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TOUR = ROOT / "docs/tour.ipynb"
notebooks = runpy.run_path(str(ROOT / "docs/notebooks.py"))


def _shown(path):
    """The text of each output."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    return ["".join(o.get("text") or o["data"].get("text/plain", "")) for o in outputs]


@pytest.mark.slow
def test_the_tour_runs_and_shows_what_it_says(tmp_path):
    copy = Path(shutil.copy(TOUR, tmp_path))
    notebooks["run"](copy)
    kept, now = _shown(TOUR), _shown(copy)
    assert len(now) == len(kept)
    for place in (0, 3, 4):  # the data set and the published values: alike on every machine
        assert now[place] == kept[place]
    sdcd, pruned = (int(line.split()[1]) for line in now[5].splitlines()[1:])
    assert pruned < sdcd < 40, "40 is the SHD of the empty graph"


def test_a_cell_that_fails_leaves_the_notebook_as_it_was(tmp_path):
    cell = {"cell_type": "code", "source": ["1 / 0"], "outputs": []}
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"cells": [cell]}))
    with pytest.raises(ZeroDivisionError):
        notebooks["run"](path)
    assert json.loads(path.read_text())["cells"] == [cell]
    assert [file.name for file in tmp_path.iterdir()] == ["a.ipynb"]


def test_a_page_has_what_cells_print_and_return(tmp_path):
    source = "print('one')\nx = 2\nx + 1"
    cells = [
        {"cell_type": "markdown", "source": ["# Title"]},
        {"cell_type": "code", "source": [source], "outputs": []},
    ]
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    notebooks["run"](path)
    page = notebooks["page"](json.loads(path.read_text()))
    code = f"```python\n{source}\n```"
    assert page == f"# Title\n\n{code}\n\n```text\none\n```\n\n```text\n3\n```\n"
