"""What a claim is, what its test looks at, and how its comparisons become one outcome."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from sdcd import published, statistics
from sdcd.runs import summaries
from sdcd.statistics import ALPHA, Estimate


@dataclass(frozen=True)
class Claim:
    """One row of ``claims.csv``."""

    id: str
    place: str
    quote: str
    experiment: str
    test: str
    arguments: Mapping[str, str]
    threshold: float
    contradiction: str

    def words(self, name: str) -> list[str]:
        """A list-valued argument."""
        return [word.strip() for word in self.arguments[name].split(",")]

    def covers(self, column: str, values: pd.Series) -> pd.Series:
        """Which values a numeric argument admits (all if the claim has none of that name)."""
        text = self.arguments.get(column)
        if text is None:
            return pd.Series(True, index=values.index)
        if ".." in text:
            low, high = text.split("..")
            return values.between(float(low), float(high))
        return values.isin([float(word) for word in text.split(",")])


@dataclass
class Outcome:
    """What a test found, before the correction for the number of claims.

    Attributes
    ----------
    evaluated, expected : int
        Comparisons that our runs allowed, and that the claim is about. Unless they are equal, the
        claim can be refuted but not supported.
    p_support, p_refute : float
        Unadjusted over claims; NaN if the test has no p value, and then ``supported`` and
        ``refuted`` say what it found.
    estimate, low, high : float
        Of the comparison that supports the claim least.
    note : str
        Which comparison that is, and what was left out.
    seeds_needed : float
        Data sets for each setting that would settle it; NaN if nothing is open.
    """

    evaluated: int
    expected: int
    p_support: float = math.nan
    p_refute: float = math.nan
    supported: bool = False
    refuted: bool = False
    estimate: float = math.nan
    low: float = math.nan
    high: float = math.nan
    note: str = ""
    seeds_needed: float = math.nan

    @classmethod
    def decided(cls, evaluated: int, expected: int, holds: bool, **found) -> "Outcome":
        """What was looked at without a test, and so either holds or does not."""
        return cls(evaluated, expected, supported=holds, refuted=not holds, **found)


@dataclass
class Comparison:
    """One of the comparisons that a claim consists of."""

    where: str
    p_support: float
    p_refute: float
    estimate: float = math.nan
    low: float = math.nan
    high: float = math.nan
    seeds: float = 0.0

    @classmethod
    def decided(cls, where: str, supports: bool) -> "Comparison":
        """A comparison in which every run of one method failed: no test is needed."""
        return cls(where, float(not supports), float(supports))


@dataclass
class Data:
    """What a test looks at.

    Attributes
    ----------
    claim : Claim
    runs : DataFrame
        For an experiment of the paper the runs that were tried in full, of methods that the paper
        compares; for a study its table; empty for a claim that needs neither.
    experiment : str
    """

    claim: Claim
    runs: pd.DataFrame
    experiment: str

    def settings(self, table: pd.DataFrame) -> pd.DataFrame:
        """The rows of a table whose setting the claim is about."""
        chosen = pd.Series(True, index=table.index)
        for column in ("d", "s", "fraction"):
            chosen &= self.claim.covers(column, table[column])
        density = 200 * table["s"] / (table["d"] - 1)
        return table[chosen & self.claim.covers("density", density)]

    def printed(self) -> pd.DataFrame:
        """The paper's cells that the claim is about, with their metric where it is known."""
        return self.settings(published.published_table(self.experiment))

    def cells(self, *statuses: str) -> list[tuple]:
        """Those with one of the statuses (default: ``ok``), each as a tuple of ``CELL``."""
        printed = self.printed()
        printed = printed[printed["status"].isin(statuses or ("ok",))]
        return list(printed[list(summaries.CELL)].itertuples(index=False, name=None))

    def ours(self) -> pd.DataFrame:
        """Our runs that the claim is about."""
        return self.settings(self.runs)

    def metric(self) -> str:
        """The metric that is compared."""
        return self.claim.arguments["metric"]

    def others(self) -> list[str]:
        """The methods that the claim compares with."""
        words = self.claim.words("against" if "against" in self.claim.arguments else "method")
        if words == ["others"]:
            method = self.claim.arguments.get("method", "SDCD")
            own = {method, "SDCD", "SDCD-GPU"}
            return [name for name in dict.fromkeys(self.printed()["method"]) if name not in own]
        return words

    def methods(self) -> set[str]:
        """All methods that the claim is about."""
        words = set(self.claim.words("method")) if "method" in self.claim.arguments else {"all"}
        if words & {"all", "others"}:
            words |= set(self.printed()["method"]) if "all" in words else set(self.others())
        return words | (set(self.others()) if "against" in self.claim.arguments else set())


@dataclass(frozen=True)
class Book:
    """Runs by cell: :data:`~sdcd.runs.summaries.CELL` as a tuple.

    Attributes
    ----------
    values : mapping of tuple to (mapping of int to float)
        The metric by seed, of the runs that ended.
    failed : mapping of tuple to (set of int)
        The seeds that were tried in full and failed.
    """

    values: Mapping[tuple, Mapping[int, float]]
    failed: Mapping[tuple, set[int]]

    @classmethod
    def of(cls, runs: pd.DataFrame, metric: str) -> "Book":
        """The book of a table of runs. A run that ended without the metric is left out."""
        cells = runs[list(summaries.CELL)].itertuples(index=False, name=None)
        numbers = pd.to_numeric(runs[metric]).astype(float)
        values: dict[tuple, dict[int, float]] = {}
        failed: dict[tuple, set[int]] = {}
        for cell, seed, status, value in zip(
            cells, runs["seed"], runs["status"], numbers, strict=True
        ):
            if status != "ok":
                failed.setdefault(cell, set()).add(seed)
            elif not math.isnan(value):
                values.setdefault(cell, {})[seed] = value
        return cls(values, failed)

    def tried(self, cell: tuple) -> set[int]:
        """Seeds of a cell that have a value or failed."""
        return self.values.get(cell, {}).keys() | self.failed.get(cell, set())


