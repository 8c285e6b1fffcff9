"""SHD of every method on interventional data (app:fig:empirical:interventional_full)."""

from sdcd.figures._boxes import boxes

EXPERIMENTS = ("interventional",)

draw = boxes("shd", "SHD (edges)", log=True)
