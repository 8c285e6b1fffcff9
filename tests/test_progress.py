"""How far a run is: counts, hours left, and failures by reason."""

import os
import time

import pytest
import yaml
from support.workflow import ROOT

from sdcd.cli import main
from sdcd.errors import InputError
from sdcd.experiments.plan import make_plan
from sdcd.experiments.progress import page, read_progress, reasons, write_plan
from sdcd.files import write_json

SCHEMA = yaml.safe_load((ROOT / "workflow/schemas/config.schema.yaml").read_text())
COMMAND = {"command": ["run", "{input}", "{output}"]}


SECONDS = {
    ("NOTEARS", 10): 2.0,
    ("NOTEARS", 50): 4000.0,
    ("DCDI-G", 10): 20.0,
    ("DCDI-G", 50): 90.0,
}


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A run of three methods on four data sets that has just started."""
    costs = {key: (seconds, 100.0) for key, seconds in SECONDS.items()}
    monkeypatch.setattr("sdcd.fits.costs.expected", lambda name, d, n: costs.get((name, d)))
    config = {
        "scale": "s",
        "methods": ["NOTEARS", "DCDI-G", "own"],
        "experiments": {"observational": {"methods": "all"}},
        "outside_methods": {"own": COMMAND},
        "scales": {
            "s": {
                "n_observational": 10_000,
                "n_per_intervention": 500,
                "time_limit_s": 300,
                "memory_limit_mb": 6000,
                "method_options": {"DCDI-G": {"threads": 2}},
                "grids": {"observational": [{"d": [10, 50], "s": [4], "seeds": 2}]},
            }
        },
    }
    write_plan(make_plan(config, SCHEMA), tmp_path)
    return tmp_path


def finish(results, method, d, seed, status="ok", reason=""):
    path = results / f"fits/observational/d{d}_s4_seed{seed}/{method}.json"
    write_json(path, {"method": method, "status": status, "reason": reason})


def log(results, method, d, seed, text, age=-1.0):
    path = results / f"logs/fit/observational/d{d}_s4_seed{seed}/{method}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, times=(time.time() - age,) * 2)
    return path


def test_what_is_done_running_stopped_and_left(results):
    at_start = read_progress(results)
    assert at_start.total("waiting") == 12
    # At d = 50 the limit of 300 s ends it.
    assert at_start.methods["NOTEARS"].hours_left == pytest.approx(2 * (2 + 300) / 3600)
    assert at_start.methods["own"].unknown == 4
    assert "fits of unknown cost" in page(at_start)

    finish(results, "NOTEARS", 10, 0)
    for d, seed in ((10, 1), (50, 0)):
        finish(results, "NOTEARS", d, seed, "timeout", "time limit of 300 s passed")
    finish(results, "DCDI-G", 10, 0, "nan", "a loss is NaN")
    log(results, "NOTEARS", 50, 1, "epoch 3\n")
    broken = log(results, "own", 10, 0, "fit.py: d.npz: empty file, expected an .npz file\n")
    log(results, "own", 10, 1, "Traceback (most recent call last):\n  x\nValueError: y\n")
    log(results, "own", 50, 0, "of an earlier run\n", age=3600)
    progress = read_progress(results)
    counts = progress.methods["NOTEARS"]
    assert (counts.done, counts.failed, counts.running, counts.waiting) == (3, 2, 1, 0)
    counts = progress.methods["own"]
    assert (counts.running, counts.stopped, counts.waiting) == (0, 2, 2)
    # Two threads.
    two = progress.methods["DCDI-G"].hours_left
    assert two == pytest.approx(2 * (20 + 2 * 90) / 3600)
    assert list(progress.failures) == [
        ("NOTEARS", "timeout", "time limit of 300 s passed"),
        ("DCDI-G", "nan", "a loss is NaN"),
    ]
    text = "\n".join(reasons(progress))
    assert "could not be run here" not in text
    assert "2 x NOTEARS: timeout: time limit of 300 s passed" in text
    assert str(results / "logs/fit/observational/d10_s4_seed1/NOTEARS.log") in text
    assert str(broken) in text
    finish(results, "DCDI-G", 10, 1, "unavailable", "killed by SIGKILL, by the system")
    text = "\n".join(reasons(read_progress(results)))
    failed, _, others = text.partition("fits that could not be run here")
    assert "1 x DCDI-G: nan" in failed and "unavailable" not in failed
    assert "\n  1 x DCDI-G: unavailable: killed by SIGKILL, by the system\n" in others
    assert f"{results}: 4 of 12 fits done (3 failed), 1 running, 2 stopped, 5 waiting" in page(
        progress
    )


def test_other_jobs_that_stopped_are_named_and_interrupted_ones_wait(results):
    line = "collect.py: fits/x/own.npz: not a readable .npz file: delete that file"
    folder = results / "logs/collect"
    folder.mkdir(parents=True)
    texts = {
        folder / "observational.log": f"{line}\n",
        folder / "interventional.log": "a warning\n",
        results / "logs/verdicts.log": "verdicts.py: interrupted\n",
    }
    for path, text in texts.items():
        path.write_text(text)
        os.utime(path, times=(time.time() + 1,) * 2)
    log(results, "own", 10, 0, "fit.py: interrupted\n")
    progress = read_progress(results)
    assert progress.stops == {("collect", line): [folder / "observational.log"]}
    assert progress.methods["own"].waiting == 4
    assert f"  1 x collect: {line}" in reasons(progress)


def test_the_command_prints_the_page(results, capsys):
    assert main(["progress", str(results)]) == 0
    assert "0 of 12 fits done" in capsys.readouterr().out
    assert main(["progress", str(results / "elsewhere")]) == 2
    assert "no progress.json there, expected the folder of a scale" in capsys.readouterr().err
    for text in ("[]", '{"started": 1, "fits": [[1]]}', '{"started": 1}'):
        (results / "progress.json").write_text(text)
        assert main(["progress", str(results)]) == 2
        line = f"{results}/progress.json: not a list of fits that a run wrote"
        assert line in capsys.readouterr().err


def test_a_folder_without_a_run_is_said(tmp_path):
    with pytest.raises(InputError, match=r"no progress\.json there"):
        read_progress(tmp_path)
