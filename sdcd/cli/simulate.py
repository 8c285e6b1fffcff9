"""``sdcd simulate``: the paper's data sets."""

import argparse

from sdcd.cli._files import Outputs, require_suffix
from sdcd.cli._types import count, natural
from sdcd.errors import InputError


def add(command) -> None:
    """Add the command."""
    add = command(
        "simulate",
        _simulate,
        "Draw one of the paper's data sets.",
        """\
        examples:
          sdcd simulate --d 20 --s 4 --seed 3 -o data.npz
          sdcd simulate --d 20 --s 2 --seed 0 --fraction 0.5 -o data.npz

        The same d, s and seed give the data set of the published run, value for value.
        """,
    ).add_argument
    add("--d", type=int, required=True, metavar="D", help="number of variables")
    add("--s", type=int, required=True, metavar="S", help="edges per variable")
    add(
        "--seed",
        type=natural,
        default=0,
        help="seed of graph, mechanisms and interventions (default 0)",
    )
    add(
        "--fraction",
        type=float,
        metavar="F",
        help="intervene on this fraction of the variables, 0 to 1 (default: observational data)",
    )
    add("--raw", action="store_true", help="do not standardise")
    add(
        "--n-observational",
        type=natural,
        default=10_000,
        metavar="N",
        help="rows without interventions (default 10000)",
    )
    add(
        "--n-per-intervention",
        type=count,
        default=500,
        metavar="N",
        help="rows for each variable intervened on (default 500)",
    )
    add("-o", "--out", required=True, metavar="FILE.npz", help="the file to write the data set to")


def _simulate(options: argparse.Namespace, outputs: Outputs) -> int:
    from sdcd.data.dataset import write_dataset
    from sdcd.simulation import simulate

    require_suffix(options.out, (".npz",))
    outputs.expect([options.out])
    _require_memory(options)
    dataset = simulate(
        options.d,
        options.s,
        options.seed,
        fraction=options.fraction,
        n_observational=options.n_observational,
        n_per_intervention=options.n_per_intervention,
        standardise=not options.raw,
    )
    write_dataset(options.out, dataset)
    return 0


def _require_memory(options: argparse.Namespace) -> None:
    """Refuse what this machine's memory cannot hold, before the system ends whoever tries."""
    import psutil

    d, n = max(options.d, 0), options.n_observational
    if options.fraction is not None:
        # Whatever the fraction, every variable's are drawn.
        n += d * options.n_per_intervention
    # Values as they are drawn and as they are kept, what is intervened on, and the graph.
    needed, there = (4 + 4 + 1) * n * d + d * d, psutil.virtual_memory().total
    if needed > there:
        raise InputError(
            f"--d {d}: {n:,} rows of {d:,} variables take {needed / 1e9:,.1f} GB, expected at most "
            f"the {there / 1e9:,.1f} GB of this machine's memory"
        )
