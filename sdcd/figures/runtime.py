"""Training times on observational data (the paper's app:fig:empirical:runtime)."""

from sdcd.figures._curves import curves, small_and_large

EXPERIMENTS = ("observational",)

# The bands show how time grows, not who is faster: the authors' hardware is not ours.
draw = curves(
    [small_and_large("seconds", "wall time of a fit (s)", log=True)],
    experiment="observational",
    note="Published: the authors' logs, 4 cores of an AMD 3960x, SDCD-GPU an Nvidia A5000.",
)
