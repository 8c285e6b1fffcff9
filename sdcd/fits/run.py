"""One fit in a process of its own, under limits that are enforced from outside it.

Whatever becomes of a fit, the caller gets a record: a graph, a failure the method foresaw, an
exception, a limit that was passed, or a process that was killed. What a method does to the state of
its process (default types, threads, logging) ends with that process.

The fit's process is started by :func:`run_fit` with a description of the fit on its standard input
and answers on a pipe: one line when the data are loaded and the clock starts, one line with the
record and the arrays when the fit has ended. Its standard input stays open as long as the caller
lives; when it closes, the process and all that it started kill themselves.
"""

import contextlib
import errno
import importlib
import importlib.metadata
import io
import json
import math
import os
import platform
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import zipfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

import sdcd
from sdcd.data.dataset import Dataset, read_dataset, zeros_and_ones
from sdcd.errors import DataError, InputError, MethodFailure
from sdcd.files import read_json, read_npz, write_json, write_npz
from sdcd.fits.provenance import code_of, digest
from sdcd.methods import Graph, Method
from sdcd.methods.registry import method

STARTUP_ALLOWANCE_S = 300.0
"""Seconds beyond the time limit that starting Python and loading the data may take."""

POLL_INTERVAL_S = 0.05
TERMINATE_GRACE_S = 3.0
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
)


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
        absent. The bytes of the ``.npz`` depend on data, method, settings and seed alone.
    seed : int
        The method's seed.
    settings : mapping, optional
        Parameters of the method that differ from its defaults.
    time_limit_s : float, optional
        Wall-clock seconds from the moment the data are loaded. Past it the process group gets
        SIGTERM, three seconds later SIGKILL, and the fit's status is ``timeout``.
    memory_limit_mb : float, optional
        Resident memory, in units of 10^6 bytes, of the process and all that it started, looked at
        20 times a second. Above it the process group is killed and the status is ``oom``.
    threads : int
        Threads of OpenMP, MKL, OpenBLAS, NumExpr and numba in the process.
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

    Returns
    -------
    dict
        The record, as written: ``method``, ``status``, ``reason``, ``seconds`` (from data loaded to
        graph returned, or to the end of the process), ``peak_rss_mb``, ``seed``, ``params``,
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
    code = code_of(*chosen.modules)
    parts = [_part_record(path) for path in first_stage]
    end = _failed_part(job["first_stage"], parts)
    if end is None:
        end = _run_child(job, time_limit_s, memory_limit_mb, threads, log)
    if "input_error" in end.answer:
        raise InputError(end.answer["input_error"])
    answer = _judge(end, time_limit_s, memory_limit_mb)
    record = {
        "method": name,
        "status": answer["status"],
        "reason": answer["reason"],
        "seconds": round(answer["seconds"], 4),
        "peak_rss_mb": round(max(end.peak_rss_mb, answer.get("peak_rss_mb", 0.0)), 1),
        "seed": seed,
        "params": params,
        "data": data,
        "code": code,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": answer.get("versions") or _versions(),
        "machine": answer.get("machine") or _machine(),
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


def load_fit(path: str | Path) -> tuple[Graph | None, dict[str, object]]:
    """Read a fit and the record beside it.

    Returns
    -------
    graph : Graph or None
        ``None`` if the fit failed. ``graph.arrays`` has ``names``, str (d,), and whatever the
        method kept besides its graph.
    record : dict
        Empty if there is no ``.json`` beside the fit.

    Raises
    ------
    InputError
        If the file is not a fit.
    """
    path = Path(path)
    arrays = read_npz(path)
    record_path = path.with_suffix(".json")
    record = read_json(record_path) if record_path.exists() else {}
    if not isinstance(record, dict):
        raise InputError(f"{record_path}: not the record of a fit")
    if "X" in arrays:
        raise InputError(f"{path}: a data set, expected a fit")
    if "adjacency" not in arrays:
        if set(arrays) != {"names"}:
            raise InputError(f"{path}: not a fit (arrays found: {', '.join(arrays) or 'none'})")
        return None, record
    adjacency = arrays.pop("adjacency")
    weights = arrays.pop("weights", None)
    d = len(adjacency)
    for what, array in (("adjacency", adjacency), ("weights", weights)):
        if array is not None and array.shape != (d, d):
            raise InputError(f"{path}: {what} has shape {array.shape}, expected ({d}, {d})")
    if weights is not None and np.isnan(weights).all():
        weights = None
    arrays.setdefault("names", np.array([f"X{j}" for j in range(d)]))
    if arrays["names"].shape != (d,):
        raise InputError(f"{path}: {arrays['names'].size} names for {d} variables")
    return Graph(adjacency, weights, record.get("diagnostics", {}), arrays), record


def require_kind(chosen: Method, dataset: Dataset, shown_as: str | Path) -> None:
    """Refuse data with interventions to a method that takes none; :class:`InputError`."""
    targets = np.flatnonzero(dataset.intervened.any(axis=0))
    if chosen.data == "observational" and targets.size:
        rows = int(dataset.intervened.any(axis=1).sum())
        raise InputError(
            f"{shown_as}: {rows} of {dataset.n} rows have interventions "
            f"(first on {dataset.names[targets[0]]!r}), "
            f"but method {chosen.name} takes observational data only"
        )


def _part_record(path: str | Path) -> dict:
    record = read_json(Path(path).with_suffix(".json"))
    if not isinstance(record, dict) or not {"targets", "status", "seconds"} <= record.keys():
        raise InputError(f"{path}: not a part of a first stage")
    return record


def _failed_part(paths: list[str], parts: list[dict]) -> "_End | None":
    """The end of a fit whose first stage has failed somewhere, without a child."""
    for path, part in zip(paths, parts, strict=True):
        if part["status"] != "ok":
            end = _End()
            first, last = part["targets"]
            reason = f"first stage of targets {first} to {last}: {part['reason']}"
            end.answer = {"status": part["status"], "reason": reason, "seconds": 0.0}
            end.started = {key: part[key] for key in ("n_rows", "n_variables")}
            end.started["names"] = read_npz(path)["names"]
            return end
    return None


class _End:
    """How a child process ended, and what was seen of it from outside."""

    def __init__(self):
        self.started: dict = {}
        self.answer: dict = {}
        self.arrays: dict[str, np.ndarray] = {}
        self.returncode: int | None = None
        self.stopped_for: str | None = None
        self.seconds = 0.0
        self.rss_mb = 0.0
        self.peak_rss_mb = 0.0
        self.last_line = ""


def _run_child(job, time_limit_s, memory_limit_mb, threads, log) -> _End:
    environment = {**os.environ, **{name: str(threads) for name in THREAD_VARIABLES}}
    # gies iterates over sets; a fixed hash seed makes their order, hence its ties, repeatable.
    environment["PYTHONHASHSEED"] = "0"
    end = _End()
    answers, answer_end = os.pipe()
    shared = [answer_end, os.dup(2)] if job["progress"] else [answer_end]
    # The child's search path is the parent's, however the parent found this package.
    bootstrap = f"import sys; sys.path[:] = {sys.path!r}; from sdcd.fits import run; run._child()"
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, answers)
        # A child that is killed cannot remove its temporary files.
        environment["TMPDIR"] = stack.enter_context(tempfile.TemporaryDirectory(prefix="sdcd-"))
        if log is None:
            output = stack.enter_context(tempfile.TemporaryFile())
        else:
            Path(log).parent.mkdir(parents=True, exist_ok=True)
            output = stack.enter_context(open(log, "w+b"))
        try:
            process = subprocess.Popen(
                [sys.executable, "-c", bootstrap, *map(str, shared)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=shared,
                env=environment,
                start_new_session=True,
            )
        finally:
            for descriptor in shared:
                os.close(descriptor)
        try:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps(job).encode() + b"\n")
                process.stdin.flush()
            received = _watch(process, answers, end, time_limit_s, memory_limit_mb)
        finally:
            _kill_group(process)
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        end.returncode = process.returncode
        _unpack(received, end)
        end.last_line = _last_line(output)
    return end


