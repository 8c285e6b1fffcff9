"""What a fit is expected to cost, and what a job that runs it asks for.

``costs.csv`` has measured or logged costs, with their source: columns ``method``, ``d``,
``n`` (rows), ``seconds``, ``peak_rss_mb`` (10^6 bytes), ``source``. Measured rows are written from
records of fits by :mod:`sdcd.fits.measured`.
"""

import csv
import itertools
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TABLE = Path(__file__).with_name("costs.csv")
COLUMNS = ("method", "d", "n", "seconds", "peak_rss_mb", "source")
USUAL_ROWS = 10_000
"""Rows of the data sets whose costs are in the table, besides those with interventions."""
USUAL_ROWS_PER_INTERVENTION = 500

SAFETY = 4.0
"""A first attempt may take so many times the expected seconds."""

SHORTEST_S = 600.0
"""Every attempt may take so many seconds, however short its fit should be."""

OVERHEAD_S = 600.0
"""Seconds of a job beyond its fit: start of the job, reading the data, writing the result."""

MEMORY_SAFETY = 1.5
LEAST_MEMORY_MB = 2000.0
MEMORY_OVERHEAD_MB = 1000.0
"""Of a job beyond its fit: the processes that start and watch it."""

STEPS = {"+prune": 0.25, "-pruned": 0.25, "+order": 2.0, "-ordered": 2.0}
"""Seconds of a step after a method, in those of SDCD on the same data: pruning takes at most a
quarter, the search over orders with its graph about as long as SDCD, and restarts as long again."""

FULL_ATTEMPT = 3
"""The attempt that may use the whole limits, whatever the expected cost."""


@dataclass(frozen=True)
class Allowance:
    """What one attempt at a fit may use, and what its job asks a scheduler for.

    Attributes
    ----------
    time_limit_s, memory_limit_mb : float
        Limits of the fit in this attempt.
    runtime_min, mem_mb : int
        Of the job: above the fit's, so that the fit's own limits end it first.
    """

    time_limit_s: float
    memory_limit_mb: float

    @property
    def runtime_min(self) -> int:
        """Minutes of the job."""
        return math.ceil((self.time_limit_s + OVERHEAD_S) / 60)

    @property
    def mem_mb(self) -> int:
        """Memory of the job in units of 10^6 bytes."""
        return math.ceil(self.memory_limit_mb + MEMORY_OVERHEAD_MB)


def expected(method: str, d: int, n: int) -> tuple[float, float] | None:
    """Expected seconds and peak memory (10^6 bytes) of a fit; ``None`` if nothing is known.

    Both are interpolated on a logarithmic scale in ``d``; beyond the known points time grows with
    d^3 and memory with d^2. Both grow in proportion to ``n`` above the rows of each known point. A
    method with a step after it costs the method and the step (:data:`STEPS`).
    """
    points = _table().get(method)
    if points:
        more = [max(1.0, n / p[1]) for p in points]
        seconds = [(p[0], p[2] * m) for p, m in zip(points, more, strict=True)]
        memory = [(p[0], p[3] * m) for p, m in zip(points, more, strict=True)]
        return _interpolated(d, seconds, 3.0), _interpolated(d, memory, 2.0)
    for suffix, share in STEPS.items():
        base = expected(method.removesuffix(suffix), d, n) if method.endswith(suffix) else None
        if base is not None:
            step = expected("SDCD", d, n)
            return base[0] + share * step[0], max(base[1], step[1])
    return None


def expected_seconds(
    method: str, d: int, n: int, time_limit_s: float, share: float = 1.0
) -> float | None:
    """Seconds that a job is expected to take for its ``share`` of a fit, which its limit bounds.

    ``None`` if nothing is known of the method's cost.
    """
    cost = expected(method, d, n)
    return None if cost is None else min(share * cost[0], time_limit_s)


def allowance(
    method: str,
    d: int,
    n: int,
    time_limit_s: float,
    memory_limit_mb: float,
    attempt: int = 1,
    share: float = 1.0,
) -> Allowance:
    """What an attempt at a fit may use: the expected cost with a margin, doubled in each attempt.

    Never more than the fit's limits; all of them in attempt :data:`FULL_ATTEMPT` and where no cost
    is known. A fit that needs more than that is tried again with more, so that its failure
    is only ever recorded against the full limits. ``share`` is that of the fit which the job does.
    """
    cost = expected(method, d, n)
    if cost is None or attempt >= FULL_ATTEMPT:
        return Allowance(time_limit_s, memory_limit_mb)
    growth = 2.0 ** (attempt - 1)
    return Allowance(
        min(time_limit_s, growth * max(SHORTEST_S, SAFETY * share * cost[0])),
        min(memory_limit_mb, growth * max(LEAST_MEMORY_MB, MEMORY_SAFETY * share * cost[1])),
    )


def _interpolated(d: int, points: list[tuple[float, float]], exponent: float) -> float:
    if d <= points[0][0]:
        return points[0][1]
    for (d0, y0), (d1, y1) in itertools.pairwise(points):
        if d <= d1:
            slope = math.log(y1 / y0) / math.log(d1 / d0)
            return y0 * (d / d0) ** slope
    return points[-1][1] * (d / points[-1][0]) ** exponent


@cache
def _table() -> dict[str, list[tuple[float, float, float, float]]]:
    table: dict[str, list] = {}
    text = TABLE.read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines()):
        values = tuple(float(row[key]) for key in ("d", "n", "seconds", "peak_rss_mb"))
        table.setdefault(row["method"], []).append(values)
    return {method: sorted(points) for method, points in table.items()}
