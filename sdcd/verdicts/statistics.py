"""The few tests that verdicts rest on."""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import stats

ALPHA = 0.05
"""Level of every test, after the correction for multiplicity."""

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
        return _capped(2 * min(self.p_above(0), self.p_below(0)))

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

    def seeds_to_settle(self, bound: float, alpha: float = ALPHA) -> int:
        """How many of our observations would show on which side of ``bound`` the true value lies.

        At level ``alpha``, one-sided, if it lies where the estimate is and the standard
        deviation stays as it is. At most :data:`MOST_SEEDS`.
        """
        if math.isnan(self.sd):
            return max(self.n + 1, 3)
        numbers, quantiles = _quantiles(alpha)
        error = np.sqrt(self.sd**2 / numbers + self.other_error**2)
        enough = abs(self.value - bound) > quantiles * error
        return int(numbers[enough][0]) if enough.any() else MOST_SEEDS


@cache
def _quantiles(alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of observations, and Student's upper quantile for each."""
    numbers = np.arange(2, MOST_SEEDS + 1)
    return numbers, stats.t.ppf(1 - alpha, numbers - 1)


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

    Welch's: the variances may differ. If the published sd is NaN, the published mean is taken as
    exact, which makes the test of one sample.
    """
    ours = of_sample(values)
    if math.isnan(sd) or n < 2:
        return Estimate(ours.value - mean, ours.error, ours.freedom, ours.sd, ours.n)
    a, b = ours.error**2, sd**2 / n
    error = math.sqrt(a + b)
    if math.isnan(error) or error == 0:
        return Estimate(ours.value - mean, error, ours.freedom, ours.sd, ours.n, math.sqrt(b))
    freedom = (a + b) ** 2 / (a**2 / (ours.n - 1) + b**2 / (n - 1))
    return Estimate(ours.value - mean, error, freedom, ours.sd, ours.n, math.sqrt(b))


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


def _capped(p: float) -> float:
    return p if math.isnan(p) else min(p, 1.0)
