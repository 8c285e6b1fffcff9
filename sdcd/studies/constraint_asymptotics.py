"""How the acyclicity constraints behave as weights or graphs grow (fig:constraint-asymptotics).

Two families of matrices that occur while a graph is learned: a *cycle* through half of the nodes,
with equal weights, and *noise*, weights drawn uniformly. Two panels: against the *scale* of the
weights at a fixed number of nodes, and against the *dimension* at a fixed scale.
"""

from collections.abc import Sequence

import numpy as np
from threadpoolctl import threadpool_limits

from sdcd.acyclicity import CONSTRAINTS, Constraint, DomainEscape, cycle
from sdcd.errors import InputError


def constraint_asymptotics(
    *,
    constraints: Sequence[str] = tuple(CONSTRAINTS),
    d: int = 30,
    max_scale: float = 0.7,
    scale_points: int = 141,
    scale: float = 0.5,
    max_d: int = 1000,
    dimension_points: int = 50,
    draws: int = 10,
    seed: int = 0,
) -> list[dict]:
    """Evaluate the constraints on both families, in both panels.

    Parameters
    ----------
    constraints : sequence of str
        Names in :data:`~sdcd.acyclicity.CONSTRAINTS`.
    d : int
        Panel "scale": number of nodes.
    max_scale : float
        Panel "scale": the weights' scale epsilon takes ``scale_points`` equidistant values from 0
        to this.
    scale_points : int
        At least 2.
    scale : float
        Panel "dimension": the weights' scale epsilon.
    max_d : int
        Panel "dimension": the number of nodes d takes (at most) ``dimension_points`` values from 2
        to this, equidistant in log d and rounded.
    dimension_points : int
        At least 2.
    draws : int
        Number of matrices of noise at each point.
    seed : int
        Of the noise.

    Returns
    -------
    list of dict
        One for each point, with keys

        * ``panel``: "scale" or "dimension"; ``family``: "cycle" or "noise"; ``constraint``;
        * ``d``, ``epsilon``, and ``x``, which is epsilon in the first panel and d in the second;
        * ``value``: h; of noise, the mean over the draws; ``inf`` where too large for float64; NaN
          where undefined;
        * ``escaped``: whether h is undefined there;
        * ``domain_escape_at``: the x at which this curve leaves the domain, NaN if it does not.

    Notes
    -----
    The cycle has length ``d // 2`` (at d = 2 and 3 it is a self-loop) and weight epsilon; noise is
    uniform on [0, epsilon] in all d x d entries. In the panel "scale" all epsilon share the same
    draws, scaled.

    A mean over draws of which some are outside the domain would depend on which are left out: the
    curve ends as soon as *any* draw leaves the domain. In the panel "scale" the x of that escape is
    known exactly, as 1 / (largest spectral radius among the draws); in the panel "dimension" it is
    the first d evaluated outside.

    Cycles are evaluated by :meth:`~sdcd.acyclicity.Constraint.value`, which keeps its relative
    accuracy for the smallest values; noise from its eigenvalues, computed once for all constraints
    (its spectral radius stands out, so nothing cancels). Cost: ``draws`` times the eigenvalues of
    each d; 25 s on one core at the defaults.
    """
    for name, count in (("scale_points", scale_points), ("dimension_points", dimension_points)):
        if count < 2:
            raise InputError(f"{name} is {count}, expected at least 2")
    if d < 2 or max_d < 2:
        raise InputError(f"d is {d} and max_d is {max_d}, expected at least 2")
    chosen = [CONSTRAINTS[name] for name in constraints]
    scales = np.linspace(0, max_scale, scale_points)
    dimensions = np.unique(np.rint(np.geomspace(2, max_d, dimension_points)).astype(int)).tolist()
    records = []

    # One thread: the last bits of a matrix product may depend on how it was split.
    with threadpool_limits(1, "blas"):
        spectra = _spectra(d, draws, seed)
        largest = np.abs(spectra).max()
        points = [(d, float(epsilon)) for epsilon in scales]
        for constraint in chosen:
            values = [_value(constraint, cycle(d, d // 2, epsilon)) for epsilon in scales]
            records += _curve("scale", "cycle", constraint, points, values)
            values = [_mean(constraint, epsilon * spectra) for epsilon in scales]
            escape = constraint.radius / largest
            records += _curve("scale", "noise", constraint, points, values, escape)

        points = [(n, scale) for n in dimensions]
        cycles = [cycle(n, n // 2, scale) for n in dimensions]
        noise = [scale * _spectra(n, draws, seed) for n in dimensions]
        for constraint in chosen:
            values = [_value(constraint, A) for A in cycles]
            records += _curve("dimension", "cycle", constraint, points, values)
            values = [_mean(constraint, spectra) for spectra in noise]
            records += _curve("dimension", "noise", constraint, points, values)
    return records


def _spectra(d: int, draws: int, seed: int) -> np.ndarray:
    """Eigenvalues of ``draws`` matrices uniform on [0, 1]: complex (draws, d)."""
    rng = np.random.default_rng([seed, d])
    return np.array([np.linalg.eigvals(rng.uniform(size=(d, d))) for _ in range(draws)], complex)


def _value(constraint: Constraint, A: np.ndarray) -> float:
    try:
        return constraint.value(A)
    except DomainEscape:
        return np.nan


def _mean(constraint: Constraint, spectra: np.ndarray) -> float:
    try:
        return float(np.mean([constraint.from_eigenvalues(spectrum) for spectrum in spectra]))
    except DomainEscape:
        return np.nan


def _curve(
    panel: str,
    family: str,
    constraint: Constraint,
    points: Sequence[tuple[int, float]],
    values: Sequence[float],
    escape: float | None = None,
) -> list[dict]:
    x = [epsilon if panel == "scale" else d for d, epsilon in points]
    escaped = np.isnan(values)
    at = np.nan
    if escaped.any():
        at = x[int(np.argmax(escaped))] if escape is None else escape
    return [
        {
            "panel": panel,
            "family": family,
            "constraint": constraint.name,
            "d": d,
            "epsilon": epsilon,
            "x": float(x[k]),
            "value": float(values[k]),
            "escaped": bool(escaped[k]),
            "domain_escape_at": float(at),
        }
        for k, (d, epsilon) in enumerate(points)
    ]
