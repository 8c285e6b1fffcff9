"""Make the fits of a scale that the ledger does not have, one after the other.

It can be stopped at any time and goes on where it was: each fit is in the ledger as soon as it is
done. What costs least comes first, and the first data sets of each cell before its others. Several
can run at once, each with methods of its own.
"""

import math
import sys
import tempfile
import time
from pathlib import Path

from sdcd.data.dataset import write_dataset
from sdcd.errors import InputError
from sdcd.experiments.datasets import DatasetKey
from sdcd.experiments.plan import MethodPlan, Plan
from sdcd.files import read_npz
from sdcd.fits.costs import expected_seconds
from sdcd.fits.provenance import fit_fingerprint
from sdcd.fits.record import load_fit
from sdcd.fits.run import run_fit
from sdcd.methods.registry import methods
from sdcd.parameters import closest
from sdcd.reproduction import ledger
from sdcd.runs.collect import run_row
from sdcd.simulation import simulate_family


def missing(
    plan: Plan, folder: str | Path, *, stale: bool = False
) -> list[tuple[float, DatasetKey, str]]:
    """Fits of the plan that the ledger lacks, in the order in which they are made.

    Parameters
    ----------
    plan : Plan
        What is wanted.
    folder : path
        Where the ledger lies.
    stale : bool, default False
        Whether fits by other code than today's count as missing, and those that were impossible
        where they were tried.

    Returns
    -------
    list of (float, DatasetKey, str)
        Expected seconds (infinite where unknown), data set, method.
    """
    table = ledger.planned(plan, ledger.read(folder))
    have = {
        (row.dataset, row.method, row.settings): (row.fingerprint, row.status)
        for row in table[[*ledger.KEY, "fingerprint", "status"]].itertuples()
    }
    now = {
        name: fit_fingerprint(methods()[name], planned.settings)
        for name, planned in plan.methods.items()
    }
    found = []
    for key, name in plan.fits():
        method = plan.methods[name]
        made_by, status = have.get(
            (key.name, name, ledger.settings_text(method.settings)), (None, None)
        )
        again = stale and (made_by != now[name] or status == "unavailable")
        if made_by is None or again:
            cost = expected_seconds(name, key.d, plan.n_rows(key), method.time_limit_s)
            found.append((math.inf if cost is None else cost, key, name))
    # A cell's second data set is worth half of its first, the third a third of it.
    return sorted(found, key=lambda item: (item[0] * (1 + item[1].seed), item[1], item[2]))


def run(
    plan: Plan,
    folder: str | Path,
    *,
    hours: float = math.inf,
    only: tuple[str, ...] = (),
    stale: bool = False,
) -> int:
    """Make missing fits until none is left or the time is over; the number made.

    ``only`` names the methods to run; all by default. A fit that would end after ``hours`` is still
    finished: nothing is decided by the clock.

    Raises
    ------
    InputError
        If the plan has no method of a name in ``only``, or ``hours`` is not from 0 on.
    """
    if not hours >= 0:
        raise InputError(f"hours: found {hours}, expected a number from 0 on")
    for name in only:
        if name not in plan.methods:
            hint = closest(name, plan.methods) or f" (those: {', '.join(plan.methods)})"
            raise InputError(
                f"method {name!r}: not at scale {plan.scale!r}, expected one that is{hint}"
            )
    end = time.monotonic() + 3600 * hours
    shortened = plan.fits()
    made = 0
    for cost, key, name in missing(plan, folder, stale=stale):
        if only and name not in only:
            continue
        if time.monotonic() > end:
            break
        print(f"{key.name} {name} (about {cost:.0f} s)", file=sys.stderr, flush=True)
        _fit(plan, plan.methods[name], key, shortened[key, name], folder)
        made += 1
    return made


def adopt(plan: Plan, folder: str | Path, results: str | Path) -> int:
    """Add the fits of a folder of results, made by the workflow at this plan's scale; their number.

    Fits that are not there are passed over.

    Raises
    ------
    InputError
        If one was made with other settings or from other rows than the plan has, or passed a lower
        limit, as at another scale, or the folder has no fits. Nothing is added then.
    """
    ledger.planned(plan, ledger.read(folder))
    if not (Path(results) / "fits").is_dir():
        raise InputError(f"{results}: no folder 'fits' in it, expected the results of a scale")
    rows = []
    for (key, name), shortened in plan.fits().items():
        path = Path(results) / f"fits/{key.name}/{name}.npz"
        if not path.exists():
            continue
        graph, record = load_fit(path)
        _require_as_planned(path, record, plan, key, plan.methods[name])
        truth = read_npz(Path(results) / f"data/{key.name}.npz")["adjacency"]
        row = run_row("", key, record, graph, truth, shortened)
        rows.append(ledger.row_of(key.name, plan.methods[name].settings, row, record))
    ledger.add(folder, rows)
    return len(rows)


def _require_as_planned(
    path: Path, record: dict, plan: Plan, key: DatasetKey, method: MethodPlan
) -> None:
    wanted = methods()[method.name].parameters(method.settings) | {"n_rows": plan.n_rows(key)}
    found = record["params"] | {"n_rows": record["n_rows"]}
    if found["n_rows"] is None:
        # It failed before it had read its data.
        del wanted["n_rows"]
    limits = {
        "timeout": ("time_s", method.time_limit_s),
        "oom": ("memory_mb", method.memory_limit_mb),
    }
    if record["status"] in limits:
        name, limit = limits[record["status"]]
        passed = record["limits"][name]
        if passed is not None and passed < limit:
            found[name], wanted[name] = passed, limit
    for name, value in wanted.items():
        if found.get(name) != value:
            raise InputError(
                f"{path.with_suffix('.json')}: found {name} = {found.get(name)}, expected {value} "
                f"as at scale {plan.scale!r}; --scale chooses another"
            )


def _fit(
    plan: Plan, method: MethodPlan, key: DatasetKey, shortened: str, folder: str | Path
) -> None:
    with tempfile.TemporaryDirectory(prefix="sdcd-") as work:
        data, out = Path(work) / "data.npz", Path(work) / "fit.npz"
        dataset = simulate_family(
            key.family,
            key.d,
            key.s,
            key.seed,
            fraction=key.fraction,
            mechanism=key.mechanism,
            n_observational=plan.n_observational,
            n_per_intervention=plan.n_per_intervention,
        )
        write_dataset(data, dataset)
        record = run_fit(
            data,
            method.name,
            out=out,
            settings=method.settings,
            time_limit_s=method.time_limit_s,
            memory_limit_mb=method.memory_limit_mb,
            threads=method.threads,
        )
        graph, _ = load_fit(out)
    row = run_row("", key, record, graph, dataset.adjacency, shortened)
    ledger.add(folder, [ledger.row_of(key.name, method.settings, row, record)])
