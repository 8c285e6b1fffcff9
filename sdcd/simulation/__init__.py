"""Simulated data: the paper's own."""

from sdcd.simulation.paper import kept_targets, simulate

__all__ = ["kept_targets", "simulate"]
