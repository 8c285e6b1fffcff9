"""How many threads are worth starting: never more than there are cores, nor than the work feeds."""

import os


def available_cores() -> int:
    """Cores that this process may use.

    What the system has, less what its affinity, its control group (as of a container or a job of a
    scheduler) or the variable ``LOKY_MAX_CPU_COUNT`` withholds.
    """
    from joblib import cpu_count

    return cpu_count()


def useful_threads(asked: int | None, work: float = float("inf"), per_thread: float = 1.0) -> int:
    """How many threads to start.

    Parameters
    ----------
    asked : int or None
        What the caller wants; None is OMP_NUM_THREADS or, if that is not set, 1.
    work, per_thread : float
        The size of the problem, and how much of it a thread should have at least, in any unit.

    Returns
    -------
    int
        At least 1; at most ``asked``, :func:`available_cores` and ``work / per_thread``.
    """
    if asked is None:
        given = os.environ.get("OMP_NUM_THREADS", "")
        asked = int(given) if given.isdigit() else 1
    if asked > 1:
        asked = min(asked, available_cores(), work / per_thread)
    return max(1, int(asked))
