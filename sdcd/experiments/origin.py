"""Whether a folder of results was made from here, so that what must be made again is known.

Snakemake keeps what each file was made with in ``.snakemake``, under the file's path. Of a folder
that was moved, copied from elsewhere, or made by another version it knows nothing, and would take
every file in it for up to date. So each folder of results holds a token of the working folder that
makes it, and a run ends before it begins where the tokens differ.
"""

import secrets
from collections import Counter
from pathlib import Path
from urllib.parse import quote

from sdcd.errors import InputError
from sdcd.experiments.plan import Plan
from sdcd.files import atomic_path, read_json
from sdcd.fits.provenance import code_of
from sdcd.methods.registry import methods

TOKEN = ".made_by"


def check(plan: Plan, results: str | Path, state: str | Path, *, adopting: bool = False) -> None:
    """See that results, if there are any, were made from this working folder.

    Parameters
    ----------
    plan : Plan
        What is run.
    results : path
        The folder of a scale.
    state : path
        Snakemake's own folder, ``.snakemake``.
    adopting : bool
        Whether the run marks all that is there as up to date (``snakemake --touch``): then results
        from elsewhere pass if their records say that this version would make the same.

    Raises
    ------
    InputError
        With what to do.
    """
    results = Path(results)
    # Results taken in from an archive have no data sets: they are drawn from, as they are.
    if not (results / "data").exists() or signed(results, state):
        return
    if not adopting:
        raise InputError(
            f"{results}: not made from this folder, or moved: to keep what this version made, run "
            "'snakemake --touch --forceall' with the same options; else delete it, or choose "
            "another with --config results=NAME"
        )
    differ = Counter()
    first = ""
    for experiment in plan.experiments.values():
        for key, method in experiment.fits():
            path = results / f"fits/{key.name}/{method}.json"
            why = _difference(plan, method, path) if path.exists() else ""
            if why:
                differ[method] += 1
                first = first or f"{path}: {why}"
    if differ:
        names = ", ".join(f"{name} ({n})" for name, n in differ.items())
        raise InputError(
            f"{first}: delete the fits that this version would make differently, of {names}, "
            "or the whole folder, and try again"
        )


def sign(results: str | Path, state: str | Path) -> None:
    """Note that results are made from this working folder from now on."""
    results = Path(results)
    token = secrets.token_hex(16)
    for path in (_mine(results, state), results / TOKEN):
        with atomic_path(path) as temporary:
            temporary.write_text(f"{token}\n", encoding="utf-8")


def signed(results: str | Path, state: str | Path) -> bool:
    """Whether :func:`sign` was called for these results in this working folder."""
    token = _token(Path(results) / TOKEN)
    return bool(token) and token == _token(_mine(results, state))


def _mine(results: str | Path, state: str | Path) -> Path:
    return Path(state) / "sdcd" / quote(str(results), safe="")


def _token(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _difference(plan: Plan, name: str, path: Path) -> str:
    """Why this version would not make the fit with this record; empty if it would."""
    try:
        record = read_json(path)
    except InputError:
        return "not a readable record"
    planned, registered = plan.methods[name], methods()[name]
    if not isinstance(record, dict) or record.get("method") != name:
        return f"not a record of {name}"
    code = record.get("code")
    found = code.get("fingerprint") if isinstance(code, dict) else None
    if planned.outside is None and found != code_of(*registered.modules)["fingerprint"]:
        return f"made by other code ({found})"
    if record.get("params") != registered.parameters(planned.settings):
        return "made with other settings"
    return ""
