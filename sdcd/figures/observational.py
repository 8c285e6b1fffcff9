"""SHD on observational data with increasing d (the paper's fig:observational)."""

from sdcd.figures._curves import curves, small_and_large

EXPERIMENTS = ("observational",)

draw = curves(
    [small_and_large("shd", "SHD (edges; lower is better)", log=True, edges=True)],
    experiment="observational",
)
