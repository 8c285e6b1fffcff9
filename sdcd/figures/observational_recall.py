"""Recall on observational data (app:fig:empirical:observational_recall)."""

from sdcd.figures._curves import curves, small_and_large

EXPERIMENTS = ("observational",)

draw = curves(
    [small_and_large("recall", "recall of directed edges (higher is better)", limits=(0, 1.03))],
    experiment="observational",
    note="Published: from the authors' logs.",
)
