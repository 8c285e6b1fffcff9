"""Everything that is made from runs, made again from a folder of results alone."""

from pathlib import Path

from sdcd import verdicts
from sdcd.errors import InputError
from sdcd.exhibits import FIGURES, TABLES, available, file_stem
from sdcd.files import atomic_path
from sdcd.report import overview, page
from sdcd.report.inputs import compared_runs, read_plan, read_tables
from sdcd.runs.table import write_csv
from sdcd.tables import layout


def redraw(results: str | Path, out: str | Path, *, partial: bool = False) -> list[Path]:
    """Draw the figures, build the tables, judge, and write the report.

    Parameters
    ----------
    results : path
        A folder with ``runs/``, and for what the report says of the fits ``fits/`` and
        ``plan.json``: see :func:`sdcd.report.page`. Only these are read.
    out : path
        The report, ``.html``. ``figures/``, ``tables/``, ``verdicts.csv`` and ``failures.csv`` go
        beside it.
    partial : bool, default False
        Whether a figure that these runs have nothing for is left out instead of an error.

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
    tables = read_tables(results, read_plan(results))
    folder, written = out.parent, []
    for rule, exhibit in available(FIGURES, tables).items():
        from sdcd.figures import style

        try:
            figure = exhibit.make(tables)
        except InputError:
            if not partial:
                raise
            continue
        written += style.save(figure, folder / "figures" / file_stem(rule))
    for rule, exhibit in available(TABLES, tables).items():
        written += layout.write(*exhibit.make(tables), folder / "tables" / file_stem(rule))
    written.append(folder / "verdicts.csv")
    verdicts.write(verdicts.judge(tables), written[-1])
    written.append(folder / "failures.csv")
    write_csv(written[-1], overview.failures(compared_runs(tables)))
    text = page.page(results, drawn=folder)
    with atomic_path(out) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return [*written, out]
