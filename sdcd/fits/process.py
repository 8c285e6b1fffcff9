"""A fit's process as it is seen from outside: started, watched, ended.

Whatever becomes of a fit, its end is an answer: a graph, a failure that the method foresaw, an
exception, a limit that was passed, a crash. What a method does to the state of its process (default
types, threads, logging) ends with that process. The one end that says nothing about the fit is that
somebody else killed the process: then :class:`~sdcd.errors.FitKilled` is raised, unless it was the
last attempt. Then the fit is impossible here, as far as anyone can tell.
"""

import contextlib
import io
import json
import math
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil

from sdcd.errors import CorruptFile, FitKilled, InputError
from sdcd.fits.child import environment
from sdcd.signals import FROM_OUTSIDE, name_of

STARTUP_ALLOWANCE_S = 300.0
"""Seconds beyond the time limit that starting Python and loading the data may take."""

POLL_INTERVAL_S = 0.05
LOOKING_SHARE = 0.05
"""Looking at memory takes at most this part of the time: among many processes, it takes long."""

TERMINATE_GRACE_S = 3.0


@dataclass
class End:
    """How a fit's process ended.

    Attributes
    ----------
    started : dict
        ``names``, ``n_rows`` and ``n_variables`` of the data; empty if they were never loaded.
    answer : dict
        ``status``, ``reason``, ``seconds`` and what else the process said; where it could say
        nothing, what was seen from outside.
    arrays : dict of str to array
        The result, if ``status`` is "ok".
    peak_mb : float
        Most memory that the process and all that it started were seen to have, in 10^6 bytes.
    """

    started: dict = field(default_factory=dict)
    answer: dict = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    peak_mb: float = 0.0


def run_child(
    job: dict,
    *,
    time_limit_s: float | None = None,
    memory_limit_mb: float | None = None,
    threads: int = 1,
    log: str | Path | None = None,
    last_attempt: bool = False,
) -> End:
    """Do a fit in a process of its own, within limits.

    Parameters
    ----------
    job : dict
        The fit as :mod:`sdcd.fits.child` takes it; JSON-compatible.
    time_limit_s, memory_limit_mb, threads, log, last_attempt
        As :func:`sdcd.fits.run.run_fit` takes them.

    Raises
    ------
    InputError
        If that is what ended the process.
    FitKilled
        If the process, or the command that it ran, was killed, and not from here; with
        ``last_attempt`` not after SIGKILL, which is what a system without memory sends.
    """
    watched = _run(job, time_limit_s, memory_limit_mb, threads, log)
    if "input_error" in watched.answer:
        kind = CorruptFile if watched.answer.get("corrupt") else InputError
        raise kind(watched.answer["input_error"])
    answer = _judge(watched, job, time_limit_s, memory_limit_mb, last_attempt)
    return End(watched.started, answer, watched.arrays, watched.peak_mb)


def memory_mb(process: psutil.Process, least: float = 0.0) -> float:
    """Memory that a process and its descendants have resident, in 10^6 bytes; 0 if it is gone.

    Pages that several of them share, as after a fork, count once: where there is more than one
    process, the sum is of proportional set sizes (of memory that is a process's own, where the
    system knows no other). To ask for those takes time, so this is done only if the sum of resident
    sizes, which is never less, is above ``least``.
    """
    try:
        processes = [process, *process.children(recursive=True)]
    except psutil.Error:
        return 0.0
    sizes = []
    for each in processes:
        with contextlib.suppress(psutil.Error):
            sizes.append((each, each.memory_info().rss))
    total = sum(size for _, size in sizes)
    if len(sizes) > 1 and total / 1e6 > least:
        total = sum(_own_share(each, size) for each, size in sizes)
    return total / 1e6


def _own_share(process: psutil.Process, resident: int) -> int:
    try:
        info = process.memory_full_info()
    except psutil.NoSuchProcess:
        return 0
    except psutil.AccessDenied:
        return resident
    return getattr(info, "pss", info.uss)


@dataclass
class _Watched(End):
    returncode: int | None = None
    stopped_for: str | None = None
    """The limit that was passed, as a status."""
    told_to_end: bool = False
    """Whether it still ran when there was nothing to wait for, and was killed from here."""
    seconds: float = 0.0
    memory_mb: float = 0.0
    last_line: str = ""


