"""A fit from data to file: one method on one data set, its graph and its record."""

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import psutil

from sdcd.errors import InputError
from sdcd.files import read_json, read_npz, write_json, write_npz
from sdcd.fits.child import machine, versions
from sdcd.fits.process import End, run_child
from sdcd.fits.provenance import code_of, digest
from sdcd.methods.registry import method


def run_fit(
    data_path: str | Path,
    name: str,
    *,
    out: str | Path,
    seed: int = 0,
    settings: Mapping[str, object] | None = None,
    time_limit_s: float | None = None,
    memory_limit_mb: float | None = None,
    threads: int = 1,
    log: str | Path | None = None,
    shown_as: str | Path | None = None,
    checkpoint: str | Path | None = None,
    targets: range | None = None,
    first_stage: Sequence[str | Path] = (),
    progress: bool = False,
    last_attempt: bool = False,
) -> dict[str, object]:
    """Fit one registered method to one data set in a child process and write the result.

    A method with a first stage that can be computed apart (:class:`sdcd.methods.FirstStage`) may be
    fitted by several calls: one for each block of ``targets``, and one that is given all of their
    results as ``first_stage``.

    Parameters
    ----------
    data_path : path
        A data set as :func:`sdcd.data.dataset.write_dataset` writes it.
    name : str
        A registered method; an outside command counts once :mod:`sdcd.methods.outside` has
        registered it.
    out : path
        The fit, ``.npz``; its record goes beside it with the suffix ``.json``. Each is complete or
        absent. On one machine, the bytes of the ``.npz`` depend on data, method, settings and seed
        alone (those of FLOP on chance too), if ``threads`` is 1: of methods whose sums a threaded
        BLAS takes, such as SCORE and CAM, weights can differ in the last bits with more.
    seed : int
        The method's seed.
    settings : mapping, optional
        Parameters of the method that differ from its defaults.
    time_limit_s : float, optional
        Wall-clock seconds from the moment the data are loaded. Past it the process group gets
        SIGTERM, three seconds later SIGKILL, and the fit's status is ``timeout``.
    memory_limit_mb : float, optional
        Memory that the process and all that it started have resident, in units of 10^6 bytes,
        pages that they share counted once; looked at 20 times a second, or less often where
        looking takes long. Above it the process group is killed and the status is ``oom``.
    threads : int
        Threads of SDCD, OpenMP, MKL, OpenBLAS, NumExpr and numba in the process.
    log : path, optional
        Keep what the process printed here.
    shown_as : path, optional
        What messages call the data, where ``data_path`` is a copy.
    checkpoint : path, optional
        Where a method with the parameter ``checkpoint=None`` keeps its progress; others ignore it.
        If the file exists, the fit goes on from it, and the limits count from there.
    targets : range, optional
        Do the first stage for these variables only. ``out`` then holds the part's arrays, and its
        record has ``targets``, the first and the last.
    first_stage : list of path, optional
        What such calls wrote, for all variables. Is one of them a failure, so is this fit.
    progress : bool
        Whether a method that reports how far it is does so on this process's standard error.
    last_attempt : bool
        Whether no one will try again if the system kills the fit with SIGKILL, as it does when its
        memory runs out. Then that is recorded, with the status ``unavailable``: this machine could
        not make the fit, which says nothing about the method.

    Returns
    -------
    dict
        The record, as written: ``method``, ``status``, ``reason``, ``seconds`` (from data loaded to
        graph returned, or to the end of the process), ``processor_seconds`` (of this call's
        process, its imports and reading the data included), ``peak_rss_mb``, ``seed``, ``params``,
        ``data`` {``name``, ``sha256``} of the file, ``code`` {``fingerprint``, ``commit``} (see
        :func:`sdcd.fits.provenance.code_of`), ``finished`` (UTC), ``versions``, ``machine``,
        ``threads``, ``n_rows``, ``n_variables``, ``limits``, ``diagnostics``, for a method with
        stages ``epochs``, and ``traceback`` after an exception.
        ``seconds`` includes what the work in a checkpoint took. With ``first_stage``, ``seconds``
        is the sum over all calls, as if they had run one after the other, ``peak_rss_mb`` the
        largest of them, and the record's own ``first_stage`` has the seconds of each part.

    Raises
    ------
    InputError
        If the method or a setting is unknown, the data are unreadable, the method takes no data
        with interventions and the data have some, or the parts of a first stage are not of this
        fit. Nothing is written then.
    FitKilled
        If the process was killed by a person or by the system, and this was not the last attempt or
        the signal was not SIGKILL. Nothing is written then; what a
        method has saved to ``checkpoint`` stays.
    """
    chosen = method(name)
    params = chosen.parameters(settings or {})
    if targets is not None or first_stage:
        params_of_first = chosen.first_stage.parameters(params) if chosen.first_stage else {}
        if not params_of_first:
            raise InputError(f"method {name} has no first stage to compute apart")
        params = params if targets is None else params_of_first
    out = Path(out)
    if out.suffix != ".npz":
        raise InputError(f"{out}: the name of a fit must end in .npz")
    for what, limit in (("time limit", time_limit_s), ("memory limit", memory_limit_mb)):
        if limit is not None and not limit > 0:
            raise InputError(f"{what} {limit!r}, expected a positive number")
    if type(threads) is not int or threads < 1:
        raise InputError(f"threads {threads!r}, expected a positive integer")
    job = {
        "data": os.path.abspath(data_path),
        "shown_as": str(shown_as or data_path),
        "method": name,
        "modules": chosen.modules,
        "outside": getattr(chosen.fit, "spec", None),
        "params": params,
        "seed": seed,
        "targets": None if targets is None else [targets.start, targets.stop],
        "first_stage": [os.path.abspath(path) for path in first_stage],
        "progress": progress and chosen.reports and targets is None,
    }
    # AVICI has a parameter of this name that is another thing: where its weights are.
    if checkpoint is not None and params.get("checkpoint", "") is None:
        job["params"] = {**params, "checkpoint": os.path.abspath(checkpoint)}
    # Before the fit: files may be edited while it runs.
    source = Path(job["shown_as"])
    data = {"name": source.name, "sha256": digest(source) if source.is_file() else None}
    code = code_of(chosen, settings or {})
    parts = [_part_record(path) for path in first_stage]
    end = _failed_part(job["first_stage"], parts)
    processor = -_processor_seconds()
    if end is None:
        end = run_child(
            job,
            time_limit_s=time_limit_s,
            memory_limit_mb=memory_limit_mb,
            threads=threads,
            log=log,
            last_attempt=last_attempt,
        )
    answer = end.answer
    record = {
        "method": name,
        "status": answer["status"],
        "reason": answer["reason"],
        "seconds": round(answer["seconds"], 4),
        "processor_seconds": round(processor + _processor_seconds(), 2),
        "peak_rss_mb": round(max(end.peak_mb, answer.get("peak_rss_mb", 0.0)), 1),
        "seed": seed,
        "params": params,
        "data": data,
        "code": code,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": answer.get("versions") or versions(),
        "machine": answer.get("machine") or machine(),
        "threads": threads,
        "n_rows": end.started.get("n_rows"),
        "n_variables": end.started.get("n_variables"),
        "limits": {"time_s": time_limit_s, "memory_mb": memory_limit_mb},
        "diagnostics": answer.get("diagnostics", {}),
    }
    if isinstance(record["diagnostics"].get("epochs"), dict):
        record["epochs"] = record["diagnostics"].pop("epochs")
    before = record["diagnostics"].get("resumed_after_s", 0.0)
    record["seconds"] = round(record["seconds"] + before, 4)
    if targets is not None:
        record["targets"] = [targets[0], targets[-1]]
    if parts:
        seconds = [part["seconds"] for part in parts]
        record["first_stage"] = {"parts": len(parts), "seconds": seconds}
        record["seconds"] = round(record["seconds"] + sum(seconds), 4)
        record["peak_rss_mb"] = max(record["peak_rss_mb"], *(p["peak_rss_mb"] for p in parts))
    if "traceback" in answer:
        record["traceback"] = answer["traceback"]
    if record["status"] == "ok":
        arrays = end.arrays
    else:
        arrays = {"names": np.array(end.started.get("names", []), dtype=np.str_)}
    write_npz(out, **arrays)
    write_json(out.with_suffix(".json"), record)
    return record


def _processor_seconds() -> float:
    """Of all processes that this one started and that have ended."""
    used = psutil.Process().cpu_times()
    return used.children_user + used.children_system


def _part_record(path: str | Path) -> dict:
    record = read_json(Path(path).with_suffix(".json"))
    if not isinstance(record, dict) or not {"targets", "status", "seconds"} <= record.keys():
        raise InputError(f"{path}: not a part of a first stage")
    return record


def _failed_part(paths: list[str], parts: list[dict]) -> End | None:
    """The end of a fit whose first stage has failed somewhere, without a child."""
    for path, part in zip(paths, parts, strict=True):
        if part["status"] != "ok":
            end = End()
            first, last = part["targets"]
            reason = f"first stage of targets {first} to {last}: {part['reason']}"
            end.answer = {"status": part["status"], "reason": reason, "seconds": 0.0}
            end.started = {key: part[key] for key in ("n_rows", "n_variables")}
            end.started["names"] = read_npz(path)["names"]
            return end
    return None
