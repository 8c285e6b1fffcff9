"""Precision on observational data (app:fig:empirical:observational_precision)."""

from sdcd.figures._curves import curves, small_and_large

EXPERIMENTS = ("observational",)

draw = curves(
    [
        small_and_large(
            "precision", "precision of directed edges (higher is better)", limits=(0, 1.03)
        )
    ],
    experiment="observational",
    note="Published: from the authors' logs.",
)
