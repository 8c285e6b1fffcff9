"""Value and gradient of each constraint (the paper's table "pst-constraints").

=========  ===================  ==================  ====================  ===================
name       h(A)                 a_k                 gradient              defined for
=========  ===================  ==================  ====================  ===================
h_exp      tr exp(A) - d        1 / k!              exp(A)^T              all A (overflows)
h_log      -log det(I - A)      1 / k               (I - A)^-T            spectral radius < 1
h_inv      tr (I - A)^-1 - d    1                   ((I - A)^-2)^T        spectral radius < 1
h_binom    tr (I + A)^d - d     binomial(d, k)      d ((I + A)^(d-1))^T   all A (overflows)
h_rho      spectral radius      not a power series  v u^T / (v . u)       all A
=========  ===================  ==================  ====================  ===================

The first four are power series traces (PST), ``h(A) = sum_k a_k tr(A^k)``. For h_rho, u and v are
the right and left eigenvectors of the spectral radius.

The gradient is always in the layout of A: ``gradient[i, j]`` is the derivative with respect to
``A[i, j]``. The paper's table lists the transpose for the PST rows, and for h_rho the gradient
itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import comb, factorial, inf

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from sdcd.acyclicity.walks import Diverges, all_walks, exponential, power, product
from sdcd.errors import InputError


class DomainEscape(ArithmeticError):
    """A constraint was evaluated where it is not defined: the spectral radius is not below 1.

    Attributes
    ----------
    constraint : str
        Name of the constraint.
    spectral_radius : float
        Of the matrix at which it was evaluated.
    """

    def __init__(self, constraint: str, spectral_radius: float):
        super().__init__(constraint, spectral_radius)
        self.constraint = constraint
        self.spectral_radius = spectral_radius

    def __str__(self) -> str:
        return (
            f"{self.constraint} is not defined at spectral radius {self.spectral_radius:.6g}, "
            "it needs one below 1"
        )


@dataclass(frozen=True)
class Constraint:
    """One acyclicity constraint.

    Attributes
    ----------
    name : str
        As in :data:`CONSTRAINTS`.
    symbol : str
        For a figure or a LaTeX table.
    radius : float
        Radius of convergence of its power series, above which h is undefined: 1 or ``inf``.
    coefficient : callable or None
        ``coefficient(k, d)`` is a_k of ``h(A) = sum_k a_k tr(A^k)``; ``None`` for h_rho.
    function : callable or None
        ``function(x, d)`` is ``f_a(x) = sum_k a_k x^k`` of each entry of the complex array x;
        ``None`` for h_rho.
    """

    name: str
    symbol: str
    radius: float
    coefficient: Callable[[int, int], float] | None
    function: Callable[[np.ndarray, int], np.ndarray] | None
    _value: Callable[[np.ndarray, int], float]
    _value_and_gradient: Callable[[np.ndarray], tuple[float, np.ndarray]]

    def value(self, A: np.ndarray) -> float:
        """h(A), accurate relative to itself; 0 if and only if the graph of A is acyclic.

        Parameters
        ----------
        A : float (d, d)
            Finite and non-negative.

        Returns
        -------
        float
            ``inf`` where the value is too large for float64; 0 also where it is too small.

        Raises
        ------
        DomainEscape
            If the spectral radius of A is not below :attr:`radius`.
        InputError
            If A is not square, or has a negative, infinite or NaN entry.

        Notes
        -----
        A closed walk never leaves a strongly connected component, so h(A) is the sum of h over the
        components (their maximum for h_rho): acyclic parts of a graph cost nothing.
        """
        A = _checked(A)
        blocks = [A[np.ix_(nodes, nodes)] for nodes in _cyclic_components(A)]
        try:
            values = [self._value(block, len(A)) for block in blocks]
        except Diverges:
            raise DomainEscape(self.name, spectral_radius(A)) from None
        return float(max(values, default=0.0) if self.coefficient is None else sum(values))

    def gradient(self, A: np.ndarray) -> np.ndarray:
        """Derivative of h with respect to each entry of A: see :meth:`value_and_gradient`."""
        return self.value_and_gradient(A)[1]

    def value_and_gradient(self, A: np.ndarray) -> tuple[float, np.ndarray]:
        """h(A) and its gradient.

        Parameters
        ----------
        A : float (d, d)
            Finite and non-negative.

        Returns
        -------
        value : float
        gradient : float64 (d, d)
            In the layout of A, and non-negative; ``inf`` where an entry is too large for float64.
            For h_rho, which has no gradient where the spectral radius is not a simple eigenvalue:
            zeros if A is acyclic (there h_rho has its minimum), and the gradient of the first
            component's radius if several strongly connected components share the largest.

        Raises
        ------
        DomainEscape, InputError
            As :meth:`value`.
        """
        A = _checked(A)
        try:
            value, gradient = self._value_and_gradient(A)
        except Diverges:
            raise DomainEscape(self.name, spectral_radius(A)) from None
        return float(value), gradient

    def from_eigenvalues(self, eigenvalues: np.ndarray) -> float:
        """Value at any matrix with these d eigenvalues, for evaluating several constraints on one.

        Parameters
        ----------
        eigenvalues : complex (d,)
            All eigenvalues of a non-negative matrix.

        Returns
        -------
        float
            As :meth:`value`, but accurate only relative to ``sum(abs(f(eigenvalues)))``: use it
            where the spectral radius stands out, not on a cycle, whose eigenvalues cancel.

        Raises
        ------
        DomainEscape
            As :meth:`value`.
        """
        d = len(eigenvalues)
        rho = float(np.abs(eigenvalues).max(initial=0.0))
        if rho >= self.radius:
            raise DomainEscape(self.name, rho)
        if self.function is None:
            return rho
        # The spectral radius is itself an eigenvalue, and the one with the largest f.
        with np.errstate(over="ignore", invalid="ignore"):
            if not np.isfinite(self.function(np.array([rho + 0j]), d)).all():
                return inf
            return float(self.function(np.asarray(eigenvalues, dtype=complex), d).real.sum())


def spectral_radius(A: np.ndarray) -> float:
    """Largest modulus of A's eigenvalues: h_rho, exactly 0 if the graph of A is acyclic.

    Parameters
    ----------
    A : float (d, d)
        Finite and non-negative.

    Returns
    -------
    float

    Notes
    -----
    The eigenvalues of each strongly connected component are taken apart. Of an acyclic graph, or
    of acyclic parts, a general eigenvalue solver would return rounding errors of the size of
    ``eps^(1/d)``, which is 0.7 for d = 100.
    """
    A = _checked(A)
    return max(
        (_perron_root(A[np.ix_(nodes, nodes)]) for nodes in _cyclic_components(A)), default=0.0
    )


def _exp(A: np.ndarray) -> tuple[float, np.ndarray]:
    E = exponential(A)
    return np.trace(E), E


def _log(A: np.ndarray) -> tuple[float, np.ndarray]:
    walks, pivots = all_walks(A)
    return (-np.log1p(-pivots)).sum(), walks


def _inv(A: np.ndarray) -> tuple[float, np.ndarray]:
    walks, _ = all_walks(A)
    return np.trace(walks), walks


def _inv_slope(walks: np.ndarray) -> np.ndarray:
    return 2 * walks + product(walks, walks)


def _pair(series, slope=lambda summed: summed):
    """``_value`` and ``_value_and_gradient`` of a constraint.

    ``series`` gives h and a matrix; ``slope`` makes of that the derivative's transpose without the
    identity.
    """

    def value(block: np.ndarray, d: int) -> float:
        return series(block)[0]

    def value_and_gradient(A: np.ndarray) -> tuple[float, np.ndarray]:
        h, summed = series(A)
        return h, _plus_identity(slope(summed).T)

    return value, value_and_gradient


def _binom_value(block: np.ndarray, d: int) -> float:
    return np.trace(power(block, d))


def _binom_value_and_gradient(A: np.ndarray) -> tuple[float, np.ndarray]:
    d = len(A)
    B = power(A, d - 1)  # (I + A)^(d - 1) - I
    with np.errstate(over="ignore"):
        value = np.trace(product(A, B)) + np.trace(B) + np.trace(A)
        return value, d * _plus_identity(B.T)


def _binom_coefficient(k: int, d: int) -> float:
    try:
        return float(comb(d, k))
    except OverflowError:
        return inf


def _binom_function(x: np.ndarray, d: int) -> np.ndarray:
    small = np.abs(x) < 0.5  # near -1, and beyond, the logarithm is no way
    return np.where(small, np.expm1(d * np.log1p(np.where(small, x, 0))), (1 + x) ** d - 1)


def _rho_value(block: np.ndarray, d: int) -> float:
    return _perron_root(block)


def _rho_value_and_gradient(A: np.ndarray) -> tuple[float, np.ndarray]:
    components = _cyclic_components(A)
    roots = [_perron_root(A[np.ix_(nodes, nodes)]) for nodes in components]
    if not roots:
        return 0.0, np.zeros_like(A)
    first = int(np.argmax(roots))
    rho, nodes = roots[first], components[first]
    right, left = _perron_vector(A / rho, nodes), _perron_vector(A.T / rho, nodes)
    return rho, np.outer(left, right) / (left @ right)


def _perron_root(block: np.ndarray) -> float:
    """Spectral radius of an irreducible non-negative block: it is a simple eigenvalue of it."""
    if len(block) == 1:
        return float(block[0, 0])
    scale = block.max()  # LAPACK takes small sub-diagonals for zeros
    return float(scale * np.abs(np.linalg.eigvals(block / scale)).max())


def _perron_vector(A: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Right eigenvector at 1 of a matrix with spectral radius 1, attained by component ``nodes``.

    Inside the component it is positive. Outside it is carried along the walks that lead there:
    ``x = (I - A_outside)^-1 A_into x_inside``.
    """
    inside = A[np.ix_(nodes, nodes)]
    values, vectors = scipy.linalg.eig(inside)
    x = np.zeros(len(A))
    x[nodes] = np.abs(vectors[:, np.argmin(np.abs(values - 1))])
    outside = np.setdiff1d(np.arange(len(A)), nodes)
    step = A[np.ix_(outside, nodes)] @ x[nodes]
    try:
        walks, _ = all_walks(A[np.ix_(outside, outside)])
    except Diverges:  # another component attains the radius: no gradient, keep to this one
        return x
    x[outside] = step + walks @ step
    return x


