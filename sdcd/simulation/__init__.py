"""Simulated data: the paper's own, seed for seed, and the DCDI benchmark's."""

from sdcd.simulation.dcdi import MECHANISMS, simulate_dcdi
from sdcd.simulation.families import simulate_family
from sdcd.simulation.paper import kept_targets, simulate

__all__ = ["MECHANISMS", "kept_targets", "simulate", "simulate_dcdi", "simulate_family"]
