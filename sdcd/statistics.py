"""Estimates and tests: what verdicts, and every comparison with an interval, rest on."""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import stats

ALPHA = 0.05
"""Level of every test, after the correction for multiplicity."""

SETTLED = ALPHA / 5
"""One-sided level at which it is told how many observations would settle a question: well below
:data:`ALPHA`, as a test may be two-sided, and its p value is adjusted for the number of tests."""

MOST_SEEDS = 1000
"""Numbers of seeds above this are given as this number."""


@dataclass(frozen=True)
class Estimate:
    """A mean, or a difference of two, with its standard error.

    Attributes
    ----------
    value : float
        The estimate.
    error : float
        Its standard error; NaN if there is only one observation.
    freedom : float
        Degrees of freedom of Student's distribution.
    sd : float
        Standard deviation of one of our observations (for a paired estimate, of a difference).
    n : int
        Our observations.
    other_error : float
        The part of ``error`` that more of our observations would leave as it is.
    """

    value: float
    error: float
    freedom: float
    sd: float
    n: int
    other_error: float = 0.0

    def p_above(self, bound: float) -> float:
        """P value of the hypothesis that the true value is at most ``bound``."""
        if math.isnan(self.error):
            return math.nan
        if self.error == 0:
            return 0.0 if self.value > bound else 1.0
        return float(stats.t.sf((self.value - bound) / self.error, self.freedom))

    def p_below(self, bound: float) -> float:
        """P value of the hypothesis that the true value is at least ``bound``."""
        return Estimate(-self.value, self.error, self.freedom, self.sd, self.n).p_above(-bound)

    def p_different(self) -> float:
        """Two-sided p value of the hypothesis that the true value is 0."""
        return self.p_outside(0)

    def p_outside(self, margin: float) -> float:
        """Two-sided p value of the hypothesis that the true value is within ``margin`` of 0."""
        p = 2 * min(self.p_above(margin), self.p_below(-margin))
        return p if math.isnan(p) else min(p, 1.0)

    def p_within(self, margin: float) -> float:
        """P value of the hypothesis that the true value is ``margin`` or more away from 0.

        Two one-sided tests: small if the estimate is equivalent to 0.
        """
        return max(self.p_below(margin), self.p_above(-margin))

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Confidence interval; NaN for one observation."""
        if math.isnan(self.error):
            return math.nan, math.nan
        if self.error == 0:
            return self.value, self.value
        half = stats.t.ppf(0.5 + confidence / 2, self.freedom) * self.error
        return float(self.value - half), float(self.value + half)

    def seeds_to_settle(self, bound: float) -> int:
        """How many of our observations would show on which side of ``bound`` the true value lies.

        At level :data:`SETTLED`, if it lies where the estimate is and the standard
        deviation stays as it is. At most :data:`MOST_SEEDS`.
        """
        if math.isnan(self.sd):
            return max(self.n + 1, 3)
        numbers, quantiles = _quantiles()
        error = np.sqrt(self.sd**2 / numbers + self.other_error**2)
        enough = abs(self.value - bound) > quantiles * error
        return int(numbers[enough][0]) if enough.any() else MOST_SEEDS


def of_each_kind(total: int, kinds: int) -> int:
    """Observations of each of some kinds, where so many of all are needed.

    A number that stands for itself or more, :data:`MOST_SEEDS`, stays.
    """
    return MOST_SEEDS if total >= MOST_SEEDS else math.ceil(total / kinds)


@cache
def _quantiles() -> tuple[np.ndarray, np.ndarray]:
    """Numbers of observations, and Student's upper quantile for each."""
    numbers = np.arange(2, MOST_SEEDS + 1)
    return numbers, stats.t.ppf(1 - SETTLED, numbers - 1)


def of_sample(values: np.ndarray) -> Estimate:
    """The mean of independent observations, such as differences by seed."""
    values = np.asarray(values, dtype=float)
    n = len(values)
    sd = float(values.std(ddof=1)) if n > 1 else math.nan
    # Equal values have a computed spread of the order of rounding.
    if n > 1 and np.ptp(values) <= 1e-12 * np.abs(values).max(initial=1.0):
        sd = 0.0
    return Estimate(float(values.mean()), sd / math.sqrt(n), n - 1, sd, n)


def welch(values: np.ndarray, mean: float, sd: float, n: int) -> Estimate:
    """Difference between the mean of our observations and a published mean.

    Welch's: the variances may differ. If the published sd is NaN, ours is taken for it.

    Parameters
    ----------
    values : float (n_ours,)
        Our observations.
    mean, sd : float
        Published mean and standard deviation (ddof 1) over data sets.
    n : int
        Data sets behind the published mean.
    """
    ours = of_sample(values)
    if math.isnan(sd) or n < 2:
        error = ours.sd * math.sqrt(1 / ours.n + 1 / n)
        other = ours.sd / math.sqrt(n)
        return Estimate(ours.value - mean, error, ours.freedom, ours.sd, ours.n, other)
    a, b = ours.error**2, sd**2 / n
    error = math.sqrt(a + b)
    if math.isnan(error) or error == 0:
        return Estimate(ours.value - mean, error, ours.freedom, ours.sd, ours.n, math.sqrt(b))
    freedom = (a + b) ** 2 / (a**2 / (ours.n - 1) + b**2 / (n - 1))
    return Estimate(ours.value - mean, error, freedom, ours.sd, ours.n, math.sqrt(b))


