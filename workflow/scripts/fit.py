"""Fit one method to one data set, under limits, and write the graph and the record of the fit.

A method's failure is a result and ends well. If a fit passes a limit of this attempt that is lower
than its full limit, or is killed, nothing is written and the exit code is 75: try again, with more.
If the system kills it in the last attempt too, that is written down. A method that
can keep its progress does so beside the graph, so that this script, killed and started again with
the same arguments, goes on from there.

Snakemake, killed, does not know what its jobs have finished since, deletes that, and starts them
again. With --keep-in a finished fit is kept in another folder too, of which Snakemake does not know
and which the workflow removes at its end; a fit that is found there is not made again.
"""

import argparse
import contextlib
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import _script

from sdcd.errors import InputError
from sdcd.files import atomic_path, read_json, read_npz
from sdcd.fits.costs import FULL_ATTEMPT
from sdcd.fits.fingerprint import fingerprint
from sdcd.fits.provenance import digest, fit_fingerprint
from sdcd.fits.run import run_fit
from sdcd.methods.registry import method


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="data set, .npz")
    parser.add_argument("--method", required=True, help="as 'sdcd methods' lists it")
    parser.add_argument("--settings", type=json.loads, default={}, help="parameters, as JSON")
    parser.add_argument("--knowledge", help="what is known about edges, .json")
    parser.add_argument("--outside", type=json.loads, help="the outside command, as JSON")
    parser.add_argument("--seed", type=int, default=0, help="of the method")
    parser.add_argument(
        "--resample", type=int, help="fit to this draw of the rows, with a seed of its own"
    )
    parser.add_argument(
        "--targets",
        type=_targets,
        help="first and last variable, as in 0-249: only the first stage",
    )
    parser.add_argument(
        "--first-stage", nargs="*", default=[], help="what such calls wrote, for all variables"
    )
    parser.add_argument(
        "--code", help="fingerprint of the fit's code: progress under another is not used"
    )
    parser.add_argument("--time-limit-s", type=float, help="full limit of the fit")
    parser.add_argument("--memory-limit-mb", type=float, help="full limit of the fit")
    parser.add_argument("--attempt", type=int, default=1, help="number of this attempt, from 1")
    parser.add_argument("--attempt-s", type=float, help="limit of this attempt")
    parser.add_argument("--attempt-mb", type=float, help="limit of this attempt")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--keep-in", type=Path, help="folder that gets the finished fit too")
    parser.add_argument("--log", help="where what the method prints goes")
    parser.add_argument("--out", required=True, help="where the fit goes, .npz; .json beside it")
    a = parser.parse_args()

    if a.outside is not None:
        from sdcd.methods.outside import register_outside

        register_outside(a.outside)
    if a.knowledge is not None:
        a.settings["knowledge"] = read_json(a.knowledge)
    a.code = a.code or fit_fingerprint(method(a.method), a.settings)
    if a.resample is not None:
        a.code += fingerprint("sdcd.fits.draws")
    attempt_s = _smaller(a.attempt_s, a.time_limit_s)
    attempt_mb = _smaller(a.attempt_mb, a.memory_limit_mb)
    checkpoint = _checkpoint(a)
    # A failure depends on the limits, so they count here.
    identity = _identity(a, a.out, a.outside, a.time_limit_s, a.memory_limit_mb)
    finished = a.keep_in and a.keep_in / f"{identity}.npz"
    if finished and _take_over(finished, Path(a.out)):
        print(f"{a.out}: was finished before the workflow was killed, and is kept", file=sys.stderr)
        return
    with _rows(a) as (data, seed):
        record = run_fit(
            data,
            a.method,
            shown_as=a.data,
            seed=seed,
            settings=a.settings,
            out=a.out,
            time_limit_s=attempt_s,
            memory_limit_mb=attempt_mb,
            threads=a.threads,
            log=a.log,
            checkpoint=checkpoint,
            targets=a.targets,
            first_stage=a.first_stage,
            last_attempt=a.attempt >= FULL_ATTEMPT,
        )
    more_time = record["status"] == "timeout" and attempt_s != a.time_limit_s
    more_memory = record["status"] == "oom" and attempt_mb != a.memory_limit_mb
    if more_time or more_memory:
        for path in (Path(a.out), Path(a.out).with_suffix(".json")):
            path.unlink()
        print(
            f"{a.method} on {a.data}: {record['reason']}; needs more in the next attempt",
            file=sys.stderr,
        )
        sys.exit(_script.TRY_AGAIN)
    if record["status"] == "unavailable":
        # Where more is to be had, it goes on from its progress.
        return
    if finished:
        a.keep_in.mkdir(parents=True, exist_ok=True)
        for suffix in (".npz", ".json"):
            _link(Path(a.out).with_suffix(suffix), finished.with_suffix(suffix))
    # Not before: whoever is killed here goes on from it.
    checkpoint.unlink(missing_ok=True)


@contextlib.contextmanager
def _rows(a: argparse.Namespace):
    """The data set to fit to, and the seed of the method."""
    if a.resample is None:
        yield a.data, a.seed
        return
    from sdcd.data.dataset import read_dataset, write_dataset
    from sdcd.fits.draws import draw_fittable

    whole = read_dataset(a.data)
    drawn = draw_fittable(whole, a.seed, a.resample, shown_as=a.data)
    part = replace(whole, X=whole.X[drawn.rows], intervened=whole.intervened[drawn.rows])
    with tempfile.TemporaryDirectory(prefix="sdcd-") as folder:
        path = Path(folder) / "data.npz"
        write_dataset(path, part)
        yield path, drawn.seed


def _identity(a: argparse.Namespace, *more: object) -> str:
    """A hash of all that the fit depends on."""
    total = hashlib.blake2b(digest_size=8)
    total.update(
        repr((a.method, a.settings, a.seed, a.resample, a.targets, a.code, *more)).encode()
    )
    for path in (a.data, *a.first_stage):
        if Path(path).exists():
            total.update(digest(path).encode())
    return total.hexdigest()


def _checkpoint(a: argparse.Namespace) -> Path:
    """Where this very fit keeps its progress; what another one left is deleted."""
    out = Path(a.out)
    own = out.with_name(f"{out.stem}.{_identity(a)}.checkpoint.npz")
    pattern = re.escape(out.stem) + r"\.[0-9a-f]{16}\.checkpoint\.npz"
    for other in out.parent.glob("*.checkpoint.npz"):
        if re.fullmatch(pattern, other.name) and other != own:
            other.unlink()
    return own


def _take_over(finished: Path, out: Path) -> bool:
    """Whether this fit was finished before; then it is put where it belongs."""
    try:
        read_npz(finished)
        read_json(finished.with_suffix(".json"))
    except InputError:
        return False
    for suffix in (".npz", ".json"):
        _link(finished.with_suffix(suffix), out.with_suffix(suffix))
        # Later than its input, as if it had been made now.
        out.with_suffix(suffix).touch()
    return True


def _link(source: Path, target: Path) -> None:
    """Make ``target`` the same file as ``source``, or a copy where the file system has no links."""
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        with atomic_path(target) as temporary:
            shutil.copyfile(source, temporary)


def _targets(text: str) -> range:
    first, last = map(int, text.split("-"))
    return range(first, last + 1)


def _smaller(own: float | None, limit: float | None) -> float | None:
    return min((value for value in (own, limit) if value is not None), default=None)


if __name__ == "__main__":
    # The workflow has made its data itself.
    _script.run(main, advice=_script.DELETE_IT if "--keep-in" in sys.argv else "")
