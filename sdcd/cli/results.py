"""``sdcd report``, ``sdcd export``, ``sdcd import``: results of the workflow, without a fit."""

import argparse
from pathlib import Path

from sdcd.cli._files import Outputs, require_suffix, say


def add(command) -> None:
    """Add the commands."""
    add = command(
        "report",
        _report,
        "Redraw figures, tables, verdicts and the report from results alone.",
        """\
        examples:
          sdcd report results/quick
          sdcd report results/quick -o elsewhere/report.html

        Reads runs/, the records in fits/ and plan.json; nothing is fitted. Figures, tables and
        verdicts are written beside the report.
        """,
    ).add_argument
    add("results", metavar="FOLDER", help="such as results/quick")
    add(
        "-o",
        "--out",
        metavar="FILE.html",
        help="the file to write the report to (default FOLDER/report.html)",
    )

    add = command(
        "export",
        _export,
        "Pack results into one archive, from which others can redraw everything.",
        """\
        example:
          sdcd export results/quick -o quick.tar.gz

        The archive holds the tables of runs and the records of the fits. It holds no data sets:
        they can be simulated again from their seeds.
        """,
    ).add_argument
    add("results", metavar="FOLDER", help="such as results/quick")
    add("-o", "--out", required=True, metavar="FILE", help=".zip or .tar.gz")
    add("--graphs", action="store_true", help="include the learned graphs and weights")

    add = command(
        "import",
        _import,
        "Unpack an archive into a new folder of results.",
        """\
        example:
          sdcd import quick.tar.gz -o results/quick
          sdcd report results/quick

        Everything in the archive is checked before the folder is created. If the folder is
        results/{scale} of a clone, snakemake then draws what is missing, without any fit.
        """,
    ).add_argument
    add("archive", metavar="FILE", help="an archive written by 'sdcd export'")
    add(
        "-o",
        "--out",
        required=True,
        metavar="FOLDER",
        help="a folder that does not exist or is empty",
    )


def _report(options: argparse.Namespace, outputs: Outputs) -> int:
    from sdcd.report.redraw import redraw

    out = Path(options.out or Path(options.results) / "report.html")
    require_suffix(out, (".html",))
    outputs.expect([out])
    written = redraw(options.results, out)
    say(str(written[-1]))
    return 0


def _export(options: argparse.Namespace, outputs: Outputs) -> int:
    from sdcd.report.archive import export

    out = Path(options.out)
    require_suffix(out, (".zip", ".tar.gz", ".tgz"))
    outputs.expect([out])
    names = export(options.results, out, graphs=options.graphs)
    say(f"{out}: {len(names):,} files, {out.stat().st_size / 1e6:.1f} MB")
    return 0


def _import(options: argparse.Namespace, outputs: Outputs) -> int:
    from sdcd.report.archive import import_archive

    names = import_archive(options.archive, options.out)
    say(f"{options.out}: {len(names):,} files; redraw with: sdcd report {options.out}")
    return 0