def _watch(process, answers: int, end: _End, time_limit_s, memory_limit_mb) -> bytearray:
    """Collect the child's answer until it closes the pipe, ends, or passes a limit."""
    limit = math.inf if time_limit_s is None else time_limit_s
    start = time.monotonic()
    deadline = start + limit + STARTUP_ALLOWANCE_S
    received, started, ended = bytearray(), False, False
    while True:
        readable, _, _ = select.select([answers], [], [], 0 if ended else POLL_INTERVAL_S)
        now = time.monotonic()
        if readable:
            chunk = os.read(answers, 1 << 20)
            if not chunk:
                break
            received += chunk
            if not started and b"\n" in received:
                line, _, received = received.partition(b"\n")
                end.started = json.loads(line)
                started, start, deadline = True, now, now + limit
            continue
        if ended:
            break
        end.rss_mb = _tree_rss_mb(process.pid)
        end.peak_rss_mb = max(end.peak_rss_mb, end.rss_mb)
        if memory_limit_mb is not None and end.rss_mb > memory_limit_mb:
            end.stopped_for = "oom"
        elif now > deadline:
            end.stopped_for = "timeout"
        if end.stopped_for:
            received.clear()
            break
        # It may have answered since the pipe was looked at: that is still read.
        ended = process.poll() is not None
    end.seconds = time.monotonic() - start
    if not end.stopped_for:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(TERMINATE_GRACE_S)
    return received