def _cyclic_components(A: np.ndarray) -> list[np.ndarray]:
    """Nodes of each strongly connected component that has a cycle: arrays of int, ascending."""
    if len(A) == 0:
        return []
    n, labels = connected_components(sp.csr_array(A), directed=True, connection="strong")
    order = np.argsort(labels, kind="stable")
    groups = np.split(order, np.cumsum(np.bincount(labels, minlength=n))[:-1])
    return [nodes for nodes in groups if len(nodes) > 1 or A[nodes[0], nodes[0]] > 0]


def _plus_identity(A: np.ndarray) -> np.ndarray:
    A = np.ascontiguousarray(A)
    A[np.diag_indices_from(A)] += 1
    return A


def _checked(A: np.ndarray) -> np.ndarray:
    A = np.asarray(A, dtype=np.float64)
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise InputError(f"weights have shape {A.shape}, expected a square matrix")
    good = (A >= 0) & np.isfinite(A)
    if not good.all():
        i, j = np.argwhere(~good)[0]
        raise InputError(f"weight ({i}, {j}) is {A[i, j]}, expected finite and non-negative")
    return A


CONSTRAINTS: dict[str, Constraint] = {
    constraint.name: constraint
    for constraint in (
        Constraint(
            "h_exp",
            r"$h_{\exp}$",
            inf,
            lambda k, d: 1 / factorial(k),
            lambda x, d: np.expm1(x),
            *_pair(_exp),
        ),
        Constraint(
            "h_log",
            r"$h_{\log}$",
            1.0,
            lambda k, d: 1 / k,
            lambda x, d: -np.log1p(-x),
            *_pair(_log),
        ),
        Constraint(
            "h_inv",
            r"$h_{\mathrm{inv}}$",
            1.0,
            lambda k, d: 1.0,
            lambda x, d: x / (1 - x),
            *_pair(_inv, _inv_slope),
        ),
        Constraint(
            "h_binom",
            r"$h_{\mathrm{binom}}$",
            inf,
            _binom_coefficient,
            _binom_function,
            _binom_value,
            _binom_value_and_gradient,
        ),
        Constraint(
            "h_rho",
            r"$h_{\rho}$",
            inf,
            None,
            None,
            _rho_value,
            _rho_value_and_gradient,
        ),
    )
}
"""The constraints by name: h_exp, h_log, h_inv, h_binom and h_rho, in the paper's order."""
