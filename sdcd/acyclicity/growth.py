"""How fast a constraint vanishes and explodes: stability, measured.

The paper calls a constraint h stable if, for almost every A,

* E: ``h(s A) = O(s)`` as s grows (it does not *explode*),
* V: ``h(s A)`` falls no faster than s as s goes to 0 (it does not *vanish*),
* D: h and its gradient are *defined* almost everywhere,

and proves that every power series constraint is unstable, as a cycle through all d nodes shows:
there h grows and vanishes like s^d, or faster (theorem 2), while h_rho grows like s (theorem 4).
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, log

import numpy as np

from sdcd.acyclicity.constraints import DomainEscape
from sdcd.errors import InputError

# Between these a constraint, and the sums inside it, are ordinary numbers of float64.
_TINY, _SMALL, _LARGE, _HUGE = 1e-285, 1e-150, 1e150, 1e285


@dataclass(frozen=True)
class Growth:
    """What :func:`growth_exponents` measured.

    Attributes
    ----------
    vanishing, exploding : float
        Slope of ``log h(s A)`` against ``log s`` at the smallest and at the largest scales that
        float64 can tell apart; if h leaves its domain, just before it does.
    domain_end : float or None
        The scale s (to 1e-4, relative) at which h leaves its domain; ``None`` if it does not.
    vanishing_scales, exploding_scales : (float, float)
        The two scales that each slope was measured between.
    """

    vanishing: float
    exploding: float
    domain_end: float | None
    vanishing_scales: tuple[float, float]
    exploding_scales: tuple[float, float]

    @property
    def v_stable(self) -> bool:
        """Whether h vanishes no faster than the weights."""
        return self.vanishing < 1 + TOLERANCE

    @property
    def e_stable(self) -> bool:
        """Whether h grows no faster than the weights."""
        return self.exploding < 1 + TOLERANCE

    @property
    def d_stable(self) -> bool:
        """Whether h was defined at all scales."""
        return self.domain_end is None

    @property
    def stable(self) -> bool:
        """Whether h is stable in all three senses, on this matrix."""
        return self.v_stable and self.e_stable and self.d_stable


TOLERANCE = 0.01
"""By how much a measured exponent may exceed 1 for the constraint to count as stable."""


def growth_exponents(
    value: Callable[[np.ndarray], float],
    A: np.ndarray,
    *,
    scales: tuple[float, float] = (1e-250, 1e250),
) -> Growth:
    """Measure how a constraint grows along the ray ``s A``.

    Parameters
    ----------
    value : callable
        The constraint, ``value(A) -> float``: that of a
        :class:`~sdcd.acyclicity.constraints.Constraint`, or any function that returns ``inf`` or
        raises :class:`~sdcd.acyclicity.constraints.DomainEscape` where it has no value.
    A : float (d, d)
        Non-negative, with a cycle, entries of the order of 1. The paper's proof takes
        :func:`cycle` of length d.
    scales : (float, float)
        Search between these. The narrower, the fewer evaluations.

    Returns
    -------
    Growth

    Raises
    ------
    InputError
        If h is 0, infinite or undefined at all scales that were searched.
    """
    evaluated: dict[float, float] = {}
    escaped: set[float] = set()

    def h(s: float) -> float:
        if s not in evaluated:
            try:
                evaluated[s] = float(value(s * A))
            except DomainEscape:
                evaluated[s] = inf
                escaped.add(s)
        return evaluated[s]

    step = 2 ** (1 / len(A))
    low = _search(h, *scales, _TINY, _SMALL)
    high = _search(h, *scales, _LARGE, _HUGE)
    domain_end = min(escaped) if escaped else None
    return Growth(
        vanishing=log(h(low * step) / h(low)) / log(step),
        exploding=log(h(high) / h(high / step)) / log(step),
        domain_end=domain_end,
        vanishing_scales=(low, low * step),
        exploding_scales=(high / step, high),
    )


def cycle(d: int, length: int | None = None, weight: float = 1.0) -> np.ndarray:
    """The cycle 0 -> 1 -> ... -> length - 1 -> 0 in a graph of d nodes.

    Parameters
    ----------
    d : int
        Number of nodes; those from ``length`` on have no edges.
    length : int, optional
        Default d. A cycle of length 1 is a self-loop.
    weight : float
        Of each edge.

    Returns
    -------
    float64 (d, d)
    """
    length = d if length is None else length
    if not 1 <= length <= d:
        raise InputError(f"a cycle of length {length} in {d} nodes, expected a length of 1 to {d}")
    A = np.zeros((d, d))
    nodes = np.arange(length)
    A[nodes, (nodes + 1) % length] = weight
    return A


def _search(
    h: Callable[[float], float], s_low: float, s_high: float, h_low: float, h_high: float
) -> float:
    """A scale at which h is between ``h_low`` and ``h_high``, by bisection on log s.

    If there is none because h ends below, the last scale before its end (to 1e-4, relative).
    """
    log_low, log_high = log(s_low), log(s_high)
    while True:
        s = float(np.exp((log_low + log_high) / 2))
        at_s = h(s)
        if h_low <= at_s <= h_high:
            return s
        if at_s < h_low:
            log_low = log(s)
        else:
            log_high = log(s)
        if log_high - log_low < 1e-4:
            s = float(np.exp(log_low))
            if 0 < h(s) < inf:
                return s
            raise InputError(
                f"the constraint is {h(s)} at scale {s:.3g}, and no scale was found where it has "
                "a value: expected a matrix with a cycle"
            )
