"""``sdcd progress``: how far a run of the workflow is."""

import argparse

from sdcd.cli._files import Outputs, say


def add(command) -> None:
    """Add the command."""
    add = command(
        "progress",
        _progress,
        "How far a run of the workflow is, what is left, and what failed.",
        """\
        examples:
          sdcd progress results/quick
          watch -n 60 sdcd progress results/paper

        It only reads the folder, so it works during a run and from any machine that can see it.
        """,
    ).add_argument
    add("results", nargs="?", default="results/quick", help="folder of a scale (results/quick)")


def _progress(options: argparse.Namespace, outputs: Outputs) -> int:
    from sdcd.experiments.progress import page, read_progress

    say(page(read_progress(options.results)))
    return 0