@dataclass(frozen=True)
class Spreads:
    """What the error of a partly paired difference is made of.

    Attributes
    ----------
    differences, ours, published : float
        Standard deviations (ddof 1) of the paired differences, of our observations and of the
        published ones.
    pairs : int
        Observations of ours that have a published twin, at least 2.
    n_published : int
        Observations behind the published mean, the twins among them.
    """

    differences: float
    ours: float
    published: float
    pairs: int
    n_published: int

    def weight(self, unpaired):
        """The paired part's weight: see :func:`partly_paired`. ``unpaired`` may be an array."""
        v1 = 1 / self.pairs
        v2 = 1 / unpaired + 1 / self.n_published
        both = 0.5 / self.n_published
        return np.clip((v2 - both) / (v1 + v2 - 2 * both), 0.0, 1.0)

    def error(self, unpaired):
        """Standard error and degrees of freedom with so many unpaired observations of ours."""
        w = self.weight(unpaired)
        n = self.n_published
        paired = (w**2 / self.pairs + w * (1 - w) / n) * self.differences**2
        ours = (1 - w) ** 2 / unpaired * self.ours**2
        published = (1 - w) ** 2 / n * self.published**2
        variance = paired + ours + published
        parts = paired**2 / (self.pairs - 1) + ours**2 / (self.pairs + unpaired - 1)
        parts = parts + published**2 / max(n - 1, 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            freedom = np.where(parts > 0, variance**2 / parts, self.pairs - 1)
        return np.sqrt(variance), freedom


@dataclass(frozen=True)
class PartlyPaired(Estimate):
    """A difference to which observations with and without a published twin contribute."""

    spreads: Spreads | None = None

    def seeds_to_settle(self, bound: float) -> int:
        """As for an :class:`Estimate`, where every further observation has no twin."""
        unpaired = np.arange(1, MOST_SEEDS)
        error, freedom = self.spreads.error(unpaired)
        enough = abs(self.value - bound) > stats.t.ppf(1 - SETTLED, freedom) * error
        return int(self.spreads.pairs + unpaired[enough][0]) if enough.any() else MOST_SEEDS


def partly_paired(
    differences: np.ndarray, unpaired: np.ndarray, mean: float, spreads: Spreads
) -> PartlyPaired:
    """Difference between ours and the published, from twins and from further observations.

    ``w * mean(differences) + (1 - w) * (mean(unpaired) - mean)``. The weight w depends on the
    numbers of observations alone: it is the best one if two observations of the same data set
    correlate with 1/2, and any other leaves the estimate without bias. Its error allows for the
    twins being part of the published mean. ``docs/verdicts.md`` has the formulas.

    Parameters
    ----------
    differences : float (p,)
        Ours - published on the p >= 2 data sets that have both.
    unpaired : float (q,)
        Our further observations; with q = 0 only the pairs count.
    mean : float
        The published mean.
    spreads : Spreads
        What the standard error is made of.
    """
    paired, q = of_sample(differences), len(unpaired)
    n, sd = paired.n + q, paired.sd
    if not q:
        return PartlyPaired(paired.value, paired.error, paired.freedom, sd, n, 0.0, spreads)
    w = float(spreads.weight(q))
    value = w * paired.value + (1 - w) * (float(np.mean(unpaired)) - mean)
    error, freedom = (float(x) for x in spreads.error(q))
    return PartlyPaired(value, error, freedom, sd, n, 0.0, spreads)


def fitted_exponent(d, values) -> Estimate:
    """Slope of log values on log d by least squares, with its standard error.

    Parameters
    ----------
    d, values : sequence of float
        Positive numbers, of at least two different d.
    """
    x, y = np.log(np.asarray(d, dtype=float)), np.log(np.asarray(values, dtype=float))
    x = x - x.mean()
    slope = float(x @ y / (x @ x))
    residual = y - y.mean() - slope * x
    freedom = len(x) - 2
    error = math.sqrt(float(residual @ residual) / freedom / float(x @ x))
    return Estimate(slope, error, freedom, math.nan, len(x))


def holm(p: np.ndarray) -> np.ndarray:
    """Holm's adjusted p values: they control the chance of any false rejection. NaN stays NaN."""
    return _adjust(p, lambda sorted_p, m: np.maximum.accumulate(sorted_p * (m - np.arange(m))))


def benjamini_hochberg(p: np.ndarray) -> np.ndarray:
    """Benjamini and Hochberg's adjusted p values: they control the share of false rejections."""

    def step_up(sorted_p, m):
        return np.minimum.accumulate((sorted_p * m / np.arange(1, m + 1))[::-1])[::-1]

    return _adjust(p, step_up)


def _adjust(p, rule):
    p = np.asarray(p, dtype=float)
    adjusted = np.full(p.shape, np.nan)
    known = np.flatnonzero(~np.isnan(p))
    if len(known):
        order = known[np.argsort(p[known], kind="stable")]
        adjusted[order] = np.minimum(rule(p[order], len(order)), 1.0)
    return adjusted