def _kill_group(process: subprocess.Popen) -> None:
    """End the child and whatever it started: politely first, if it still runs."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(TERMINATE_GRACE_S)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _unpack(received: bytearray, end: _End) -> None:
    line, found, arrays = received.partition(b"\n")
    if not found:
        return
    end.answer = json.loads(line)
    if end.answer.get("status") == "ok":
        try:
            with np.load(io.BytesIO(arrays), allow_pickle=False) as archive:
                end.arrays = {name: archive[name] for name in archive.files}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile):
            # The child was killed while it answered.
            end.answer = {}


def _judge(end: _End, time_limit_s, memory_limit_mb) -> dict:
    """The child's answer, or in its absence one made from how it ended."""
    # A fit can pass its limit and still end between two looks at it.
    late = time_limit_s is not None and end.answer.get("seconds", 0.0) > time_limit_s
    if end.answer and not late:
        return end.answer
    if late or end.stopped_for == "timeout":
        reason = f"time limit of {time_limit_s:g} s passed"
        seconds = end.answer.get("seconds", end.seconds)
        return {"status": "timeout", "reason": reason, "seconds": seconds}
    if end.stopped_for == "oom":
        reason = f"memory limit of {memory_limit_mb:g} MB passed ({end.rss_mb:.0f} MB in use)"
        return {"status": "oom", "reason": reason, "seconds": end.seconds}
    if end.returncode == -signal.SIGKILL:
        reason = (
            "killed by SIGKILL, as the system does when memory runs out "
            f"({end.peak_rss_mb:.0f} MB in use at the last look)"
        )
        return {"status": "oom", "reason": reason, "seconds": end.seconds}
    if end.returncode is not None and end.returncode < 0:
        how = f"the fit's process was killed by {signal.Signals(-end.returncode).name}"
    else:
        how = f"the fit's process ended with exit code {end.returncode} and no answer"
    reason = f"{how}: {end.last_line}" if end.last_line else how
    return {"status": "error", "reason": reason, "seconds": end.seconds}


def _tree_rss_mb(pid: int) -> float:
    """Resident memory of a process and its descendants in 10^6 bytes; 0 if it is gone."""
    if not Path("/proc/self/statm").exists():
        return _group_rss_mb_from_ps(pid)
    pages, pending = 0, [pid]
    while pending:
        current = pending.pop()
        with contextlib.suppress(OSError, ValueError, IndexError):
            pages += int(Path(f"/proc/{current}/statm").read_text().split()[1])
            for task in os.listdir(f"/proc/{current}/task"):
                children = Path(f"/proc/{current}/task/{task}/children").read_text()
                pending += map(int, children.split())
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _group_rss_mb_from_ps(pid: int) -> float:
    listing = subprocess.run(
        ["ps", "-axo", "pgid=,rss="], capture_output=True, text=True, check=False
    ).stdout
    rows = (line.split() for line in listing.splitlines())
    return sum(int(row[1]) for row in rows if len(row) == 2 and row[0] == str(pid)) * 1024 / 1e6


