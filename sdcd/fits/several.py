"""Several fits at once, each as :func:`sdcd.fits.run.run_fit` does it.

Besides the fit's own process there is one that looks after it, as run_fit does, so that a fit that
is interrupted ends in good order, however many run beside it.
"""

import contextlib
import importlib
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping

from sdcd.errors import CorruptFile, FitKilled, InputError
from sdcd.fits.run import run_fit
from sdcd.methods.registry import method
from sdcd.signals import Terminated, terminable

_GRACE_S = 15.0
"""What a process that looks after a fit may take to end it."""


def run_fits(jobs: Iterable[Mapping[str, object]], *, cores: int = 1) -> Iterator[tuple[int, dict]]:
    """Run fits, some of them at the same time.

    Parameters
    ----------
    jobs : iterable of mapping
        The arguments of :func:`~sdcd.fits.run.run_fit` by name (``data_path`` and ``name`` too),
        JSON-compatible. The next one is asked for when its fit is about to start.
    cores : int, default 1
        Fits at the same time. What each of them writes does not depend on it.

    Yields
    ------
    (int, dict)
        The position of a job, and the record of its fit, in the order in which they end.

    Raises
    ------
    InputError, FitKilled
        As run_fit does. The other fits under way are ended then, as they are if the caller stops
        taking results; what has been yielded stays.
    """
    if cores == 1:
        for position, job in enumerate(jobs):
            yield position, run_fit(**job)
        return
    waiting = enumerate(jobs)
    with contextlib.ExitStack() as stack:
        ready = stack.enter_context(selectors.DefaultSelector())
        running: dict[int, tuple[int, subprocess.Popen]] = {}
        stack.callback(lambda: _end([process for _, process in running.values()]))
        while True:
            while len(running) < cores and (item := next(waiting, None)) is not None:
                process = _start(item[1])
                running[process.stdout.fileno()] = item[0], process
                ready.register(process.stdout, selectors.EVENT_READ)
            if not running:
                return
            for key, _ in ready.select():
                position, process = running[key.fd]
                answer = process.stdout.read()
                ready.unregister(process.stdout)
                del running[key.fd]
                yield position, _outcome(answer, process)


def main() -> None:
    """Do the fit described on standard input; its record, or what was wrong, goes to the output."""
    job = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        with terminable():
            if job["outside"] is not None:
                outside = importlib.import_module("sdcd.methods.outside")
                outside.register_outside(job["outside"])
            for module in job["modules"]:
                importlib.import_module(module)
            answer = {"record": run_fit(**job["fit"])}
    except InputError as error:
        answer = {"refused": str(error), "corrupt": isinstance(error, CorruptFile)}
    except FitKilled as error:
        answer = {"killed": str(error)}
    except OSError as error:
        answer = {"system": [error.errno, error.strerror or str(error), error.filename]}
    except Terminated:
        os._exit(1)
    print(json.dumps(answer), flush=True)


def _start(job: Mapping[str, object]) -> subprocess.Popen:
    chosen = method(job["name"])
    spec = getattr(chosen.fit, "spec", None)
    described = {
        "fit": {key: value if _plain(value) else str(value) for key, value in job.items()},
        "outside": spec,
        "modules": [] if spec is not None else chosen.modules,
    }
    bootstrap = (
        f"import sys; sys.path[:] = {sys.path!r}; from sdcd.fits import several; several.main()"
    )
    # In a session of its own, so that Ctrl-C reaches it from here, and once.
    process = subprocess.Popen(
        [sys.executable, "-c", bootstrap],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(json.dumps(described).encode() + b"\n")
        process.stdin.flush()
    return process


def _plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool | Mapping | list | tuple)


def _outcome(answer: bytes, process: subprocess.Popen) -> dict:
    _close(process)
    found = json.loads(answer) if answer.endswith(b"\n") else {}
    if "record" in found:
        return found["record"]
    if "refused" in found:
        raise (CorruptFile if found["corrupt"] else InputError)(found["refused"])
    if "system" in found:
        number, text, path = found["system"]
        raise OSError(number, text, path)
    raise FitKilled(
        found.get("killed")
        or f"the process that looks after a fit ended with exit code {process.returncode} and no "
        "answer: this is no result, run it again"
    )


def _end(processes: list[subprocess.Popen]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        _close(process)


def _close(process: subprocess.Popen) -> None:
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    process.stdout.close()


def _end_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
