"""How far a run of the workflow is: what is done, running, failed, and what remains.

When the workflow starts, it writes the fits that it wants to ``progress.json`` in the folder of
results; everything else is read from the fits' records and logs as they appear. So progress can be
looked at from anywhere that sees the folder, as often as one likes, without disturbing the run.
"""

import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sdcd.data.look import Look
from sdcd.errors import InputError
from sdcd.experiments.own_data import OwnStudy
from sdcd.experiments.plan import MethodPlan, Plan
from sdcd.files import read_json, write_json
from sdcd.fits.costs import expected_seconds

PLAN_FILE = "progress.json"


@dataclass(frozen=True)
class MethodProgress:
    """Counts of one method's fits, and core-hours that those not done are expected to take.

    Attributes
    ----------
    done : int
        Fits with a record, failed ones included.
    failed : int
        Those of them without a graph.
    running : int
        Fits whose log has begun since the run started, and has not ended with an error.
    stopped : int
        Fits whose job ended with an error; the workflow tries some of them again.
    waiting : int
        The rest.
    hours_left : float
        Core-hours, by ``sdcd/fits/costs.csv``, of all that are not done; a running fit counts in
        full.
    unknown : int
        Those of them whose cost is not known.
    """

    done: int = 0
    failed: int = 0
    running: int = 0
    stopped: int = 0
    waiting: int = 0
    hours_left: float = 0.0
    unknown: int = 0


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Attributes
    ----------
    results : path
        The folder.
    methods : dict of str to MethodProgress
        In the order of the plan.
    failures : dict of (method, status, reason) to list of path
        Fits that failed, as logs, the most frequent reason first.
    stops : dict of (method, last line) to list of path
        Jobs that ended with an error, as logs; of one that is no fit, by its rule.
    """

    results: Path
    methods: dict[str, MethodProgress]
    failures: dict[tuple[str, str, str], list[Path]] = field(default_factory=dict)
    stops: dict[tuple[str, str], list[Path]] = field(default_factory=dict)

    def total(self, what: str):
        """Sum of one of the counts over methods."""
        return sum(getattr(counts, what) for counts in self.methods.values())


def write_plan(plan: Plan, results: str | Path) -> None:
    """Write ``progress.json``: every fit once, with the seconds it is expected to take."""
    fits = [
        _fit(key.name, plan.methods[name], key.d, plan.n_rows(key)) for key, name in plan.fits()
    ]
    _write(results, plan.scale, fits)


def write_own_plan(studies: Mapping[str, OwnStudy], looks: Mapping[str, Look], results) -> None:
    """The same for tables of a person's own, by the sizes that a look at them found."""
    fits = [
        _fit(f"{name}/{run}", study.methods[method], looks[name].d, looks[name].n)
        for name, study in studies.items()
        for run, method in study.fits()
    ]
    _write(results, "own", fits)


def _fit(dataset: str, method: MethodPlan, d: int, n: int) -> list:
    seconds = expected_seconds(method.name, d, n, method.time_limit_s)
    return [dataset, method.name, None if seconds is None else round(seconds, 1), method.threads]


def _write(results: str | Path, scale: str, fits: list) -> None:
    content = {"scale": scale, "started": round(time.time(), 1), "fits": fits}
    write_json(Path(results) / PLAN_FILE, content)


def read_progress(results: str | Path) -> Progress:
    """How far the run is whose results go to this folder.

    Raises
    ------
    InputError
        If no run has started there, or the file is none of a run.
    """
    results = Path(results)
    if not (results / PLAN_FILE).exists():
        raise InputError(
            f"{results}: no {PLAN_FILE} there, expected the folder of a scale that snakemake has "
            "started, such as results/quick"
        )
    plan = read_json(results / PLAN_FILE)
    try:
        started = float(plan["started"])
        fits = [
            (dataset, method, seconds, threads)
            for dataset, method, seconds, threads in plan["fits"]
        ]
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{results / PLAN_FILE}: not a list of fits that a run wrote") from None
    counts: dict[str, Counter] = {}
    failures: dict[tuple[str, str, str], list[Path]] = {}
    stops: dict[tuple[str, str], list[Path]] = {}
    for dataset, method, seconds, threads in fits:
        count = counts.setdefault(method, Counter())
        log = results / f"logs/fit/{dataset}/{method}.log"
        record = _record(results / f"fits/{dataset}/{method}.json")
        if record is not None:
            count["done"] += 1
            if record.get("status") != "ok":
                count["failed"] += 1
                reason = method, str(record.get("status")), str(record.get("reason"))
                failures.setdefault(reason, []).append(log)
            continue
        if seconds is None:
            count["unknown"] += 1
        else:
            count["hours_left"] += seconds * threads / 3600
        error = _error(log, started)
        if error is None:
            count["waiting"] += 1
        elif error == "":
            count["running"] += 1
        else:
            count["stopped"] += 1
            stops.setdefault((method, error), []).append(log)
    logs = results / "logs"
    for entry in sorted(logs.glob("*")):
        # Logs of fits are read above; there can be thousands.
        if entry.name in ("fit", "stage_1"):
            continue
        for log in sorted(entry.rglob("*.log")) if entry.is_dir() else [entry]:
            if error := _error(log, started):
                stops.setdefault((entry.stem, error), []).append(log)
    return Progress(
        results,
        {method: MethodProgress(**count) for method, count in counts.items()},
        _by_frequency(failures),
        _by_frequency(stops),
    )