def _last_line(stream) -> str:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - 4096))
    text = stream.read().decode(errors="replace")
    lines = [line.strip() for line in re.split(r"[\r\n]", text) if line.strip()]
    return lines[-1] if lines else ""


# In the child


def _child() -> None:
    """Do the fit described on standard input and answer on the pipe named by the argument.

    A second argument names where to report progress.
    """
    answers = os.fdopen(int(sys.argv[1]), "wb")
    # What the fit starts must not keep the pipe open after the fit's end.
    os.set_inheritable(answers.fileno(), False)
    job = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_die_with_parent, daemon=True).start()
    with contextlib.suppress(OSError):
        # When memory runs out, the system should end the fit and not its caller.
        Path("/proc/self/oom_score_adj").write_text("1000")
    arrays: dict[str, np.ndarray] = {}
    try:
        dataset, chosen = _prepare(job)
        started = {"names": dataset.names, "n_rows": dataset.n, "n_variables": dataset.d}
        answers.write(json.dumps(started).encode() + b"\n")
        answers.flush()
        try:
            answer, arrays = _fit(chosen, dataset, job)
        except DataError as error:
            answer = {"input_error": f"{job['shown_as']}: {error}"}
        except InputError as error:
            answer = {"input_error": str(error)}
    except InputError as error:
        answers.write(b"{}\n")
        answer = {"input_error": str(error)}
    answers.write(json.dumps(_plain(answer)).encode() + b"\n")
    if arrays:
        payload = io.BytesIO()
        np.savez(payload, **arrays)
        answers.write(payload.getbuffer())
    answers.close()
    sys.stdout.flush()
    sys.stderr.flush()
    # No waiting for threads that a library left behind.
    os._exit(0)


def _die_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os.killpg(0, signal.SIGKILL)


def _prepare(job: dict) -> tuple[Dataset, Method]:
    """Load the method and the data, and see that they fit together."""
    if job["outside"] is not None:
        from sdcd.methods.outside import register_outside

        register_outside(job["outside"])
    else:
        # A method may have been registered by a module that is not part of this package.
        for module in job["modules"]:
            importlib.import_module(module)
    chosen = method(job["method"])
    try:
        dataset = read_dataset(job["data"])
    except InputError as error:
        raise InputError(str(error).replace(job["data"], job["shown_as"])) from None
    require_kind(chosen, dataset, job["shown_as"])
    preload(chosen)
    return dataset, chosen


def preload(chosen: Method) -> None:
    """Do now what would be charged to the method's first call: import, and compile.

    The method's module says what, in ``PRELOAD``: names of modules, or ``module:function`` to call
    without arguments; for several methods in one module, a mapping from their names to such, with
    that of the names which it lacks under ``""``. What cannot be imported is left to the fit, which
    reports it. Graph algorithms' imports are done for all methods.
    """
    if chosen.base is not None:
        preload(chosen.base)
    names = getattr(sys.modules[chosen.module], "PRELOAD", ())
    if isinstance(names, Mapping):
        names = names.get(chosen.name, names.get("", ()))
    for name in ("scipy.sparse.csgraph", *names):
        module, _, function = name.partition(":")
        with contextlib.suppress(ImportError):
            loaded = importlib.import_module(module)
            if function:
                getattr(loaded, function)()


