"""Simulated data: the paper's own, and those of the DCDI benchmark."""
