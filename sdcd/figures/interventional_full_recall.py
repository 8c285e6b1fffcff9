"""Recall on interventional data (app:fig:empirical:interventional_full_recall)."""

from sdcd.figures._boxes import boxes

EXPERIMENTS = ("interventional",)

draw = boxes("recall", "recall of directed edges", limits=(0, 1.03))