def _fit(chosen: Method, dataset: Dataset, job: dict) -> tuple[dict, dict[str, np.ndarray]]:
    arrays: dict[str, np.ndarray] = {}
    given = (dataset.X, dataset.intervened, dataset.names, job["seed"])
    params = dict(job["params"])
    if job["first_stage"]:
        params["first_stage"] = job["first_stage"]
    if job["progress"]:
        params["progress"] = os.fdopen(int(sys.argv[2]), "w")
        os.set_inheritable(params["progress"].fileno(), False)
    start = time.perf_counter()
    try:
        if job["targets"] is None:
            result = chosen.fit(*given, **params)
        else:
            result = chosen.first_stage.fit(*given, range(*job["targets"]), **params)
        seconds = time.perf_counter() - start
        answer = {"status": "ok", "reason": "", "diagnostics": result.diagnostics}
        is_part = job["targets"] is not None
        arrays = result.arrays if is_part else _checked_arrays(result, dataset.names)
    except InputError:
        raise
    except MethodFailure as failure:
        seconds = time.perf_counter() - start
        answer = {"status": failure.status, "reason": failure.reason}
    except BaseException as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            # Says nothing about the method.
            raise InputError(f"{error.strerror}: make room and run again") from None
        seconds = time.perf_counter() - start
        text = " ".join(str(error).split())
        reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
        answer = {"status": "oom" if _is_out_of_memory(error) else "error", "reason": reason}
        answer["traceback"] = traceback.format_exc()
        traceback.print_exc()
    answer.update(
        seconds=seconds, peak_rss_mb=_own_peak_rss_mb(), versions=_versions(), machine=_machine()
    )
    return answer, arrays


def _checked_arrays(graph: Graph, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    shape = (len(names), len(names))
    if graph.adjacency.shape != shape:
        raise ValueError(
            f"the method's adjacency has shape {graph.adjacency.shape}, expected {shape}"
        )
    if not zeros_and_ones(graph.adjacency):
        raise ValueError("the method's adjacency has other entries than 0 and 1")
    # A method without weights has the contract's array all the same, filled with NaN.
    weights = np.full(shape, np.nan) if graph.weights is None else graph.weights
    if weights.shape != shape:
        raise ValueError(f"the method's weights have shape {weights.shape}, expected {shape}")
    if graph.weights is not None and not np.isfinite(weights).all():
        bad = int((~np.isfinite(weights)).sum())
        raise MethodFailure("nan", f"{bad} of {weights.size} weights are NaN or infinite")
    return {
        "weights": weights,
        "adjacency": graph.adjacency,
        "names": np.array(names, dtype=np.str_),
        **graph.arrays,
    }


def _is_out_of_memory(error: BaseException) -> bool:
    # torch reports exhausted memory as a RuntimeError, on the CPU and on older GPUs' releases.
    text = str(error).lower()
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError)
        and ("can't allocate memory" in text or "out of memory" in text)
    )


def _own_peak_rss_mb() -> float:
    with contextlib.suppress(OSError, AttributeError):
        # getrusage would include what the parent had resident when it forked.
        status = Path("/proc/self/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) * 1024 / 1e6
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def _versions() -> dict[str, str]:
    """Versions of Python, of this package and of every other package that is loaded here."""
    versions = {"python": platform.python_version(), "sdcd": sdcd.__version__}
    for name in sorted({module.partition(".")[0] for module in tuple(sys.modules)}):
        if name in sys.stdlib_module_names or name.startswith("_") or name == "sdcd":
            continue
        try:
            versions[name] = importlib.metadata.version(name)
        except Exception:
            version = getattr(sys.modules.get(name), "__version__", None)
            if isinstance(version, str):
                versions[name] = version
    return versions


def _machine() -> dict[str, object]:
    """What a measured time depends on: processor, usable cores, system, and GPU if one was used."""
    cpu = platform.processor() or platform.machine()
    with contextlib.suppress(OSError, AttributeError):
        cpuinfo = Path("/proc/cpuinfo").read_text()
        cpu = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE).group(1)
    pinned = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if pinned else os.cpu_count()
    machine = {"cpu": cpu, "cores": cores, "platform": platform.platform()}
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        machine["gpu"] = torch.cuda.get_device_name()
    return machine


def _plain(value: object) -> object:
    """``value`` in terms of JSON; numbers that JSON lacks become ``"nan"``, ``"inf"``."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)
