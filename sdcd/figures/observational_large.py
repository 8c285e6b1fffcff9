"""SHD and training time with thousands of variables (app:fig:empirical:observational-large)."""

from sdcd.figures._curves import Panel, curves

EXPERIMENTS = ("observational_large",)

draw = curves(
    [
        [
            Panel("shd", "SHD (edges; lower is better)", "SHD", edges=True),
            Panel("seconds", "wall time of a fit (s)", "training time", log=True),
        ]
    ],
    experiment="observational_large",
    note="Published SHD: the table; time: the authors' logs, Nvidia A5000.",
)
