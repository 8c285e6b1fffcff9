"""F1 and SHD-CPDAG on observational data (app:fig:empirical:observational-f1-cpdag)."""

from sdcd.figures._curves import curves, small_and_large

EXPERIMENTS = ("observational",)

draw = curves(
    [
        small_and_large("f1", "F1 of directed edges (higher is better)", limits=(0, 1.03)),
        small_and_large("shd_cpdag", "SHD-CPDAG (edges; lower is better)", log=True),
    ],
    experiment="observational",
    note="Published F1: from the authors' logs. They hold no SHD-CPDAG.",
)