def _run(job, time_limit_s, memory_limit_mb, threads, log) -> _Watched:
    variables = {**os.environ, **environment(threads)}
    end = _Watched()
    answers, answer_end = os.pipe()
    shared = [answer_end, os.dup(2)] if job["progress"] else [answer_end]
    # The child's search path is the parent's, however the parent found this package.
    bootstrap = f"import sys; sys.path[:] = {sys.path!r}; from sdcd.fits import child; child.main()"
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, answers)
        # A child that is killed cannot remove its temporary files.
        variables["TMPDIR"] = stack.enter_context(tempfile.TemporaryDirectory(prefix="sdcd-"))
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
                env=variables,
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
            end.told_to_end = _kill_group(process)
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        end.returncode = process.returncode
        _unpack(received, end)
        end.last_line = _last_line(output)
    return end


def _watch(process, answers: int, end: _Watched, time_limit_s, memory_limit_mb) -> bytearray:
    """Collect the child's answer until it closes the pipe, ends, or passes a limit."""
    limit = math.inf if time_limit_s is None else time_limit_s
    start = time.monotonic()
    deadline = start + limit + STARTUP_ALLOWANCE_S
    received, started, ended, look_at = bytearray(), False, False, start
    seen = psutil.Process(process.pid)
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
        if now >= look_at:
            end.memory_mb = memory_mb(seen, end.peak_mb)
            end.peak_mb = max(end.peak_mb, end.memory_mb)
            look_at = now + (time.monotonic() - now) / LOOKING_SHARE
        if memory_limit_mb is not None and end.memory_mb > memory_limit_mb:
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


def _kill_group(process: subprocess.Popen) -> bool:
    """End the child, politely if it still runs, and all that it started; whether it still ran."""
    running = process.poll() is None
    if running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(TERMINATE_GRACE_S)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return running


def _unpack(received: bytearray, end: _Watched) -> None:
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


def _judge(end: _Watched, job: dict, time_limit_s, memory_limit_mb, last_attempt) -> dict:
    """The child's answer, or in its absence one made from how it ended."""
    # A fit can pass its limit and still end between two looks at it.
    late = time_limit_s is not None and end.answer.get("seconds", 0.0) > time_limit_s
    if "killed" in end.answer:
        return _killed(end.answer["killed"], end, job, last_attempt)
    if end.answer and not late:
        return end.answer
    if late or end.stopped_for == "timeout":
        reason = f"time limit of {time_limit_s:g} s passed"
        seconds = end.answer.get("seconds", end.seconds)
        return {"status": "timeout", "reason": reason, "seconds": seconds}
    if end.stopped_for == "oom":
        reason = f"memory limit of {memory_limit_mb:g} MB passed ({end.memory_mb:.0f} MB in use)"
        return {"status": "oom", "reason": reason, "seconds": end.seconds}
    if end.told_to_end:
        how = "the fit's process closed its pipe without an answer"
    elif end.returncode is not None and end.returncode < 0:
        name = name_of(-end.returncode)
        how = f"the fit's process was killed by {name or -end.returncode}"
        if name in FROM_OUTSIDE:
            return _killed(how, end, job, last_attempt)
    else:
        how = f"the fit's process ended with exit code {end.returncode} and no answer"
    reason = f"{how}: {end.last_line}" if end.last_line else how
    return {"status": "error", "reason": reason, "seconds": end.seconds}


def _killed(how: str, end: _Watched, job: dict, last_attempt: bool) -> dict:
    """What to say of a kill in the last attempt; :class:`FitKilled` while there may be others."""
    if last_attempt and how.endswith(" by SIGKILL"):
        reason = f"{how}, by the system, probably for memory: {end.peak_mb:.0f} MB at its peak"
        return {"status": "unavailable", "reason": reason, "seconds": end.seconds}
    raise FitKilled(
        f"{job['method']} on {job['shown_as']}: {how}, by a person or by the system, as when its "
        f"memory runs out ({end.memory_mb:.0f} MB in use at the last look): this is no result, "
        "run it again"
    )


def _last_line(stream) -> str:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - 4096))
    text = stream.read().decode(errors="replace")
    lines = [line.strip() for line in re.split(r"[\r\n]", text) if line.strip()]
    return lines[-1] if lines else ""