# The paper's means


def rests_on_logs(printed: Mapping, log: Mapping | None) -> bool:
    """Whether a printed mean is that of the authors' logged runs.

    If it is, their number is that of the data sets behind it; otherwise the caption's is.

    Parameters
    ----------
    printed : mapping
        A row of :func:`sdcd.published.published_table`.
    log : mapping or None
        The same cell of the logs, as :func:`sdcd.runs.summaries.summarise` has it.
    """
    if log is None or not log["n"]:
        return False
    decimals = printed["decimals"]
    return f"{log['mean']:.{decimals}f}" == f"{printed['mean']:.{decimals}f}"


# Scales


COUNTS = ("shd", "shd_cpdag", "n_edges")
RATIO_METRICS = (*COUNTS, "seconds")
"""Metrics compared by their ratio, on a logarithmic scale; others by their difference."""

FAILURE_AT_LEAST = {True: math.log(2), False: 0.1}
"""The least that a failed run counts as: a factor of two (of a ratio), or a difference of 0.1."""


def scaled(metric: str, values):
    """Values on the scale on which a metric is compared.

    log(1 + x) of counts, which may be 0; log(x) of seconds; what is no ratio is left as it is.
    """
    if metric in COUNTS:
        return np.log1p(values)
    return np.log(np.maximum(values, 1e-9)) if metric == "seconds" else np.asarray(values, float)


def with_failures(
    values: Sequence[float], against: int, in_favour: int, kind: str, margin: float, ratio: bool
) -> np.ndarray:
    """Distances from a bound, with failed runs as the largest distance seen.

    Parameters
    ----------
    values : sequence of float
        Distances from the bound where both runs ended.
    against, in_favour : int
        Failed runs that count against the claim, and in favour of it.
    kind : {"below", "above", "within"}
        On which side of the bound the claim holds.
    margin : float
        For ``within``: how far from 0 it still holds. A failure is put at least twice as far.
    ratio : bool
        Whether the values are logarithms of ratios.
    """
    found = np.asarray(values, dtype=float)
    largest = max(np.abs(found).max(initial=0.0), FAILURE_AT_LEAST[ratio], 2 * margin)
    wrong = -largest if kind == "above" else largest
    return np.concatenate([found, np.full(against, wrong), np.full(in_favour, -wrong)])


# From an estimate to a comparison, from comparisons to an outcome


def judged(estimate: Estimate, margin: float, kind: str, shift: float, ratio: bool) -> Comparison:
    """P values of one comparison, and the estimate as it is shown.

    Parameters
    ----------
    estimate : Estimate
        Distance from the bound, or from equality for ``within``.
    margin : float
        Of ``within``.
    kind : {"below", "above", "within"}
    shift : float
        The bound, which is added for showing.
    ratio : bool
        Whether estimate and shift are logarithms, shown as their exponential.
    """
    if kind == "below":
        support, refute, bound = estimate.p_below(0), estimate.p_above(0), 0.0
    elif kind == "above":
        support, refute, bound = estimate.p_above(0), estimate.p_below(0), 0.0
    else:
        support, refute = estimate.p_within(margin), estimate.p_outside(margin)
        bound = math.copysign(margin, estimate.value)
    seeds = max(estimate.seeds_to_settle(bound), estimate.n + 1)
    shown = [x + shift for x in (estimate.value, *estimate.interval())]
    if ratio:
        shown = [math.inf if x > 700 else math.exp(x) for x in shown]
    return Comparison("", support, refute, *shown, seeds)


def combine(comparisons: list[Comparison], expected: int) -> Outcome:
    """A claim that holds if all its comparisons do.

    To support all of them each must be significant on its own, which needs no correction; to
    refute one of them is enough, for which their p values are adjusted by Holm's rule.
    """
    if not comparisons:
        return Outcome(0, expected)
    support = np.array([comparison.p_support for comparison in comparisons])
    refute = statistics.holm(np.array([comparison.p_refute for comparison in comparisons]))
    open_ = [
        comparison.seeds
        for comparison, adjusted in zip(comparisons, refute, strict=True)
        if not (comparison.p_support < ALPHA or adjusted < ALPHA)
    ]
    worst = comparisons[int(np.argmax(np.where(np.isnan(support), 2.0, support)))]
    if np.nanmin(refute, initial=1.0) < ALPHA:
        worst = comparisons[int(np.nanargmin(refute))]
    return Outcome(
        len(comparisons),
        expected,
        p_support=float(support.max()),  # NaN if any comparison has a single data set
        p_refute=float(np.nanmin(refute)) if not np.isnan(refute).all() else math.nan,
        estimate=worst.estimate,
        low=worst.low,
        high=worst.high,
        note=f"Weakest comparison: {worst.where}." if worst.where else "",
        seeds_needed=max(open_, default=max(comparison.seeds for comparison in comparisons)),
    )
