"""The five acyclicity constraints: values, gradients, domains, and how they grow.

A constraint h maps a non-negative matrix A (d, d) to a number that is zero if and only if the graph
of A's non-zero entries (``A[i, j] > 0`` is an edge i -> j) has no directed cycle.

==================  ===============================================================================
``constraints``     :data:`CONSTRAINTS`: value and gradient of each, accurate down to the smallest
                    numbers; :class:`DomainEscape`; :func:`spectral_radius`
``power_iteration`` :class:`PowerIteration`: h_rho as it is trained with, in O(d^2) or O(edges)
``growth``          :func:`growth_exponents`: how fast a constraint vanishes and explodes
``walks``           sums over walks of a graph, computed without a subtraction
==================  ===============================================================================

All in float64 and numpy. The optimisers have faster forms of their own, tested against these.
"""

from sdcd.acyclicity.constraints import CONSTRAINTS, Constraint, DomainEscape, spectral_radius
from sdcd.acyclicity.growth import Growth, cycle, growth_exponents
from sdcd.acyclicity.power_iteration import PowerIteration, edge_matrix

__all__ = [
    "CONSTRAINTS",
    "Constraint",
    "DomainEscape",
    "Growth",
    "PowerIteration",
    "cycle",
    "edge_matrix",
    "growth_exponents",
    "spectral_radius",
]
