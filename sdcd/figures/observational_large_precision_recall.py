"""Precision and recall with thousands of variables (the paper's large-precision-recall)."""

from sdcd.figures._curves import Panel, curves

EXPERIMENTS = ("observational_large",)

draw = curves(
    [
        [
            Panel("precision", "precision (higher is better)", "precision", limits=(0, 1.03)),
            Panel("recall", "recall (higher is better)", "recall", limits=(0, 1.03)),
        ]
    ],
    experiment="observational_large",
    note="Published: from the authors' logs.",
)