def page(progress: Progress) -> str:
    """What a person reads: a line in all, a line for each method, and what failed, by reason."""
    n = sum(map(progress.total, ("done", "running", "stopped", "waiting")))
    lines = [
        f"{progress.results}: {progress.total('done'):,} of {n:,} fits done "
        f"({progress.total('failed'):,} failed), {progress.total('running'):,} running, "
        f"{progress.total('stopped'):,} stopped, {progress.total('waiting'):,} waiting",
        f"left: about {progress.total('hours_left'):.2f} core-hours by sdcd/fits/costs.csv",
    ]
    if progress.total("unknown"):
        lines[-1] += f", and {progress.total('unknown'):,} fits of unknown cost"
    columns = ("done", "failed", "running", "stopped", "waiting", "hours_left")
    width = max(len(name) for name in ("method", *progress.methods))
    header = "".join(f"{column.replace('_', ' '):>11}" for column in columns)
    lines += ["", f"{'method':<{width}}{header}"]
    for name, counts in progress.methods.items():
        values = [getattr(counts, column) for column in columns]
        cells = "".join(f"{value:>11,}" for value in values[:-1])
        lines.append(f"{name:<{width}}{cells}{values[-1]:>11.2f}")
    return "\n".join([*lines, *reasons(progress)])


def reasons(progress: Progress) -> list[str]:
    """Lines about fits that failed and jobs that stopped, grouped by reason, each with a log."""
    lines = []
    for title, impossible in (
        ("failed fits (these are results: they are shown with their reason)", False),
        ("fits that could not be run here (docs/workflow.md says how to try them again)", True),
    ):
        listed = []
        for (method, status, reason), logs in progress.failures.items():
            if (status == "unavailable") == impossible:
                listed.append(f"  {len(logs):,} x {method}: {status}: {_short(reason)}")
                listed.append(f"      {logs[0]}")
        lines += ["", title, *listed] if listed else []
    if progress.stops:
        lines += ["", "jobs that stopped (mend the cause, then run snakemake again)"]
        for (method, error), logs in progress.stops.items():
            lines += [f"  {len(logs):,} x {method}: {_short(error)}", f"      {logs[0]}"]
    return lines


def without_room(results: str | Path) -> str:
    """A line if nothing more can be written there, as when a disk or a quota is full; else empty.

    The logs of jobs that failed for it could not say so.
    """
    try:
        with tempfile.TemporaryFile(dir=results) as stream:
            stream.write(bytes(2**16))
    except OSError as error:
        return f"Error: {results}: {error.strerror}: make room and run snakemake again"
    return ""


def _by_frequency(groups: dict) -> dict:
    return dict(sorted(groups.items(), key=lambda item: -len(item[1])))


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 160 else f"{text[:157]}..."


def _record(path: Path) -> dict | None:
    """The fit's record; ``None`` while there is none that can be read."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def _error(log: Path, started: float) -> str | None:
    """The line with which a job's script ended; empty if it has not; ``None`` without a job."""
    try:
        if log.stat().st_mtime < started:
            return None
        with open(log, "rb") as stream:
            stream.seek(max(0, log.stat().st_size - 4096))
            lines = stream.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return None
    last = lines[-1] if lines else ""
    if last.endswith(".py: interrupted"):
        return None
    from_script = re.match(r"\w+\.py: ", last) or last.endswith("needs more in the next attempt")
    traceback = any(line.startswith("Traceback (most recent") for line in lines)
    return last if from_script or traceback else ""
