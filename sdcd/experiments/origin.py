"""Whether Snakemake knows what results were made with, so that it can tell what to make again.

It keeps that in ``.snakemake`` of its working folder, under the path of each file. Of results that
were moved or copied there, and of all results once ``.snakemake`` is deleted, it knows nothing, and
takes every file for up to date. A person is told so, and which fits this version would make
differently.
"""

import base64
from collections import Counter
from pathlib import Path

from sdcd.errors import InputError
from sdcd.experiments.plan import Plan
from sdcd.files import read_json
from sdcd.fits.provenance import difference
from sdcd.methods.registry import methods


def warnings(plan: Plan, results: str, state: str | Path = ".snakemake") -> list[str]:
    """What to tell a person before Snakemake takes these results for up to date.

    Parameters
    ----------
    plan : Plan
        What is run.
    results : str
        The folder of a scale, as the workflow names it.
    state : path
        Snakemake's own folder.

    Returns
    -------
    list of str
        Empty if Snakemake knows what the fits were made with, or there are none.

    Raises
    ------
    InputError
        If the results were taken from an archive of another scale, or with other rows: they would
        be drawn as if they were of this one.
    """
    # Results taken from an archive have no data sets: they are drawn from, as they are.
    if not (Path(results) / "data").exists():
        _require_scale(plan, results, state)
        return []
    fits = {f"{results}/fits/{key.name}/{method}": (key, method) for key, method in plan.fits()}
    fits = {path: fit for path, fit in fits.items() if Path(f"{path}.npz").exists()}
    if not fits or any(_is_known(f"{path}.npz", state) for path in fits):
        return []
    found = [
        f"Warning: {results}: Snakemake does not know what these files were made with (they were "
        "moved or copied here, or .snakemake was deleted) and takes them for up to date; "
        "'snakemake --touch --forceall' with the same options settles that"
    ]
    differ = Counter()
    first = ""
    other_rows = ""
    for path, (key, method) in fits.items():
        why = difference(f"{path}.json", methods()[method], plan.methods[method].settings)
        if why:
            differ[method] += 1
            first = first or f"{path}.json: {why}"
        elif not other_rows:
            rows, expected = read_json(f"{path}.json").get("n_rows"), plan.n_rows(key)
            if rows not in (None, expected):
                other_rows = f"{path}.json: made from {rows:,} rows, expected {expected:,}"
    if other_rows:
        found.append(
            f"Warning: {other_rows}: data of another scale; delete {results}, and all is made again"
        )
    if differ:
        names = ", ".join(f"{name} ({n})" for name, n in differ.items())
        found.append(
            f"Warning: {first}; fits that this version would make differently: {names}; delete "
            "them, and they are made again"
        )
    return found


def _require_scale(plan: Plan, results: str, state: str | Path) -> None:
    path = f"{results}/plan.json"
    if not Path(path).exists() or _is_known(path, state):
        return
    there = read_json(path)
    for key in ("scale", "n_observational", "n_per_intervention"):
        found = there.get(key) if isinstance(there, dict) else None
        expected = getattr(plan, key)
        if found != expected:
            raise InputError(
                f"{path}: found {key} = {found!r}, expected {expected!r}: results from elsewhere, "
                f"of another scale; 'sdcd report {results}' draws them as they are"
            )


def _is_known(path: str, state: str | Path) -> bool:
    """Whether Snakemake has a record of a file: it is named by the file's path in base 64."""
    name = base64.urlsafe_b64encode(path.encode()).decode()
    return (Path(state) / "metadata" / name).exists()
