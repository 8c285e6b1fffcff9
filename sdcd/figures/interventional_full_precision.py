"""Precision on interventional data (app:fig:empirical:interventional_full_precision)."""

from sdcd.figures._boxes import boxes

EXPERIMENTS = ("interventional",)

draw = boxes("precision", "precision of directed edges", limits=(0, 1.03))
