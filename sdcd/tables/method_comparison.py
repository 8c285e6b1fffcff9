"""What the compared methods can do, measured (the paper's table:method-comparison)."""

import math
from dataclasses import dataclass

import pandas as pd

from sdcd.acyclicity import CONSTRAINTS, cycle, growth_exponents
from sdcd.tables.layout import Layout


@dataclass(frozen=True)
class _Facts:
    """What is known of a method by its construction, and the paper's row."""

    constraint: str
    model: str
    expressive: bool
    paper_stable: bool
    paper_cost: str
    paper_interventions: bool
    paper_expressive: bool


FACTS = {
    "SDCD": _Facts("h_rho", "neural network", True, True, "d²", True, True),
    "DCDI-G": _Facts("h_exp", "neural networks", True, False, "d³", True, True),
    "DCD-FG": _Facts("h_exp", "low-rank neural network", False, False, "m d", True, False),
    "DAGMA": _Facts("h_log", "neural networks", True, False, "d³", False, True),
    "NOTEARS": _Facts("h_exp", "linear", False, False, "d³", False, False),
    "NOBEARS": _Facts("h_rho", "cubic polynomials", False, True, "d²", False, False),
}
"""Constraint and model class of each method as run, and the paper's entries."""


def make(costs: pd.DataFrame, *, caption: str, d: int = 20) -> tuple[pd.DataFrame, Layout]:
    """The table as numbers (:func:`measured`) and as printed; ``caption`` has {d} and {sizes}."""
    table = measured(costs, d=d)
    return table, layout(table, caption)


def measured(costs: pd.DataFrame, *, d: int = 20) -> pd.DataFrame:
    """The table, with its measured entries beside the paper's.

    Parameters
    ----------
    costs : DataFrame
        From :func:`sdcd.studies.constraint_costs.constraint_costs`: columns ``constraint``, ``d``,
        ``seconds``.
    d : int, default 20
        Length of the cycle on which growth is measured.

    Returns
    -------
    DataFrame
        One row per method: ``method``, ``constraint``; ``stable``, ``vanishing``, ``exploding``,
        ``domain_end`` (NaN: defined everywhere); ``cost_exponent``, ``cost_low``, ``cost_high``
        (NaN if ``costs`` does not have three sizes of the constraint); ``interventions``, from the
        registry; ``expressive``, ``model``; the paper's ``paper_stable``, ``paper_cost``,
        ``paper_interventions``, ``paper_expressive``; and ``cycle``, ``sizes``.
    """
    from sdcd.methods.registry import method as registered
    from sdcd.statistics import fitted_exponent

    rows = []
    for name, facts in FACTS.items():
        growth = growth_exponents(CONSTRAINTS[facts.constraint].value, cycle(d))
        of_constraint = costs[costs["constraint"] == facts.constraint]
        exponent = low = high = math.nan
        if of_constraint["d"].nunique() >= 3:
            estimate = fitted_exponent(of_constraint["d"], of_constraint["seconds"])
            exponent, (low, high) = estimate.value, estimate.interval()
        rows.append(
            {
                "method": name,
                "constraint": facts.constraint,
                "stable": growth.stable,
                "vanishing": growth.vanishing,
                "exploding": growth.exploding,
                "domain_end": growth.domain_end,
                "cost_exponent": exponent,
                "cost_low": low,
                "cost_high": high,
                "interventions": registered(name).data == "interventional",
                "expressive": facts.expressive,
                "model": facts.model,
                "paper_stable": facts.paper_stable,
                "paper_cost": facts.paper_cost,
                "paper_interventions": facts.paper_interventions,
                "paper_expressive": facts.paper_expressive,
                "cycle": d,
                "sizes": " ".join(str(size) for size in sorted(of_constraint["d"].unique())),
            }
        )
    return pd.DataFrame(rows).astype({"domain_end": float})


def layout(table: pd.DataFrame, caption: str) -> Layout:
    """What :func:`measured` returns in the paper's arrangement."""
    columns = ["stable", "cost of the constraint", "interventions", "expressive"]
    rows = []
    for row in table.itertuples():
        exponents = f"{row.vanishing:.0f}, {row.exploding:.0f}"
        cost = f"d^{row.cost_exponent:.2f} [{row.cost_low:.2f}, {row.cost_high:.2f}]"
        ours = (
            f"{_mark(row.stable)} ({row.constraint}: {exponents})",
            "not measured" if math.isnan(row.cost_exponent) else cost,
            _mark(row.interventions),
            f"{_mark(row.expressive)} ({row.model})",
        )
        paper = (
            _mark(row.paper_stable),
            f"O({row.paper_cost})",
            _mark(row.paper_interventions),
            _mark(row.paper_expressive),
        )
        entries = [{"ours": a, "paper": b} for a, b in zip(ours, paper, strict=True)]
        rows.append(((row.method,), entries))
    timed = [int(size) for text in table["sizes"] for size in str(text).split()]
    sizes = f"from {min(timed)} to {max(timed)}" if timed else "(not measured)"
    caption = caption.format(d=int(table["cycle"].iloc[0]), sizes=sizes)
    notes = [
        "DCD-FG was run with the exponential of its whole d × d soft matrix, in O(d³); the paper "
        "gives the cost of its low-rank form with m modules.",
        "DCDI, DAGMA, NOTEARS and NOBEARS apply their constraint to non-negative functions of the "
        "weights; the exponents are those of the constraint.",
    ]
    return Layout(caption, ["method"], columns, rows, notes)


def _mark(yes: bool) -> str:
    return "✓" if yes else "✗"
