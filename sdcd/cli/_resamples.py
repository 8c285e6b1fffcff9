"""``sdcd fit --resamples``: its options, its files, and what it says."""

import argparse
import sys
from pathlib import Path

from sdcd.cli._files import note
from sdcd.cli._types import count
from sdcd.errors import InputError

MOST = 10_000
"""Resamples; ``own_data`` of the workflow's configuration has the same bound."""


def add_resample_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how often, and how, the rows are drawn again."""
    add = parser.add_argument_group("how sure is an edge").add_argument
    add("--resamples", type=count, metavar="N", help="fit N resamples too, and count edges")
    add(
        "--resampling",
        choices=("half", "bootstrap"),
        help="a resample is half of each perturbation's rows (default), or as many as it has, "
        "drawn with replacement",
    )
    add("--cores", type=count, metavar="N", help="resamples at a time (default 1)")


def refuse_without_resamples(options: argparse.Namespace) -> None:
    """Refuse the options about resamples where there are none; else fill in their defaults."""
    from sdcd.fits.draws import HOW

    for name in ("resampling", "cores"):
        if options.resamples is None and getattr(options, name) is not None:
            raise InputError(f"--{name}: says how resamples are fitted, expected --resamples N too")
    if options.resamples is not None and options.resamples > MOST:
        raise InputError(f"--resamples: found {options.resamples}, expected at most {MOST:,}")
    options.resampling = options.resampling or HOW[0]
    options.cores = options.cores or 1


def resample_outputs(out: Path) -> list[Path]:
    """What is written beside ``fit.npz``; of the folder, the first file."""
    return [
        out.with_suffix(".consensus.npz"),
        out.with_suffix(".consensus.json"),
        out.with_suffix(".frequencies.csv"),
        out.with_suffix(".resamples") / "0001.npz",
    ]


def require_resamples(options: argparse.Namespace, dataset) -> None:
    """Refuse data of which a part could not be fitted, before the fit of all rows."""
    from sdcd.fits.draws import draw_all

    if options.resamples is not None:
        how = {"seed": options.seed, "how": options.resampling, "shown_as": options.file}
        draw_all(dataset, options.resamples, **how)


def resample_and_tell(
    options: argparse.Namespace, record: dict, out: Path, data: Path, settings: dict
):
    """Fit the resamples, if they are asked for and the fit of all rows is there.

    Those that an earlier fit of this name had in common go away.

    Returns
    -------
    sdcd.fits.resamples.Agreement
    """
    from sdcd.fits.resamples import Agreement, resample

    for path in resample_outputs(out)[:-1]:
        path.unlink(missing_ok=True)
    if options.resamples is None or record["status"] != "ok":
        return Agreement(record, None, [])
    progress = _Progress(sys.stderr.isatty() if options.progress is None else options.progress)
    try:
        agreed = resample(
            out,
            data,
            options.method,
            count=options.resamples,
            how=options.resampling,
            seed=options.seed,
            settings=settings,
            cores=options.cores,
            shown_as=Path(options.file),
            time_limit_s=options.time_limit,
            memory_limit_mb=options.memory_limit,
            threads=options.threads,
            report=progress,
        )
    finally:
        progress.end()
    _tell(agreed)
    return agreed


def _tell(agreed) -> None:
    found = agreed.record["resamples"]
    if found["failed"]:
        why = ", ".join(f"{status} {times}" for status, times in found["failed"].items())
        note(f"resamples that failed and do not count: {why}; their records are beside them")
    if agreed.frequencies is not None:
        note(
            f"resamples: {found['ok']} of {found['count']} fitted; {found['edges']} edges are in "
            f"more than half of them ({found['edges_in_fit']} of these in the fit of all rows)"
        )


class _Progress:
    """Says how many resamples there are: on a terminal always on the same line."""

    def __init__(self, wanted: bool):
        self.wanted, self.open = wanted, False

    def __call__(self, done: int, count: int, new: int) -> None:
        if not self.wanted:
            if done and not new:
                note(f"resamples: {done} of {count} are there already")
            return
        self.open = sys.stderr.isatty()
        text = f"resamples: {done}/{count}"
        if self.open:
            note(f"\r{text}", end="")
        else:
            note(text)

    def end(self) -> None:
        """The line is done."""
        if self.open:
            note("")
