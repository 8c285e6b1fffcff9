"""The program of a fit's process: it gets a fit's description, and answers.

:mod:`sdcd.fits.process` starts it with the description on its standard input, and with the number
of a pipe to answer on: one line when the data are loaded and the clock starts, one line with what
became of the fit, then the arrays of its result. A second number names where to report progress.
Standard input stays open as long as the one who started it lives; when it closes, the process and
all that it started kill themselves.

What a fit's result depends on besides its method is in this module and those that it imports, see
:func:`sdcd.fits.provenance.fit_fingerprint`.
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
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path

import numpy as np

import sdcd
from sdcd.cores import available_cores
from sdcd.data.dataset import Dataset, read_dataset, zeros_and_ones
from sdcd.errors import CorruptFile, DataError, FitKilled, InputError, MethodFailure
from sdcd.files import read_npz
from sdcd.methods.contract import Graph, Method
from sdcd.methods.registry import method

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
    "RAYON_NUM_THREADS",
)


def environment(threads: int) -> dict[str, str]:
    """Environment variables of the process, besides those of the one who starts it."""
    # Where a package iterates over sets, a fixed hash seed makes their order repeatable.
    return {**{name: str(threads) for name in THREAD_VARIABLES}, "PYTHONHASHSEED": "0"}


def main() -> None:
    """Do the fit described on standard input and answer on the pipe named by the argument."""
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
        except FitKilled as error:
            answer = {"killed": str(error)}
        except DataError as error:
            answer = {"input_error": f"{job['shown_as']}: {error}"}
        except InputError as error:
            answer = _refusal(error)
    except InputError as error:
        answers.write(b"{}\n")
        answer = _refusal(error)
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


def _refusal(error: InputError) -> dict:
    return {"input_error": str(error), "corrupt": isinstance(error, CorruptFile)}


def _die_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os.killpg(0, signal.SIGKILL)


def _prepare(job: dict) -> tuple[Dataset, Method]:
    """Load the method and the data, and see that they fit together."""
    if job["outside"] is not None:
        # By name, so that the methods of this package do not depend on it.
        importlib.import_module("sdcd.methods.outside").register_outside(job["outside"])
    else:
        # A method may have been registered by a module that is not part of this package.
        for module in job["modules"]:
            importlib.import_module(module)
    chosen = method(job["method"])
    try:
        dataset = read_dataset(job["data"])
    except InputError as error:
        kind = CorruptFile if _is_corrupt(job["data"]) else InputError
        raise kind(str(error).replace(job["data"], job["shown_as"])) from None
    require_kind(chosen, dataset, job["shown_as"])
    preload(chosen)
    return dataset, chosen


def _is_corrupt(path: str) -> bool:
    try:
        read_npz(path)
    except InputError as error:
        return isinstance(error, CorruptFile)
    return False


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
        # Compiled kernels may fail in any way under another version of numba.
        with contextlib.suppress(Exception):
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
    except (InputError, FitKilled):
        raise
    except KeyboardInterrupt:
        # The process has a session of its own, so somebody sent it this.
        raise FitKilled("the fit's process was interrupted by SIGINT") from None
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
        seconds=seconds, peak_rss_mb=own_peak_rss_mb(), versions=versions(), machine=machine()
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


def own_peak_rss_mb() -> float:
    """Most memory that this process has had resident so far, in 10^6 bytes."""
    with contextlib.suppress(OSError, AttributeError):
        # getrusage would include what the parent had resident when it forked.
        status = Path("/proc/self/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) * 1024 / 1e6
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def versions() -> dict[str, str]:
    """Versions of Python, of this package and of every other package that is loaded here."""
    found = {"python": platform.python_version(), "sdcd": sdcd.__version__}
    for name in sorted({module.partition(".")[0] for module in tuple(sys.modules)}):
        if name in sys.stdlib_module_names or name.startswith("_") or name == "sdcd":
            continue
        try:
            found[name] = importlib.metadata.version(name)
        except Exception:
            version = getattr(sys.modules.get(name), "__version__", None)
            if isinstance(version, str):
                found[name] = version
    return found


def machine() -> dict[str, object]:
    """What a measured time depends on: processor, usable cores, system, and GPU if one was used."""
    cpu = platform.processor() or platform.machine()
    with contextlib.suppress(OSError, AttributeError):
        cpuinfo = Path("/proc/cpuinfo").read_text()
        cpu = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE).group(1)
    found = {"cpu": cpu, "cores": available_cores(), "platform": platform.platform()}
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        found["gpu"] = torch.cuda.get_device_name()
    return found


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
