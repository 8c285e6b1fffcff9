"""Everything that is made from runs, made again from a folder of results alone."""

import importlib
from pathlib import Path

import pandas as pd

from sdcd import verdicts
from sdcd.experiments.plan import FAMILIES, exhibits
from sdcd.files import atomic_path
from sdcd.report import overview
from sdcd.report import page as report


def redraw(results: str | Path, out: str | Path) -> list[Path]:
    """Draw the figures, build the tables, judge, and write the report.

    Parameters
    ----------
    results : path
        A folder with ``runs/``, and for what the report says of the fits ``fits/`` and
        ``plan.json``: see :func:`sdcd.report.page`. Only these are read.
    out : path
        The report, ``.html``. ``figures/``, ``tables/``, ``verdicts.csv``, ``verdicts.html`` and
        ``failures.csv`` go beside it.

    Returns
    -------
    list of Path
        What was written, the report last.

    Raises
    ------
    InputError
        If there are no runs, or they are not what they should be.
    """
    results, out = Path(results), Path(out)
    tables = report.read_tables(results, report.read_plan(results))
    folder, written = out.parent, []
    for name, experiments in exhibits("figures").items():
        if set(experiments) <= set(tables):
            from sdcd.figures import style

            module = importlib.import_module(f"sdcd.figures.{name}")
            figure = module.draw(*(tables[of].copy() for of in experiments))
            written += style.save(figure, folder / "figures" / name)
    for name, experiments in exhibits("tables").items():
        if set(experiments) <= set(tables):
            module = importlib.import_module(f"sdcd.tables.{name}")
            table = module.build(*(tables[of].copy() for of in experiments))
            written += module.write(table, folder / "tables" / name)
    written += verdicts.write(verdicts.judge(tables), folder / "verdicts")
    compared = [table for name, table in tables.items() if name in FAMILIES]
    if compared:
        written.append(folder / "failures.csv")
        with atomic_path(written[-1]) as temporary:
            failed = overview.failures(pd.concat(compared, ignore_index=True))
            failed.to_csv(temporary, index=False, lineterminator="\n")
    text = report.page(results, drawn=folder)
    with atomic_path(out) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return [*written, out]
